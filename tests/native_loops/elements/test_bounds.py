"""Indices that sizes show to be within bounds are not tested, and those that are outside by one raise as Python's do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import outcome, passes, same
from tests.native_loops.test_native_loops import agrees, cloned

rng = np.random.default_rng(23)


def comparisons(compiled: Any) -> int:
    """How many indices are compared with sizes."""
    return len(passes(compiled, "bounds check elimination"))


def insertion_sort(x, more):
    a = x.copy()
    for i in range(1, len(a)):
        v = a[i]
        j = i - 1
        while j >= 0 and a[j] > v:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1 + more] = v
    return a


def bubble_sort(a, more):
    n = len(a)
    for i in range(n):
        for j in range(n - 1 - i + more):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]


def bisected(a, x):
    low, high = 0, len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


def sift(a, end):
    root = 0
    while True:
        child = 2 * root + 1
        if child >= a.size:
            break
        if child + 1 < a.size and a[child] < a[child + 1]:
            child += 1
        a[root], a[child] = a[child], a[root]
        root = child
    return root


def around(cells, steps):
    n, m = cells.shape
    out = np.zeros((n, m), cells.dtype)
    for i in range(n):
        for j in range(m):
            for k in range(-steps, steps + 1):
                out[i, j] += cells[(i + k) % n, (j - k) % m]
    return out


def found(text, pattern):
    n, m = len(text), len(pattern)
    count = 0
    for i in range(n - m + 1):
        j = 0
        while j < m and text[i + j] == pattern[j]:
            j += 1
        count += j == m
    return count


def turned(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[x.shape[0] - 1 - i] = x[i]
    return out


@pytest.mark.parametrize(
    "user, arguments, most",
    [
        (bisected, (np.arange(50), 17), 0),
        (sift, (rng.integers(0, 99, 60), 0), 2),  # the parent's: it is less than its child, which nothing says of it
        (around, (rng.integers(0, 3, (9, 12)), 1), 0),
        (found, (rng.integers(0, 2, 90), np.array([1, 0, 1])), 0),
    ],
)
def test_indices_that_are_within(user, arguments, most):
    assert comparisons(agrees(user, *arguments)) <= most


def sorted_without_test(x):
    a = x.copy()
    for i in range(1, len(a)):
        v, j = a[i], i
        while j > 0 and a[j - 1] > v:
            a[j] = a[j - 1]
            j -= 1
        a[j] = v
    return a


def test_sorting_and_turning():
    assert not comparisons(agrees(sorted_without_test, rng.standard_normal(80)))
    agrees(turned, rng.standard_normal(80))
    agrees(insertion_sort, rng.standard_normal(30), 0)
    agrees(bubble_sort, rng.standard_normal(30), 0)


def shifted(x, y, low, high):
    """Off by `low` and `high` at both ends."""
    n = len(x)
    total = 0
    i = n - 1 + high
    while i >= low:
        total = total + x[i]
        y[i] = total
        i -= 1
    return total


PROGRAM = """
def program(x, y, n):
    m = {size}
    total = 0
    z = np.zeros({made})
    i = {start}
    while i {sign} {stop}:
        {before}
        y[{index}] = total
        total = total + x[{other}] + i
        z[{third}] += 1
        {after}
    return total, z, i
"""
PLACES = ("i", "i - 1", "i + 1", "m - i", "m - 1 - i", "m - i - 2", "i // 2", "2 * i", "i % m", "(i + 1) % m",
          "(i + m) // 2", "min(i, m - 1)", "max(i, 0)", "max(i - 1, 0)", "min(i + 1, m)", "-i", "-i - 1",
          "(2 * i + 1) // 2", "2 * i + 1")  # fmt: skip
SIZES = (
    "len(x)",
    "x.shape[0]",
    "x.size",
    "n",
    "len(y) - 1",
    "min(len(x), len(y))",
    "max(len(x), n)",
    "len(x) // 2",
    "len(x) + 1",
)


def test_random_places_near_the_ends():
    """The same element raises, and the same ones have been written, when the index is outside by one."""
    draws = np.random.default_rng(29)

    def one_of(*texts: str) -> str:
        return texts[draws.integers(len(texts))]

    for _ in range(12):
        down = draws.integers(2)
        text = PROGRAM.format(
            size=one_of(*SIZES),
            made=one_of("m", "len(x)", "n", "m + 1", "x.shape"),
            start=one_of("m - 1", "m", "m - 2") if down else one_of("0", "1", "-1"),
            sign=one_of(">=", ">", "!=") if down else one_of("<", "<=", "!="),
            stop=one_of("0", "1", "-1") if down else one_of("m", "m - 1", "m + 1", "n"),
            before=one_of("pass", "pass", "if i + 1 >= m: break", "if not 0 <= i - 1: break") if down else "pass",
            index=one_of(*PLACES),
            other=one_of(*PLACES),
            third=one_of("i", "i - 1", "i + 1", "i // 2"),
            after="i -= 1\n        if i < -9: break" if down else "i += 1\n        if i > 99: break",
        )
        space: dict[str, Any] = {"np": np}
        exec(compile(text, "<places>", "exec"), space)
        user = space["program"]
        compiled = npc.compile(user)
        for n in (12, 11, 13, 1, 0, 12):
            arguments = [np.arange(n + 1.0)[: max(n, 1)], np.zeros(max(n, 1) + draws.integers(2)), n + int(draws.integers(-1, 2))]
            theirs, ours = (outcome(f, user, cloned(arguments)) for f in (user, compiled))
            assert all(map(same, ours, theirs)), text


@pytest.mark.parametrize("user", [insertion_sort, bubble_sort])
def test_an_index_that_is_outside_by_one(user):
    compiled = npc.compile(user)
    for more in (0, 1, -1, 0):
        for n in (20, 1, 2, 0):
            arguments = [rng.standard_normal(n), more]
            theirs, ours = (outcome(f, user, cloned(arguments)) for f in (user, compiled))
            assert all(map(same, ours, theirs))


@pytest.mark.parametrize("low, high", [(0, 0), (-1, 0), (0, 1), (-25, 0), (-21, 0), (-20, 0), (0, 2)])
def test_both_ends(low, high):
    agrees(shifted, rng.standard_normal(20), np.zeros(20), low, high, loops=0)


def lengths(x, keep):
    n = len(x)
    y = np.zeros(n)
    for i in range(n):
        if i == keep:
            y = np.zeros(n - 1)  # the variable has another array now
        y[i] = x[i]
    return y


def exchanged(x, y, steps):
    n = len(x)
    for _ in range(steps):
        for i in range(n):
            y[i] = x[i] + 1
        x, y = y, x
    return x


def grown(n, count):
    sizes = [0]
    total = 0
    for i in range(count):
        for k in range(len(sizes)):
            total += sizes[k]
        sizes.append(i)
        if len(sizes) == n:
            sizes.pop()
    return total


def test_arrays_that_change_their_names():
    for keep in (-1, 0, 19, 10):
        agrees(lengths, rng.standard_normal(20), keep, loops=0)
    for sizes in ((20, 20), (20, 21), (20, 19), (20, 3)):
        agrees(exchanged, *(rng.standard_normal(n) for n in sizes), 5, loops=0)
    agrees(grown, 9, 40, loops=0)
