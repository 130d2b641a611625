"""Reductions of short rows inside loops: whole vectors, and what is left over of each length."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import cloned, outcome, same
from tests.native_loops.test_native_loops import native_loops

LENGTHS = range(1, 70)  # of up to 64 elements are the ones that have no buffer


def sums_of_quotients(x, y, out):
    for i in range(1, len(out)):
        out[i] = (x[:i] / y[:i]).sum()
    return out


def products_of_quotients(x, y, out):
    for i in range(1, len(out)):
        out[i] = (y[:i] / x[:i]).prod()
    return out


def largest_roots(x, y, out):
    for i in range(1, len(out)):
        out[i] = np.sqrt(x[:i] * y[0]).max()
    return out


def smallest_quotients(x, y, out):
    for i in range(1, len(out)):
        out[i] = (x[-i:] // y[-i:]).min()
    return out


PROGRAMS = (sums_of_quotients, products_of_quotients, largest_roots, smallest_quotients)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint16])
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_length(program, dtype) -> None:
    """Of numbers whose results are exact, in any order."""
    rng = np.random.default_rng(len(program.__name__))
    x, y = rng.choice([1, 2, 4, 16], LENGTHS.stop).astype(dtype), rng.choice([1, 2, 4], LENGTHS.stop).astype(dtype)
    compiled = npc.compile(program)
    out = compiled(x, y, np.zeros(LENGTHS.stop))
    assert native_loops(compiled)
    np.testing.assert_array_equal(out, program(x, y, np.zeros(LENGTHS.stop)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_at_each_place(program) -> None:
    """They are reported as many times, whether in a vector or in what is left over."""
    compiled = npc.compile(program)
    compiled(np.ones(40), np.ones(40), np.zeros(40))
    assert native_loops(compiled)
    for place, value, reports in product(range(0, 39, 3), (0.0, -1.0, np.nan, np.inf), ("always", "error", "raise")):
        x, y = np.ones(40), np.ones(40)
        x[place], y[place] = (value, 1.0) if program is largest_roots else (1.0, value)
        for args in ((x, y), (y, x)):
            theirs = outcome(program, program, cloned((*args, np.zeros(40))), reports)
            assert same(outcome(compiled, program, cloned((*args, np.zeros(40))), reports), theirs)
