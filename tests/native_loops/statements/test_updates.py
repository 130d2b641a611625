"""Statements that update whole arrays in place: what NumPy reports is known before anything is written, at every size."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import npcompile as npc
from tests.native_loops.agreement import counts, fired, passes
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(11)
SIZES = [3, 20, 60, 200, 420]  # rows of matrices: on the stack, in the caches, and for several threads


def scaled(A: np.ndarray, c: np.ndarray) -> np.ndarray:
    sums = np.empty(len(c))
    for k in range(len(c)):
        A *= c[k]
        sums[k] = A.sum()
    return sums


def shifted(A: np.ndarray, c: np.ndarray) -> np.ndarray:
    for k in range(len(c)):
        A[1:, :-1] += c[k] * A[1:, 1:]
        A[0] = k
    return A


def normalised(A: np.ndarray, c: np.ndarray) -> np.ndarray:
    for k in range(len(c)):
        A -= A.mean(axis=0)
        A /= np.sqrt((A * A).mean(axis=1, keepdims=True) + c[k])
    return A


def outcome(call: Any, A: np.ndarray, c: np.ndarray, over: str) -> Any:
    A = A.copy()
    with np.errstate(over=over), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = call(A, c)
        except FloatingPointError as error:
            result = str(error)
    return result, A, [(str(w.message), w.lineno) for w in told]


def same(ours: Any, theirs: Any) -> None:
    assert type(ours[0]) is type(theirs[0]) and ours[2] == theirs[2]
    for a, b in zip(ours[:2], theirs[:2]):
        if isinstance(b, str):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, strict=True)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("user", [scaled, shifted, normalised])
def test_updates(user, n):
    compiled, A, c = npc.compile(user), rng.random((n, n)) + 0.5, rng.random(20) + 0.5
    for _ in range(3):
        same(outcome(compiled, A, c, "warn"), outcome(user, A, c, "warn"))
    assert native_loops(compiled) == 1


@pytest.mark.parametrize("over", ["warn", "raise", "ignore"])
@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("n", SIZES)
def test_errors(n, at, over):
    compiled, A, c = npc.compile(scaled), np.ones((n, n)), np.array([1.0, 1e10, 1e10, *[1.0] * 17])
    A.flat[at] = 1e300
    for _ in range(3):
        same(outcome(compiled, A, c, over), outcome(scaled, A, c, over))


@pytest.mark.parametrize("shape, strides", [((5, 2), (8, 8)), ((40, 300), (8, 8)), ((400, 300), (8, 16))])
def test_memory_that_is_there_more_than_once(shape, strides):
    compiled, c = npc.compile(scaled), np.array([2.0, 0.5] * 10)
    for _ in range(2):
        ours, theirs = np.arange(2000.0), np.arange(2000.0)
        with np.errstate(over="ignore"):
            compiled(as_strided(ours, shape, strides), c)
            scaled(as_strided(theirs, shape, strides), c)
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_broadcast_is_computed_once():
    compiled = npc.compile(normalised)
    compiled(rng.random((60, 60)), np.ones(20))
    once = [place.split(",")[0] for place in passes(compiled, "computed once for an axis")]
    first = normalised.__code__.co_firstlineno
    assert once == [f"line {first + 2}", f"line {first + 3}"]  # the mean of each column, the root of each row


def eliminated(A: np.ndarray, c: np.ndarray) -> float:
    largest = 0.0
    for k in range(len(c)):
        largest = max(largest, np.abs(A[k:, k]).argmax())
        A[k + 1 :, k] *= c[k]
        A[k + 1 :, k + 1 :] -= A[k + 1 :, k, None] * A[k, k + 1 :]
    return largest


def beside(M: np.ndarray, c: np.ndarray, a: int, b: int, width: int) -> None:
    for k in range(len(c)):
        M[:, a : a + width] = 0.5 * M[:, a : a + width] + c[k] * M[:, b : b + width]


def beside_from_below(M: np.ndarray, c: np.ndarray, a: int, b: int, width: int) -> None:
    for k in range(len(c)):
        M[1:, a : a + width] -= c[k] * M[-2::-1, b : b + width]


@pytest.mark.parametrize("over", ["warn", "raise", "ignore"])
@pytest.mark.parametrize("n", SIZES[1:])
def test_columns_of_one_matrix(n, over):
    compiled, A, c = npc.compile(eliminated), rng.random((n, n)), rng.random(18)
    for largest in (1.0, 1e300):
        A[-1, -1] = largest
        for _ in range(2):
            same(outcome(compiled, A, c * largest, over), outcome(eliminated, A, c * largest, over))


@pytest.mark.parametrize("view", [np.s_[:], np.s_[::2], np.s_[::-1], np.s_[:, ::-1], np.s_[:, ::2], np.s_[:, 3:90]])
@pytest.mark.parametrize("user", [beside, beside_from_below])
def test_columns_beside_each_other(user, view):
    compiled, c = npc.compile(user), rng.random(18)
    for a, b, width in [(0, 40, 40), (0, 39, 40), (40, 0, 40), (30, 0, 40), (0, 1, 40), (0, 0, 40), (0, 45, 41), (46, 0, 41)]:
        ours, theirs = (np.arange(300 * 350.0).reshape(300, 350)[:, 170:] for _ in range(2))
        compiled(ours[view], c, a, b, width)
        user(theirs[view], c, a, b, width)
        np.testing.assert_array_equal(ours, theirs)
    assert native_loops(compiled) == 1


def test_columns_beside_each_other_are_written_where_they_are():
    compiled = npc.compile(eliminated)
    compiled(rng.random((60, 60)), np.ones(18))
    assert fired(compiled, "apart by columns")
    assert counts(compiled, "elements from which threads help") == [262144, 0]
