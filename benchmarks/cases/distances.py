"""All pairwise Euclidean distances, written with broadcasting."""

import numpy as np

from benchmarks.case import Case, Function, Inputs


def distances(X, Y):
    return np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=-1))


def inputs(rng: np.random.Generator) -> Inputs:
    return rng.standard_normal((1000, 8)), rng.standard_normal((1000, 8))


def numba_version() -> Function:
    import numba

    def loops(X, Y):
        out = np.empty((X.shape[0], Y.shape[0]))
        for i in numba.prange(X.shape[0]):
            for j in range(Y.shape[0]):
                total = 0.0
                for k in range(X.shape[1]):
                    total += (X[i, k] - Y[j, k]) ** 2
                out[i, j] = np.sqrt(total)
        return out

    return loops


def numexpr_version() -> Function:
    import numexpr

    def mixed(X, Y):
        squares = numexpr.evaluate("sum((x - y) ** 2, axis=2)", local_dict={"x": X[:, None, :], "y": Y[None, :, :]})
        return np.sqrt(squares)

    return mixed


CASE = Case(
    "distances",
    "pairwise distances, 1000x1000 in 8 dimensions",
    distances,
    inputs,
    rewrites={"numba": numba_version, "numexpr": numexpr_version},
)
