"""Variance of each row, NumPy's own Python implementation of it."""

import numpy as np

from benchmarks.case import Case, Function, Inputs


def variance(x):
    return np.var(x, axis=1)


def inputs(rng: np.random.Generator) -> Inputs:
    return (rng.standard_normal((2048, 1024)),)


def numba_version() -> Function:
    import numba

    def loops(x):
        out = np.empty(x.shape[0])
        for i in numba.prange(x.shape[0]):
            out[i] = np.var(x[i])
        return out

    return loops


CASE = Case("variance", "var(x, axis=1), 2048x1024", variance, inputs, rewrites={"numba": numba_version})
