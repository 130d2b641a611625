"""A function of ten ops over 1000 elements: what the first call costs."""

import numpy as np

from benchmarks.case import Case, Inputs


def ten_ops(x, y):
    a = np.sin(x) * y
    b = np.exp(-a) + x
    return np.maximum(np.sqrt(np.abs(b)), a) - y / 2


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.standard_normal(1000), rng.standard_normal(1000)


CASE = Case("ten_ops", "10 ops, 1000 float64", ten_ops, inputs)
