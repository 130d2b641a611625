"""Variances, means with weights, reductions without NaN, diagonals and triangles, in native loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native_loops.expressions import agree_on
from tests.native_loops.test_selected_and_joined import LAYOUTS, numbers

OF_VECTORS = [
    "x.std()",
    "x.var()",
    "np.std(x[:k])",
    "np.var(x[::-2], ddof=1)",
    "np.var(x, axis=0)",
    "x.var(0, ddof=k % 3)",
    "x.std(ddof=1) + (x + A[0]).std()",
    "np.ptp(x)",
    "np.ptp(x[f])",
    "np.average(x)",
    "np.average(x, weights=A[1])",
    "np.average(x, weights=f)",
    "np.average(x[f], weights=x[f])",
    "np.nansum(x)",
    "np.nansum(x[f])",
    "np.nanmean(x)",
    "np.nanmax(x)",
    "np.nanmin(x[:k + 1])",
]
OF_MATRICES = [
    "A.var(axis=0)",
    "A.std(axis=1)",
    "A.var(axis=-1, ddof=1, keepdims=True)",
    "np.std(A, axis=0, keepdims=True)",
    "A.std()",
    "np.var(A[1:, :k], axis=0)",
    "np.ptp(A, axis=0)",
    "np.ptp(A, 1)",
    "np.average(A, axis=0)",
    "np.average(A, axis=1, weights=x)",
    "np.average(A, axis=0, weights=A[:, 0])",
    "np.average(A, weights=A)",
    "np.average(A, axis=0, weights=A)",
    "np.nansum(A, axis=0)",
    "np.nanmean(A, axis=1)",
    "np.nanmean(A, axis=0)",
    "np.nanmax(A, axis=0)",
    "np.nanmin(A, axis=1)",
    "np.trace(A)",
    "A[1:].trace()",
    "np.diag(A) + 1",
    "A.diagonal().sum()",
    "(np.diagonal(A[:, 1:]) * 2)[0]",
    "np.diag(A[0])",
    "np.diag(A[:, 0] > 1)",
    "np.tril(A)",
    "np.triu(A)",
    "np.tril(A, -1)",
    "np.triu(A, k=1)",
    "np.triu(A + 1, k - 3)",
    "np.tril(A, k - 30)",
]
SPECIAL = {
    "none": (),
    "nan": (np.nan,),
    "nans": (np.nan, np.nan),
    "inf": (np.inf,),
    "both": (np.inf, -np.inf),
    "large": (1e308, 1e308),
}


@pytest.mark.parametrize("dtype", ["i4", "u1", "b1"])
def test_vectors(dtype):
    x = numbers(dtype, 12) if dtype not in ("u1", "b1") else np.arange(12).astype(dtype)
    for expression in OF_VECTORS:
        agree_on(
            expression, numbers(dtype, 3, 12) + 40 if dtype != "b1" else np.ones((3, 12), bool), x, exactly=False, is_native=False
        )


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_they_are_native(dtype):
    for expression in OF_VECTORS:
        agree_on(expression, numbers(dtype, 3, 12) + 40, numbers(dtype, 12) + 50, exactly=False)


@pytest.mark.parametrize("n", [0, 1])
def test_short_vectors(n):
    for expression in OF_VECTORS:
        agree_on(expression, numbers("f8", 3, n) + 40, numbers("f8", n), exactly=False, is_native=False)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_matrices(dtype, layout):
    start = ["f8", "f4", "i4"].index(dtype)
    for expression in OF_MATRICES[start :: 3 if start or layout != "C" else 1]:
        A = LAYOUTS[layout](numbers(dtype, 5, 4) + 40)
        agree_on(expression, A, numbers(dtype, 4) + 40, exactly=False, is_native=layout == "C")


@pytest.mark.parametrize("special", SPECIAL)
def test_what_is_no_number(special):
    """Where NumPy warns, it does so on the line of the user's."""
    A, x = numbers("f8", 5, 4), numbers("f8", 12)
    for k, value in enumerate(SPECIAL[special]):
        x[k] = A[k + 2, k] = value
    A[0] = x[0]
    for expression in [*OF_VECTORS[:3], *OF_VECTORS[10::2]]:
        agree_on(expression, np.tile(x, (3, 1)), x, exactly=False, is_native=False)
    for expression in OF_MATRICES[:18:2]:
        agree_on(expression, A, x[:4].copy(), exactly=False, is_native=False)


@pytest.mark.parametrize(
    "expression",
    [
        "x.var(ddof=4)",
        "x[:0].mean()",
        "np.average(x, weights=x - x)",
        "np.average(A, weights=x)",
        "np.average(A, axis=1, weights=A[:, 0])",
        "np.average(A, axis=0, weights=A - A)",
        "np.average(A * np.nan, axis=0, weights=A - A)",
        "np.trace(x)",
        "np.diag(A)",
        "np.tril(x)",
        "A.diagonal()[1:]",
    ],
)
def test_errors_and_what_is_left_to_numpy(expression):
    agree_on(expression, numbers("f8", 5, 4), numbers("f8", 4), exactly=False, is_native=False)


def test_a_diagonal_is_a_view_that_must_not_be_written_through():
    for expression in ("np.diag(A)", "A.diagonal()", "(np.diagonal(A), x)"):
        agree_on(expression, numbers("f8", 4, 4), numbers("f8", 4), "A[0, 0] = k", is_native=False)


PRODUCTS = ["np.cross(A[0], A[1])", "np.cross(A[k % 3], x)", "np.cross(A[:3, 0], x[::-1])", "(np.cross(x, A[1] + 1), k)"]
POLYNOMIALS = ["np.polyval(x, x[0])", "np.polyval(A[:, 0], 0.5)", "np.polyval(x[:k % 4], A[0, 0])", "np.polyval(x - x, x[1])"]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4"])
def test_products_of_three_numbers(dtype):
    for expression in PRODUCTS:
        agree_on(expression, numbers(dtype, 4, 3), numbers(dtype, 3), is_native=dtype != "i4")
    agree_on("np.cross(A[:, :3], x)", numbers(dtype, 4, 3), numbers(dtype, 3), is_native=False)


@pytest.mark.parametrize("value", [1.0, -0.0, 1e308, np.inf, np.nan])
def test_polynomials_and_products_of_any_numbers(value):
    A, x = numbers("f8", 4, 3), numbers("f8", 3)
    A[:, 0] = x[1] = value
    for expression in (*PRODUCTS, *POLYNOMIALS):
        agree_on(expression, A, x, is_native=value == 1.0)
    agree_on("np.polyval(x, x[0])", A.astype("f4"), x.astype("f4"), is_native=False)
