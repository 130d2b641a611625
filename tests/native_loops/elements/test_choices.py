"""min() and max() of numbers of several types in native loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.covering import pairs
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(11)


def clamped(x, out):
    for i in range(x.size):
        out[i] = max(0.0, min(1.0, x[i]))
        out[i - 1] = min(max(x[i], 0.25), 0.75, x[i - 1])
    return out


def clamped_rows(x, out):
    rows = np.zeros((x.size, 3), out.dtype)
    for i in range(x.size):
        for k in range(3):
            rows[i, k] = max(min(k * x[i], 1.5), 0.5)
    return rows


def first_of_equals(x, out):
    for i in range(x.size):
        low, high = min(x[i], 0.0), max(0, x[i], 1)
        out[i] = low + high
    return low, high, min(x[0], 0.0), max(1.0, x[1])


def bounded_index(x, out):
    n = x.size
    for i in range(n):
        left, right = max(i - 3, 0), min(i + 4, n, out.size)
        k = min(right - 1, max(left, int(out[i]) % 5))
        out[i] = x[k] + x[left]
    return out, left, right


def rounds_of_a_sum(x, out):
    s = 0.0
    for i in range(x.size):
        s = max(0.0, s + x[i])
        out[i] = s
    return s, out


def ends_at_the_first_of_python(x, out):
    for i in range(x.size):
        s = max(x[i], 0.5)
        if s == 0.5:
            break
        out[i] = s
    return s, out


def true_or_more(x, out):
    for i in range(x.size):
        out[i] = max(x[i] > 0.5, i % 2, 0.0 if i % 3 else 2)
    return out


VALUES = [rng.standard_normal(40), np.r_[0.0, np.nan, -0.0, rng.standard_normal(20), np.nan, 1.0, 0.5, np.inf, -np.inf]]


PROGRAMS = (clamped, clamped_rows, first_of_equals, rounds_of_a_sum, ends_at_the_first_of_python, true_or_more)


@pytest.mark.parametrize("function, dtype, out", pairs(PROGRAMS, ["f8", "f4"], ["f8", "f4"]))
def test_extremes_of_several_types(function, dtype, out):
    for x in VALUES:
        agrees(function, x.astype(dtype), np.zeros(x.size, out))


def test_places_between_bounds():
    agrees(bounded_index, rng.random(40), rng.integers(0, 50, 40))
    agrees(bounded_index, rng.integers(-9, 9, 40), rng.integers(0, 50, 40))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_integers_of_several_types(dtype):
    def counted(x, out):
        best = 0
        for i in range(x.size):
            best = max(best, x[i])
            out[i] = max(3, x[i]) - min(x[i], 7)
            out[i - 1] = min(100, max(x[i], 2))
        return best, out

    agrees(counted, rng.integers(0, 99, 50).astype(dtype), np.zeros(50, dtype))
    agrees(counted, rng.integers(0, 99, 50).astype(dtype), np.zeros(50))
