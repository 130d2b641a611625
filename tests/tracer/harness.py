"""A tracer test is a plain user function: run by NumPy and compiled, twice, with fresh inputs, and compared in everything."""

from __future__ import annotations

import copy
import enum
import inspect
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.bytecode.versions import WHY_UNKNOWN
from tests.backends import BACKENDS
from tests.shim.harness import compare, compare_aliasing, flatten
from tests.shim.harness import copy as copy_arrays


@dataclass
class Outcome:
    value: Any
    error: BaseException | None
    line: int | None  # of the user's function, where the exception came through
    arguments: list[Any]


@dataclass
class Sample:
    """A user function and the inputs of its test."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]

    def arguments(self, round: int) -> list[Any]:
        names = list(inspect.signature(self.function).parameters)
        given = [i(round) if isinstance(i, types.FunctionType) else i for i in self.inputs]
        return given + [default_input(n, round) for n in names[len(given) :]]


def default_input(name: str, round: int) -> np.ndarray:
    """What a parameter gets when the test says nothing: float64 (4, 3), other numbers for each name and round."""
    rng = np.random.default_rng([round, *name.encode()])
    return rng.uniform(0.5, 2.0, (4, 3))


def check(
    *inputs: Any,
    graphs: int | None = None,
    breaks: int | None = None,
    ulp: int = 64,
    rounds: int = 2,
    backends: Sequence[Any] = BACKENDS,
    **options: Any,
) -> Callable[[Callable[..., Any]], Callable[[str], None]]:
    """Turn a user function into a test.

    `inputs` replace the default arrays: a value is copied for each run, a callable is called with the round. `graphs`
    and `breaks`, when given, must be how many graphs were compiled and broken in all rounds together.
    """

    def decorate(function: Callable[..., Any]) -> Callable[[str], None]:
        @pytest.mark.parametrize("backend", backends)
        def test(backend: str) -> None:
            compiled = npc.compile(function, backend=backend, **options)
            for round in range(rounds):
                given = Sample(function, inputs).arguments(round)
                theirs = run(function, function, clone(given))
                ours = run(compiled, function, clone(given))
                same_outcome(ours, theirs, ulp if backend != "cuda" else 64 * ulp)  # sums in another order, other libraries
            known = compiled_function(compiled)
            if WHY_UNKNOWN:  # answers alone
                return
            if graphs is not None:
                assert known is not None and len(known.graphs) == graphs, describe(known)
            if breaks is not None:
                assert known is not None and len(known.breaks) == breaks, describe(known)

        test.__name__, test.__doc__ = function.__name__, function.__doc__
        test.sample = Sample(function, inputs)  # type: ignore[attr-defined]
        return test

    return decorate


def clone(values: list[Any]) -> list[Any]:
    """Fresh arguments; arrays keep strides and flags, and one object given twice stays one object."""
    memo: dict[int, Any] = {}
    result = []
    for value in values:
        if id(value) not in memo:
            is_data = isinstance(value, (np.ndarray, tuple, list, dict))
            memo[id(value)] = copy_arrays(value) if is_data else copy.copy(value)
        result.append(memo[id(value)])
    return result


def run(function: Callable[..., Any], user: Callable[..., Any], arguments: list[Any]) -> Outcome:
    try:
        with np.errstate(all="ignore"):
            return Outcome(function(*arguments), None, None, arguments)
    except Exception as error:
        lines = [
            f.lineno
            for f in traceback.extract_tb(error.__traceback__)
            if f.filename == user.__code__.co_filename and in_code(f, user)
        ]
        return Outcome(None, error, lines[-1] if lines else None, arguments)


def in_code(frame: traceback.FrameSummary, user: Callable[..., Any]) -> bool:
    lines = {line for *_, line in user.__code__.co_lines() if line}
    return frame.lineno in range(min(lines), max(lines) + 1)


def same_outcome(ours: Outcome, theirs: Outcome, ulp: int) -> None:
    if theirs.error is not None:
        assert ours.error is not None, f"{theirs.error!r} is not raised; the result is {ours.value!r}"
        assert type(ours.error) is type(theirs.error), (ours.error, theirs.error)
        # SystemError is a fault of NumPy's: CPython says which object was called, and where it lies.
        if not isinstance(theirs.error, SystemError):
            assert str(ours.error) == str(theirs.error)
        assert ours.line == theirs.line, f"raised from line {ours.line}, not {theirs.line}"
    elif ours.error is not None:
        raise ours.error
    compare_any(ours.value, theirs.value, ulp)
    compare_any(ours.arguments, theirs.arguments, ulp)
    compare_aliasing(ours.value, theirs.value, flatten(*ours.arguments), flatten(*theirs.arguments))


def compare_any(ours: Any, theirs: Any, ulp: int) -> None:
    if isinstance(theirs, dict):
        assert type(ours) is type(theirs) and list(ours) == list(theirs)
        for key in theirs:
            compare_any(ours[key], theirs[key], ulp)
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs):
            compare_any(a, b, ulp)
    elif isinstance(theirs, (np.ndarray, np.generic, int, float, complex, str, type(None))):
        compare(ours, theirs, ulp)
    else:
        assert type(ours) is type(theirs), (ours, theirs)
        if isinstance(theirs, (set, frozenset, bytes, range, slice, enum.Enum)):
            assert ours == theirs
        elif type(theirs).__module__.startswith("tests."):
            assert state_of(ours).keys() == state_of(theirs).keys()
            for name, value in state_of(theirs).items():
                compare_any(state_of(ours)[name], value, ulp)


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots too."""
    slots = [n for c in type(value).__mro__ for n in vars(c).get("__slots__", ()) if hasattr(value, n)]
    return {**getattr(value, "__dict__", {}), **{n: getattr(value, n) for n in slots}}


def describe(known: Any) -> str:
    if known is None:
        return "not compiled"
    breaks = "\n".join(map(str, known.breaks))
    return f"{len(known.graphs)} graphs, {len(known.breaks)} breaks:\n{breaks}\n" + "\n".join(str(g) for g, _ in known.graphs)
