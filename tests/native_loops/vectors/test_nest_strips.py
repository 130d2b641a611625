"""Loops that have short loops inside are strips as a whole: nothing is left of those that fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import compiled_once, counts, fired, passes
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(17)


def convolution(x, w):
    out = np.zeros((x.shape[0] - w.shape[0] + 1, x.shape[1] - w.shape[1] + 1), x.dtype)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = 0.0
            for a in range(w.shape[0]):
                for b in range(w.shape[1]):
                    total += x[i + a, j + b] * w[a, b]
            out[i, j] = total
    return out


def added_in_place(x, w):
    out = np.zeros((x.shape[0] - 2, x.shape[1] - 2))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for a in range(3):
                for b in range(3):
                    out[i, j] += x[i + a, j + b] * w[a, b]
    return out


def clamped(x, r):
    h, w = x.shape
    out = np.zeros((h, w))
    for i in range(h):
        for j in range(w):
            s = 0.0
            for di in range(-r, r + 1):
                for dj in range(-r, r + 1):
                    s += x[min(max(i + di, 0), h - 1), min(max(j + dj, 0), w - 1)]
            out[i, j] = s / (2 * r + 1) ** 2
    return out


def nearest(X, Q):
    out = np.zeros(Q.shape[0], np.int64)
    for i in range(Q.shape[0]):
        best, at = np.inf, 0
        for j in range(X.shape[0]):
            d = 0.0
            for k in range(X.shape[1]):
                t = X[j, k] - Q[i, k]
                d += t * t
            if d < best:
                best, at = d, j
        out[i] = at
    return out


def forces(pos, mass):
    acc = np.zeros(pos.shape)
    for i in range(pos.shape[0]):
        for j in range(pos.shape[0]):
            if i != j:
                r2 = 0.0
                for k in range(3):
                    r2 += (pos[j, k] - pos[i, k]) ** 2
                for k in range(3):
                    acc[i, k] += (pos[j, k] - pos[i, k]) * mass[j] / (r2 * np.sqrt(r2))
    return acc


def escapes(re, im, steps):
    count = np.zeros((im.size, re.size), np.int32)
    for i in range(im.size):
        for j in range(re.size):
            x = y = 0.0
            k = 0
            while k < steps and x * x + y * y < 4:
                x, y = x * x - y * y + re[j], 2 * x * y + im[i]
                k += 1
            count[i, j] = k
    return count, k, x


def first_above(x, limit):
    out = np.full(x.shape[0], -1)
    last = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            last = x[i, j]
            if last > limit:
                out[i] = j
                break
            if last < -limit:
                return out, i, j
    return out, last


def backwards(x, m):
    out = np.zeros(x.size)
    for i in range(x.size):
        for k in range(m, -1, -1):
            out[i] = out[i] * 0.5 + x[i - k]
    return out


def behind_the_loop(x, n):
    out = np.zeros(x.shape[0])
    k = 1
    for i in range(x.shape[0]):
        for k in range(n):
            out[i] += x[i, k]
        out[i] -= x[i, k]
    return out, k


def of_other_lengths(x, starts):
    out = np.zeros(starts.size - 1)
    for i in range(starts.size - 1):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += x[k]
        out[i] = total
    return out


def counted(x):
    total = 0
    for i in range(x.shape[0]):
        for k in range(3):
            total += x[i, k]
    return total


def quotients(x):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        s = 1.0
        for k in range(3):
            s = s / x[i, k]
        out[i] = s
    return out


def scattered(x, places):
    out = np.zeros(8)
    for i in range(places.shape[0]):
        for k in range(2):
            out[places[i, k]] += x[i]
    return out


GRID = rng.random((30, 40))
POINTS = rng.standard_normal((50, 3))
WEIGHTS = rng.standard_normal((3, 3))
PLACES = rng.integers(-8, 8, (60, 2))


def changed(x, place, value):
    x = x.copy()
    x[place] = value
    return x


CASES = pytest.mark.parametrize(
    ("user", "arguments"),
    [
        (convolution, (GRID, WEIGHTS)),
        (convolution, (GRID, rng.random((7, 2)))),
        (convolution, (GRID, np.zeros((0, 2)))),
        (convolution, (GRID, np.zeros((2, 0)))),
        (convolution, (GRID.astype("f4"), WEIGHTS.astype("f4"))),
        (convolution, (GRID.astype("f4"), WEIGHTS)),
        (convolution, (changed(GRID, (12, 30), np.inf), WEIGHTS)),
        (convolution, (changed(GRID, (12, 30), 1e308), WEIGHTS * 100)),
        (convolution, (changed(GRID, (12, 30), np.nan), WEIGHTS)),
        (added_in_place, (GRID, WEIGHTS)),
        (added_in_place, (changed(GRID, (20, 13), 1e308), WEIGHTS * 9)),
        (added_in_place, (GRID, WEIGHTS[:2])),
        (clamped, (GRID, 2)),
        (clamped, (GRID, 0)),
        (nearest, (POINTS, POINTS[::-1] + 0.1)),
        (nearest, (changed(POINTS, (30, 1), 1e200), POINTS)),
        (forces, (POINTS, rng.random(50))),
        (forces, (changed(POINTS, 20, POINTS[10]), rng.random(50))),
        (escapes, (np.linspace(-2, 0.6, 30), np.linspace(-1, 1, 20), 40)),
        (escapes, (np.linspace(-2, 0.6, 30), np.linspace(-1, 1, 20), 0)),
        (escapes, (changed(np.linspace(-2, 0.6, 30), 11, 1e200), np.linspace(-1, 1, 20), 40)),
        (first_above, (GRID, 0.8)),
        (first_above, (changed(GRID, (21, 3), -1.0), 0.8)),
        (first_above, (GRID, 2.0)),
        (backwards, (GRID[0], 3)),
        (backwards, (GRID[0], 60)),
        (behind_the_loop, (GRID, 5)),
        (behind_the_loop, (GRID, 0)),
        (behind_the_loop, (GRID, 41)),
        (of_other_lengths, (GRID.ravel(), np.cumsum(rng.integers(0, 9, 60)))),
        (of_other_lengths, (GRID.ravel(), np.array([0, 5, 3, 1000, 1300]))),
        (counted, (rng.integers(0, 9, (50, 3)),)),
        (counted, (changed(rng.integers(0, 9, (50, 3)), (30, 1), 2**63 - 1),)),
        (quotients, (rng.random((50, 3)) + 1,)),
        (quotients, (changed(rng.random((50, 3)) + 1, (33, 2), 0.0),)),
        (scattered, (rng.random(60), PLACES)),
        (scattered, (rng.random(60), changed(PLACES, (40, 1), 8))),
    ],
)


@CASES
def test_nothing_is_left_of_strips_that_fail(user, arguments):
    agrees(user, *arguments)


@CASES
@pytest.mark.usefixtures("at_once")
def test_the_same_on_threads(user, arguments):
    agrees(user, *arguments)


@pytest.mark.parametrize(
    ("user", "arguments"),
    [
        (convolution, (GRID, WEIGHTS)),
        (clamped, (GRID, 2)),
        (nearest, (POINTS, POINTS)),
        (forces, (POINTS, rng.random(50))),
        (escapes, (np.linspace(-2, 0.6, 30), np.linspace(-1, 1, 20), 40)),
    ],
)
def test_short_loops_are_in_the_strip_of_the_loop_around(user, arguments):
    compiled = npc.compile(user)
    compiled(*arguments)
    assert passes(compiled, "vectorize the outer loop"), "no strip has loops inside"
    assert fired(compiled, "speculation")


@pytest.mark.parametrize(("user", "arguments", "nest"), [(convolution, (GRID, WEIGHTS), 3), (clamped, (GRID, 2), 4)])
def test_what_is_known_of_each_iteration_is_not_counted_in_it(user, arguments, nest):
    compiled = compiled_once(user, *arguments)
    assert fired(compiled, "undo by iteration", nest), "places are known before the strip"
    assert fired(compiled, "iterations counted before a strip", nest)


def test_stores_in_loops_inside_are_noted_one_by_one():
    compiled = compiled_once(forces, POINTS, rng.random(50))
    assert not fired(compiled, "undo by iteration")


def test_few_iterations_are_a_strip_where_there_are_loops_inside():
    assert counts(compiled_once(convolution, GRID, WEIGHTS), "iterations of the shortest strip") == [2, 4]  # the last: no loops


@pytest.mark.parametrize(("user", "arguments"), [(forces, (POINTS, rng.random(50))), (quotients, (rng.random((50, 3)) + 1,))])
def test_what_threads_run_and_the_loop_as_it_is_share_their_strips(user, arguments):
    assert fired(compiled_once(user, *arguments), "one function for two copies of a loop")


def test_a_sum_that_begins_as_a_float_of_python_is_one_loop():
    assert counts(compiled_once(convolution, GRID, WEIGHTS), "loops inside a strip") == [2]


def of_several_types(A, B, M, n, p, q):
    s, t, k = 1.5, 1, 0
    for i in range(n - 1, 2, -p):
        s = 100
    for i in range(1, n):
        s = (p + t) if p < M[-i - 1, k] <= s else (M[i, k] < A[0] <= i)
        for j in range(2, -2, -2):
            t = B[i - 1] if not q else math.isnan(A[i])


def test_nests_whose_variables_have_several_types():
    """Each combination has strips of its own."""
    x, y = rng.standard_normal(23), rng.standard_normal(23).astype(np.float32)
    agrees(of_several_types, x, y, rng.integers(-10, 10, (23, 23)), 22, 3, "text")
