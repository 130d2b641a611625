"""Factorizations of matrices by explicit loops."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import UNROLLED, Program


def cholesky(A):
    """Cholesky, column by column."""
    n = A.shape[0]
    L = np.zeros_like(A)
    for j in range(n):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


def cholesky_elements(A):
    """Cholesky, element by element."""
    n = A.shape[0]
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i):
            L[i, j] = (A[i, j] - np.dot(L[i, :j], L[j, :j])) / L[j, j]
        L[i, i] = np.sqrt(A[i, i] - np.dot(L[i, :i], L[i, :i]))
    return L


def lu(A):
    """LU without pivoting: rank-one updates of what is left."""
    A = A.copy()
    for k in range(A.shape[0] - 1):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return A


def lu_pivoted(A):
    """LU with partial pivoting."""
    A = A.copy()
    order = np.arange(A.shape[0])
    for k in range(A.shape[0] - 1):
        p = k + np.argmax(np.abs(A[k:, k]))
        if p != k:
            A[[k, p]] = A[[p, k]]
            order[[k, p]] = order[[p, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= A[k + 1 :, k, None] * A[k, k + 1 :]
    return A, order


def gram_schmidt(A):
    """Modified Gram-Schmidt: Q and R."""
    n = A.shape[1]
    Q, R = A.copy(), np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(np.sum(Q[:, k] ** 2))
        Q[:, k] /= R[k, k]
        for j in range(k + 1, n):
            R[k, j] = Q[:, k] @ Q[:, j]
            Q[:, j] -= R[k, j] * Q[:, k]
    return Q, R


def cholesky_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def factor(A):
        n = A.shape[0]

        def column(j, L):  # rows above the diagonal stay 0
            s = A[:, j] - L @ L[j]
            d = jnp.sqrt(s[j])
            return L.at[:, j].set(jnp.where(jnp.arange(n) > j, s / d, jnp.where(jnp.arange(n) == j, d, 0)))

        return lax.fori_loop(0, n, column, jnp.zeros_like(A))

    return factor


def lu_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def factor(A):
        places = jnp.arange(A.shape[0])

        def step(k, A):
            factors = jnp.where(places > k, A[:, k] / A[k, k], 0)
            A = A - jnp.outer(factors, jnp.where(places > k, A[k], 0))
            return A.at[:, k].set(jnp.where(places > k, factors, A[:, k]))

        return lax.fori_loop(0, A.shape[0] - 1, step, A)

    return factor


def lu_pivoted_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def factor(A):
        places = jnp.arange(A.shape[0])

        def step(k, state):
            A, order = state
            p = jnp.argmax(jnp.where(places >= k, jnp.abs(A[:, k]), -1))
            A = A.at[k].set(A[p]).at[p].set(A[k])
            order = order.at[k].set(order[p]).at[p].set(order[k])
            factors = jnp.where(places > k, A[:, k] / A[k, k], 0)
            A = A - factors[:, None] * jnp.where(places > k, A[k], 0)
            return A.at[:, k].set(jnp.where(places > k, factors, A[:, k])), order

        return lax.fori_loop(0, A.shape[0] - 1, step, (A, places))

    return factor


def gram_schmidt_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def factor(A):
        n = A.shape[1]

        def column(k, state):
            Q, R = state
            length = jnp.sqrt(jnp.sum(Q[:, k] ** 2))
            q = Q[:, k] / length
            later = jnp.where(jnp.arange(n) > k, q @ Q, 0)
            Q = (Q - q[:, None] * later).at[:, k].set(q)
            return Q, R.at[k].set(later.at[k].set(length))

        return lax.fori_loop(0, n, column, (A, jnp.zeros((n, n))))

    return factor


def lu_pivoted_numba() -> Function:
    def factor(A):
        A = A.copy()
        order = np.arange(A.shape[0])
        for k in range(A.shape[0] - 1):
            p = k + np.argmax(np.abs(A[k:, k]))
            if p != k:
                for j in range(A.shape[1]):
                    A[k, j], A[p, j] = A[p, j], A[k, j]
                order[k], order[p] = order[p], order[k]
            A[k + 1 :, k] /= A[k, k]
            A[k + 1 :, k + 1 :] -= A[k + 1 :, k].copy().reshape(-1, 1) * A[k, k + 1 :]
        return A, order

    return factor


def positive(rng, n):
    A = rng.standard_normal((n, n))
    return (A @ A.T / n + np.eye(n),)


def general(rng, n):
    return (rng.standard_normal((n, n)),)


PROGRAMS = (
    Program(
        cholesky,
        positive,
        ((20,), (200,), (1200,)),
        {"jax": cholesky_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        cholesky_elements,
        positive,
        ((18,), (100,), (500,)),
        {"jax": cholesky_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        lu,
        lambda rng, n: (rng.random((n, n)) + n * np.eye(n),),
        ((18,), (150,), (600,)),
        {"jax": lu_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        lu_pivoted,
        general,
        ((5,), (150,), (600,)),
        {"numba": lu_pivoted_numba, "jax": lu_pivoted_jax, "torch": UNROLLED},
        relative_error=1e-8,
        is_loop=True,
    ),
    Program(
        gram_schmidt,
        lambda rng, n, m: (rng.standard_normal((n, m)),),
        ((20, 18), (100, 60), (500, 300)),
        {"jax": gram_schmidt_jax, "torch": UNROLLED},
        relative_error=1e-9,
        is_loop=True,
    ),
)
