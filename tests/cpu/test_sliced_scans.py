"""Running extremes of a long axis go in slices, and are the same to the sign of a zero."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import c_scan_slices
from npcompile.backends.cpu.kernel_plan import ScanSlices
from tests.cpu.plans import plans_of


def extremes(x):
    return np.maximum.accumulate(x), np.fmin.accumulate(x)[::-1], (x - np.minimum.accumulate(x)).max()


def sums(x):
    return np.cumsum(x), np.cumprod(x[::3]), np.logical_or.accumulate(x > 100), np.add.accumulate(x * 2)[5:]


@pytest.mark.parametrize("function, dtype", [(extremes, np.float64), (extremes, np.int32), (sums, np.int64), (sums, np.float32)])
def test_as_numpy_has_it(monkeypatch: pytest.MonkeyPatch, function, dtype) -> None:
    monkeypatch.setattr(c_scan_slices, "FEWEST_THREADS", 1)
    rng = np.random.default_rng(8)
    compiled = npc.compile(function)
    for n in (70_000, 200_003, 20):
        x = (rng.standard_normal(n).cumsum() / 100).astype(dtype)
        if dtype == np.float64:
            x = np.where(rng.random(n) < 0.5, 0.0, -0.0) * x[0]
            x[n // 2] = np.nan
            x[: n // 3] += rng.integers(0, 2, n // 3)
        for e, g in zip(function(x), compiled(x)):
            assert e.dtype == g.dtype
            np.testing.assert_array_equal(g, e)
            if e.dtype.kind == "f":
                known = ~np.isnan(e)
                np.testing.assert_array_equal(np.signbit(g)[known], np.signbit(e)[known])


def test_sums_of_numbers_keep_their_order() -> None:
    def scans(x):
        return np.cumsum(x), np.maximum.accumulate(x)

    ways = [plan.way for plan in plans_of(scans, np.ones(100_000))]
    assert len(ways) == 2 and [way.scan.accumulator.reducer for way in ways if isinstance(way, ScanSlices)] == ["maximum"]
