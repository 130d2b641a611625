"""The judge of every number of float32 says what that of the samples says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.accuracy import measure, reference
from tests.accuracy.sweep import functions, judges


def test_the_judge_of_every_number_is_that_of_the_samples() -> None:
    names = ["square", "log", "sin", "exp", "arccosh", "degrees"]
    assert {name for name in names if functions()[name]} == set(names)
    given = np.random.default_rng(3).integers(0, 1 << 32, 5000, dtype=np.uint32).view("f")
    x = np.concatenate([np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 88.5, -104, 1e-40], "f"), given])
    for name, judge in judges(names).items():
        numpys = measure.numpys(name, (x,))
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x.astype(float))
            near = numpys + np.where(np.isfinite(numpys), 3, 0).astype("f") * np.spacing(numpys)
        for ours in (near, np.where(x == -104, np.float32("nan"), numpys)):
            worst, at = np.zeros(2), np.zeros(2, "f")
            different = judge(*(a.ctypes.data for a in (x, ours, numpys)), len(x), worst.ctypes.data, at.ctypes.data)
            expected = [reference.near_errors(y, wanted) for y in (ours, numpys)]
            assert worst == pytest.approx([e.max() for e in expected], rel=1e-6), name
            np.testing.assert_array_equal(worst > 0, [e[np.isin(x, a)].max() > 0 for e, a in zip(expected, at)])
            kept = ~np.isnan(ours) & ~np.isnan(numpys)
            assert different == np.sum(np.isnan(ours) != np.isnan(numpys)) + np.sum(
                (np.signbit(ours) != np.signbit(numpys)) & kept
            )
