"""Sparse matrices in compressed rows, graphs, gathers and scatters."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import UNROLLED, Program


def rows_product(data, indices, starts, x):
    """Sparse matrix times vector, row by row."""
    n = starts.size - 1
    y = np.zeros(n)
    for i in range(n):
        a, b = starts[i], starts[i + 1]
        y[i] = np.sum(data[a:b] * x[indices[a:b]])
    return y


def elements_product(data, indices, starts, x):
    """Sparse matrix times vector, element by element."""
    n = starts.size - 1
    y = np.zeros(n)
    for i in range(n):
        for j in range(starts[i], starts[i + 1]):
            y[i] += data[j] * x[indices[j]]
    return y


def scattered_product(data, columns, rows, x):
    """Sparse matrix times vector from coordinates, by np.bincount."""
    return np.bincount(rows, weights=data * x[columns], minlength=x.size)


def page_rank(columns, rows, degree, steps):
    """PageRank: gathers and scatters of ranks."""
    n = degree.size
    rank = np.full(n, 1 / n)
    for _ in range(steps):
        rank = 0.15 / n + 0.85 * np.bincount(rows, weights=(rank / degree)[columns], minlength=n)
    return rank


def table_lookup(table, x):
    """Linear interpolation in a table by gathers."""
    place = x * (table.size - 1)
    low = np.minimum(place.astype(np.int64), table.size - 2)
    t = place - low
    return table[low] * (1 - t) + table[low + 1] * t


def scatter_add(values, places, n):
    """Sums of repeated places by np.add.at."""
    out = np.zeros(n)
    np.add.at(out, places, values)
    return out


def compressed_product_jax() -> Function:
    import jax
    import jax.numpy as jnp

    def product(data, indices, starts, x):
        n = starts.size - 1
        row = jnp.repeat(jnp.arange(n), jnp.diff(starts), total_repeat_length=data.size)
        return jax.ops.segment_sum(data * x[indices], row, n, indices_are_sorted=True)

    return product


def rows_product_numba() -> Function:
    import numba

    def loops(data, indices, starts, x):
        n = starts.size - 1
        y = np.zeros(n)
        for i in numba.prange(n):
            for j in range(starts[i], starts[i + 1]):
                y[i] += data[j] * x[indices[j]]
        return y

    return loops


def scattered_product_numba() -> Function:
    def loop(data, columns, rows, x):
        out = np.zeros(x.size)
        for k in range(data.size):
            out[rows[k]] += data[k] * x[columns[k]]
        return out

    return loop


def scattered_product_jax() -> Function:
    import jax.numpy as jnp

    return lambda data, columns, rows, x: jnp.bincount(rows, weights=data * x[columns], length=x.size)


def page_rank_numba() -> Function:
    def loops(columns, rows, degree, steps):
        n = degree.size
        rank = np.full(n, 1 / n)
        for _ in range(steps):
            share, total = rank / degree, np.zeros(n)
            for k in range(rows.size):
                total[rows[k]] += share[columns[k]]
            rank = 0.15 / n + 0.85 * total
        return rank

    return loops


def page_rank_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def iterate(columns, rows, degree, steps):
        n = degree.size

        def step(_, rank):
            return 0.15 / n + 0.85 * jnp.bincount(rows, weights=(rank / degree)[columns], length=n)

        return lax.fori_loop(0, steps, step, jnp.full(n, 1 / n))

    return iterate


def scatter_add_numba() -> Function:
    def loop(values, places, n):
        out = np.zeros(n)
        for k in range(values.size):
            out[places[k]] += values[k]
        return out

    return loop


def scatter_add_jax() -> Function:
    import jax.numpy as jnp

    return lambda values, places, n: jnp.zeros(n).at[places].add(values)


def compressed(rng, n, each):
    counts = rng.integers(1, 2 * each, n)
    starts = np.concatenate(([0], np.cumsum(counts)))
    return rng.standard_normal(starts[-1]), rng.integers(0, n, starts[-1]), starts, rng.standard_normal(n)


def coordinates(rng, n, each):
    m = n * each
    return rng.standard_normal(m), rng.integers(0, n, m), rng.integers(0, n, m), rng.standard_normal(n)


def links(rng, n, each, steps):
    columns = np.concatenate((np.arange(n), rng.integers(0, n, n * (each - 1))))
    return columns, rng.integers(0, n, n * each), np.bincount(columns, minlength=n).astype(float), steps


PROGRAMS = (
    Program(
        rows_product,
        compressed,
        ((20, 2), (3000, 20), (100_000, 20)),
        {"numba": rows_product_numba, "jax": compressed_product_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        elements_product,
        compressed,
        ((20, 2), (500, 20), (20_000, 20)),
        {"numba": rows_product_numba, "jax": compressed_product_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        scattered_product,
        coordinates,
        ((5, 2), (30_000, 20), (300_000, 20)),
        {"numba": scattered_product_numba, "jax": scattered_product_jax},
    ),
    Program(
        page_rank,
        links,
        ((20, 2, 18), (5000, 8, 20), (100_000, 8, 20)),
        {"numba": page_rank_numba, "jax": page_rank_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        table_lookup,
        lambda rng, n, m: (np.sin(np.linspace(0, 3, m)), rng.random(n)),
        ((10, 8), (200_000, 1024), (8_000_000, 1024)),
    ),
    Program(
        scatter_add,
        lambda rng, n, m: (rng.standard_normal(n), rng.integers(0, m, n), m),
        ((10, 4), (200_000, 5000), (20_000_000, 1_000_000)),
        {"numba": scatter_add_numba, "jax": scatter_add_jax, "torch": "np.add.at breaks its graph"},
    ),
)
