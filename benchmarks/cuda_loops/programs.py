"""The programs: plain loops, the same in NumPy's whole arrays, and arguments of a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from tests.cuda import loop_programs as loops

RNG = np.random.default_rng(5)


@dataclass(frozen=True)
class Program:
    function: FunctionType
    in_numpy: Callable[..., Any]  # gives what is compared
    arguments: Callable[[int], tuple[Any, ...]]
    size: int
    small: int  # for tests
    compared: int | None = None  # the argument that is compared; None: the result

    @property
    def name(self) -> str:
        return self.function.__name__

    def outcome(self, result: Any, arguments: Sequence[Any]) -> Any:
        return result if self.compared is None else arguments[self.compared]


def mandelbrot(xs, ys, out, most):
    c = xs[None, :] + 1j * ys[:, None]
    z, count, inside = np.zeros_like(c), np.zeros(c.shape, int), np.ones(c.shape, bool)
    for _ in range(most):
        inside &= z.real**2 + z.imag**2 <= 4.0
        if not inside.any():
            break
        count += inside
        z = np.where(inside, z * z + c, z)
    return count


def bodies(x, v, dt):
    apart = x[None] - x[:, None]
    weights = ((apart**2).sum(2) + 1e-3) ** -1.5
    return x + dt * (v + dt * (apart * weights[:, :, None]).sum(1))


def early_exercise(z, s0, strike, rate, drift, vol, barrier, out):
    s, paid, alive = np.full(len(z), s0), np.zeros(len(z)), np.ones(len(z), bool)
    for t in range(z.shape[1]):
        s = np.where(alive, s * np.exp(drift + vol * z[:, t]), s)
        ends = alive & (s < barrier)
        paid[ends] = (strike - s[ends]) * np.exp(-rate * (t + 1))
        alive &= ~ends
    return paid


def warping(a, b):
    before = np.full((len(a), b.shape[1] + 1), np.inf)
    before[:, 0] = 0.0
    for i in range(a.shape[1]):
        row = np.full_like(before, np.inf)
        cost = np.abs(a[:, i, None] - b)
        least = np.minimum(before[:, :-1], before[:, 1:])
        for j in range(b.shape[1]):
            row[:, j + 1] = cost[:, j] + np.minimum(least[:, j], row[:, j])
        before = row
    return before[:, -1]


def sparse_product(data, columns, starts, x):
    rows = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    return np.bincount(rows, data * x[columns], starts.size - 1)


def histogram(x, bins, parts, out):
    return np.bincount(bins, minlength=out.size)


def life(a, b, steps):
    for _ in range(steps):
        around = sum(np.roll(a, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        a = ((around == 3) | ((around == 2) & (a == 1))).astype(a.dtype)
    return a


def lu(a):
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k, k + 1 :]
    return a


def shortest_paths(d, row, column):
    d = d.copy()
    for k in range(len(d)):
        np.minimum(d, d[:, k, None] + d[None, k], out=d)
    return d


def heat(u, v, steps):
    u, v = u.copy(), v.copy()
    for _ in range(steps):
        inner = u[1:-1, 1:-1]
        v[1:-1, 1:-1] = inner + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner)
        u, v = v, u
    return u


def smoothing(x, alpha, out):
    """NumPy has no whole-array form of it: Python's loop over a list, the quickest without other packages."""
    s, found = 0.0, []
    for each in x.tolist():
        s = alpha * each + (1 - alpha) * s
        found.append(s)
    return np.array(found)


def edit_distance(a, b, before, row):
    before, places = np.arange(b.size + 1), np.arange(b.size + 1)
    for i in range(a.size):
        best = np.minimum(before[:-1] + (a[i] != b), before[1:] + 1)
        row = np.concatenate([[i + 1], best])
        before = np.minimum.accumulate(row - places) + places
    return before[b.size]


def grid(n: int) -> tuple[Any, ...]:
    return np.linspace(-2.0, 0.6, n), np.linspace(-1.2, 1.2, n), np.zeros((n, n), int), 200


def paths(n: int) -> tuple[Any, ...]:
    return RNG.standard_normal((n, 100)), 1.0, 1.0, 0.001, 0.0002, 0.03, 0.9, np.zeros(n)


def sparse(n: int) -> tuple[Any, ...]:
    counts = RNG.integers(0, 65, n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return RNG.random(starts[-1]), RNG.integers(0, n, starts[-1]), starts, RNG.random(n)


def counted(n: int) -> tuple[Any, ...]:
    return RNG.random(n), RNG.integers(0, 64, n), np.zeros((min(n, 4096), 64), int), np.zeros(64, int)


def words(n: int) -> tuple[Any, ...]:
    return RNG.integers(0, 4, n), RNG.integers(0, 4, n), np.zeros(n + 1, int), np.zeros(n + 1, int)


def square(n: int) -> np.ndarray:
    return RNG.random((n, n))


PROGRAMS = (
    Program(loops.mandelbrot, mandelbrot, grid, 1000, 12, 2),
    Program(loops.bodies, bodies, lambda n: (RNG.random((n, 3)), RNG.random((n, 3)), 0.01), 4096, 9, 0),
    Program(loops.early_exercise, early_exercise, paths, 100_000, 20, 7),
    Program(loops.warping, warping, lambda n: (RNG.random((n, 100)), RNG.random((n, 100))), 2048, 3),
    Program(loops.sparse_product, sparse_product, sparse, 100_000, 20),
    Program(loops.histogram, histogram, counted, 4_000_000, 500, 3),
    Program(loops.edit_distance, edit_distance, words, 2000, 15),
    Program(loops.life, life, lambda n: (RNG.integers(0, 2, (n, n)), np.zeros((n, n), int), 50), 1000, 7),
    Program(loops.lu, lu, lambda n: (square(n) + n * np.eye(n),), 1000, 9, 0),
    Program(loops.shortest_paths, shortest_paths, lambda n: (square(n), np.zeros(n), np.zeros(n)), 1000, 9, 0),
    Program(loops.heat, heat, lambda n: (square(n), square(n), 100), 2048, 8),
    Program(loops.smoothing, smoothing, lambda n: (RNG.random(n), 0.3, np.zeros(n)), 1_000_000, 30, 2),
)
