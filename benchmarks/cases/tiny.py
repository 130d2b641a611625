"""The elementwise expression over 10 elements: what a call costs."""

import numpy as np

from benchmarks.case import Case, Inputs, Target
from benchmarks.cases.elementwise import expression, numexpr_version


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.standard_normal(10), rng.standard_normal(10)


CASE = Case("tiny", "the same expression, 10 float64", expression, inputs, Target("numpy", 1.5), {"numexpr": numexpr_version})
