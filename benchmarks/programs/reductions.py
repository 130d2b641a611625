"""Reductions along every axis, several over one input, of what a mask selects, and scans."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import Program


def every_axis(x):
    """Sum, mean, maximum and minimum along each axis of a 3-D array."""
    return x.sum(axis=0), x.mean(axis=1), x.max(axis=2), x.min()


def moments(x):
    """Mean, variance, minimum and maximum of each row."""
    return x.mean(axis=1), x.var(axis=1), x.min(axis=1), x.max(axis=1)


def masked_sum(x):
    """Sum and number of the elements that a mask selects."""
    mask = x > 0.25
    return x[mask].sum(), mask.sum()


def normalise(x):
    """Rows divided by their Euclidean norms."""
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def columns(x):
    """Sums of squares along the columns of a matrix, centred."""
    return ((x - x.mean(axis=0)) ** 2).sum(axis=0)


def running(x):
    """Running mean and variance from cumulative sums."""
    n = np.arange(1, x.size + 1)
    mean = np.cumsum(x) / n
    return mean, np.cumsum(x * x) / n - mean * mean


def drawdown(prices):
    """Largest fall from a running maximum."""
    top = np.maximum.accumulate(prices)
    return ((top - prices) / top).max()


def every_axis_numba() -> Function:
    import numba

    def loops(x):
        a, b = x.shape[:2]
        largest = np.empty((a, b))
        for i in numba.prange(a):
            for j in range(b):
                largest[i, j] = x[i, j].max()
        return x.sum(axis=0), x.sum(axis=1) / b, largest, x.min()

    return loops


def moments_numba() -> Function:
    import numba

    def loops(x):
        n = x.shape[0]
        mean, var, least, most = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        for i in numba.prange(n):
            mean[i], var[i], least[i], most[i] = x[i].mean(), x[i].var(), x[i].min(), x[i].max()
        return mean, var, least, most

    return loops


def normalise_numba() -> Function:
    import numba

    def loops(x):
        out = np.empty_like(x)
        for i in numba.prange(x.shape[0]):
            out[i] = x[i] / np.sqrt((x[i] * x[i]).sum())
        return out

    return loops


def columns_numba() -> Function:
    return lambda x: ((x - x.sum(axis=0) / x.shape[0]) ** 2).sum(axis=0)


def masked_sum_jax() -> Function:
    import jax.numpy as jnp

    def masked(x):
        mask = x > 0.25
        return jnp.where(mask, x, 0).sum(), mask.sum()

    return masked


def drawdown_numba() -> Function:
    def loop(prices):
        top, worst = prices[0], 0.0
        for p in prices:
            top = max(top, p)
            worst = max(worst, (top - p) / top)
        return worst

    return loop


def drawdown_jax() -> Function:
    from jax import lax

    def scan(prices):
        top = lax.cummax(prices)
        return ((top - prices) / top).max()

    return scan


def matrix(rng, rows, columns):
    return (rng.standard_normal((rows, columns)),)


PROGRAMS = (
    Program(
        every_axis,
        lambda rng, n: (rng.standard_normal((n, n, n)),),
        ((3,), (100,), (320,)),
        {"numba": every_axis_numba},
    ),
    Program(moments, matrix, ((3, 4), (1000, 1000), (5000, 4000)), {"numba": moments_numba}),
    Program(
        masked_sum,
        lambda rng, n: (rng.standard_normal(n),),
        ((10,), (500_000,), (16_000_000,)),
        {"jax": masked_sum_jax},
    ),
    Program(normalise, matrix, ((3, 4), (1000, 500), (8000, 2000)), {"numba": normalise_numba}),
    Program(columns, matrix, ((3, 4), (1000, 500), (8000, 2000)), {"numba": columns_numba}),
    Program(running, lambda rng, n: (rng.standard_normal(n),), ((10,), (300_000,), (8_000_000,)), relative_error=1e-9),
    Program(
        drawdown,
        lambda rng, n: (np.exp(0.01 * np.cumsum(rng.standard_normal(n))),),
        ((10,), (500_000,), (8_000_000,)),
        {"numba": drawdown_numba, "jax": drawdown_jax},
    ),
)
