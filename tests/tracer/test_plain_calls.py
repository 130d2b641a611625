"""Functions that do little beside calling NumPy's run as they are, up to the sizes at which kernels are worth entering."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function


def runs_as_it_is(compiled: Any) -> list[bool]:
    """Of each variant, in the order in which they were made: is it nothing but a call of the user's function?"""
    known = compiled_function(compiled)
    assert known is not None
    variants = [v for point in known.points.values() for v in point.variants]
    return [len(v.body) == 1 and v.body[0].startswith("return k_") for v in reversed(variants)]


def unique(x):
    return np.unique(x)


def found(x):
    return np.searchsorted(x, x[:5])


def selected(x):
    return x[x > 0.5]


def set_at(x):
    y = np.unique(x)
    x[1] = y[0]
    return y


def sorted_twice(x):
    return np.sort(x) * 2


def plain_at_any_size(x):
    return np.unique(x, return_counts=True)


def equal(a: Any, b: Any) -> None:
    if isinstance(b, tuple):
        for p, q in zip(a, b, strict=True):
            equal(p, q)
    else:
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("function", [unique, found, set_at, plain_at_any_size])
def test_few_elements_are_numpys(function: Any) -> None:
    compiled = npc.compile(function)
    for _ in range(3):
        x, y = np.sort(np.random.default_rng(3).random(10)), np.sort(np.random.default_rng(3).random(10))
        equal(compiled(x), function(y))
        np.testing.assert_array_equal(x, y)
    assert runs_as_it_is(compiled) == [True]


@pytest.mark.parametrize("function", [selected, sorted_twice])
def test_many_elements_are_worth_kernels(function: Any) -> None:
    compiled, x = npc.compile(function), np.random.default_rng(3).random(100_000)
    for _ in range(3):
        equal(compiled(x), function(x))
    assert runs_as_it_is(compiled) == [False]


def test_one_program_is_for_all_sizes() -> None:
    compiled, random = npc.compile(sorted_twice), np.random.default_rng(3)
    for n in (10, 12, 50_000, 14, 60_000, 16, 70_000):
        x = random.random(n)
        equal(compiled(x), sorted_twice(x))
    assert runs_as_it_is(compiled) == [True, False], "of 10 elements, of any number"


def test_errors_and_warnings_are_numpys() -> None:
    def quotients(x, y):
        return np.sort(x / y)

    compiled = npc.compile(quotients)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as found:
            result = compiled(np.ones(3), np.zeros(3))
        assert found[0].filename == __file__
        np.testing.assert_array_equal(result, np.full(3, np.inf))
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            compiled(np.ones(3), np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(compiled(np.ones(3), np.ones(3)), np.ones(3))


def test_one_graph_is_asked_for() -> None:
    compiled = npc.compile(sorted_twice, fullgraph=True)
    for _ in range(3):
        equal(compiled(np.arange(5.0)), sorted_twice(np.arange(5.0)))
    assert runs_as_it_is(compiled) == [False]
