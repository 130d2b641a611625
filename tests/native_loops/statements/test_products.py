"""Products of matrices and vectors in native loops: how large the matrices are, and where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.native_loops.statements.test_array_statements import nearly
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(12)


def power_iteration(A, v, steps):
    for _ in range(steps):
        w = A @ v
        v = w / np.sqrt(w @ w)
    return v @ (A @ v), v


def descend(X, y, w, steps):
    for _ in range(steps):
        w = w - 0.01 * (X.T @ (X @ w - y))
    return w


def relaxed(A, x, steps):
    for _ in range(steps):
        x = x + 0.1 * (x - A @ x)
        A = A * 0.5
    return x


@pytest.mark.parametrize("n", (100, 300))
def test_products_with_large_matrices_are_native(n):
    A = rng.random((n, n)) + np.diag(np.arange(n) / 4)
    nearly(power_iteration, A, np.ones(n), 30)
    nearly(power_iteration, np.asfortranarray(A), np.ones(n), 30)


def test_large_vectors_are_left_to_graphs():
    def steps(A, v, count):
        for _ in range(count):
            w = v + A.T @ (v[:4] * 0.5)
            v = w / np.sqrt(w @ w)
        return v

    compiled = npc.compile(steps)
    for n, programs in ((100, 1), (5000, 1), (2000, 1)):
        A, v = rng.random((4, n)), rng.random(n)
        np.testing.assert_allclose(compiled(A, v, 20), steps(A, v, 20), rtol=1e-12)
        assert native_loops(compiled) == programs
        assert bool(compiled_function(compiled).graphs) == (n == 5000 or n == 2000)


def test_matrices_that_are_multiplied_twice_may_stay_in_a_cache():
    compiled = npc.compile(descend)
    for m, n in ((100, 60), (90, 50), (300, 250)):
        arguments = rng.random((m, n)) / m, rng.random(m), rng.random(n), 20
        np.testing.assert_allclose(compiled(*arguments), descend(*arguments), rtol=1e-11)
        assert native_loops(compiled) == 1 and bool(compiled_function(compiled).graphs) == (m == 300)


@pytest.mark.parametrize("program", (descend, relaxed))
def test_large_matrices_that_are_read_more_than_once_are_left_to_graphs(program):
    X = rng.random((300, 20) if program is descend else (70, 70)) / 70
    arguments = (X, rng.random(300), rng.random(20), 20) if program is descend else (X, rng.random(70), 20)
    compiled = npc.compile(program)
    np.testing.assert_allclose(compiled(*arguments), program(*arguments), rtol=1e-12)
    assert compiled_function(compiled).graphs and not native_loops(compiled)


def moved(x: np.ndarray, by: int, order: str = "C") -> np.ndarray:
    """The same array, so many bytes behind a boundary of 64."""
    memory = np.empty(x.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + by
    made = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape, order=order)
    made[...] = x
    return made


@pytest.mark.parametrize("dtype", ("f4", "f8"))
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("m, n", ((1, 3), (5, 20), (40, 63), (40, 64), (37, 65), (33, 130), (128, 200), (6, 700)))
def test_results_do_not_depend_on_where_the_matrix_lies(m, n, order, dtype):
    def products(A, X):
        out = np.empty((X.shape[0], A.shape[0]), A.dtype)
        for k in range(X.shape[0]):
            out[k] = A @ X[k]
        return out

    compiled = npc.compile(products)
    A, X = rng.standard_normal((m, n)).astype(dtype), rng.standard_normal((20, n)).astype(dtype)
    first = compiled(moved(A, 0, order), X)
    exact = (X.astype("f16") @ A.astype("f16").T).astype("f8")
    np.testing.assert_allclose(first, exact, rtol=0, atol=8 * np.finfo(dtype).eps * np.abs(exact).max() * np.sqrt(n))
    for by in (8, 16, 24, 40, 60 if dtype == "f4" else 56):
        np.testing.assert_array_equal(compiled(moved(A, by, order), moved(X, 64 - by)), first)
    rows = np.empty((2 * m, n + 3), dtype)[::2, 2:-1]
    rows[...] = A
    if order == "C":
        np.testing.assert_array_equal(compiled(rows, X), first)
    assert native_loops(compiled)


@pytest.mark.parametrize("dtype", ("f4", "f8"))
@pytest.mark.parametrize("n", (255, 256, 257, 287, 700, 2111))
def test_sums_of_products_do_not_depend_on_where_vectors_lie(n, dtype):
    def products(A, x, first):
        out = np.empty(A.shape[0], A.dtype)
        for k in range(A.shape[0]):
            out[k] = np.dot(A[k, first:], x[first:])
        return out

    compiled = npc.compile(products)
    A, x = (10.0 ** rng.uniform(-9, 9, shape) * rng.choice((-1, 1), shape) for shape in ((40, n), n))
    A, x = A.astype(dtype), x.astype(dtype)
    given = compiled(A, x, 0)
    error = np.abs(given - A.astype("f16") @ x.astype("f16"))
    assert (error <= 8 * np.finfo(dtype).eps * (np.abs(A).astype("f16") @ np.abs(x).astype("f16"))).all()
    for before in range(17):
        beside_nan = np.pad(A, ((0, 0), (before, 17)), constant_values=np.nan)[:, : before + n]
        np.testing.assert_array_equal(compiled(beside_nan, np.pad(x, (before, 0), constant_values=np.nan), before), given)
        by = before * A.itemsize % 64
        np.testing.assert_array_equal(compiled(moved(A, by), moved(x, 64 - by), 0), given)
    assert native_loops(compiled)


def test_infinities_and_nans_beside_rows_are_not_read():
    def products(A, x, count):
        total = np.zeros(A.shape[0])
        for _ in range(count):
            total = total + A @ x
        return total

    whole = np.full((40, 80), np.nan)
    whole[:, 0] = np.inf
    A = whole[3:-3, 5:-6]
    A[...] = rng.random(A.shape)
    vector = np.full(90, np.inf)
    vector[9:-12] = rng.random(69)
    nearly(products, A, vector[9:-12], 20)
