"""Elements that masks select, other types, arrays that are joined and repeated, in native loops."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.random.expressions import agree_on, agree_on_all
from tests.native_loops.test_native_loops import native_loops

rng = np.random.default_rng(12)
DTYPES = ["f8", "f4", "i8", "i4", "u1", "b1"]
LAYOUTS = {
    "C": lambda A: A,
    "Fortran": np.asfortranarray,
    "columns": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "backwards": lambda A: A[::-1, ::-1],
}


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) * 9).astype(dtype) if dtype != "u1" else rng.integers(0, 9, shape).astype(dtype)


OF_VECTORS = [
    "x[f]",
    "x[x > A[k % 3, 1]]",
    "(x[f][x[f] > 0] > 1).sum()",
    "x[::2][f[::2]]",
    "x[::-1][f]",
    "np.count_nonzero(x)",
    "np.count_nonzero(x[f])",
    "np.count_nonzero(x[::3] > 0)",
    "np.argwhere(f)",
    "np.argwhere(x[:k])",
    "x.astype(np.float64)",
    "x.astype(int)",
    "x.astype('f4')",
    "x[::2].astype(bool)",
    "x[:k].astype(np.int16) + k",
    "np.float32(x > 0)",
    "np.int16(x)[:k]",
    "np.full_like(x, 1)",
    "np.take(x, [0, 2, -1])",
    "x.take([k % 3, 1])",
    "np.take(x, k % 3)",
    "np.concatenate((x, x[:k]))",
    "np.concatenate([x[::2], x[::-1], A[1]])",
    "np.hstack((x, f))",
    "np.stack([x, x[::-1]])",
    "np.stack((x, x, f), axis=1)",
    "np.stack([x, x + x], -1)",
    "np.vstack((x, A[0], x[::-1]))",
    "np.column_stack((x, f, A[1]))",
    "np.array([x, A[0]])",
    "np.append(x, x[0])",
    "np.append(x, [1, k])",
    "np.append(x[f], 0.5)",
    "np.append(x, x[:k] > 0)",
    "np.repeat(x, 3)",
    "np.repeat(x[::-2], k)",
    "x.repeat(2)",
    "np.tile(x, 3)",
    "np.tile(x[::2], k + 2)",
    "np.tile(x, 2 + k % 2)",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    start = DTYPES.index(dtype)
    agree_on_all(OF_VECTORS[start % 3 :: 3 if start else 1], numbers(dtype, 4, 12), numbers(dtype, 12))


@pytest.mark.parametrize("n", [0, 1])
def test_short_vectors(n):
    """Where they are empty, an index may be an error."""
    agree_on_all(OF_VECTORS, numbers("f8", 3, n), numbers("f8", n))


@pytest.mark.parametrize("dtype", ["f8", "i8", "f4", "u4", "i2", "u1", "b1"])
def test_every_number_of_elements_that_masks_select(dtype):
    """As many as a vector holds, one more, one less, at both ends: all are compared."""

    def selected(x, masks, out, counts):
        for k in range(len(masks)):
            mask = masks[k]
            y = x[mask]
            counts[k] = len(y)
            out[k, : len(y)] = y
            counts[k] += np.count_nonzero(mask)
        return out

    draw = np.random.default_rng(3)
    compiled = npc.compile(selected)
    for n in (1, 7, 8, 9, 16, 17, 63, 64, 70, 200):
        masks = draw.random((40, n)) < np.linspace(0, 1, 40)[:, None]
        x = numbers(dtype, n)
        rooms = [(np.zeros((40, n), dtype), np.zeros(40, int)) for _ in range(2)]
        for function, (out, counts) in zip((selected, compiled), rooms):
            function(x, masks, out, counts)
        for ours, theirs in zip(*rooms):
            np.testing.assert_array_equal(ours, theirs)
    assert native_loops(compiled) == 1


@pytest.mark.parametrize("expression", ["np.append(x, 0.5, axis=0)", "np.append(x, k, 0)", "np.append(A, x, axis=0)"])
def test_what_cannot_be_joined(expression):
    agree_on(expression, numbers("f8", 5, 4), numbers("f8", 4), is_native=False)


OF_MATRICES = [
    "A[A > 0]",
    "A[A > A[k % 2, 0]]",
    "A[1:, ::2][A[1:, ::2] > 0]",
    "A[A[:, 1] > A[k % 2, 0]]",
    "A[:, ::2][A[:, 1] > 0]",
    "np.count_nonzero(A[1:])",
    "A.astype(np.float32)",
    "A.astype(int)",
    "A.astype(float)",
    "np.concatenate((A, A[:2]))",
    "np.concatenate([A[:, :k % 3], A], axis=1)",
    "np.concatenate((A, A[:1]), axis=None)",
    "np.concatenate((A, A), -2)",
    "np.hstack((A, A[:, ::2]))",
    "np.vstack((A, x, A[1:]))",
    "np.column_stack((A, A[:, 0]))",
    "np.stack([A, A], axis=1)",
    "np.stack((A, A, A), 2)",
    "np.append(A, A)",
    "np.append(A, A[:2], axis=0)",
]


@pytest.mark.parametrize("dtype", ["f8", "b1"])
def test_matrices(dtype):
    agree_on_all(OF_MATRICES, numbers(dtype, 5, 4), numbers(dtype, 4))


@pytest.mark.parametrize("layout", [*LAYOUTS][1:])
def test_matrices_in_another_order(layout):
    """Which NumPy's results may have too."""
    for expression in OF_MATRICES[::3]:
        agree_on(expression, LAYOUTS[layout](numbers("f8", 5, 4)), numbers("f8", 4), is_native=False)


@pytest.mark.parametrize(
    "statement",
    [
        "x[f] = k",
        "x[x > 2] = 1.5",
        "x[::2][f[::2]] = x[1]",
        "x[f] = x[f]",
        "x[f] += 1",
        "x[f] = x[::-1][f]",
        "x[f] = x[f] + x[f] * 0",
        "A[A > 0] = k",
        "A[:, 1:3][A[:, 1:3] > 1] -= 1",
        "A[A < 0] = A[A < 0] + 1",
        "A[k % 3][f] = x[1]",
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_elements_that_a_mask_selects_are_set(statement, dtype):
    for name in ("C", "backwards") if dtype == "f8" else ("C",):
        A, x = LAYOUTS[name](numbers(dtype, 4, 12)), numbers(dtype, 12)
        agree_on("x[0] + A[0, 0]", A, x, statement, is_native=name == "C" or statement[0] == "x")


def test_a_variable_for_what_a_mask_selects_is_a_vector():
    agree_on("A[A > 0]", numbers("f8", 4, 3), numbers("f8", 3))


@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_a_list_of_numbers_is_stored_in_a_row(dtype):
    agree_on("A[1] + x", numbers(dtype, 4, 5), numbers(dtype, 5), "A[1] = [k, 2, k, x[0] > 1, A[0, 0]]")


def test_a_mask_that_is_written_through():
    flags = numbers("b1", 30)
    for statement in ("x[x] = False", "x[1:][x[:-1]] = False", "x[:-1][x[1:]] = k > 3", "x[::-1][x] = x[0]"):
        agree_on("x[0]", numbers("b1", 3, 3), flags, statement)


@pytest.mark.parametrize(
    "expression",
    [
        "x[f[1:]]",
        "x[A > 0]",
        "np.concatenate((x, A))",
        "np.concatenate((A, A[:, 1:]))",
        "np.stack([x, x[1:]])",
        "np.array([x, x[1:]])",
        "np.array([[1, 2], [3]])",
        "np.repeat(x, -1)",
        "np.take(x, [k, 40])",
        "np.take(x, f)",
        "x.astype(int) + (A[0, 0] + np.nan).astype(int)",
        "(x / (k % 2)).astype(int)",
        "(x / (k % 2)).astype(np.int32)",
        "(x / (k % 2)).astype(np.uint64)",
        "x.astype(np.uint8)",
        "np.column_stack((x, x[1:]))",
    ],
)
def test_errors_and_warnings(expression):
    agree_on(expression, numbers("f8", 4, 12), numbers("f8", 12), is_native=False)


@pytest.mark.parametrize("statement", ["x[f] = A[0]", "x[f[1:]] = 1", "x[f] = A", "x[f] = 'a'", "x[A > 0] = 1"])
def test_errors_of_assignments(statement):
    agree_on("x[0]", numbers("f8", 4, 12), numbers("f8", 12), statement, is_native=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_numbers(dtype):
    written = ("[[x[0], 1], [2, x[1]]]", "((x[0], 1, k), (2, x[1], x[2]))", "[[1, 2, 3], [k, 4, 5], [6, 7, 8]]")
    expressions = [f"np.array({lists}{of_type})" for lists in written for of_type in ("", ", dtype=np.float32")]
    agree_on_all(expressions, numbers(dtype, 3, 3), numbers(dtype, 3))


def test_numbers_at_equal_distances():
    ends = ("0, 1, 5", "x[0], x[1], 7", "x[0], 3", "1, 0, num=k + 2", "-1e300, 1e300, 3")
    agree_on_all([f"np.linspace({each})" for each in ends], numbers("f8", 3, 3), numbers("f8", 3))


@pytest.mark.parametrize("ends", ["x[0], x[0], 4", "0, 1, k", "0, 1, -1", "0, np.inf, 4", "-1.7e308, 1.7e308, 4"])
def test_numbers_at_distances_that_only_numpy_knows(ends):
    agree_on(f"np.linspace({ends})", numbers("f8", 3, 3), numbers("f8", 3), is_native=False)
