"""Functions of numbers, and of small arrays, of whole arrays: against loops in Python, NumPy's ufuncs and np.vectorize."""

from __future__ import annotations

import pickle
import warnings

import cloudpickle
import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(0)


def settles(x, y):
    """Another number of steps for each element."""
    if x > y:
        return np.sqrt(x - y)
    steps, s = 0, 0.0
    while s < y:
        s += x + 0.1
        steps += 1
    return s + steps


def one_by_one(function, *arrays):
    arrays = np.broadcast_arrays(*arrays)
    out = np.array([function(*elements) for elements in zip(*(a.reshape(-1) for a in arrays))])
    return out.reshape(arrays[0].shape)


A = rng.random((6, 5, 4))
LAYOUTS = {
    "contiguous": (A, A[::-1].copy()),
    "Fortran": (np.asfortranarray(A), A),
    "reversed and strided": (A[::-1, ::2], A[:, ::2]),
    "broadcast": (A, rng.random(4)),
    "broadcast both": (A[:, :1], A[:1]),
    "a number": (A, 0.4),
    "an array of one": (A, np.array([[0.4]])),
    "transposed": (A.T, A.T.copy()),
    "five axes": (rng.random((2, 3, 2, 3, 2))[::-1, :, ::-1, :, ::-1], rng.random((2, 3, 2, 3, 2)).T.copy().T),
    "no axes": (np.float64(0.7), np.float64(0.2)),
    "lists": ([0.1, 0.9], [0.5, 0.5]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements(layout):
    found, expected = npc.vectorize(settles)(*LAYOUTS[layout]), one_by_one(settles, *LAYOUTS[layout])
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype and type(found) is (np.ndarray if expected.ndim else np.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_and_where(layout):
    arrays = np.broadcast_arrays(*LAYOUTS[layout])
    chosen = rng.random(arrays[0].shape) > 0.5
    out = np.full(arrays[0].shape, -1.0)
    assert npc.vectorize(settles)(*LAYOUTS[layout], out=out, where=chosen) is out
    np.testing.assert_array_equal(out, np.where(chosen, one_by_one(settles, *arrays), -1.0))


def test_it_is_a_native_program():
    f = npc.vectorize(settles)
    f(A, A)
    (run,) = f._runs.values()
    assert native_loops(run) == 1


def test_a_result_that_overlaps_an_operand():
    x = rng.random(50)
    expected = one_by_one(settles, x[:-1], x[1:])
    f = npc.vectorize(settles)
    f(x[:-1], x[1:].copy(), out=x[:-1])
    np.testing.assert_array_equal(x[:-1], expected)
    x = rng.random(50)
    expected = one_by_one(settles, x[1:], 0.3)
    f(x[1:], 0.3, out=x[:-1])
    np.testing.assert_array_equal(x[:-1], expected)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "?", "c16"])
def test_dtypes_are_those_of_a_loop(dtype):
    x = (rng.random(9) * 4).astype(dtype)
    expected = one_by_one(lambda a: a * a, x)
    found = npc.vectorize(lambda a: a * a)(x)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_dtype_of_results():
    f = npc.vectorize(lambda a: a > 1)
    assert f(np.arange(3)).dtype == bool and f(np.arange(3), dtype="f4").dtype == np.float32
    assert npc.vectorize(lambda a: a, dtype="i2")(np.arange(3)).dtype == np.int16
    assert npc.vectorize(lambda a: a, dtype=float)(np.empty((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="say dtype="):
        f(np.empty(0))
    with pytest.raises(TypeError, match="cannot be cast to int64"):
        npc.vectorize(lambda a: a / 2)(np.arange(3), out=np.empty(3, dtype=np.int64))


def test_a_function_that_stays_in_python():
    seen = []

    @npc.vectorize
    def noted(x):
        seen.append(float(x))
        return x + 1

    np.testing.assert_array_equal(noted(np.arange(3.0)), [1, 2, 3])
    assert seen[-3:] == [0, 1, 2]


def test_errors_and_warnings_are_the_functions():
    f = npc.vectorize(lambda x: 1 / x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(f(np.array([1.0, 0.0])), [1, np.inf])
    assert any("divide by zero" in str(w.message) for w in caught)

    def refuses(x):
        if x < 0:
            raise ArithmeticError(f"below zero: {x}")
        return x

    with pytest.raises(ArithmeticError, match=r"below zero: -1\.0"):
        npc.vectorize(refuses)(np.array([1.0, -1.0]))


def test_wrong_uses():
    f = npc.vectorize(settles)
    with pytest.raises(TypeError, match="takes 2 arguments, not 1"):
        f(A)
    with pytest.raises(ValueError, match="broadcast"):
        f(np.ones(3), np.ones(4))
    with pytest.raises(ValueError, match="out has"):
        f(np.ones(3), np.ones(3), out=np.empty(4))
    with pytest.raises(TypeError, match="positional"):
        npc.vectorize(lambda *xs: 0)
    with pytest.raises(ValueError, match="functions of two numbers"):
        npc.vectorize(lambda x: x).reduce(A)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name, function", [("add", lambda a, b: a + b), ("maximum", lambda a, b: b if b > a else a)])
def test_along_an_axis(name, function, axis):
    ufunc, f = getattr(np, name), npc.vectorize(function)
    np.testing.assert_array_equal(f.accumulate(A, axis), ufunc.accumulate(A, axis))
    reduced = f.reduce(A, axis)
    np.testing.assert_array_equal(reduced, np.take(ufunc.accumulate(A, axis), -1, axis))
    np.testing.assert_array_equal(f.reduce(A, axis, keepdims=True), np.expand_dims(reduced, axis))
    out = np.empty_like(A)
    assert f.accumulate(A, axis, out=out) is out
    np.testing.assert_array_equal(out, ufunc.accumulate(A, axis))


def test_reduce_of_all_and_outer():
    f = npc.vectorize(lambda a, b: a * 10 + b)
    digits = np.array([[1, 2], [3, 4]])
    assert f.reduce(digits, axis=None) == 1234 and f.reduce(digits, axis=None, keepdims=True).shape == (1, 1)
    np.testing.assert_array_equal(f.outer([1, 2], [[3], [4]]), np.array([[[13], [14]], [[23], [24]]]))
    with pytest.raises(ValueError, match="no identity"):
        f.reduce(np.empty((0, 2), dtype=int))
    with pytest.raises(np.exceptions.AxisError):
        f.reduce(digits, axis=2)
    with pytest.raises(ValueError, match="of a number"):
        f.accumulate(3)


def largest_step(x, out):
    for i in range(1, x.size):
        out[0] = max(out[0], abs(x[i] - x[i - 1]))


def solve_lower(L, b, x):
    for i in range(b.size):
        s = b[i]
        for j in range(i):
            s -= L[i, j] * x[j]
        x[i] = s / L[i, i]


def test_stacks_of_small_arrays():
    step = npc.guvectorize("(n)->()")(largest_step)
    np.testing.assert_array_equal(step(A), np.abs(np.diff(A)).max(axis=-1))
    assert isinstance(step(A[0, 0]), np.float64) and step(A[:0]).shape == (0, 5)
    solve = npc.guvectorize("(n,n),(n)->(n)")(solve_lower)
    L = np.tril(rng.random((7, 3, 4, 4))) + np.eye(4)
    b = rng.random((3, 4))
    found = solve(L, b)
    np.testing.assert_allclose(L @ found[..., None], np.broadcast_to(b, (7, 3, 4))[..., None])
    out = np.empty((7, 3, 4))
    assert solve(L, b, out=out) is out
    np.testing.assert_array_equal(out, found)


def test_several_results():
    @npc.guvectorize("(n)->(),()")
    def extent(x, low, high):
        low[0], high[0] = x[0], x[0]
        for i in range(x.size):
            low[0], high[0] = min(low[0], x[i]), max(high[0], x[i])

    low, high = extent(A)
    np.testing.assert_array_equal(low, A.min(axis=-1))
    np.testing.assert_array_equal(high, A.max(axis=-1))


def test_wrong_signatures_and_shapes():
    for text in ("(n)", "n->()", "(n)->m", "", "(n)(n)->()", "(n)->", "(n,2)->()"):
        with pytest.raises(ValueError, match="is not a signature"):
            npc.guvectorize(text)(largest_step)
    with pytest.raises(ValueError, match="those of no operand"):
        npc.guvectorize("(n)->(m)")(largest_step)
    with pytest.raises(TypeError, match="1 operands and 2 results"):
        npc.guvectorize("(n)->(),()")(largest_step)
    with pytest.raises(ValueError, match="along 'n'"):
        npc.guvectorize("(n,n),(n)->(n)")(solve_lower)(np.eye(3), np.ones(4))
    with pytest.raises(ValueError, match="axes"):
        npc.guvectorize("(n)->()")(largest_step)(3.0)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_they_are_pickled(dumps):
    f = pickle.loads(dumps(npc.vectorize(settles)))
    np.testing.assert_array_equal(f(A, A), one_by_one(settles, A, A))
    step = pickle.loads(dumps(npc.guvectorize("(n)->()")(largest_step)))
    np.testing.assert_array_equal(step(A), np.abs(np.diff(A)).max(axis=-1))


def test_in_a_compiled_function():
    f = npc.vectorize(settles)
    np.testing.assert_array_equal(npc.compile(lambda x: f(x, 0.3) + 1)(A), one_by_one(settles, A, 0.3) + 1)
