"""What is read along two axes of memory goes in squares of both."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.complex128, np.uint8])
@pytest.mark.parametrize("function", [turned, with_others, of_three_axes, written_across])
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
    (source,) = npc.explain(lambda x: np.ascontiguousarray(x.T))(np.ones((300, 300), dtype)).sources
    assert f"npc_copy_turned{8 * np.dtype(dtype).itemsize}(to" in source


def test_both_axes_are_cut() -> None:
    (source,) = npc.explain(lambda x: x.T * 2 + x)(np.ones((300, 300))).sources
    assert "npc_turn64(t" in source
    (source,) = npc.explain(lambda x: np.exp(x).sum(0) + x)(np.ones((300, 300))).sources
    assert "npc_turn64(t" not in source
