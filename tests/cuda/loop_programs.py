"""Functions with loops over the elements of arrays: those whose iterations are independent, and time loops around such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

random = np.random.default_rng(0)


def mandelbrot(xs, ys, out, most):
    for i in range(ys.size):
        for j in range(xs.size):
            a = 0.0
            b = 0.0
            k = 0
            while k < most and a * a + b * b <= 4.0:
                a, b = a * a - b * b + xs[j], 2.0 * a * b + ys[i]
                k += 1
            out[i, j] = k


def bodies(x, v, dt):
    n = x.shape[0]
    for i in range(n):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(n):
            dx = x[j, 0] - x[i, 0]
            dy = x[j, 1] - x[i, 1]
            dz = x[j, 2] - x[i, 2]
            r = 1.0 / np.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
            w = r * r * r
            ax += dx * w
            ay += dy * w
            az += dz * w
        v[i, 0] += dt * ax
        v[i, 1] += dt * ay
        v[i, 2] += dt * az
    for i in range(n):
        for k in range(3):
            x[i, k] += dt * v[i, k]


def early_exercise(z, s0, strike, rate, drift, vol, barrier, out):
    """Each path ends where the barrier is crossed."""
    for p in range(z.shape[0]):
        s = s0
        paid = 0.0
        for t in range(z.shape[1]):
            s = s * np.exp(drift + vol * z[p, t])
            if s < barrier:
                paid = (strike - s) * np.exp(-rate * (t + 1))
                break
        out[p] = paid


def warping(a, b):
    """Dynamic time warping of pairs of series, two rows of the table at a time."""
    out = np.empty(a.shape[0])
    for p in range(a.shape[0]):
        before = np.full(b.shape[1] + 1, np.inf)
        row = np.full(b.shape[1] + 1, np.inf)
        before[0] = 0.0
        for i in range(a.shape[1]):
            row[0] = np.inf
            for j in range(b.shape[1]):
                least = before[j]
                if before[j + 1] < least:
                    least = before[j + 1]
                if row[j] < least:
                    least = row[j]
                row[j + 1] = abs(a[p, i] - b[p, j]) + least
            before, row = row, before
        out[p] = before[b.shape[1]]
    return out


def sparse_product(data, columns, starts, x):
    y = np.zeros(starts.size - 1)
    for r in range(starts.size - 1):
        s = 0.0
        for k in range(starts[r], starts[r + 1]):
            s += data[k] * x[columns[k]]
        y[r] = s
    return y


def histogram(x, bins, parts, out):
    """Each part of the data has counts of its own; then those of each bin are added."""
    size = (x.size + parts.shape[0] - 1) // parts.shape[0]
    for p in range(parts.shape[0]):
        for q in range(parts.shape[1]):
            parts[p, q] = 0
        for k in range(p * size, min(x.size, (p + 1) * size)):
            parts[p, bins[k]] += 1
    for q in range(parts.shape[1]):
        n = 0
        for p in range(parts.shape[0]):
            n += parts[p, q]
        out[q] = n


def life(a, b, steps):
    n, m = a.shape
    for t in range(steps):
        for i in range(n):
            for j in range(m):
                up = i - 1 if i > 0 else n - 1
                down = i + 1 if i < n - 1 else 0
                left = j - 1 if j > 0 else m - 1
                right = j + 1 if j < m - 1 else 0
                s = a[up, left] + a[up, j] + a[up, right] + a[i, left] + a[i, right] + a[down, left] + a[down, j]
                s += a[down, right]
                if s == 3 or (s == 2 and a[i, j] == 1):
                    b[i, j] = 1
                else:
                    b[i, j] = 0
        a, b = b, a
    return a


def lu(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


def shortest_paths(d, row, column):
    """Floyd and Warshall: what all pairs read in a step is kept aside."""
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            row[i] = d[k, i]
            column[i] = d[i, k]
        for i in range(n):
            for j in range(n):
                through = column[i] + row[j]
                if through < d[i, j]:
                    d[i, j] = through


def heat(u, v, steps):
    for t in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        u, v = v, u
    return u


def smoothing(x, alpha, out):
    s = 0.0
    for i in range(x.size):
        s = alpha * x[i] + (1 - alpha) * s
        out[i] = s
    return s


def edit_distance(a, b, before, row):
    m = b.size
    for j in range(m + 1):
        before[j] = j
    for i in range(a.size):
        row[0] = i + 1
        for j in range(m):
            best = before[j] + (0 if a[i] == b[j] else 1)
            if before[j + 1] + 1 < best:
                best = before[j + 1] + 1
            if row[j] + 1 < best:
                best = row[j] + 1
            row[j + 1] = best
        before, row = row, before
    return before[m]


def rows_then_total(x, y):
    """What all iterations have stored is read after the loop, and again before the next."""
    for i in range(x.size):
        y[i] = 2.0 * x[i]
    total = y[0] + y[x.size - 1]
    for i in range(x.size):
        y[i] = total + x[i]
    y[0] = y[1] + total
    return total, y[x.size - 1]


def scaled_row(a, k):
    row = a[k]
    for j in range(row.size):
        row[j] = row[j] * 0.5
    return row


def divided(x, place, out):
    """Python's division, which raises at a place."""
    for i in range(out.size):
        out[i] = x / (i - place)


def gathered(x, places, out):
    for i in range(places.size):
        out[i] = x[places[i]]


@dataclass(frozen=True)
class LoopProgram:
    function: FunctionType
    arguments: Callable[[int], tuple[Any, ...]]  # of a size
    loops: int  # that run on the threads of a device
    is_exact: bool = True  # does it call no function of the C library?

    @property
    def name(self) -> str:
        return self.function.__name__


def cells(n: int) -> np.ndarray:
    return random.integers(0, 2, (n, n + 1))


def sparse(n: int) -> tuple[np.ndarray, ...]:
    counts = random.integers(0, 5, n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return random.random(starts[-1]), random.integers(0, n, starts[-1]), starts, random.random(n)


def paths(n: int) -> tuple[Any, ...]:
    return random.standard_normal((n, 30)), 1.0, 1.0, 0.01, 0.0005, 0.05, 0.9, np.empty(n)


PROGRAMS = [
    LoopProgram(mandelbrot, lambda n: (np.linspace(-2, 1, n), np.linspace(-1, 1, n + 1), np.zeros((n + 1, n), int), 50), 1),
    LoopProgram(bodies, lambda n: (random.random((n, 3)), random.random((n, 3)), 0.1), 2),
    LoopProgram(early_exercise, paths, 1, is_exact=False),
    LoopProgram(warping, lambda n: (random.random((n, 8)), random.random((n, 9))), 1),
    LoopProgram(sparse_product, sparse, 1),
    LoopProgram(
        histogram,
        lambda n: (random.random(9 * n), random.integers(0, 10, 9 * n), np.zeros((4, 10), int), np.zeros(10, int)),
        2,
    ),
    LoopProgram(life, lambda n: (cells(n), np.zeros((n, n + 1), int), 3), 1),
    LoopProgram(lu, lambda n: (random.random((n, n)) + n * np.eye(n),), 2),
    LoopProgram(shortest_paths, lambda n: (random.random((n, n)), np.zeros(n), np.zeros(n)), 2),
    LoopProgram(heat, lambda n: (random.random((n, n + 2)), random.random((n, n + 2)), 3), 1),
    LoopProgram(rows_then_total, lambda n: (random.random(n + 1), np.zeros(n + 1)), 2),
    LoopProgram(scaled_row, lambda n: (random.random((n + 3, n)), 2), 1),
    LoopProgram(divided, lambda n: (3.0, n, np.zeros(n)), 1),
    LoopProgram(gathered, lambda n: (random.random(n), random.integers(-n, n, n), np.zeros(n)), 1),
]
SERIAL = [
    LoopProgram(smoothing, lambda n: (random.random(n), 0.3, np.zeros(n)), 0),
    LoopProgram(
        edit_distance,
        lambda n: (random.integers(0, 3, n), random.integers(0, 3, n + 1), np.zeros(n + 2, int), np.zeros(n + 2, int)),
        0,
    ),
]
# Arguments for which Python raises: some iterations have stored by then.
RAISING = [
    (divided, (3.0, 4, np.zeros(9))),
    (gathered, (random.random(5), np.array([0, 1, 4, 5, 2]), np.zeros(5))),
    (gathered, (random.random(5), np.array([0, 1, 4, 3, 2]), np.zeros(4))),
    (scaled_row, (random.random((2, 3)), 2)),
    (histogram, (random.random(9), np.array([0, 1, 2, 3, 2, 1, 0, 1, 2]), np.zeros((2, 3), int), np.zeros(3, int))),
    (lu, (random.random((5, 4)),)),
]
