"""Linear systems: tridiagonal, alternating directions, triangular, conjugate gradients, power iteration."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import BY_ELEMENTS, UNROLLED, Program


def tridiagonal(lower, diagonal, upper, right):
    """Tridiagonal system, element by element."""
    n = right.size
    c, d, x = np.empty(n), np.empty(n), np.empty(n)
    c[0] = upper[0] / diagonal[0]
    d[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / pivot
        d[i] = (right[i] - lower[i] * d[i - 1]) / pivot
    x[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


def alternating_directions(u, steps):
    """Implicit heat equation by alternating directions: tridiagonal sweeps of rows, then of columns."""
    n = u.shape[0]
    c, v = np.zeros(n), np.zeros((n, n))
    for _ in range(steps):
        for _ in range(2):
            c[0] = -0.25
            v[:, 0] = u[:, 0] / 2
            for j in range(1, n):
                pivot = 2 + 0.5 * c[j - 1]
                c[j] = -0.5 / pivot
                v[:, j] = (u[:, j] + 0.5 * v[:, j - 1]) / pivot
            for j in range(n - 2, -1, -1):
                v[:, j] -= c[j] * v[:, j + 1]
            u = v.T.copy()
    return u


def triangular_solve(L, B):
    """Lower triangular system with many right sides, row by row."""
    X = np.empty_like(B)
    for i in range(L.shape[0]):
        X[i] = (B[i] - L[i, :i] @ X[:i]) / L[i, i]
    return X


def back_substitution(U, b):
    """Upper triangular system, one right side."""
    n = b.size
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.dot(U[i, i + 1 :], x[i + 1 :])) / U[i, i]
    return x


def conjugate_gradients(A, b, tolerance):
    """Conjugate gradients until the residual is small."""
    x = np.zeros_like(b)
    r = b - A @ x
    p = r
    rr = r @ r
    while rr > tolerance:
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        new = r @ r
        p = r + (new / rr) * p
        rr = new
    return x


def power_iteration(A, v, steps):
    """Largest eigenvalue by repeated products."""
    for _ in range(steps):
        w = A @ v
        v = w / np.sqrt(w @ w)
    return v @ (A @ v), v


def tridiagonal_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def solve(lower, diagonal, upper, right):
        def forward(before, row):
            c, d = before
            a, b, u, r = row
            pivot = b - a * c
            after = (u / pivot, (r - a * d) / pivot)
            return after, after

        def backward(after, row):
            c, d = row
            x = d - c * after
            return x, x

        zero = jnp.zeros_like(right[0])
        _, (c, d) = lax.scan(forward, (zero, zero), (lower, diagonal, upper, right))
        return lax.scan(backward, zero, (c, d), reverse=True)[1]

    return solve


def alternating_directions_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def sweep(u):
        def forward(before, column):
            c, v = before
            pivot = 2 + 0.5 * c
            after = (-0.5 / pivot, (column + 0.5 * v) / pivot)
            return after, after

        def backward(after, row):
            c, v = row
            x = v - c * after
            return x, x

        zero = jnp.zeros(u.shape[0])
        _, (c, v) = lax.scan(forward, (jnp.zeros(()), zero), u.T)
        return lax.scan(backward, zero, (c, v), reverse=True)[1]

    return lambda u, steps: lax.fori_loop(0, 2 * steps, lambda _, u: sweep(u), u)


def triangular_solve_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def solve(L, B):
        def row(i, X):  # rows of X that are not known yet are 0
            return X.at[i].set((B[i] - L[i] @ X) / L[i, i])

        return lax.fori_loop(0, L.shape[0], row, jnp.zeros_like(B))

    return solve


def back_substitution_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def solve(U, b):
        n = b.size

        def row(k, x):
            i = n - 1 - k
            return x.at[i].set((b[i] - U[i] @ x) / U[i, i])

        return lax.fori_loop(0, n, row, jnp.zeros_like(b))

    return solve


def conjugate_gradients_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def solve(A, b, tolerance):
        def step(state):
            x, r, p, rr = state
            Ap = A @ p
            alpha = rr / (p @ Ap)
            r = r - alpha * Ap
            new = r @ r
            return x + alpha * p, r, r + (new / rr) * p, new

        start = (jnp.zeros_like(b), b, b, b @ b)
        return lax.while_loop(lambda state: state[3] > tolerance, step, start)[0]

    return solve


def power_iteration_jax() -> Function:
    import jax.numpy as jnp
    from jax import lax

    def iterate(A, v, steps):
        def step(_, v):
            w = A @ v
            return w / jnp.sqrt(w @ w)

        v = lax.fori_loop(0, steps, step, v)
        return v @ (A @ v), v

    return iterate


def tridiagonal_inputs(rng, n):
    return rng.random(n), 4 + rng.random(n), rng.random(n), rng.standard_normal(n)


def lower_inputs(rng, n, columns):
    return np.tril(rng.random((n, n))) / n + 2 * np.eye(n), rng.standard_normal((n, columns))


def upper_inputs(rng, n):
    return np.triu(rng.random((n, n))) / n + 2 * np.eye(n), rng.standard_normal(n)


def positive_inputs(rng, n):
    A = rng.standard_normal((n, n)) / np.sqrt(n)
    return A @ A.T + 0.1 * np.eye(n), rng.standard_normal(n), 1e-16 * n


def power_inputs(rng, n, steps):
    A = rng.random((n, n)) + np.diag(np.arange(n) / 4)
    return A + A.T, np.ones(n), steps


PROGRAMS = (
    Program(
        tridiagonal,
        tridiagonal_inputs,
        ((20,), (10_000,), (300_000,)),
        {"jax": tridiagonal_jax, "torch": BY_ELEMENTS},
        is_loop=True,
    ),
    Program(
        alternating_directions,
        lambda rng, n, steps: (rng.random((n, n)), steps),
        ((4, 1), (100, 10), (500, 20)),
        {"jax": alternating_directions_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        triangular_solve,
        lower_inputs,
        ((20, 3), (300, 16), (2500, 128)),
        {"jax": triangular_solve_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        back_substitution,
        upper_inputs,
        ((20,), (800,), (6000,)),
        {"jax": back_substitution_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        conjugate_gradients,
        positive_inputs,
        ((6,), (300,), (2000,)),
        {"jax": conjugate_gradients_jax, "torch": "the number of steps is data: its graph breaks at every step"},
        relative_error=1e-6,  # of a sum that decides when to stop
        is_loop=True,
    ),
    Program(
        power_iteration,
        power_inputs,
        ((6, 20), (200, 100), (2000, 100)),
        {"jax": power_iteration_jax, "torch": UNROLLED},
        relative_error=1e-9,
        is_loop=True,
    ),
)
