"""Index arithmetic: quotients and remainders against numbers, and programs whose indices start below zero where masked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.kernels.index import axis_variable, divide_index
from npcompile.tensor_core.dim import Size, evaluate


@pytest.mark.parametrize("seed", range(300))
def test_quotient_and_remainder(seed: int) -> None:
    """Of every index that is not negative: what is left of it after whole multiples are taken out may still be."""
    rng = np.random.default_rng(seed)
    ranges = {name: int(rng.integers(1, 5)) for name in ("i", "j", "k")}
    n = int(rng.integers(1, 7))
    scales = [int(c) for c in rng.choice([-2, -1, 0, 1, 2, 3, n, 2 * n, -n], 3)]
    a: Size = int(rng.integers(-12, 12))
    for name, scale in zip(ranges, scales):
        a = a + scale * axis_variable(name)
    quotient, rest = divide_index(a, n, ranges)
    for values in itertools.product(*map(range, ranges.values())):
        at = dict(zip(ranges, values))
        if evaluate(a, at) >= 0:
            assert (evaluate(quotient, at), evaluate(rest, at)) == divmod(evaluate(a, at), n), (a, n, at)


def shifted(y: np.ndarray) -> np.ndarray:
    rows = np.repeat(y, 2).reshape(2, len(y)).T
    return np.concatenate([np.ones((len(y), 1)), rows], axis=1) * 2


def shifted_twice(y: np.ndarray) -> np.ndarray:
    rows = np.repeat(y, 3).reshape(3, -1).T
    return np.concatenate([np.zeros((len(y), 2)), rows[:, ::-1], rows], axis=1).cumsum(axis=1)


@pytest.mark.parametrize("function", [shifted, shifted_twice])
def test_parts_that_repeat_are_joined(function) -> None:  # type: ignore[no-untyped-def]
    compiled = npc.compile(function)
    for n in (6, 9, 4, 12):
        y = np.arange(1.0, n + 1)
        np.testing.assert_array_equal(compiled(y), function(y))
