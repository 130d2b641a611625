"""Softmax of each row: two reductions and two broadcasts over the same row."""

import numpy as np

from benchmarks.case import Case, Function, Inputs


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def inputs(rng: np.random.Generator) -> Inputs:
    return (rng.standard_normal((2048, 1024)),)


def numba_version() -> Function:
    import numba

    def loops(x):
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            largest = x[i].max()
            e = np.exp(x[i] - largest)
            out[i] = e / e.sum()
        return out

    return loops


def numexpr_version() -> Function:
    import numexpr

    def mixed(x):
        largest = x.max(axis=1, keepdims=True)
        e = numexpr.evaluate("exp(x - largest)", local_dict={"x": x, "largest": largest})
        total = e.sum(axis=1, keepdims=True)
        return numexpr.evaluate("e / total", local_dict={"e": e, "total": total})

    return mixed


CASE = Case(
    "softmax", "softmax of rows, 2048x1024", softmax, inputs, rewrites={"numba": numba_version, "numexpr": numexpr_version}
)
