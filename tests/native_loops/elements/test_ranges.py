"""Ranges in native loops whose step is computed: of either sign, changed by the loop, zero, or too large."""

from __future__ import annotations

import math

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import outcome, same
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(8)
N = 400
VECTOR = rng.standard_normal(N)


def merge_sort(x):
    n = len(x)
    a, b, width = x.copy(), np.empty_like(x), 1
    while width < n:
        for first in range(0, n, 2 * width):
            middle, last = min(first + width, n), min(first + 2 * width, n)
            p, q = first, middle
            for k in range(first, last):
                if p < middle and (q >= last or a[p] <= a[q]):
                    b[k] = a[p]
                    p += 1
                else:
                    b[k] = a[q]
                    q += 1
        a, b = b, a
        width *= 2
    return a


def butterflies(re, im):
    half = 1
    while half < len(re):
        for first in range(0, len(re), 2 * half):
            for j in range(half):
                c, s = math.cos(-math.pi * j / half), math.sin(-math.pi * j / half)
                p, q = first + j, first + j + half
                real, imaginary = re[q] * c - im[q] * s, re[q] * s + im[q] * c
                re[q], im[q] = re[p] - real, im[p] - imaginary
                re[p] += real
                im[p] += imaginary
        half *= 2
    return re, im


def sieve(n):
    is_prime = np.ones(n + 1, dtype=bool)
    is_prime[:2] = False
    i = 2
    while i * i <= n:
        if is_prime[i]:
            for j in range(i * i, n + 1, i):
                is_prime[j] = False
        i += 1
    return is_prime


def strided(x, start, stop, step):
    total, last = 0.0, -1
    for i in range(start, stop, step):
        total = total / 2 + x[i]
        last = i
    return total, last


def pairs(x, step):
    total = 0.0
    for i, (j, v) in enumerate(zip(range(0, 4 * step, step), x)):
        total += i * v - j
    return total


@pytest.mark.parametrize("n", [37, 64])
def test_merge_sort(n):
    agrees(merge_sort, rng.standard_normal(n))


def test_stages_of_a_fourier_transform():
    agrees(butterflies, rng.standard_normal(32), rng.standard_normal(32))


def test_sieve():
    agrees(sieve, 200)


@pytest.mark.parametrize("step", [1, 3, 7, 60, -1, -4, True, np.int64(5), np.int8(-3), np.uint8(2)])
@pytest.mark.parametrize("start, stop", [(0, N), (N - 1, 0), (3, 300), (5, 5)])
def test_a_step_that_is_given(start, stop, step):
    agrees(strided, VECTOR, start, stop, step, loops=len(range(start, stop, step)) > 64)


def test_any_step_is_one_program():
    compiled = npc.compile(strided)
    for step in (1, 2, -1, 7, -5, 3, 11, 2**61 - 1):
        for start, stop in ((0, N), (N - 1, -1)):
            assert same(compiled(VECTOR, start, stop, step), strided(VECTOR, start, stop, step))
    assert native_loops(compiled) == 1


@pytest.mark.parametrize("step", [0, 2**61 + 1, -(2**62), 2**63 - 1, 2**70, 1.5, np.float64(2.0), np.uint64(2)])
def test_steps_that_python_has_to_take(step):
    agrees(strided, VECTOR, 1, 40, step, loops=0)
    compiled = npc.compile(strided)
    compiled(VECTOR, 0, 40, 2)
    assert same(outcome(compiled, strided, [VECTOR, 1, 40, step]), outcome(strided, strided, [VECTOR, 1, 40, step]))


@pytest.mark.parametrize("start, stop", [(-(2**62), 2**62), (2**62, -(2**62)), (2**62 - 3, 2**62), (0, 2**63)])
@pytest.mark.parametrize("step", [2**61 - 1, 2**60, -(2**59)])
def test_ranges_about_as_long_as_integers_are(start, stop, step):
    agrees(counted, start, stop, step, loops=0)


def counted(start, stop, step):
    total = 0
    for i in range(start, stop, step):
        total = total // 2 + i // 4
    return total


@pytest.mark.parametrize("step", [3, -3])
def test_zip_and_enumerate(step):
    agrees(pairs, VECTOR, step)


def left(x, step, seen):
    total = 0.0
    for i in range(len(x) - 1 if step < 0 else 0, -1 if step < 0 else len(x), step):
        total += x[i]
        if i % 3 == 0:
            seen.append((i, total))  # it is a list of Python's, so each time the loop is left
    return total


@pytest.mark.parametrize("step", [2, -2, 9])
def test_a_loop_that_goes_on_in_python(step):
    def run(x, step):
        seen = []
        return left(x, step, seen), seen

    agrees(run, VECTOR, step, loops=0)


def overflowing(x, step):
    total = np.int8(0)
    for i in range(0, 200 * step, step):
        total = total + x[i % 400]
    return total


@pytest.mark.parametrize("step", [1, 2, 5, -1])
def test_a_warning_in_the_middle(step):
    agrees(overflowing, np.full(N, 100, np.int8), step)


def neighbours(cells, out):
    rows, columns = cells.shape
    for i in range(rows):
        for j in range(columns):
            count = 0
            for di in (-1, 0, 1):
                for dj in [1, 0, -1]:
                    if di == 0 and dj == 0:
                        continue
                    count += cells[(i + di) % rows, (j + dj) % columns]
            out[i, j] = count
    return di, dj


def reached(x, out):
    last = None
    for i in range(len(x)):
        for step in (4, 2, 0):
            out[i] = x[i + step]
            last = i, step
            if x[i] < -2:
                break
        else:
            out[i] += 1
    return last


def halves(x):
    total = 0
    for i in range(len(x)):
        for weight in (1, 2, 4):  # no range: one form or another, the same numbers
            total += weight * x[i]
        for flag in (False, True):
            total += flag * x[i]
    return total


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8])
def test_tuples_that_are_ranges(dtype):
    cells = rng.integers(0, 2, (20, 30)).astype(dtype)
    agrees(neighbours, cells, np.zeros_like(cells))


@pytest.mark.parametrize("n", [0, 3, 4, 5, 40])
def test_a_tuple_whose_loop_ends_with_an_error(n):
    agrees(reached, rng.standard_normal(n), np.zeros(n), loops=n > 4)


def test_tuples_that_are_none():
    agrees(halves, rng.integers(0, 9, 100), loops=0)


def test_integers_that_a_tuple_hands_over():
    def run(x, seen):
        for i in range(len(x)):
            for k in (5, 3, 1):
                seen.append((i, k, type(k)))
                x[i] += k
        return seen

    x, y = np.zeros(80, np.int64), np.zeros(80, np.int64)
    assert npc.compile(run)(x, []) == run(y, [])
    assert np.array_equal(x, y)
