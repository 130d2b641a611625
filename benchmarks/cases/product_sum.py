"""A sum over an outer product: a contraction written as broadcasting."""

import numpy as np

from benchmarks.case import Case, Function, Inputs, Target


def product_sum(X, Y):
    return np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1))


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.random((1024, 64)), rng.random((1024, 64))


def numba_version() -> Function:
    import numba

    def loops(X, Y):
        out = np.empty(X.shape[0])
        for i in numba.prange(X.shape[0]):
            total = 0.0
            for j in range(X.shape[1]):
                for k in range(Y.shape[1]):
                    total += X[i, j] * Y[i, k]
            out[i] = total
        return out

    return loops


CASE = Case(
    "product_sum",
    "sum(X[:,:,None]*Y[:,None,:], (-2,-1)), 1024x64",
    product_sum,
    inputs,
    Target("best peer", 5),
    {"numba": numba_version},
)
