"""Convolutions of infinities and NaN: outside of the vectors NumPy has no terms."""

import numpy as np

from tests.tracer.harness import check

INFINITE = np.array([np.nan, -0.0, np.inf, -1.5, 2.0, 1.0])
WIDE = np.concatenate((INFINITE, np.arange(40.0)))


@check(INFINITE, INFINITE[1:4], graphs=1, breaks=0)
def test_few_factors(v, w):
    return np.convolve(v, w), np.convolve(v, w, mode="same"), np.correlate(v, w, mode="full"), np.convolve(w, v, "valid")


@check(WIDE, WIDE[::-1])
def test_many_factors(v, w):
    return np.convolve(v, w), np.convolve(v, w, mode="same"), np.convolve(v, w, mode="valid")
