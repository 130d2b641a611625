"""Running combinations along other axes than the contiguous one."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.kernel_plan import ColumnBlocks
from tests.cpu.plans import plans_of


def accumulations(x):
    return (
        np.cumsum(x, axis=0),
        np.cumprod(x, axis=0),
        np.maximum.accumulate(x, axis=0),
        np.minimum.accumulate(x * 2, axis=0),
        np.fmax.accumulate(x, axis=0),
        np.cumsum(x[::-1], axis=0),
    )


def middle_axis(x):
    rows = x[: x.shape[0] // 4 * 4].reshape(4, -1, x.shape[1])
    return np.cumsum(rows, axis=1), np.cumsum(rows, axis=0)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "i1", "u2", "i8", "?"])
def test_as_numpy_has_it(dtype) -> None:
    rng = np.random.default_rng(3)
    compiled = npc.compile(accumulations, dynamic=True)
    for rows, columns in ((37, 600), (2, 8), (5, 7)):
        x = rng.standard_normal((rows, columns)) * 3
        x[rng.random(x.shape) < 0.1] = -0.0
        if dtype in ("f8", "f4"):
            x[3 % rows, 1::3], x[1, 2::5], x[0, 4] = np.nan, np.inf, -np.inf
        x = x.astype(dtype)
        with np.errstate(all="ignore"):
            for expected, got in zip(accumulations(x), compiled(x)):
                assert expected.dtype == got.dtype and expected.strides == got.strides
                np.testing.assert_array_equal(got, expected)
                if dtype[0] == "f":
                    np.testing.assert_array_equal(np.signbit(got) & (got == 0), np.signbit(expected) & (expected == 0))


def test_across_memory_they_go_row_by_row() -> None:
    x = np.random.default_rng(0).standard_normal((64, 100))
    ways = [plan.way for plan in plans_of(middle_axis, x)]
    assert [isinstance(way, ColumnBlocks) and way.columns.is_running for way in ways] == [True, True]
    for expected, got in zip(middle_axis(x), npc.compile(middle_axis)(x)):
        np.testing.assert_array_equal(got, expected)
