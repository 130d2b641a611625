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


def windows(x, kernel):
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel.shape)
    return np.einsum("ijkl,kl->ij", seen, kernel), seen.max(axis=(2, 3)), seen[::2, 1:].sum(axis=(-1, -2))


def diagonals(x, kernel):
    i = np.arange(20)
    return (
        x[i, i],
        x[i + 1, 19 - i],
        x[np.arange(5)[:, None] + np.arange(4)],
        x[2 * i[:9], i[:9] - 1],
        x[3 * np.arange(3) + 1].sum(0),
    )


@pytest.mark.parametrize("function", [windows, diagonals])
@pytest.mark.parametrize("dynamic", [None, True])
def test_indices_that_are_computed(function, dynamic) -> None:
    compiled = npc.compile(function, dynamic=dynamic)
    for n, k in ((24, 3), (31, 4), (40, 2)):
        x, kernel = np.arange(n * (n + 1.0)).reshape(n, n + 1) % 7, np.arange(k * 2.0).reshape(k, 2)
        for e, g in zip(function(x, kernel), compiled(x, kernel)):
            assert e.dtype == g.dtype
            np.testing.assert_array_equal(g, e)


def test_indices_that_are_computed_are_not_checked() -> None:
    def checked(function, *arguments):
        return "bounds check elimination" in [p.name for p in npc.explain(function)(*arguments).passes]

    def beyond(x):
        return x[np.arange(4) + 1]

    assert not checked(windows, np.ones((24, 25)), np.ones((3, 2)))
    assert checked(lambda x, i: x[i], np.ones(9), np.arange(4))
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        npc.compile(beyond)(np.ones(4))


@pytest.mark.parametrize("shift", [-7, -5, -2, -1, 1, 2, 5, 9])
def test_ends_of_flattened_arrays_of_symbolic_shape(shift: int) -> None:
    """Their index is a product of sizes less some: its last axis is counted from the end, and takes one from the axes before."""
    for text in ("np.roll(x, {0})", "x.ravel()[{0}:] * 2", "np.roll(x.ravel()[::-1], {0})"):
        function = eval(f"lambda x: {text.format(shift)}", {"np": np})  # where it is a constant
        compiled = npc.compile(function, dynamic=True)
        for shape in ((4, 3, 2), (2, 3, 4), (5, 2, 7), (3, 12, 3), (10, 4, 2)):
            x = np.arange(np.prod(shape), dtype=float).reshape(shape)
            for y in (x, x.transpose(2, 0, 1), x.transpose(1, 2, 0), x[:, ::-1], x.T):
                np.testing.assert_array_equal(compiled(y), function(y))
