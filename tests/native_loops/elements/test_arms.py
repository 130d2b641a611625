"""Branches whose arms only compute numbers are choices in strips; an arm that is not taken does no harm."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import fired, passes
from tests.native_loops.test_native_loops import agrees
from tests.native_loops.vectors.test_bands import same_with

rng = np.random.default_rng(15)
WAITS = "each iteration would wait for the one before it"
LETTERS = rng.integers(0, 3, 60), rng.integers(0, 3, 75)


def longest_common(a, b):
    L = np.zeros((a.size + 1, b.size + 1), np.int64)
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            if a[i - 1] == b[j - 1]:
                L[i, j] = L[i - 1, j - 1] + 1
            else:
                L[i, j] = max(L[i - 1, j], L[i, j - 1])
    return L


def scores(a, b):
    S = np.zeros((a.size + 1, b.size + 1))
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            match = 2.0 if a[i - 1] == b[j - 1] else -1.0
            S[i, j] = max(S[i - 1, j - 1] + match, S[i - 1, j] - 0.5, S[i, j - 1] - 0.5)
    return S


def paths(P, free):
    for i in range(1, P.shape[0]):
        for j in range(1, P.shape[1]):
            if free[i, j] > 0:
                P[i, j] = P[i - 1, j] + P[i, j - 1]
    return P, i


def best_of(x, low, at):
    best, place = x[0], 0
    for k in range(len(x)):
        if x[k] > best:
            best = x[k]
            place = k
        if x[k] < low:
            low = x[k] * 2
        else:
            at += 1
    return best, place, low, at


def neighbours(x, y, n):
    for k in range(n):
        if k > 0:
            y[k] = y[k] + x[k - 1]
        if k < n - 1:
            y[k] = y[k] - x[k + 1]
    return y


def gathered(x, places, total):
    for k in range(len(places)):
        if places[k] < len(x):
            total = total + x[places[k]]
    return total


def negated(x, total):
    for k in range(len(x)):
        if not x[k] > 0.5:
            total = total - x[k]
        else:
            total = total * 0.5
    return total


def guarded_sum(x, y):
    s = x[0]
    for k in range(len(x)):
        if y[k] != 0:
            s = s + x[k] * y[k]
    return s


def clipped(x, y, high):
    for k in range(len(x)):
        if x[k] > high:
            y[k] = 1
        else:
            y[k] = x[k]
    return y


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int8])
def test_arms_that_store_numbers_of_several_types(dtype):
    x = (rng.random(300) * 9).astype(dtype)
    compiled = agrees(clipped, x, np.zeros(300, dtype), 4)
    assert dtype is not np.int64 or fired(compiled, "if-conversion")


def test_tables_whose_cells_branch_are_bands():
    assert fired(agrees(longest_common, *LETTERS), "wavefront in lanes")
    assert fired(agrees(scores, *LETTERS), "wavefront in lanes")
    agrees(paths, np.ones((30, 40)), rng.integers(0, 4, (30, 40)))
    for program in (longest_common, scores):
        compiled = npc.compile(program)
        for n, m in ((2, 2), (9, 3), (8, 40), (33, 29), (1, 60)):
            same_with(compiled, program, LETTERS[0][:n], LETTERS[1][:m])


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.float32])
def test_numbers_that_are_chosen(dtype):
    x = (rng.standard_normal(500) * 20).astype(dtype)
    tried = passes(agrees(best_of, x, x[3], 0), "if-conversion").values()
    assert tried and all(p.fired for p in tried)
    agrees(best_of, x[::-3], x[3], np.int64(4))
    agrees(negated, x, x[0])
    agrees(guarded_sum, x, np.arange(500).astype(dtype) % 3)


def test_arms_that_are_not_taken():
    x, y = rng.random(300), rng.random(300)
    compiled = npc.compile(neighbours)
    for n in (300, 2, 1, 17, 300):
        same_with(compiled, neighbours, x, y, n)
    agrees(gathered, x, rng.integers(0, 600, 900), 0.0)
    big = np.full(300, np.iinfo(np.int64).max)
    agrees(guarded_sum, big, np.zeros(300, np.int64))
    agrees(guarded_sum, big, np.arange(300) // 299)
    huge = np.full(300, 1e308)
    agrees(guarded_sum, huge, np.where(np.arange(300) % 7, 0.0, 1e-5))
    agrees(guarded_sum, huge, np.where(np.arange(300) % 70, 0.0, 1e5))
    agrees(guarded_sum, np.full(300, np.nan), y)


@pytest.mark.parametrize("value", [np.inf, np.nan, -np.inf, 1.7e308])
def test_cells_that_fail(value):
    compiled = npc.compile(paths)
    for place in ((0, 3), (1, 1), (8, 20), (29, 39), (0, 0)):
        P, free = rng.random((30, 40)), rng.integers(0, 3, (30, 40))
        P[place] = value
        same_with(compiled, paths, P, free)


def positions(x, y):
    least, most = 0, 0
    for k in range(x.size):
        if x[k] < x[least]:
            least = k
        if not y[k] <= y[most]:
            most = k
    return least, most


def larger_child(x, k):
    while 2 * k + 1 < x.size:
        child = 2 * k + 1
        if child + 1 < x.size:
            if x[child] < x[child + 1]:
                child += 1
        k = child
    return k


def test_the_place_of_an_extreme_is_no_choice():
    """The next iteration would wait for the element at the place that this one chooses."""
    for x in (rng.integers(0, 1000, 200), rng.standard_normal(200), np.array([3.0, np.nan, 1.0, np.inf, -np.inf, 0.0])):
        for first, second in ((x, x), (np.sort(x), x[::-1].copy())):
            tried = passes(agrees(positions, first, second), "if-conversion").values()
            assert [p.why_not for p in tried] == [WAITS, WAITS]
    assert WAITS not in [p.why_not for p in passes(agrees(larger_child, rng.integers(0, 1000, 200), 0), "if-conversion").values()]
