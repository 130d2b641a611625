"""Functions of NumPy's in native loops: views, outer methods, rows of numbers, other shapes, running sums, sorted copies."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.statements.test_array_statements import SQUARE, VECTOR, N, nearly
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(9)


def flipped(A, b):
    for k in range(1, b.size):
        b[:k] += 0.125 * np.flip(b[:k])
        A[k] = np.flip(A)[k] + np.fliplr(A)[k - 1] - np.flip(A, axis=0)[k] + np.flipud(A)[k - 1]
        A[k, 0] = np.diff(A[k])[1]
    return np.transpose(A)[0]


def bounded(A, b):
    for k in range(b.size):
        A[k] = np.clip(A[k] - 0.5, -0.0, b[k]) + A[k].clip(0, 1)
    return A


def of_the_same_type(A, b):
    y = np.zeros(b.size, dtype=b.dtype)
    for k in range(b.size):
        y[k] = np.empty(3, A.dtype).size + b[k]
    return y, A.dtype


def all_pairs(A, b):
    for k in range(A.shape[0]):
        A[:] = np.minimum(A, np.add.outer(A[:, k], A[k, :]))
        b[k] = np.subtract.outer(b, b).max()


def windows(A, b):
    cubes, out = np.multiply.outer(A, b), np.empty((A.shape[0], 3, A.shape[0]))
    for k in range(A.shape[0]):
        part = cubes[: k + 1, :, :, None] * A[None, :, None]
        out[k, 0] = part.max(axis=(0, 1, 2)) + np.dot(np.flip(b[:k]), A[k, :k])
        out[k, 1] = np.sum(part[0], axis=(0, -2))
        out[k, 2] = part.mean((2, 0, 1)) + np.min(part, axis=(0, 1, 2, 3))
    return out


def columns_of_sums(A, b):
    out = np.zeros((b.size, b.size))
    for k in range(b.size):
        out[k] = (A - A.max(axis=1, keepdims=True)).ravel()[k : k + b.size] + np.cumsum(b)
        out[:, k] += A.reshape(-1, 2).max(axis=0, keepdims=True)[0, 1] + (A + 1).reshape(2, b.size // 2, -1)[0, 0]
    return out + np.identity(b.size)


def orbit(A, b):
    x, y, z = A[0, :3]
    out, ends = np.empty((b.size, 3)), np.zeros((b.size, 2), dtype=np.int64)
    for k in range(b.size):
        first = x
        velocity = np.array([y - x, x * (2 - z) - y, x * y - 3])
        x, y, z = x + 0.01 * velocity[0], y + 0.01 * velocity[1], z + 0.01 * velocity[2]
        out[k] = x, y, z
        out[k] += 0.5 * velocity + np.asarray((1, 2, first))
        ends[k] = math.floor(z), k
    return out, ends


def rows_that_do_not_fit(A, b):
    out = np.zeros((b.size, 3), dtype=np.float32)
    for k in range(b.size):
        out[k] = b[k], b[k] + 1, 2
        if k == 20:
            out[k] = b[0], b[1]
    return out


@pytest.mark.parametrize("program", [columns_of_sums, orbit, rows_that_do_not_fit])
def test_rows_of_numbers_and_other_shapes(program):
    agrees(program, SQUARE - 3, VECTOR, loops=program is not rows_that_do_not_fit)


@pytest.mark.parametrize("program", [flipped, bounded, of_the_same_type, all_pairs])
def test_views_and_functions_of_them(program):
    agrees(program, SQUARE - 3, VECTOR)


def medians(A, b):
    out = np.empty((b.size, b.size))
    for k in range(b.size):
        out[k] = np.sort(A[:, k]) + np.sort(b[: k + 1])[k // 2] - np.sort(-b[::-1])
    return out


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1"])
def test_sorted_vectors(dtype):
    agrees(medians, (30 * SQUARE).astype(dtype), (10 * VECTOR).astype(dtype), loops=dtype != "u1")


@pytest.mark.parametrize("ends", [(0.0, -0.0), (np.nan, 1.0), (-0.0, -0.0), (np.inf, -np.inf)])
def test_vectors_whose_order_is_not_only_one(ends):
    vector = VECTOR.copy()
    vector[3], vector[-2] = ends
    agrees(medians, SQUARE, vector)


def test_long_vectors_are_sorted():
    def program(A, n):
        total = 0.0
        for k in range(20):
            total += np.sort(A[k : k + n])[n // 3] + np.sort(A[:: k + 1])[5]
        return total

    long = rng.permutation(np.arange(3000.0))
    for n in (30, 600, 2000):
        agrees(program, long, n)
        agrees(program, long // 50, n)  # many are equal


def test_reductions_along_several_axes():
    nearly(windows, SQUARE[:17, :17].copy(), VECTOR[:17])


def test_a_dtype_of_a_view_or_with_metadata_is_left_to_python():
    def program(x, y):
        for k in range(x.size):
            y[k] = np.empty(x.size, x.dtype).size + x[k]
        return x.dtype

    compiled = npc.compile(program)
    marked = VECTOR.astype(np.dtype("f8", metadata={"unit": "m"}))
    for x in (VECTOR, marked):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that it is compiled at each iteration
            assert compiled(x, np.zeros(N)) is x.dtype


def windows_in_a_row(A, b):
    n = A.shape[0]
    out, places = np.zeros((n, n)), np.zeros((n, n), int)
    for i in range(n - 2):
        for j in range(n - 3):
            patch = A[i : i + 2, j : j + 3].reshape(-1)
            out[i, j] = patch.max() + A[i : i + 2, j : j + 3].ravel()[4] - A[i : i + 2, j].flatten()[1]
            places[i, j] = A[i : i + 2, j : j + 3].reshape(3, -1).argmax(axis=1)[0]
    rows = A[:, 1:4].reshape(n // 2, 6)
    for i in range(n // 2):
        rows[i] += b[:6]
    kept = A[1:3, ::2].ravel()
    for i in range(kept.size):
        kept[i] = i
    return out, places, rows, kept, A


def views_after_all(A, b):
    n = b.size
    for i in range(n):
        view = A[:, 2:3].reshape(-1)
        view[i] = b[i]
        A[i : i + 1, :4].ravel()[1] = i
        A[:, ::2].reshape(n, 2, -1)[i, 1, 0] -= 1
    return A


@pytest.mark.parametrize("program", [windows_in_a_row, views_after_all])
@pytest.mark.parametrize("change", [lambda A: A, np.asfortranarray, lambda A: A[::-1]], ids=["C", "Fortran", "backwards"])
def test_other_shapes_of_elements_that_are_not_side_by_side(program, change):
    agrees(program, change(SQUARE.copy()), VECTOR.copy())


def test_a_copy_in_another_shape_has_the_base_that_it_has_in_numpy():
    def program(A):
        total = 0.0
        for i in range(A.shape[0]):
            total += A[i, 0]
        return A[:, :2].reshape(-1), A[:, :2].ravel(), A[:, :2].flatten(), A.ravel(), A.flatten(), total

    compiled = npc.compile(program)
    for _ in range(2):
        for ours, theirs in zip(compiled(SQUARE)[:-1], program(SQUARE)[:-1]):
            assert ours.flags.owndata == theirs.flags.owndata and (ours.base is SQUARE) == (theirs.base is SQUARE)
            assert np.array_equal(ours, theirs)


def middles(A, b):
    for k in range(1, b.size):
        b[k] = np.median(A[:k, k]) + np.median(A[k])
    return np.median(A[0]), b


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4"])
def test_medians(dtype):
    agrees(middles, (30 * (SQUARE - 3)).astype(dtype), (10 * VECTOR).astype(dtype))


@pytest.mark.parametrize("ends", [(0.0, -0.0), (np.nan, 1.0), (1e308, 1.7e308), (np.inf, -np.inf)])
def test_medians_of_what_only_numpy_knows(ends):
    square = SQUARE.copy()
    square[:, 3], square[:, 5] = ends
    square[0] = ends[1]
    agrees(middles, square, VECTOR)


def lengths(A, b):
    for k in range(b.size):
        b[k] = np.linalg.norm(A[k]) - np.linalg.norm(A[:, k], 2) + np.linalg.norm(b, 1) / 8 + np.linalg.norm(A[k], axis=0)
        b += np.linalg.norm(A, axis=1) / 16 + np.linalg.norm(A[:, 1:], ord=2, axis=0)[3] / 16
        b -= np.linalg.norm(A) / 16 + np.linalg.norm(A - b, axis=-1) + np.linalg.norm(A, 1, 0)
        b /= np.linalg.norm(b)
    return np.inner(A[0], A[1]), np.vdot(A[0], b), np.linalg.norm(b), b


@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_lengths_of_vectors(dtype):
    nearly(lengths, (9 * (SQUARE - 3)).astype(dtype), VECTOR)
    nearly(lengths, np.zeros((N, N), dtype), np.full(N, 0.5))


def sums_of_zeros(A, b):
    for k in range(b.size):
        total = np.sum(A[k]) + 0 * k
        b[k] = total
        A[k] = b[k] * -0.0
    return np.copysign(1, b), A.sum(axis=0), A.mean(axis=1), A[0].mean(), A.trace(), np.nansum(A[1]), np.sum(A[:, :3], axis=1)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_sums_of_negative_zeros_are_zero(dtype):
    agrees(sums_of_zeros, np.full((N, N), -0.0, dtype), np.full(N, -0.0, dtype))


def rows_of_all_lengths(data, places, starts, x):
    n = starts.size - 1
    sums, products, most, least = (np.zeros(n, data.dtype) for _ in range(4))
    for i in range(n):
        a, b = starts[i], starts[i + 1]
        sums[i] = np.sum(data[a:b] * x[places[a:b]])
        products[i] = np.prod(data[a:b])
        most[i] = np.max(data[a:b] + x[places[a:b]])
        least[i] = np.min(-data[a:b])
    return sums, products, most, least


@pytest.mark.parametrize("dtype", ("f4", "f8", "i4", "i8", "u8"))
def test_rows_of_few_elements(dtype):
    """Whole vectors and what is left of them; all results are exact."""
    sizes = np.arange(1, 80)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    data = np.where(rng.random(starts[-1]) < 0.1, 2, 1).astype(dtype)
    places, x = rng.integers(-9, 9, starts[-1]), np.arange(1, 10).astype(dtype)
    agrees(rows_of_all_lengths, data, places, starts, x)
    if np.dtype(dtype).kind == "f":
        unknown = data.copy()
        unknown[starts[5:-1:3] + sizes[5::3] // 2] = np.nan
        agrees(rows_of_all_lengths, unknown, places, starts, x)
    for row, at in ((7, 0), (20, 19), (21, 15), (33, 32), (70, 69)):
        outside = places.copy()
        outside[starts[row] + at] = 9
        agrees(rows_of_all_lengths, data, outside, starts, x)
