"""Covariance, correlation, histograms, and grouped means."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import UNROLLED, Program

BINS = 64


def covariance(x):
    """Covariance of the columns, as a product."""
    centred = x - x.mean(axis=0)
    return centred.T @ centred / (x.shape[0] - 1)


def covariance_by_columns(x):
    """Covariance by a loop over pairs of columns."""
    n, m = x.shape
    x = x - x.sum(axis=0) / n
    out = np.empty((m, m))
    for i in range(m):
        for j in range(i, m):
            out[i, j] = out[j, i] = (x[:, i] * x[:, j]).sum() / (n - 1)
    return out


def correlation(x):
    """Correlation of the columns."""
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    return z.T @ z / x.shape[0]


def histogram(x):
    """Histogram of 64 equal bins by np.bincount."""
    place = np.clip(((x + 4) * (BINS / 8)).astype(np.intp), 0, BINS - 1)
    return np.bincount(place, minlength=BINS)


def weighted_histogram(x, w):
    """Mean of the weights in each bin."""
    place = np.clip(((x + 4) * (BINS / 8)).astype(np.intp), 0, BINS - 1)
    return np.bincount(place, weights=w, minlength=BINS) / np.maximum(np.bincount(place, minlength=BINS), 1)


def autocorrelation(x, lags):
    """Autocorrelation at the first lags."""
    x = x - x.sum() / x.size
    out = np.empty(lags)
    for k in range(lags):
        out[k] = (x[: x.size - k] * x[k:]).sum()
    return out / out[0]


def means_numba() -> Function:
    def product(x):
        centred = x - x.sum(axis=0) / x.shape[0]
        return centred.T @ centred / (x.shape[0] - 1)

    return product


def covariance_by_columns_jax() -> Function:
    def product(x):
        x = x - x.sum(axis=0) / x.shape[0]
        return (x[:, :, None] * x[:, None, :]).sum(axis=0) / (x.shape[0] - 1)

    return product


def correlation_numba() -> Function:
    def product(x):
        centred = x - x.sum(axis=0) / x.shape[0]
        z = centred / np.sqrt((centred * centred).sum(axis=0) / x.shape[0])
        return z.T @ z / x.shape[0]

    return product


def histogram_numba() -> Function:
    def loop(x):
        out = np.zeros(BINS, np.intp)
        for value in x:
            out[min(max(int((value + 4) * (BINS / 8)), 0), BINS - 1)] += 1
        return out

    return loop


def weighted_histogram_numba() -> Function:
    def loop(x, w):
        total, count = np.zeros(BINS), np.zeros(BINS, np.intp)
        for i in range(x.size):
            place = min(max(int((x[i] + 4) * (BINS / 8)), 0), BINS - 1)
            total[place] += w[i]
            count[place] += 1
        return total / np.maximum(count, 1)

    return loop


def histogram_jax() -> Function:
    import jax.numpy as jnp

    def count(x):
        place = jnp.clip(((x + 4) * (BINS / 8)).astype(int), 0, BINS - 1)
        return jnp.bincount(place, length=BINS)

    return count


def weighted_histogram_jax() -> Function:
    import jax.numpy as jnp

    def count(x, w):
        place = jnp.clip(((x + 4) * (BINS / 8)).astype(int), 0, BINS - 1)
        return jnp.bincount(place, weights=w, length=BINS) / jnp.maximum(jnp.bincount(place, length=BINS), 1)

    return count


def autocorrelation_jax() -> Function:
    import jax.numpy as jnp

    def sums(x, lags):
        x = x - x.sum() / x.size
        out = jnp.stack([(x[: x.size - k] * x[k:]).sum() for k in range(lags)])
        return out / out[0]

    return sums


def table(rng, rows, columns):
    return (rng.standard_normal((rows, columns)) + np.arange(columns),)


PROGRAMS = (
    Program(covariance, table, ((5, 3), (10_000, 50), (200_000, 64)), {"numba": means_numba}),
    Program(
        covariance_by_columns,
        table,
        ((5, 3), (1000, 30), (20_000, 60)),
        {"jax": covariance_by_columns_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(correlation, table, ((5, 3), (10_000, 50), (200_000, 64)), {"numba": correlation_numba}),
    Program(
        histogram,
        lambda rng, n: (rng.standard_normal(n),),
        ((10,), (500_000,), (16_000_000,)),
        {"numba": histogram_numba, "jax": histogram_jax},
    ),
    Program(
        weighted_histogram,
        lambda rng, n: (rng.standard_normal(n), rng.random(n)),
        ((10,), (300_000,), (8_000_000,)),
        {"numba": weighted_histogram_numba, "jax": weighted_histogram_jax},
    ),
    Program(
        autocorrelation,
        lambda rng, n, lags: (rng.standard_normal(n), lags),
        ((40, 18), (50_000, 40), (2_000_000, 40)),
        {"jax": autocorrelation_jax},
        relative_error=1e-10,
        is_loop=True,
    ),
)
