"""Iterations that need what the one before has computed or stored, up to one that fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loops import speculation
from tests.native_loops.test_native_loops import agrees
from tests.native_loops.vectors.test_strips import with_last

rng = np.random.default_rng(4)
N = 40


def averages(x, y):
    for i in range(1, x.size):
        x[i] = 0.5 * (x[i - 1] + y[i])
    return x, i


def backward(x, y):
    for i in range(x.size - 2, -1, -1):
        x[i] = y[i] - x[i + 1] * x[i]
    return x, i


def read_again(x, y):
    for i in range(1, x.size):
        x[i] = x[i - 1] + y[i]
        y[i] = x[i - 1] * 2
        x[i - 1] = x[i] - y[i]
    return x, y


def far_apart(x, y):
    for i in range(2, x.size):
        x[i] = x[i - 2] - y[i - 1]
        y[i] = x[i] * y[i - 1]
    return x, y


def eliminated(c, d):
    for i in range(1, c.size):
        pivot = 4 - d[i] * c[i - 1]
        c[i] = c[i] / pivot
        d[i] = (d[i] - d[i - 1]) / pivot
    return c, d, pivot


def least_steps(D, a, b):
    for i in range(1, D.shape[0]):
        for j in range(1, D.shape[1]):
            D[i, j] = min(D[i - 1, j - 1] + (a[i] != b[j]), D[i - 1, j] + 1, D[i, j - 1] + 1)
    return D


def warped(D, a, b):
    for i in range(1, D.shape[0]):
        for j in range(1, D.shape[1]):
            D[i, j] = abs(a[i - 1] - b[j - 1]) + min(D[i - 1, j - 1], D[i - 1, j], D[i, j - 1])
    return D


def parities(flags, x):
    for i in range(1, x.size):
        flags[i] = flags[i - 1] ^ (x[i] > 0)
    return flags


def states(table, letters, out):
    state, steps = 0, 0
    for k in range(letters.size):
        state = table[state ^ int(letters[k])]
        steps = steps * 3 + state
        out[k] = state
    return state, steps, out


def rows_product(y, x, values, columns, starts):
    for i in range(y.size):
        for j in range(starts[i], starts[i + 1]):
            y[i] += values[j] * x[columns[j]]
    return y


def looked_up(x, y, m):
    for j in range(1, x.size):
        x[j] = min(x[j - 1] + y[m - 1], y[m - 1] + x[j])
    return x


def smoothed(A, w):
    for i in range(1, A.shape[0]):
        for j in range(1, A.shape[1] - 1):
            A[i, j] = A[i, j - 1] * 0.25 + A[i - 1, j - 1] + A[i - 1, j] * w[j + 1] - A[i - 1, j + 1] + w[j - 1] / w[j]
    return A


def crossing(x, y, A):
    s = x[0]
    for i in range(x.size - 3, 1, -1):
        s = s * 0.5 + x[i + 1] - x[i] + y[i] - y[i + 1]
        A[i, 1] = s + A[i + 1, 0] - A[i, 0]
        y[i - 1] = A[i + 1, 0] + s
        A[i - 1, 0] = y[i]
    return A, s


def counted(x, most):
    steps = 0
    for i in range(1, x.size):
        x[i] = (x[i - 1] - x[i]) * 3
        steps += int(x[i] > 0) * most
    return x, steps


ONES = np.ones(N)
MIXED = rng.standard_normal(N)
LARGEST = np.iinfo(np.int64).max
LETTERS = rng.integers(0, 4, N).astype(np.uint8)
TABLE = rng.permutation(16)
COLUMNS = rng.integers(0, 8, 64)
STARTS = np.array([0, 3, 20, 20, 47, 64])
STEPS = np.add.outer(np.arange(N), np.arange(N))
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    *((f, (x, ONES * 0.5)) for f in (averages, backward, read_again, far_apart, eliminated) for x in (MIXED, MIXED[::2].copy())),
    *(
        (f, (MIXED.astype(d), with_last(ONES, v, d)))
        for f in (averages, backward, read_again, far_apart, eliminated)
        for d, large in (("f8", 1.7e308), ("f4", 3.3e38))
        for v in (np.nan, np.inf, large)
    ),
    (averages, (np.full(2 * N, 1e308)[::2], np.full(N, 1e308))),
    (eliminated, (with_last(ONES, 0), with_last(ONES, 4))),
    *((least_steps, (STEPS + v, LETTERS, LETTERS[::-1])) for v in (0, -50, LARGEST - 2 * N + 10, LARGEST - 2 * N + 2)),
    (least_steps, (np.where(STEPS == 57, LARGEST, STEPS), LETTERS, LETTERS[::-1])),
    *((warped, (np.where(STEPS, v, 0), MIXED, with_last(MIXED, w))) for v in (np.inf, 1e308) for w in (0.5, np.nan, np.inf)),
    (parities, (np.arange(N, dtype=np.uint8).view(np.bool_), MIXED)),
    *((states, (TABLE, with_last(LETTERS, v, "u1"), np.zeros(N, "i4"))) for v in (1, 16)),
    (states, (TABLE.astype(np.int16), LETTERS, np.zeros(N, np.uint8))),
    *((rows_product, (np.zeros(5), MIXED[:8], rng.random(64), with_last(COLUMNS, v, "i8"), STARTS)) for v in (7, 8, -1, -9)),
    (rows_product, (np.zeros(5), MIXED[:8], with_last(np.ones(64), np.inf), COLUMNS, STARTS)),
    *((looked_up, (with_last(np.arange(N), v, "i8"), np.arange(N), m)) for v in (3, LARGEST - 2) for m in (3, N + 1)),
    *((smoothed, (rng.random((12, n)), with_last(rng.random(n) + 0.5, v))) for n in (7, N) for v in (1, 0, np.nan)),
    (smoothed, (rng.random((N, 30)).T[::-1], rng.random(N) + 0.5)),
    *((crossing, (MIXED, with_last(MIXED, v), rng.random((N, 2)))) for v in (1, np.inf)),
    *((counted, (rng.integers(-9, 9, n), m)) for n in (20, N) for m in (1, 2**62)),
]


@pytest.mark.parametrize("program, arguments", CASES, ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(CASES)])
def test_recurrences(program, arguments, monkeypatch):
    agrees(program, *arguments)
    monkeypatch.setattr(speculation, "LENGTH", 4)
    monkeypatch.setattr(speculation, "LONGEST", 7)
    agrees(program, *arguments)
