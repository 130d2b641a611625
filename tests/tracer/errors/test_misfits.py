"""A program whose guards do not hold for the values that it was captured from: a mistake of ours, which is noticed at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tensor_core.guards import Truth
from npcompile.tensor_core.source import Literal, Name
from npcompile.tracer.conditions import Condition
from npcompile.tracer.function import CompiledFunction
from npcompile.tracer.misfits import MOST

X = np.linspace(0.5, 2.0, 7)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Any]], list[Any]]:
    """Lets each capture have one more guard, of these in turn, and lists what was captured."""

    def with_guards(guards: list[Any]) -> list[Any]:
        capture, made = CompiledFunction.capture, []

        def wrong(*given: Any) -> Any:
            right, guard = capture(*given), guards[min(len(made), len(guards) - 1)]
            made.append(replace(right, guards=(*right.guards, guard), conditions=(*right.conditions, Condition(guard))))
            return made[-1]

        monkeypatch.setattr(CompiledFunction, "capture", wrong)
        return made

    return with_guards


def scaled(x: np.ndarray, by: float) -> np.ndarray:
    return x * by + x


DOES_NOT_HOLD = [Truth(Literal(False)), Truth(Name("x").attribute("missing"))]


@pytest.mark.parametrize("guard", DOES_NOT_HOLD, ids=["is false", "raises"])
def test_the_function_runs_as_it_is_after_a_few(captured: Any, guard: Truth) -> None:
    made, compiled = captured([guard]), npc.compile(scaled)
    with npc.config.patch(internal_errors="warn"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for by in (2.0, 3.0, 4):
            np.testing.assert_array_equal(compiled(X, by), scaled(X, by))
    assert len(made) == MOST
    (point,) = compiled_function(compiled).points.values()
    assert point.is_native and not point.variants
    (message,) = (str(w.message) for w in said)
    assert "does not fit the values that it was made for" in message and "run uncompiled" in message


def test_it_is_an_error_where_mistakes_are_asked_for(captured: Any) -> None:
    made, compiled = captured(DOES_NOT_HOLD[:1]), npc.compile(scaled)
    with pytest.raises(AssertionError, match="does not fit the values that it was made for: False"):
        compiled(X, 2.0)
    assert len(made) == MOST


def test_what_changed_while_it_was_captured_is_captured_again(captured: Any) -> None:
    """Another thread may have done it."""
    made, compiled = captured([*DOES_NOT_HOLD, Truth(Literal(True))]), npc.compile(scaled)
    for by in (2.0, 3.0):
        np.testing.assert_array_equal(compiled(X, by), scaled(X, by))
    (point,) = compiled_function(compiled).points.values()
    assert point.variants == made[-1:] and len(made) == MOST
    assert not point.misfits and not point.is_native
