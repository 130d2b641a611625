"""Arrays that must not be written to are not, whatever view of them a loop writes to."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import cloned, outcome, same
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(4)


def whole(x, n):
    for k in range(2, n):
        x[k, k:] = 0.0


def transposed(x, n):
    for k in range(2, n):
        x.T[k, k:] = 0.0


def elements(x, n):
    for k in range(2, n):
        x.T[k, 0] = 0.0


def one_axis(x, n):
    for k in range(n):
        x.reshape(-1)[k] = x.ravel()[k + 1]


def in_place(x, n):
    for k in range(n):
        x[::-1][k] += 1.0


def named(x, n):
    T = x.T
    for k in range(n):
        row = T[k]
        row[1:] = 0.0


def rows(x, n):
    for row in x:
        row[1:n] = 0.0


def pairs_of_rows(x, n):
    for k in range(n):
        for a, b in zip(x, x.T):
            a[0] = b[1]


def set_first(row):
    row[0] = 0.0


def called(x, n):
    for k in range(n):
        set_first(x[k])


def masks(x, n):
    for _ in range(n):
        x.T[x.T > 0.5] = 0.25


def pointwise(x, n):
    for _ in range(n):
        x.T[:] = x.T * 0.5 + 1.0


def exchanged(x, n):
    y = x.copy()
    for _ in range(n):
        x[1:-1] = y[1:-1] + 0.1 * (y[2:] - y[:-2])
        x, y = y, x


def edges(x, n):
    for _ in range(n):
        x[1:-1] = 0.5 * (x[2:] + x[:-2])
        x[0] = x[-2]


def listed_rows(x, n):
    for _ in range(n):
        x[[0, 1]] = x[[1, 0]]


def held_in_a_list(x, n):
    held = [x[0], x[1]]
    for k in range(n):
        held[0][k] = 1.0


PROGRAMS = (
    *(whole, transposed, elements, one_axis, in_place, named, rows, pairs_of_rows, called, masks, pointwise, exchanged, edges),
    *(listed_rows, held_in_a_list),
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_arrays_that_must_not_be_written_to(program):
    compiled = npc.compile(program)
    for is_writeable in (True, True, False, True, False):
        x = rng.random((40, 40))
        x.flags.writeable = is_writeable
        arguments = cloned((x, 30))
        arguments[0].flags.writeable = is_writeable
        ours, theirs = outcome(compiled, program, [x, 30]), outcome(program, program, arguments)
        assert same(ours[0], theirs[0]) and same(ours[1], theirs[1])
        assert is_writeable or theirs[0][0] is ValueError


def test_most_of_these_programs_are_native():
    compiled = [npc.compile(program) for program in PROGRAMS]
    for each in compiled:
        each(rng.random((40, 40)), 30)
        each(rng.random((40, 40)), 30)
    assert sum(bool(native_loops(each)) for each in compiled) > 12


def test_attributes():
    class Holder:
        def __init__(self, x):
            self.x = x

    def program(holder, n):
        for k in range(n):
            holder.x.T[k, 1:] = 0.0

    compiled = npc.compile(program)
    for is_writeable in (True, True, False):
        x = rng.random((40, 40))
        x.flags.writeable = is_writeable
        before = x.copy()
        made = outcome(compiled, program, [Holder(x), 30])[0]
        assert (made is None) == is_writeable and (x == before).all() != is_writeable
