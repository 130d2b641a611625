"""Stencils with a time loop: one, two and three dimensions, slices, rolls, sweeps in place."""

from __future__ import annotations

import numpy as np

from benchmarks.case import Function
from benchmarks.programs.program import BY_ELEMENTS, Program
from benchmarks.programs.steps import jax_steps, torch_steps


def heat_1d(u, steps):
    """Heat equation on a line, in place."""
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def jacobi_2d(u, steps):
    """Five-point Jacobi iteration with two arrays."""
    a, b = u.copy(), u.copy()
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a, b = b, a
    return a


def heat_3d(u, steps):
    """Seven-point stencil in three dimensions."""
    u = u.copy()
    for _ in range(steps):
        c = u[1:-1, 1:-1, 1:-1]
        u[1:-1, 1:-1, 1:-1] = c + 0.1 * (
            u[:-2, 1:-1, 1:-1]
            + u[2:, 1:-1, 1:-1]
            + u[1:-1, :-2, 1:-1]
            + u[1:-1, 2:, 1:-1]
            + u[1:-1, 1:-1, :-2]
            + u[1:-1, 1:-1, 2:]
            - 6 * c
        )
    return u


def wave_2d(u, v, steps):
    """Wave equation on a torus, with np.roll: displacement and velocity."""
    for _ in range(steps):
        lap = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        v = v + 0.2 * lap
        u = u + v
    return u, v


def advection(u, steps):
    """Upwind advection on a ring."""
    for _ in range(steps):
        u = u - 0.4 * (u - np.roll(u, 1))
    return u


def shallow_water(h, u, v, steps):
    """Shallow water on a torus: height and two velocities."""
    for _ in range(steps):
        u = u - 0.05 * (np.roll(h, -1, 1) - np.roll(h, 1, 1))
        v = v - 0.05 * (np.roll(h, -1, 0) - np.roll(h, 1, 0))
        hu, hv = h * u, h * v
        h = h - 0.05 * (np.roll(hu, -1, 1) - np.roll(hu, 1, 1) + np.roll(hv, -1, 0) - np.roll(hv, 1, 0))
    return h, u, v


def life(cells, steps):
    """Game of life on int8, neighbours by slices."""
    cells = cells.copy()
    for _ in range(steps):
        n = (
            cells[:-2, :-2]
            + cells[:-2, 1:-1]
            + cells[:-2, 2:]
            + cells[1:-1, :-2]
            + cells[1:-1, 2:]
            + cells[2:, :-2]
            + cells[2:, 1:-1]
            + cells[2:, 2:]
        )
        alive = cells[1:-1, 1:-1] == 1
        cells[1:-1, 1:-1] = (n == 3) | (alive & (n == 2))
    return cells


def gauss_seidel(u, sweeps):
    """Gauss-Seidel sweeps, element by element, in place."""
    rows, columns = u.shape
    for _ in range(sweeps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def heat_1d_step_jax(u):
    return u.at[1:-1].add(0.25 * (u[:-2] - 2 * u[1:-1] + u[2:]))


def heat_1d_step(u):
    u = u.copy()
    u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def jacobi_2d_step_jax(a):
    return a.at[1:-1, 1:-1].set(0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]))


def jacobi_2d_step(a):
    b = a.copy()
    b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return b


def jacobi_2d_numba() -> Function:
    import numba

    def loops(u, steps):
        a, b = u.copy(), u.copy()
        for _ in range(steps):
            for i in numba.prange(1, a.shape[0] - 1):
                for j in range(1, a.shape[1] - 1):
                    b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
            a, b = b, a
        return a

    return loops


def heat_3d_step_jax(u):
    c = u[1:-1, 1:-1, 1:-1]
    z = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    y = u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    x = u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    return u.at[1:-1, 1:-1, 1:-1].add(0.1 * (z + y + x - 6 * c))


def heat_3d_step(u):
    c = u[1:-1, 1:-1, 1:-1]
    z = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    y = u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    x = u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    u = u.copy()
    u[1:-1, 1:-1, 1:-1] += 0.1 * (z + y + x - 6 * c)
    return u


def wave_2d_numba() -> Function:
    import numba

    def loops(u, v, steps):
        n, m = u.shape
        u, v = u.copy(), v.copy()
        for _ in range(steps):
            for i in numba.prange(n):
                for j in range(m):
                    v[i, j] += 0.2 * (u[i - 1, j] + u[(i + 1) % n, j] + u[i, j - 1] + u[i, (j + 1) % m] - 4 * u[i, j])
            u += v
        return u, v

    return loops


def wave_2d_step(np):
    def step(u, v):
        v = v + 0.2 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
        return u + v, v

    return step


def shallow_water_numba() -> Function:
    import numba

    def loops(h, u, v, steps):
        n, m = h.shape
        h, u, v = h.copy(), u.copy(), v.copy()
        new = np.empty_like(h)
        for _ in range(steps):
            for i in numba.prange(n):
                for j in range(m):
                    u[i, j] -= 0.05 * (h[i, (j + 1) % m] - h[i, j - 1])
                    v[i, j] -= 0.05 * (h[(i + 1) % n, j] - h[i - 1, j])
            for i in numba.prange(n):
                down = (i + 1) % n
                for j in range(m):
                    right = (j + 1) % m
                    across = h[i, right] * u[i, right] - h[i, j - 1] * u[i, j - 1]
                    new[i, j] = h[i, j] - 0.05 * (across + h[down, j] * v[down, j] - h[i - 1, j] * v[i - 1, j])
            h, new = new, h
        return h, u, v

    return loops


def shallow_water_step(np):
    def step(h, u, v):
        u = u - 0.05 * (np.roll(h, -1, 1) - np.roll(h, 1, 1))
        v = v - 0.05 * (np.roll(h, -1, 0) - np.roll(h, 1, 0))
        hu, hv = h * u, h * v
        h = h - 0.05 * (np.roll(hu, -1, 1) - np.roll(hu, 1, 1) + np.roll(hv, -1, 0) - np.roll(hv, 1, 0))
        return h, u, v

    return step


def advection_step(np):
    return lambda u: u - 0.4 * (u - np.roll(u, 1))


def neighbours(c):
    rows = c[:-2] + c[1:-1] + c[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:] - c[1:-1, 1:-1]


def life_step_jax(cells):
    n = neighbours(cells)
    alive = cells[1:-1, 1:-1] == 1
    return cells.at[1:-1, 1:-1].set(((n == 3) | (alive & (n == 2))).astype(cells.dtype))


def life_step(cells):
    n = neighbours(cells)
    alive = cells[1:-1, 1:-1] == 1
    cells = cells.copy()
    cells[1:-1, 1:-1] = (n == 3) | (alive & (n == 2))
    return cells


def life_numba() -> Function:
    import numba

    def loops(cells, steps):
        cells, new = cells.copy(), cells.copy()
        for _ in range(steps):
            for i in numba.prange(1, cells.shape[0] - 1):
                for j in range(1, cells.shape[1] - 1):
                    n = cells[i - 1, j - 1] + cells[i - 1, j] + cells[i - 1, j + 1] + cells[i, j - 1] + cells[i, j + 1]
                    n += cells[i + 1, j - 1] + cells[i + 1, j] + cells[i + 1, j + 1]
                    new[i, j] = n == 3 or (n == 2 and cells[i, j] == 1)
            cells, new = new, cells
        return cells

    return loops


def gauss_seidel_jax() -> Function:
    from jax import lax

    def iterate(u, sweeps):
        rows, columns = u.shape

        def point(k, u):
            i, j = 1 + k // (columns - 2), 1 + k % (columns - 2)
            return u.at[i, j].set(0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]))

        inside = (rows - 2) * (columns - 2)
        return lax.fori_loop(0, sweeps, lambda _, u: lax.fori_loop(0, inside, point, u), u)

    return iterate


def numpy_of_jax():
    import jax.numpy

    return jax.numpy


def plane(rng, n, steps):
    return rng.standard_normal((n, n)), steps


def by_steps(jax_step, torch_step, numba=None):
    versions = {"jax": lambda: jax_steps(jax_step), "torch": lambda: torch_steps(torch_step)}
    return versions | ({"numba": numba} if numba else {})


def by_rolls(make, numba=None):
    versions = {"jax": lambda: jax_steps(make(numpy_of_jax())), "torch": lambda: torch_steps(make(np))}
    return versions | ({"numba": numba} if numba else {})


PROGRAMS = (
    Program(
        heat_1d,
        lambda rng, n, steps: (rng.standard_normal(n), steps),
        ((20, 20), (10_000, 500), (200_000, 500)),
        by_steps(heat_1d_step_jax, heat_1d_step),
        is_loop=True,
    ),
    Program(
        jacobi_2d,
        plane,
        ((8, 20), (250, 100), (1000, 100)),
        by_steps(jacobi_2d_step_jax, jacobi_2d_step, jacobi_2d_numba),
        is_loop=True,
    ),
    Program(
        heat_3d,
        lambda rng, n, steps: (rng.standard_normal((n, n, n)), steps),
        ((6, 20), (40, 50), (120, 20)),
        by_steps(heat_3d_step_jax, heat_3d_step),
        is_loop=True,
    ),
    Program(
        wave_2d,
        lambda rng, n, steps: (rng.standard_normal((n, n)), np.zeros((n, n)), steps),
        ((6, 18), (150, 50), (600, 50)),
        by_rolls(wave_2d_step, wave_2d_numba),
        is_loop=True,
    ),
    Program(
        advection,
        lambda rng, n, steps: (rng.random(n), steps),
        ((20, 20), (5_000, 500), (100_000, 500)),
        by_rolls(advection_step),
        is_loop=True,
    ),
    Program(
        shallow_water,
        lambda rng, n, steps: (1 + 0.1 * rng.random((n, n)), np.zeros((n, n)), np.zeros((n, n)), steps),
        ((6, 2), (120, 50), (500, 50)),
        by_rolls(shallow_water_step, shallow_water_numba),
        is_loop=True,
    ),
    Program(
        life,
        lambda rng, n, steps: (rng.integers(0, 2, (n, n), dtype=np.int8), steps),
        ((10, 20), (300, 100), (1500, 100)),
        by_steps(life_step_jax, life_step, life_numba),
        is_loop=True,
    ),
    Program(
        gauss_seidel,
        plane,
        ((6, 2), (60, 10), (250, 10)),
        {"jax": gauss_seidel_jax, "torch": BY_ELEMENTS},
        mutates=(0,),
        is_loop=True,
    ),
)
