"""Code that is put into functions which are compiled already, as reloaders do, with the attributes or without."""

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function

X = np.arange(1.0, 4.0)


def old(x, k=2):
    return np.sin(x) * k


def new(x, k=3):
    return added(x) - k


def added(x):
    return x + 100


def recursive(x, n):
    return x if n == 0 else recursive(x + n, n - 1)


def compiled(function: Any) -> Any:
    """Compiled, as a decorator would: another function for each call, of the same code."""
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    return npc.compile(copied, backend="eager")


def plain(function: Any) -> Any:
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)


def put(target: Any, source: Any, has_attributes: bool) -> None:
    """As IPython's autoreload does."""
    target.__code__, target.__defaults__ = source.__code__, source.__defaults__
    if has_attributes:
        target.__dict__ = source.__dict__


@pytest.mark.parametrize("before", [plain, compiled])
@pytest.mark.parametrize("after", [plain, compiled])
@pytest.mark.parametrize("has_attributes", [True, False])
def test_code_put_into_functions(before: Callable[..., Any], after: Callable[..., Any], has_attributes: bool) -> None:
    target, source = before(old), after(new)
    caller, slope = npc.compile(lambda x: target(x) * 2, backend="eager"), npc.grad(lambda x: target(x))
    mine = npc.grad(target)
    for _ in range(2):
        np.testing.assert_array_equal(target(X), old(X))
        np.testing.assert_array_equal(caller(X), old(X) * 2)
        assert slope(1.0) == mine(1.0) == 2 * np.cos(1.0)
    put(target, source, has_attributes)
    for _ in range(2):
        np.testing.assert_array_equal(target(X), new(X))
        np.testing.assert_array_equal(target(X, 5), new(X, 5))
        np.testing.assert_array_equal(caller(X), new(X) * 2)
        assert slope(1.0) == 1
        assert mine(1.0) == 1
    npc.reset()
    np.testing.assert_array_equal(target(X), new(X))


def test_code_of_functions_that_call_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = compiled(recursive), compiled(recursive)
    monkeypatch.setitem(globals(), "recursive", first)
    np.testing.assert_array_equal(first(X, 3), X + 6)
    put(first, second, has_attributes=True)
    np.testing.assert_array_equal(first(X, 4), X + 10)
    assert compiled_function(first) is compiled_function(second)
    put(first, plain(old), has_attributes=True)
    np.testing.assert_array_equal(first(X, 4), old(X, 4))
    assert compiled_function(first) is None


def test_globals_and_code_of_the_entry_are_not_ours() -> None:
    function = compiled(old)
    function(X)
    code = function.__code__  # before, it may ask in Python what it asks natively once that can be
    npc.reset()
    function(X.astype(np.float32))
    assert function.__code__ is code and function.__globals__ is globals()
