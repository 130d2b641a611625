"""Functions and methods that write to arrays and attributes, called in native loops: Python never does what was done again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import check
from tests.native_loops.random.methods import draw_program
from tests.native_loops.test_native_loops import agrees, native_loops
from tests.random_programs import check_examples

rng = np.random.default_rng(3)


def exchange(x, i, j):
    x[i], x[j] = x[j], x[i]


def sorted_by_exchanges(x):
    for i in range(x.size):
        for j in range(x.size - 1 - i):
            if x[j] > x[j + 1]:
                exchange(x, j, j + 1)
    return x


def counted(x, counts):
    def add(k, v):
        counts[k] += v
        return k

    last = 0
    for i in range(x.size):
        last = add(int(x[i] * 10), 1) + i
    return last, counts


def limited(x, low, high):
    def limit(i):
        if x[i] < low:
            x[i] = low
        elif x[i] > high:
            x[i] = high

    for i in range(x.size):
        limit(i)
        x[i] = x[i] * 2 + x[i - 1]
    return x


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (sorted_by_exchanges, (rng.random(50),)),
        (counted, (rng.random(60), np.zeros(10, int))),
        (counted, (rng.random(60), np.zeros(10, np.uint8))),
        (counted, (rng.random(60) * 2, np.zeros(10))),
        (limited, (rng.random(60), 0.25, 0.75)),
    ],
)
def test_functions_that_write(program: Any, arguments: tuple[Any, ...]) -> None:
    agrees(program, *arguments)


def test_a_function_that_fails_after_it_has_written() -> None:
    def both(x, y, i):
        x[i] += 1
        y[i] += x[i]

    def program(x, y):
        for i in range(x.size):
            both(x, y, i)

    compiled = npc.compile(program)
    for size in (30, 20, 40):
        ours, theirs = [np.ones(30), np.zeros(size)], [np.ones(30), np.zeros(size)]
        errors = []
        for function, arrays in ((compiled, ours), (program, theirs)):
            try:
                function(*arrays)
                errors.append("")
            except IndexError as error:
                errors.append(str(error))
        assert errors[0] == errors[1]
        assert all(np.array_equal(a, b) for a, b in zip(ours, theirs))


def test_methods_that_write_and_count() -> None:
    class Tally:
        def __init__(self, n):
            self.seen, self.total, self.most = np.zeros(n, np.int64), 0, 0.0

        def note(self, k, v):
            self.total += 1
            if v > self.most:
                self.most = v
            self.seen[k] = self.total
            return self.most

    def program(x, n):
        tally, last = Tally(n), 0.0
        for i in range(x.size):
            last = last * 0.5 + tally.note(i % n, x[i])
        return last, tally.seen, tally.total, tally.most

    compiled = npc.compile(program)
    x = rng.random(80)
    for n in (5, 7, 80):
        for ours, theirs in zip(compiled(x, n), program(x, n)):
            assert type(ours) is type(theirs) and np.array_equal(ours, theirs)
    assert native_loops(compiled)


def test_random_functions_that_write() -> None:
    check_examples(draw_program, check, "cpu", 8)
