"""Rows and elements at integers in a list, read and written in native loops."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.programs.factorizations import lu_pivoted
from tests.native_loops.statements.test_array_statements import nearly
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(5)
N = 30
SQUARE = rng.standard_normal((N, N))
VECTOR = rng.standard_normal(N)
PLACES = rng.integers(-N, N, N)


def exchanged(A, places):
    for k in range(places.size):
        p = places[k]
        A[[k, p]] = A[[p, k]]
        A[k] = A[k] + 1
    return A


def turned(A, m):
    for k in range(A.shape[0] - 2):
        rows = A[[k + 2, m, k, k]]
        A[[k, k, m, -1]] = rows
    return A, rows


def columns(A, B, m):
    for k in range(1, A.shape[0]):
        A[:, m:][[k, 0]] = A[:, m:][[0, k]]
        A[[k, k - 1]] = B[[0, k]]
    return A


def of_itself(x):
    for i in range(20):
        y = x[[2, 1, 0]]
        z = y
        if i > 3:
            y[[1, 0, 2]] = z
        x[[0, 1, 2]] = z[[0, 0, i % 3]] + y
        x[[2, i % 2, -1]] = z[[1, 2, 0]]
    return x, y, z


def other_types(x, y, flags):
    for k in range(x.size):
        x[[k, 0]] = y[[0, k]]
        if flags[k]:
            x[[True, False]] = y[[k]]
    return x


@pytest.mark.parametrize("n", [20, 60])
def test_pivots(n):
    nearly(lu_pivoted, rng.standard_normal((n, n)))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "b1"])
@pytest.mark.parametrize("given", [SQUARE, VECTOR], ids=["rows", "elements"])
def test_exchanges(given, dtype):
    for places in (PLACES % N, PLACES, np.where(PLACES == PLACES[20], N, PLACES), PLACES.astype(np.int16)):
        agrees(exchanged, (given > 0).astype(dtype) if dtype == "b1" else (given * 9).astype(dtype), places, loops=dtype != "b1")


@pytest.mark.parametrize("m", [0, 7, -1, N, -N - 1])
def test_rows_that_are_named_several_times(m):
    agrees(turned, SQUARE, m)
    agrees(turned, VECTOR, m)
    agrees(turned, np.asfortranarray(SQUARE), m, loops=0)
    agrees(turned, SQUARE[:, ::-1], m, loops=0)
    agrees(turned, SQUARE[::-1, 4:], m, loops=0)


def test_views_and_shapes_that_do_not_fit():
    agrees(columns, SQUARE, SQUARE.copy(), 3, loops=0)
    agrees(columns, SQUARE, SQUARE[:, :-1], 3, loops=0)
    agrees(columns, SQUARE, SQUARE[:, :1], 3, loops=0)
    agrees(columns, SQUARE, SQUARE[:7], 3, loops=0)


def test_an_array_that_is_stored_in_itself():
    agrees(of_itself, np.arange(12.0).reshape(4, 3)[:3], loops=0)
    agrees(of_itself, np.arange(3.0), loops=0)


def test_other_lists_are_left_to_numpy():
    agrees(other_types, VECTOR, SQUARE[0], np.zeros(N), loops=0)
    agrees(other_types, VECTOR, SQUARE[0], np.arange(N) > 9, loops=0)
    agrees(other_types, VECTOR, SQUARE[0].astype(np.float32), np.zeros(N), loops=0)
