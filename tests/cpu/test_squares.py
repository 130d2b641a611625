"""What is read along two axes of memory goes in squares of both."""

from __future__ import annotations

from itertools import cycle, product

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.kernel_plan import Squares
from tests.cpu.plans import plans_of


def turned(x):
    return np.ascontiguousarray(x.T), x.T.astype(np.complex128), np.ascontiguousarray(x[::-1, ::-1].T)


def with_others(x):
    y = x[: min(x.shape), : min(x.shape)]
    return y.T + y, y.T - 2 * y.T[::-1], (y.T + y[0]) * y[:, 0], np.where(y.T > y, y, y.T)


def of_three_axes(x):
    y = np.stack([x, x + 1, x - 1])
    return np.ascontiguousarray(y.transpose(2, 1, 0)), y.transpose(1, 0, 2) + y[:1].transpose(1, 0, 2), y.transpose(0, 2, 1) * 2


def written_across(x):
    out = np.zeros((x.shape[1], x.shape[0] + 1), x.dtype)
    out.T[1:] = x
    return out


PROGRAMS = (turned, with_others, of_three_axes, written_across)
OTHERS = cycle([np.float32, np.complex128, np.uint8])


@pytest.mark.parametrize("function, dtype", [*product(PROGRAMS, [np.float64, np.int16]), *zip(PROGRAMS, OTHERS)])
def test_as_numpy_has_it(function, dtype) -> None:
    rng = np.random.default_rng(2)
    compiled = npc.compile(function, dynamic=True if dtype == np.float32 else None)
    for shape in ((67, 131), (200, 64), (128, 256)):
        x = rng.integers(0, 100, shape).astype(dtype)
        expected, got = function(x), compiled(x)
        for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
            assert (e.dtype, e.shape, e.strides) == (g.dtype, g.shape, g.strides)
            np.testing.assert_array_equal(g, e)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_copies_that_no_cache_keeps(dtype) -> None:
    """Lines that are whole go to memory past the caches; rows whose lines are not, and edges, as ever."""
    compiled = npc.compile(lambda x: np.ascontiguousarray(x.T), dynamic=True)
    for shape in ((2048, 16 * 100 * 8 // np.dtype(dtype).itemsize + 5), (1803, 3000)):
        x = np.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
        np.testing.assert_array_equal(compiled(x), x.T)
    (plan,) = plans_of(lambda x: np.ascontiguousarray(x.T), np.ones((300, 300), dtype))
    assert isinstance(plan.way, Squares) and plan.way.copied is not None and plan.way.copied.is_line


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.uint8])
def test_edges_are_squares_that_overlap(dtype) -> None:
    compiled = npc.compile(lambda x: np.ascontiguousarray(x.T), dynamic=True)
    inner = npc.compile(lambda x, to: np.copyto(to[1:-1, 2:-2], x.T), dynamic=True)
    for shape in ((8, 8), (9, 15), (7, 40), (40, 7), (16, 17), (63, 65), (129, 133), (141, 141), (200, 135)):
        x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
        np.testing.assert_array_equal(compiled(x), x.T, strict=True)
        to, expected = np.full((2, shape[1] + 2, shape[0] + 4), 7, dtype)
        inner(x, to)
        expected[1:-1, 2:-2] = x.T
        np.testing.assert_array_equal(to, expected)
    (plan,) = plans_of(lambda x: np.ascontiguousarray(x.T), np.ones((141, 141), dtype))
    assert isinstance(plan.way, Squares) and plan.way.copied is not None


def test_an_array_turned_over_in_place() -> None:
    def in_place(x):
        x[...] = x.T
        return x[:3].sum()

    compiled = npc.compile(in_place)
    for n in (9, 141, 200):
        x = np.arange(n * n * 1.0).reshape(n, n)
        y = x.copy()
        assert compiled(x) == in_place(y)
        np.testing.assert_array_equal(x, y)


def test_both_axes_are_cut() -> None:
    (plan,) = plans_of(lambda x: x.T * 2 + x, np.ones((300, 300)))
    assert isinstance(way := plan.way, Squares) and len(way.turned) == 1 and way.copied is None
    plans = plans_of(lambda x: np.exp(x).sum(0) + x, np.ones((300, 300)))
    assert not any(isinstance(plan.way, Squares) for plan in plans)
