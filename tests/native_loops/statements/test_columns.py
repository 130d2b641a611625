"""Reductions and positions of extremes along the leading axis of matrices of a few columns, as blocks of columns in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.sequences import viterbi
from tests.native_loops.agreement import fired
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(5)
WIDTHS = (3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100)


def reductions(X, sums, products, largest, least, firsts, lasts, count):
    for k in range(count):
        Y = X[k:]
        sums[k] = Y.sum(axis=0)
        products[k] = (Y * 2).prod(axis=0)
        largest[k] = Y.max(axis=0)
        least[k] = (Y + Y).min(axis=0)
        firsts[k] = Y.argmax(axis=0)
        lasts[k] = (-Y).argmin(axis=0)


@pytest.mark.parametrize("dtype", ("f4", "f8", "i4", "i8", "u2"))
@pytest.mark.parametrize("special", (False, True))
def test_reductions_of_columns(dtype, special):
    compiled = npc.compile(reductions)
    for width in WIDTHS:
        X = rng.integers(-3 if dtype[0] != "u" else 0, 4, (25, width)).astype(dtype)
        if dtype[0] == "f":
            X /= 3
            if special:
                X[rng.random(X.shape) < 0.1] = np.nan
                X[rng.random(X.shape) < 0.1] = -0.0
        Y = X[:1]
        out = [np.zeros((20, width), x.dtype) for x in (Y.sum(0), (Y * 2).prod(0), Y, Y, Y.argmax(0), Y.argmax(0))]
        ours, theirs = ([x.copy() for x in out] for _ in range(2))
        compiled(X, *ours, 20)
        reductions(X, *theirs, 20)
        for k, (a, b) in enumerate(zip(ours, theirs)):
            assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=dtype[0] == "f"), width
            if dtype[0] == "f" and k not in (2, 3):  # extremes have a rule of their own: tests/cpu/test_signed_zeros.py
                np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))
    assert fired(compiled, "columns as lanes")


def test_rows_that_are_not_side_by_side():
    def program(X, largest, places, count):
        for k in range(count):
            largest[k] = X[:, ::2].max(axis=0)
            places[k] = X[:, ::-1].argmax(axis=0)
            X[k % X.shape[0]] *= 0.5

    agrees(program, rng.standard_normal((9, 20)), np.zeros((30, 10)), np.zeros((30, 20), np.int64), 30)
    agrees(program, np.asfortranarray(rng.standard_normal((9, 20))), np.zeros((30, 10)), np.zeros((30, 20), np.int64), 30)


def test_no_rows_and_infinities():
    def program(X, out, count):
        for k in range(count):
            out[k] = X[k:].sum(axis=0)
        return X[:0].sum(axis=0)

    X = rng.standard_normal((6, 12))
    agrees(program, X, np.ones((20, 12)), 20)
    X[2, 3], X[3, 3] = np.inf, -np.inf
    agrees(program, X, np.ones((20, 12)), 20)


@pytest.mark.parametrize("states", (5, 8, 16, 21))
def test_paths_of_a_hidden_markov_model(states):
    inputs = rng.standard_normal(states), rng.standard_normal((states, states)), rng.standard_normal((50, states))
    agrees(viterbi, *inputs)
