"""NumPy reports the errors of values that nothing stored depends on; a C compiler would not compute them, or not note them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(12)


def no_part_of_it(A, out):
    for i in range(len(A)):
        out[:] = A.astype(int) * 0
    return out


def by_rows(A, out):
    for i in range(len(A)):
        out[i] = A[i].astype(int) * 0
    return out


def masked(A, out):
    for i in range(len(A)):
        out[i] = np.where(A[i] > 0, A[i].astype(int), 0) & 0
    return out


def always_true(A, out):
    for i in range(len(A)):
        out[i] = (A[i] / A[i, ::-1] > 1) | True
    return out


def summed(A, out):
    total = 0
    for i in range(len(A)):
        total += (A[i].astype(int) * 0).sum()
        out[i] = (A.astype(int) * 0).sum(axis=1) + total
    return out


def in_place(A, out):
    for i in range(len(A)):
        out *= (A / A.T).astype(int) * 0
        out += 1
    return out


def held(A, out):
    for i in range(len(A)):
        t = A.astype(int) * 0
        out += t
        out[0] = t[i] + A[0]
    return out


def remainders(A, out):
    for i in range(len(A)):
        out[i] = A[i] % A[i, ::-1]
    return out


PROGRAMS = [no_part_of_it, by_rows, masked, always_true, summed, in_place, held, remainders]


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_of_dropped_values(program, n):
    A = rng.random((n, n)) + 0.5
    agrees(program, A, np.ones((n, n)))
    A[3, 5] = np.nan
    agrees(program, A, np.ones((n, n)))
    A[5, 3] = 0.0
    agrees(program, A, np.ones((n, n)))
