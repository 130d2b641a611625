"""Arrays whose names a loop exchanges are arrays with elements in the loops inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import fired, without_loop_ir
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(11)
GRID = rng.random((40, 70))


def heat(u, steps):
    a, b = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = a[i, j] + 0.1 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1] - 4 * a[i, j])
        a, b = b, a
    return a, b


def one_array_under_two_names(x, steps):
    a, b = x.copy(), np.zeros(x.size)
    for t in range(steps):
        if t == 2:
            b = a
        for i in range(1, a.size):
            b[i] = a[i - 1] + 1
        a, b = b, a
    return a, b, a is b


def of_three(x, steps):
    old, now, new = x.copy(), x.copy(), np.zeros(x.size)
    for t in range(steps):
        for i in range(1, x.size - 1):
            new[i] = 2 * now[i] - old[i] + 0.1 * (now[i - 1] - 2 * now[i] + now[i + 1])
        old, now, new = now, new, old
        now[0] = t
    return old, now, new


def made_in_each(x, steps):
    a = x.copy()
    kept = []
    for t in range(steps):
        b = np.zeros(x.size)
        for i in range(x.size):
            b[i] = a[i] * 0.5 + t
        a = b
    kept = a
    return a, kept


def with_statements(x, steps):
    a, b = x.copy(), x * 0
    for t in range(steps):
        b[:] = a * 0.5
        for i in range(1, x.size):
            b[i] += a[i - 1]
            a[i : i + 2] += 0.25
        a, b = b, a
    return a, b


def of_other_sizes(x, steps):
    a, total = x.copy(), 0.0
    for t in range(steps):
        for i in range(a.size):
            total += a[i]
        a = a[1:] * 2
    return a, total


def set_inside(x, steps):
    a, b = x.copy(), x * 2
    for t in range(steps):
        for i in range(1, x.size):
            for j in range(i):
                a[j] += b[i] - b[j]
            a, b = b, a
    return a, b


def outside(x, steps):
    a, b = x.copy(), x.copy()
    for t in range(steps):
        for i in range(x.size):
            b[i] = a[i + t - 2] / (a[i] - 0.5)
        a, b = b, a
    return a, b


def left_early(x, steps):
    a, b = x.copy(), x.copy()
    for t in range(steps):
        for i in range(1, x.size):
            b[i] = a[i] + b[i - 1]
            if b[i] > 20:
                break
        else:
            b[0] = -1
        a, b = b, a
        if a[1] > 5:
            return b, i
    return a, b


VECTOR = rng.random(50)
CASES = pytest.mark.parametrize(
    ("user", "arguments"),
    [
        *((heat, (GRID, steps)) for steps in (1, 5)),
        (heat, (np.where(GRID > 0.999, np.inf, GRID), 3)),
        (one_array_under_two_names, (VECTOR, 6)),
        (of_three, (VECTOR, 5)),
        (made_in_each, (VECTOR, 4)),
        (with_statements, (VECTOR, 5)),
        (of_other_sizes, (VECTOR, 9)),
        (set_inside, (VECTOR, 3)),
        (outside, (VECTOR, 2)),
        (outside, (np.where(VECTOR > 0.9, 0.5, VECTOR), 2)),
        (outside, (VECTOR, 4)),
        (left_early, (VECTOR, 5)),
        (left_early, (VECTOR * 3, 5)),
    ],
)


@CASES
def test_arrays_change_their_names(user, arguments):
    agrees(user, *arguments)


@CASES
@pytest.mark.usefixtures("at_once")
def test_arrays_change_their_names_between_loops_on_threads(user, arguments):
    agrees(user, *arguments)


@pytest.mark.parametrize("user", [heat, of_three])
def test_loops_over_their_elements_are_strips(user):
    arguments: tuple[Any, ...] = (GRID, 4) if user is heat else (VECTOR, 4)
    compiled = npc.compile(user)
    with without_loop_ir():
        compiled(*arguments)
    assert fired(compiled, "speculation")


def test_their_rows_run_on_threads():
    compiled = npc.compile(heat)
    compiled(GRID, 4)
    assert fired(compiled, "parallelize")


def kept_in_a_tuple(x, steps):
    a, b = x.copy(), x * 2
    pair = (a, b)
    for t in range(steps):
        for i in range(1, x.size):
            b[i] = a[i - 1] + 1
            pair = (b, a)
        a, b = b, a
        a[0] = pair[1][0]
    return a, b, pair


def test_they_may_stand_in_a_tuple():
    agrees(kept_in_a_tuple, VECTOR, 3)
