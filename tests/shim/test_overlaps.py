"""Vectors assigned to others of the same memory: NumPy may read what it has written before, and so do compiled programs."""

import numpy as np
import pytest

import npcompile as npc
from tests.backends import HOST_BACKENDS


def column_of_row(m, v):
    m[:, 3] = m[1]


def row_of_column(m, v):
    m[1] = m[:, 3]


def copied_to_a_view(m, v):
    np.copyto(m[:, 3], m[1])
    m.T[2][...] = m[3]


def of_one_row(m, v):
    m[:, 3] = m[1:2]


def every_other(m, v):
    v[::2] = v[:8]


def from_every_other(m, v):
    v[4:12] = v[::2]
    v[:8] = v[::2]


def reversed_and_shifted(m, v):
    v[1:] = v[:-1]
    v[:8] = v[8:][::-1]
    v[:-1] = v[1:]
    v[:] = v[::-1]


def in_a_loop(m, v):
    total = 0.0
    for i in range(len(m)):
        m[:, i] = m[1]
        m[i] = m[:, 2]
        v[::2] = v[:8]
        total += m[i, 1] * v[i]
        v[i] += total


PROGRAMS = [column_of_row, row_of_column, copied_to_a_view, of_one_row, every_other, from_every_other, reversed_and_shifted]


@pytest.mark.parametrize("backend", HOST_BACKENDS)
@pytest.mark.parametrize("program", [*PROGRAMS, in_a_loop])
def test_vectors_in_one_memory(program, backend):
    compiled = npc.compile(program, backend=backend)
    for size in (4, 9, 16):  # the last two are not fixed
        theirs, ours = ((np.arange(float(size * size)).reshape(size, size), np.arange(16.0)) for _ in range(2))
        program(*theirs)
        compiled(*ours)
        for a, b in zip(ours, theirs):
            np.testing.assert_array_equal(a, b)
