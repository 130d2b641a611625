"""Variances, means with weights, reductions without NaN, diagonals and triangles, in native loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.native_loops.random.expressions import agree_on, agree_on_all
from tests.native_loops.statements.test_selected_and_joined import DTYPES, LAYOUTS, numbers

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
    "nan": (np.nan,),
    "nans": (np.nan, np.nan),
    "inf": (np.inf,),
    "both": (np.inf, -np.inf),
    "large": (1e308, 1e308),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    start = DTYPES.index(dtype)
    A, x = (numbers("f8", 3, 12) + 40).astype(dtype), (np.arange(12) * 1.7).astype(dtype)
    agree_on_all([e for e in OF_VECTORS[start % 3 :: 3 if start else 1] if dtype != "b1" or "ptp" not in e], A, x, exactly=False)


@pytest.mark.parametrize("n", [0, 1])
def test_short_vectors(n):
    agree_on_all(OF_VECTORS, numbers("f8", 3, n) + 40, numbers("f8", n), exactly=False)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_matrices(dtype, layout):
    start = ["f8", "f4", "i4"].index(dtype)
    expressions = OF_MATRICES[start :: 3 if start or layout != "C" else 1]
    A, x = LAYOUTS[layout](numbers(dtype, 5, 4) + 40), numbers(dtype, 4) + 40
    left = [e for e in expressions if layout != "C" and re.search("tri[ul]|A.var.*keep|np.var", e)]
    agree_on_all([e for e in expressions if e not in left], A, x, exactly=False)
    for expression in left:
        agree_on(expression, A, x, exactly=False, is_native=False)


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
    agree_on(PRODUCTS, numbers(dtype, 4, 3), numbers(dtype, 3), is_native=dtype != "i4")
    agree_on("np.cross(A[:, :3], x)", numbers(dtype, 4, 3), numbers(dtype, 3), is_native=False)


@pytest.mark.parametrize("value", [1.0, -0.0, 1e308, np.inf, np.nan])
def test_polynomials_and_products_of_any_numbers(value):
    A, x = numbers("f8", 4, 3), numbers("f8", 3)
    A[:, 0] = x[1] = value
    for expression in (*PRODUCTS, *POLYNOMIALS):
        agree_on(expression, A, x, is_native=value == 1.0)
    agree_on("np.polyval(x, x[0])", A.astype("f4"), x.astype("f4"), is_native=False)
