"""Elementwise expressions: of 1 to 100 ops, mixed dtypes, strided inputs, masks."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import Program

COEFFICIENTS = tuple((-1.0) ** k / (k + 1) for k in range(50))


def one_op(x, y):
    """1 op: x + y."""
    return x + y


def blend(x, y, z):
    """4 ops, limited by memory: 0.5 * x + 0.25 * y - z."""
    return 0.5 * x + 0.25 * y - z


def five_ops(x, y):
    """5 ops: sqrt(x * x + y * y) - 1."""
    return np.sqrt(x * x + y * y) - 1


def wave(x, y):
    """7 ops: sin(x) * exp(-y * y) + tanh(x * y)."""
    return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)


def twenty_ops(x, y):
    """20 ops: roots, exponentials, logarithms and choices."""
    a = x * y + 0.5
    b = np.abs(a) - x
    c = np.sqrt(b * b + 1)
    d = np.maximum(a, c) * np.minimum(b, c)
    e = np.exp(-np.abs(d))
    f = np.where(e > 0.5, a, b)
    g = np.log1p(c) * f
    return np.sin(g) + e * d


def hundred_ops(x):
    """100 ops: a polynomial of degree 50 by Horner's rule."""
    result = np.zeros_like(x)
    for c in COEFFICIENTS:
        result = result * x + c
    return result


def option_price(spot, strike, years):
    """Black and Scholes: price of a call."""
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.045) * years) / spread
    d2 = d1 - spread
    n1 = 1 / (1 + np.exp(-1.5976 * d1 - 0.07056 * d1 * d1 * d1))
    n2 = 1 / (1 + np.exp(-1.5976 * d2 - 0.07056 * d2 * d2 * d2))
    return spot * n1 - strike * np.exp(-0.02 * years) * n2


def gelu(x):
    """GELU of float32 by tanh."""
    return np.float32(0.5) * x * (1 + np.tanh(np.float32(0.7978846) * (x + np.float32(0.044715) * x * x * x)))


def mixed_dtypes(count, x, y, flag):
    """int32, float32, float64 and bool in one expression."""
    return np.where(flag, x * np.float32(0.5) + y, count * 2 - 1)


def strided(a, b):
    """Transposed and reversed inputs with steps."""
    return a.T * 2 + b[::2, ::-1]


def select(x):
    """np.select of three pieces."""
    return np.select([x < -1, x > 1], [-1 + 0.1 * (x + 1), 1 + 0.1 * (x - 1)], x)


def soft_threshold(x, t):
    """Writes through masks: shrink towards 0."""
    y = x.copy()
    y[np.abs(x) <= t] = 0
    y[x > t] -= t
    y[x < -t] += t
    return y


def select_numba() -> Function:
    import numba

    def loop(x):
        y = np.empty_like(x)
        for i in numba.prange(x.size):
            v = x[i]
            y[i] = -1 + 0.1 * (v + 1) if v < -1 else 1 + 0.1 * (v - 1) if v > 1 else v
        return y

    return loop


def soft_threshold_numba() -> Function:
    import numba

    def loop(x, t):
        y = x.copy()
        for i in numba.prange(x.size):
            if abs(x[i]) <= t:
                y[i] = 0
            elif x[i] > t:
                y[i] -= t
            else:
                y[i] += t
        return y

    return loop


def soft_threshold_jax() -> Function:
    import jax.numpy as jnp

    return lambda x, t: jnp.where(jnp.abs(x) <= t, 0, jnp.where(x > t, x - t, x + t))


def normal(arrays: int):
    return lambda rng, n: tuple(rng.standard_normal(n) for _ in range(arrays))


def mixed(rng, n):
    return rng.integers(-50, 50, n, dtype=np.int32), rng.random(n, dtype=np.float32), rng.random(n), rng.random(n) < 0.5


PROGRAMS = (
    Program(one_op, normal(2), ((10,), (1_000_000,), (16_000_000,)), moved=lambda n: 24 * n),
    Program(blend, normal(3), ((10,), (1_000_000,), (16_000_000,)), moved=lambda n: 32 * n),
    Program(five_ops, normal(2), ((10,), (1_000_000,), (16_000_000,))),
    Program(wave, normal(2), ((10,), (200_000,), (4_000_000,)), is_chain=True),
    Program(twenty_ops, normal(2), ((10,), (200_000,), (4_000_000,)), is_chain=True),
    Program(hundred_ops, lambda rng, n: (rng.uniform(-0.9, 0.9, n),), ((10,), (100_000,), (2_000_000,))),
    Program(
        option_price,
        lambda rng, n: (rng.uniform(50, 150, n), rng.uniform(50, 150, n), rng.uniform(0.1, 2, n)),
        ((10,), (100_000,), (2_000_000,)),
        is_chain=True,
    ),
    Program(
        gelu,
        lambda rng, n: (rng.standard_normal(n, dtype=np.float32),),
        ((10,), (500_000,), (8_000_000,)),
        relative_error=1e-6,
        is_chain=True,
    ),
    Program(mixed_dtypes, mixed, ((10,), (500_000,), (8_000_000,)), relative_error=1e-6),
    Program(
        strided,
        lambda rng, n: (rng.standard_normal((n, n)), rng.standard_normal((2 * n, n))),
        ((4,), (700,), (4000,)),
    ),
    Program(select, normal(1), ((10,), (300_000,), (4_000_000,)), {"numba": select_numba}),
    Program(
        soft_threshold,
        lambda rng, n: (rng.standard_normal(n), 0.5),
        ((10,), (300_000,), (8_000_000,)),
        {"numba": soft_threshold_numba, "jax": soft_threshold_jax},
    ),
)
