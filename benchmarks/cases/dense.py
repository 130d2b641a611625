"""A dense layer: matrix product, bias, activation."""

import numpy as np

from benchmarks.case import Case, Inputs


def dense(x, w, b):
    return np.maximum(x @ w + b, 0)


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.standard_normal((1024, 512)), rng.standard_normal((512, 512)), rng.standard_normal(512)


CASE = Case("dense", "maximum(x @ w + b, 0), 1024x512 by 512x512", dense, inputs)
