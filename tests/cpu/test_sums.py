"""Sums are at least as accurate as NumPy's: against exact ones, over lengths, axes, memory layouts and kinds of numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import cycle, product

import numpy as np
import pytest

import npcompile as npc

NUMBERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "of one sign": lambda rng, shape: rng.uniform(0, 1, shape),
    "of both signs": lambda rng, shape: rng.standard_normal(shape),
    "of many sizes": lambda rng, shape: rng.standard_normal(shape) * np.exp(4 * rng.standard_normal(shape)),
}
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x,
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=2)[..., ::2],
    "transposed": lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)).transpose(1, 2, 0),
}
SHAPES = [(3, 5, 129), (40, 30, 17), (1000, 9, 5), (2, 3, 20000), (30000, 2, 3)]
AXES = [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)]


def units(x: np.ndarray, axis: int | tuple[int, ...] | None) -> np.ndarray:
    """The last place of the sum of absolute values: what rounding errors are of when numbers cancel."""
    return np.spacing(np.abs(x).sum(axis, dtype=np.longdouble).astype(x.dtype)).astype(float)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference of more than 64 bits")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_over_axes_of_float16(layout: str) -> None:
    """Those of longer numbers have NumPy's bits: test_sums_have_numpys_bits.py."""
    compiled = npc.compile(lambda x, axis: np.sum(x, axis=axis), backend="cpu")
    for axis in AXES:
        errors: list[tuple[np.ndarray, np.ndarray]] = []
        for shape in SHAPES:
            for name, numbers in NUMBERS.items():
                if name == "of many sizes":  # beyond its range
                    continue
                x = LAYOUTS[layout](numbers(np.random.default_rng(0), shape).astype("e"))
                with np.errstate(all="ignore"):
                    ours, theirs, unit = np.asarray(compiled(x, axis)), np.asarray(np.sum(x, axis=axis)), units(x, axis)
                assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
                kept = np.isfinite(theirs) & np.isfinite(unit)
                exact = x.sum(axis, dtype=np.longdouble)
                errors.append(tuple(np.abs(s - exact)[kept].astype(float) / unit[kept] for s in (ours, theirs)))
        ours, theirs = (np.concatenate([np.ravel(e) for e in side]) for side in zip(*errors))
        assert ours.mean() <= 1.25 * theirs.mean() + (0.1 if ours.size > 100 else 0.3), axis
        assert ours.max() <= 1.5 * theirs.max() + 1, axis


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference of more than 64 bits")
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_variances_of_short_rows_err_no_more_than_those_of_numpy(dtype: str) -> None:
    draws, rng = 200, np.random.default_rng(12)
    compiled = npc.compile(lambda x: np.var(x, axis=1), backend="cpu", dynamic=False)
    with npc.config.patch(recompile_limit=100):
        for length in (3, 5, 8, 13, 16, 31, 64, 100, 129, 200, 333, 512, 777):  # each a program of its own
            x = rng.uniform(0, 1, (draws, length)).astype(dtype)
            exact = np.var(x.astype(np.longdouble), axis=1)
            difference = np.abs(compiled(x) - exact) - np.abs(np.var(x, axis=1) - exact)
            difference = (difference / np.spacing(exact.astype(dtype))).astype(float)
            assert difference.mean() <= 4 * max(difference.std(), 0.05) / math.sqrt(draws), length


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum of squares": lambda x: (x * x).sum(),
    "product": lambda x: (x * 0.01 + 1).prod(),
    "variance": lambda x: x.var(),
    "rows": lambda x: x.sum(axis=-1),
}


@pytest.mark.parametrize("name, dtype", [*product(REDUCTIONS, ["f8"]), *zip(REDUCTIONS, cycle(["c16", "f4"]))])
def test_what_is_known_of_a_size_does_not_show_in_the_result(name, dtype):
    known, unknown = (npc.compile(REDUCTIONS[name], dynamic=dynamic) for dynamic in (False, True))
    for shape in ((5,), (257,), (100_000,), (7, 9)):
        x = np.random.default_rng(shape).standard_normal(shape).astype(dtype)
        assert np.array_equal(known(x), unknown(x)), shape


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 9])
def test_whether_columns_are_counted_does_not_show_in_their_sums(columns: int) -> None:
    known, unknown = (npc.compile(lambda x: (x * 1.5).sum(axis=0), dynamic=dynamic) for dynamic in (False, True))
    for rows in (2, 31, 3000):
        x = np.random.default_rng(rows).standard_normal((rows, columns))
        assert np.array_equal(known(x), unknown(x)), rows


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [3, 20, 37, 600])
def test_a_row_is_summed_alike_alone_and_beside_others(columns: int, dtype: str) -> None:
    """Four rows are summed at a time; the lanes that a row does not fill note nothing, whatever the other rows hold."""

    @npc.compile(dynamic=True)
    def sums(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
        return x @ w, x.sum(axis=1), (x * x).sum(axis=1) + 1, x.mean(axis=1, keepdims=True) * x

    rng = np.random.default_rng(columns)
    x, w = rng.standard_normal((11, columns)).astype(dtype), rng.standard_normal(columns).astype(dtype)
    x[3], x[7, 0], w[1] = -0.0, np.nan, 0
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        whole = sums(x, w)
    assert not noted
    for k in range(11):
        for made, alone in zip(whole, sums(x[[k, 0]], w)):
            np.testing.assert_array_equal(made[k], alone[0], strict=True)
    assert not np.signbit(whole[1][3])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_beside_sums(dtype: str) -> None:
    """Lanes behind the end have nothing for a sum, which is no extreme."""
    rng = np.random.default_rng(3)
    of_all = npc.compile(lambda x: (x.min(), x.sum(), x.max(), (-x).max(), x.argmin()), backend="cpu")
    of_rows = npc.compile(
        lambda x: (x.min(axis=1), x.sum(axis=1), x.max(axis=1), (-x).max(axis=1), x.argmin(axis=1)), backend="cpu"
    )
    for columns in (2, 3, 12, 20, 37, 600):
        x = (rng.random((9, columns)) + 1).astype(dtype)
        total = x[0].min(), x[0].sum(), x[0].max(), (-x[0]).max(), x[0].argmin()
        rows = x.min(axis=1), x.sum(axis=1), x.max(axis=1), (-x).max(axis=1), x.argmin(axis=1)
        for found, expected in zip((*of_all(x[0]), *of_rows(x)), (*total, *rows)):
            np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "f4" else 1e-14)


@pytest.mark.filterwarnings("error")  # a compiler that failed
def test_symbolic_sizes_that_only_the_order_of_a_sum_needs() -> None:
    def doubled(x):
        return (2 * x).sum()

    def written(x, y):
        if y.min() < 0 and y.ndim < 2:
            z = -y
        else:
            z = -y
        x.reshape(-1)[:] += 1
        return x.sum(), z

    compiled = npc.compile(doubled, backend="cpu")
    for shape in ((2, 6), (3, 0)):  # the loops are empty, whatever the number of rows
        assert compiled(np.ones(shape)) == 2 * math.prod(shape)
    compiled = npc.compile(written, backend="cpu")
    for shape in ((4, 4), (1, 3), (2, 6)):  # one flat loop, whatever the stride of the rows
        x = np.arange(float(math.prod(shape))).reshape(shape)[::-1, ::-1]
        y = x.copy()
        total, z = compiled(x, y)
        assert total == (y + 1).sum()
        np.testing.assert_array_equal((x, z), (y + 1, -y))
