"""Nests of loops over single elements, whose outermost iterations do not depend on each other."""

from __future__ import annotations

import inspect

import numpy as np

from benchmarks.case import Function
from benchmarks.programs import simulation
from benchmarks.programs.program import BY_ELEMENTS, UNROLLED, Program, Version


def product_by_elements(A, B):
    """Matrix product by three loops."""
    n, m = A.shape[0], B.shape[1]
    C = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total
    return C


def mandelbrot_by_pixels(re, im, steps):
    """Mandelbrot set, each pixel until it leaves."""
    count = np.zeros((im.size, re.size), np.int32)
    for i in range(im.size):
        for j in range(re.size):
            x = y = 0.0
            k = 0
            while k < steps and x * x + y * y < 4:
                x, y = x * x - y * y + re[j], 2 * x * y + im[i]
                k += 1
            count[i, j] = k
    return count


def distances_by_pairs(x):
    """Distances of all pairs of points, each pair once."""
    n = x.shape[0]
    D = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            total = 0.0
            for k in range(x.shape[1]):
                total += (x[i, k] - x[j, k]) ** 2
            D[i, j] = D[j, i] = np.sqrt(total)
    return D


def on_threads(function: Function) -> Version:
    """For Numba: the same source, with its prange for the outermost range."""

    def make() -> Function:
        import numba

        space = {"np": np, "prange": numba.prange}
        exec(inspect.getsource(function).replace("in range(", "in prange(", 1), space)
        return space[function.__name__]

    return make


def product_jax() -> Function:
    return lambda A, B: A @ B


def mandelbrot_jax() -> Function:
    import jax.numpy as jnp

    of_points = simulation.mandelbrot_jax()
    return lambda re, im, steps: of_points(*jnp.broadcast_arrays(re, im[:, None]), steps)


def distances_jax() -> Function:
    import jax.numpy as jnp

    return lambda x: jnp.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))


def matrices(rng, n):
    return rng.standard_normal((n, n)), rng.standard_normal((n, n))


def axes(rng, n, steps):
    return np.linspace(-2.0, 0.6, n), np.linspace(-1.3, 1.3, n), steps


PROGRAMS = (
    Program(
        product_by_elements,
        matrices,
        ((5,), (50,), (150,)),
        {"numba": on_threads(product_by_elements), "jax": product_jax, "torch": UNROLLED},
        is_loop=True,
    ),
    Program(
        mandelbrot_by_pixels,
        axes,
        ((5, 20), (50, 50), (200, 50)),
        {"numba": on_threads(mandelbrot_by_pixels), "jax": mandelbrot_jax, "torch": BY_ELEMENTS},
        unlike=1e-3,
        is_loop=True,
    ),
    Program(
        distances_by_pairs,
        lambda rng, n, m: (rng.standard_normal((n, m)),),
        ((6, 3), (100, 3), (600, 3)),
        {"numba": on_threads(distances_by_pairs), "jax": distances_jax, "torch": UNROLLED},
        is_loop=True,
    ),
)
