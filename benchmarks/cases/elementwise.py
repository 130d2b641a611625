"""A fused elementwise expression over 4 million float64."""

import numpy as np

from benchmarks.case import Case, Function, Inputs, Target


def expression(x, y):
    return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.standard_normal(4_000_000), rng.standard_normal(4_000_000)


def numexpr_version() -> Function:
    import numexpr

    return lambda x, y: numexpr.evaluate("sin(x) * exp(-y * y) + tanh(x * y)", local_dict={"x": x, "y": y})


CASE = Case(
    "elementwise",
    "sin(x)*exp(-y*y)+tanh(x*y), 4M float64",
    expression,
    inputs,
    Target("best peer", 1.5),
    {"numexpr": numexpr_version},
)
