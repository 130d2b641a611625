"""Lists of numbers, and of tuples of them, that native loops make, append to, take from, go over, and return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(12)
N = 300
VECTOR = rng.standard_normal(N)
COUNTS = rng.integers(-5, 50, N)
GRID = (rng.random((24, 24)) > 0.4).astype(np.int64)


def peaks(x):
    out = []
    for i in range(1, len(x) - 1):
        if x[i] > x[i - 1] and x[i] > x[i + 1]:
            out.append(i)
    return out


def positive(x):
    out = []
    for v in x:
        if v > 0:
            out.append(v * 2)
    return np.array(out), len(out)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "u1", "u8", "b1"])
def test_appended(dtype):
    x = (np.abs(VECTOR) * 10).astype(dtype)
    agrees(peaks, x)
    agrees(positive, x, loops=dtype not in ("b1", "i2", "u1", "u8"))


@pytest.mark.parametrize("function", [peaks, positive])
def test_nothing_appended(function):
    agrees(function, np.full(N, -1.0))
    agrees(function, np.full(N, -1))


def test_lists_that_grow_are_one_program():
    compiled = npc.compile(peaks)
    for n in (100, 1000, 30000):
        x = rng.standard_normal(n)
        assert compiled(x) == peaks(x)
    assert native_loops(compiled) == 1


def areas(grid):
    n, m = grid.shape
    seen = np.zeros((n, m), np.int64)
    label = 0
    for i in range(n):
        for j in range(m):
            if grid[i, j] and not seen[i, j]:
                label += 1
                stack = [(i, j)]
                while stack:
                    a, b = stack.pop()
                    if a < 0 or b < 0 or a >= n or b >= m:
                        continue
                    if not grid[a, b] or seen[a, b]:
                        continue
                    seen[a, b] = label
                    stack.append((a + 1, b))
                    stack.append((a - 1, b))
                    stack.append((a, b + 1))
                    stack.append((a, b - 1))
    return seen, label


def layers(grid):
    """Breadth first, with two lists that change their names."""
    n, m = grid.shape
    distance = np.full(n * m, -1)
    distance[0] = 0
    border, steps = [0], 0
    while len(border) > 0:
        following = []
        steps += 1
        for v in border:
            i, j = v // m, v % m
            if i + 1 < n and distance[v + m] < 0 and grid[i + 1, j]:
                distance[v + m] = steps
                following.append(v + m)
            if j + 1 < m and distance[v + 1] < 0 and grid[i, j + 1]:
                distance[v + 1] = steps
                following.append(v + 1)
        border = following
    return distance, steps, border


def queue(grid):
    waiting, order = [0], []
    seen = np.zeros(grid.size, np.bool_)
    while waiting:
        v = waiting.pop(0)
        if seen[v]:
            continue
        seen[v] = True
        order.append(v)
        for step in (1, 24, 5):
            if v + step < grid.size and grid[(v + step) // 24, (v + step) % 24]:
                waiting.append(v + step)
    return order, waiting


@pytest.mark.parametrize("function", [areas, layers, queue])
def test_stacks_and_queues(function):
    agrees(function, GRID, loops=function is not queue)


def next_greater(x):
    stack = [0]
    found = np.full(len(x), -1)
    for i in range(1, len(x)):
        while stack and x[stack[-1]] < x[i]:
            found[stack.pop()] = i
        stack.append(i)
    return found, stack


def filled(x, n):
    counts = [0] * n
    for i in range(len(x)):
        counts[x[i]] += 1
    counts[-1] += 100
    total = 0
    for c in counts:
        total = total * 3 % 1009 + c
    return counts, total, sum(counts), max(counts), min(counts), any(counts), len(counts)


def smoothed(x):
    out = [x[0]]
    for i in range(1, len(x)):
        out.append(out[i - 1] * 0.5 + x[i])
        out[-1] = out[-1] / 2
    return np.array(out), out[0], out


def two_names(x):
    out = []
    same = out
    for i in range(len(x)):
        same.append(x[i])
        if len(out) > 5:
            out.clear()
            same.extend([x[i], x[i]])
    return len(out), np.asarray(same)


def points(x):
    found = []
    for i in range(len(x)):
        if x[i] > 0:
            found.append((i, i + 1))
    total = 0
    for a, b in found:
        total = total * 2 % 1013 + a * b
    return total, found[-1], np.array(found), found


def weights(x):
    w = [0.25, 0.5, 0.25]
    out = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        for k in range(3):
            out[i] += w[k] * x[i + k - 1]
    return out


@pytest.mark.parametrize("function", [next_greater, smoothed, two_names, points, weights])
def test_programs(function):
    agrees(function, VECTOR)


@pytest.mark.parametrize("n", [50, 60, 0, 20, -3])
def test_a_list_of_equal_numbers(n):
    agrees(filled, COUNTS, n, loops=n > 40)


def taken_too_often(x):
    stack = [1.5]
    for i in range(len(x)):
        stack.append(float(x[i]))
        if i % 3 == 0:
            stack.pop()
            stack.pop()
    return stack


def outside(x, k):
    out = []
    for i in range(len(x)):
        out.append(i)
        if i > 100:
            out[k] = 7
    return out


def warned(x):
    out = [x[0]]
    for i in range(1, len(x)):
        out.append(out[-1] * x[i])
    return out, np.array(out)


def test_errors_and_warnings():
    agrees(taken_too_often, VECTOR)
    for k in (0, 100, -101, 5000, -5000):
        agrees(outside, VECTOR, k)
    agrees(warned, np.full(N, 1e30))
    agrees(warned, np.full(N, 100, np.int8), loops=0)


def several_types(x, first):
    out = [first]
    for i in range(len(x)):
        out.append(x[i])
    return out


def changing(x, seen):
    out = []
    for i in range(len(x)):
        out.append(x[i])
        if i == 200:
            seen.append(out)  # the list is Python's from here on
    return out


def in_the_middle(x):
    stack = [1, 2]
    total = 0
    for i in range(len(x)):
        stack.append(i)
        total += stack.pop() * 100 // (i % 50 - stack[0] * 60) + len(stack)
        stack.append(stack.pop() + 1)
    return total, stack


def shared(x):
    out = []
    for i in range(len(x)):
        out.append(i)
    return out, out


def nested(x):
    rows = []
    for i in range(10):
        row = []
        for j in range(10):
            row.append(x[i * 10 + j])
        rows.append(row)
    return np.array(rows), rows


def kept_lists(x):
    """Lists of one instruction that are in use together."""
    before, last = [0.0], [0.0]
    for i in range(len(x)):
        before, last = last, []
        for j in range(3):
            last.append(x[i] + before[j % len(before)])
        if i > 250:
            before.append(x[0])
    return before, last


@pytest.mark.parametrize("first", [1.5, 2, True, np.float64(3), np.float32(1), None, "text"])
def test_several_types(first):
    agrees(several_types, VECTOR, first, loops=0)


@pytest.mark.parametrize("function", [in_the_middle, shared, nested, kept_lists])
def test_lists_that_are_used_otherwise(function):
    agrees(function, VECTOR, loops=0)


def test_a_list_that_others_get():
    def run(x):
        seen: list[Any] = []
        out = changing(x, seen)
        return out, seen, seen[0] is out

    agrees(run, VECTOR, loops=0)


def test_an_empty_list_that_leaves():
    def run(x, k):
        out = []
        for i in range(len(x)):
            y = 10 // (i - k)
            if i > k:
                out.append(y)
        return out

    for k in (-1, 0, 100, 299, 300):
        agrees(run, VECTOR, k, loops=0)


def under_two_names(n):
    a = b = []
    for i in range(n):
        a.append(i)
        if i % 3 == 0:
            b.append(-i)
    return a, b, a is b


def with_a_name_in_an_expression(n):
    pair = (b := [1]), 2
    for i in range(n):
        b.append(i)
    return pair, b, pair[0] is b


def under_three_names(n):
    a = b = c = [1.5]
    b = [2.5]
    for i in range(n):
        a.append(i * 0.5)
        b.append(i * 1.5)
        c[0] += b[-1]
    return a, b, c, a is c


def equal_numbers_under_two_names(n):
    a = b = [0.5] * n
    for i in range(n):
        a[i] += i
        b[0] -= 1
    return a, b, a is b


@pytest.mark.parametrize(
    "function", [under_two_names, with_a_name_in_an_expression, under_three_names, equal_numbers_under_two_names]
)
def test_one_list_under_several_names(function):
    agrees(function, 40)
