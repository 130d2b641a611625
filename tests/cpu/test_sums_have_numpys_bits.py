"""Sums of floating-point numbers have NumPy's bits, whatever the shape, the axes, the layout and what is computed on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.covering import pairs

Layout = Callable[[np.ndarray], np.ndarray]

LAYOUTS: dict[str, Layout] = {
    "contiguous": lambda x: x,
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: x[::-1],
    "reversed rows": lambda x: x[..., ::-1],
    "with gaps": lambda x: np.concatenate([x, x[..., :1]], -1)[..., :-1],
    "turned": lambda x: np.ascontiguousarray(np.moveaxis(x, 0, -1)).transpose(x.ndim - 1, *range(x.ndim - 1)),
}
SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(1,), (5,), (100,), (129,), (300,), (8193,), (123457,)],
    2: [(7, 9), (300, 40), (40, 300), (3000, 3), (3, 3000), (1, 40), (40, 1), (2, 9000), (129, 2)],
    3: [(20, 30, 40), (5, 1, 300), (1, 20, 30), (9, 10, 3), (2, 3, 5000), (40, 2, 40)],
}


def axes_of(ndim: int) -> list[Any]:
    every = [axes for k in range(1, ndim + 1) for axes in itertools.combinations(range(ndim), k)]
    return [None, *every] if ndim > 1 else [None]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype in "FD" else x).astype(dtype)


def assert_same_bits(ours: Any, theirs: Any, about: Any) -> None:
    if isinstance(theirs, (tuple, list)):
        for a, b in zip(ours, theirs, strict=True):
            assert_same_bits(a, b, about)
        return
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype and ours.shape == theirs.shape, about
    assert ours.tobytes() == theirs.tobytes(), (about, np.asarray(ours - theirs).ravel()[:5])


def agree(function: Callable[..., Any], arrays: list[np.ndarray], **settings: Any) -> None:
    compiled = npc.compile(function, backend="cpu", **settings)
    with npc.config.patch(recompile_limit=1000):
        for x in arrays:
            assert_same_bits(compiled(x), function(x), (x.shape, x.strides))


@pytest.mark.parametrize("dtype, layout, ndim", pairs("dfD", [*LAYOUTS], [*SHAPES]))
def test_sums_over_any_axes(dtype: str, layout: str, ndim: int) -> None:
    rng = np.random.default_rng(ndim)
    arrays = [LAYOUTS[layout](numbers(rng, shape, dtype)) for shape in SHAPES[ndim]]
    agree(lambda x: [x.sum(axis=axis) for axis in axes_of(ndim)], arrays, dynamic=True)


FUNCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": lambda x: [x.mean(axis=axis) for axis in axes_of(x.ndim)],
    "variance": lambda x: [x.var(axis=axis) for axis in axes_of(x.ndim)],
    "deviation": lambda x: x.std(axis=-1, ddof=1),
    "squares": lambda x: [(x * x - 0.5).sum(axis=axis) for axis in axes_of(x.ndim)],
    "several at once": lambda x: (x.sum(), (x * x).sum(), np.sqrt(abs(x)).sum(), x.max(), (x > 0).sum()),
    "rows at once": lambda x: (x.sum(axis=-1), (x * x).sum(axis=-1), x.max(axis=-1), x.argmin(axis=-1)),
    "of rows normalised": lambda x: ((x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)).sum(),
    "a part": lambda x: (x[1:, 1:] - x[:-1, :-1]).sum(),
    "a view of a part": lambda x: (x[1:, 1:-1].sum(), x[:, :-1].sum(axis=0), x[:, 1:].sum(axis=1)),
    "both ways": lambda x: (x + x.T[: x.shape[1], : x.shape[0]].sum()).sum(axis=0),
    "broadcast": lambda x: (np.broadcast_to(x, (3, *x.shape)).sum(axis=0), (x[:, None] * x[None]).sum(axis=(0, 2))),
    "norms": lambda x: np.sqrt((x * x).sum(axis=1, keepdims=True)),
}


@pytest.mark.parametrize("dynamic, dtype, name", pairs([True, False], "df", [*FUNCTIONS]))
def test_functions_of_sums(dynamic: bool, dtype: str, name: str) -> None:
    rng = np.random.default_rng(7)
    shapes = [(7, 9), (300, 40), (30, 130)] if dynamic else [(40, 24)]
    agree(FUNCTIONS[name], [numbers(rng, shape, dtype) for shape in shapes], dynamic=dynamic)


@pytest.mark.parametrize("dtype", ["d", "f", "D"])
def test_sums_that_threads_share(dtype: str) -> None:
    rng = np.random.default_rng(3)
    arrays = [numbers(rng, (n,), dtype) for n in (65_537, 1_000_003)]
    agree(lambda x: (x.sum(), (x * x).sum()), arrays, dynamic=True)
    wide = [numbers(rng, shape, dtype) for shape in ((3000, 700), (50_000, 40), (200_000, 2), (2, 400_000))]
    agree(lambda x: (x.sum(axis=0), x.sum(axis=1), x[:, :-1].sum()), wide, dynamic=True)


@pytest.mark.parametrize("columns", range(1, 34))
def test_short_rows(columns: int) -> None:
    x = numbers(np.random.default_rng(columns), (100, columns), "d")
    agree(
        lambda x: (x.sum(axis=1), (x * 1.5).sum(axis=1), x.sum(axis=0)),
        [x, x.astype("f")][: 1 + (columns % 3 == 0)],
        dynamic=False,
    )


def test_random_arrays() -> None:
    rng = np.random.default_rng(5)
    compiled = {axis: npc.compile(lambda x, axis=axis: x.sum(axis=axis), backend="cpu", dynamic=True) for axis in (0, 1, 2, None)}
    with npc.config.patch(recompile_limit=1000):
        for _ in range(150):
            shape = tuple(int(n) for n in rng.integers(1, 40, 3) * rng.choice([1, 1, 7], 3))
            x = numbers(rng, shape, "d").transpose(rng.permutation(3))
            x = x[:: int(rng.choice([1, 2, -1])), :, :: int(rng.choice([1, 1, -1, 3]))]
            axis = [0, 1, 2, None][rng.integers(4)]
            assert_same_bits(compiled[axis](x), x.sum(axis=axis), (x.shape, x.strides, axis))


CAST: dict[str, Callable[[np.ndarray], Any]] = {
    "means": lambda x: [x.mean(axis=axis) for axis in axes_of(x.ndim)],
    "of float64": lambda x: [x.sum(axis=axis, dtype=np.float64) for axis in axes_of(x.ndim)],
    "of views": lambda x: (x[:, 1:].mean(), x[::2].mean(axis=1), x[:, :-1].mean(axis=0), x.T.mean()),
    "sums": lambda x: [x.sum(axis=axis) for axis in axes_of(x.ndim)],
    "sums of views": lambda x: (x[:, 1:].sum(), x[::2].sum(axis=1), x[:, :-1].sum(axis=0), x.T.sum()),
}


@pytest.mark.parametrize("dtype, name, dynamic", pairs(["f2", "i4", "u1", "f4"], [*CAST], [True, False]))
def test_sums_of_what_is_cast_or_rounded(dtype: str, name: str, dynamic: bool) -> None:
    rng = np.random.default_rng(9)
    arrays = [(rng.random(shape) * (1 if dtype == "f2" else 200)).astype(dtype) for shape in ((30, 40), (3, 20000), (9000, 3))]
    agree(CAST[name], arrays if dynamic else arrays[:2], dynamic=dynamic)


def test_signs_of_zero_and_what_is_not_finite() -> None:
    function = npc.compile(lambda x: (x.sum(), x.sum(axis=0), x.sum(axis=1)), backend="cpu")
    for value in (-0.0, 0.0, np.nan, np.inf):
        x = np.full((20, 30), value)
        assert_same_bits(function(x), (x.sum(), x.sum(axis=0), x.sum(axis=1)), value)
    for shape in ((0, 3), (3, 0)):
        x = np.zeros(shape)
        assert_same_bits(function(x), (x.sum(), x.sum(axis=0), x.sum(axis=1)), shape)


def test_real_and_complex_sums_do_not_share_lanes() -> None:
    """A block of complex numbers has half as many lanes."""

    def sums(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.einsum("ij->i", z * 2), np.einsum("ij->i", x * 3), x.sum(axis=1), z.sum(axis=1), x.max(axis=1), z.sum(), x.sum()

    x = np.random.default_rng(8).standard_normal((30, 41))
    z = x + 1j * x[::-1]
    for k, (ours, numpys) in enumerate(zip(npc.compile(sums)(x, z), sums(x, z), strict=True)):
        np.testing.assert_allclose(ours, numpys, rtol=1e-12)
        assert k < 2 or ours.tobytes() == numpys.tobytes()  # einsum adds in an order of its own


COPIES: dict[str, Callable[[np.ndarray], Any]] = {
    "in the order of Fortran": lambda x: (np.asfortranarray(x).sum(axis=0), np.asfortranarray(x).sum()),
    "in that of C": lambda x: (x.copy().sum(), x.copy().sum(axis=1), np.ascontiguousarray(x).sum()),
    "as the array lies": lambda x: (np.copy(x).sum(), np.copy(x).sum(axis=1)),
    "a part of one": lambda x: np.asfortranarray(x)[1:, 2:].sum(),
    "sorted": lambda x: (np.sort(x, axis=0).sum(), np.sort(x, axis=1).sum(axis=0)),
    "running sums": lambda x: (np.cumsum(x, axis=0).sum(), np.cumsum(x, axis=1).sum(axis=1)),
    "sums of sums": lambda x: (x[:, None] + x[:20, :1]).sum(axis=0).sum(axis=0),
    "joined": lambda x: (np.concatenate([x, x]).sum(), np.stack([x, x]).sum(), np.vstack([x, x]).sum(axis=1)),
    "gathered": lambda x: (x[[1, 2, 3, 5, 1]].sum(axis=1), x[:, [3, 4, 5, 6]].sum(), np.take(x, [1, 2, 5], axis=0).sum()),
    "transformed": lambda x: np.fft.fft(x, axis=0).real.sum(axis=0),
    "in another shape": lambda x: (x.reshape(-1, 40, order="F").sum(axis=0), x.ravel().sum(), x.ravel("F").sum()),
    "padded": lambda x: (
        np.pad(x, 1).sum(),
        np.roll(x, 1, axis=0).sum(),
        np.tile(x, (2, 1)).sum(),
        np.repeat(x, 2, axis=0).sum(),
    ),
    "filled": lambda x: (np.zeros_like(x) + x).sum(),
}


@pytest.mark.parametrize("layout", ["contiguous", "fortran", "turned"])
@pytest.mark.parametrize("name", COPIES)
def test_sums_of_what_lies_in_another_way(name: str, layout: str) -> None:
    """A copy is the same values in the graph, and NumPy adds them as the copy lies."""
    rng = np.random.default_rng(11)
    agree(COPIES[name], [LAYOUTS[layout](numbers(rng, (300, 40), "d"))])
