"""Debuggers and reporters of errors read the variables of every frame that they find: ours too."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np
import pytest

import npcompile as npc

X = np.arange(3.0)


def variables() -> list[tuple[str, list[str]]]:
    """The files of all frames from here, and the names in them."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code.co_filename, sorted(frame.f_locals)))
        frame = frame.f_back
    return found


def of_one(k):
    def f(x, seen):
        seen.append(variables())
        return x * k

    return f


def of_many(a, b, c):
    def f(x, seen):
        y = x * a + b
        seen.append(variables())
        return [y * c for _ in range(2)]

    return f


class Base:
    def scaled(self, x, seen):
        return x * 2.0


class Derived(Base):
    def scaled(self, x, seen):
        seen.append(variables())
        return super().scaled(x, seen)


def given(k):
    def f(x, seen):
        for v in x:
            seen.append(variables())
            yield v * k

    return f


@pytest.mark.parametrize("function", [of_one(2.0), of_many(1.0, 2.0, 3.0), lambda x, seen: Derived().scaled(x, seen)])
def test_variables_of_all_frames(function: Any) -> None:
    compiled = npc.compile(function, backend="eager")
    for _ in range(3):
        seen: list[Any] = []
        np.testing.assert_array_equal(compiled(X, seen), function(X, []))
        assert {"x", "seen"} <= {*seen[0][0][1]}


def test_of_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Derived, "scaled", npc.compile(Derived.scaled, backend="eager"))
    seen: list[Any] = []
    np.testing.assert_array_equal(Derived().scaled(X, seen), X * 2.0)
    assert len(seen) == 1


def test_of_a_generator() -> None:
    seen: list[Any] = []
    assert list(npc.compile(given(2.0), backend="eager")(X, seen)) == [0.0, 2.0, 4.0]
    assert len(seen) == 3


def test_of_an_exception() -> None:
    def failing(k):
        def f(x):
            return x[k]

        return f

    compiled = npc.compile(failing(7), backend="eager")
    for _ in range(3):
        with pytest.raises(IndexError) as raised:
            compiled(X)
        assert all(isinstance(each.frame.f_locals, dict) or each.frame.f_locals for each in inspect.getinnerframes(raised.tb))


def test_the_entrys_own_frame() -> None:
    """It waits for what it called. Its cells are the function's."""
    seen: list[Any] = []
    npc.compile(of_many(1.0, 2.0, 3.0), backend="eager")(X, seen)
    (names,) = [names for file, names in seen[0] if " entry, importlib._bootstrap, " in file]
    assert {"a", "b", "c", "x", "seen"} <= {*names}
