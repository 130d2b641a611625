"""Statements over whole arrays of complex numbers in native loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.native_loops.random.complex_arrays import draw_complex
from tests.native_loops.random.complex_numbers import check_native
from tests.native_loops.random.expressions import agree_on, agree_on_all
from tests.native_loops.test_native_loops import agrees
from tests.random_programs import check_examples


def numbers(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def columns(A: np.ndarray) -> np.ndarray:
    """The same elements, not side by side."""
    return np.repeat(A, 2, axis=1)[:, ::2]


ELEMENTWISE = [
    "x + A[1]",
    "x - x[::-1]",
    "x * A[0]",
    "x / A[0]",
    "x * 2j",
    "(0.5 - 1j) * x",
    "x * k",
    "x + np.float32(0.5)",
    "x * A[k % 3, 1]",
    "x / 3",
    "1 / x",
    "-x",
    "x**2",
    "x * x * x - x / (x + 3)",
    "np.multiply(x, A)",
    "A[:, :2] * A[:, 2:4]",
    "x.conj()",
    "np.conj(x) * x",
    "x == A[1]",
    "(x != x[::-1]).sum()",
    "f * x",
    "f + A",
    "x.real",
    "x.imag + 1",
    "x[::2].real * x[::2].imag",
    "(x * x).imag",
    "A.real[1]",
    "A[:, 1].imag[k % 3]",
    "x.conj().imag",
    "x[::-1].real",
    "np.where(f, x, A[1])",
    "np.where(f, x.real, x.imag)",
    "np.where(f, 1j, x)",
    "x[f]",
    "x[::2][f[::2]]",
    "x[[0, 2]]",
    "A[[k % 3, 0]]",
    "x[np.argsort(x.real)[:2]] if k < 0 else x",
    "np.take(x, [0, -1])",
    "np.outer(x, x.conj())",
    "x.reshape(2, 6)",
    "A.ravel()",
]


@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_expressions(dtype):
    agree_on_all(ELEMENTWISE, numbers(dtype, 4, 12), numbers(dtype, 12))


@pytest.mark.parametrize("expression, dtype", [*zip(ELEMENTWISE, itertools.cycle(["c16", "c8"]))])
def test_expressions_of_columns(expression, dtype):
    agree_on(expression, columns(numbers(dtype, 4, 12)), np.repeat(numbers(dtype, 12), 2)[::2], is_native=False)


@pytest.mark.parametrize(
    "statement",
    [
        "x[:] = x[::-1]",
        "x += A[k % 3]",
        "x *= 0.5j",
        "x -= x[::-1] * 0.1",
        "x /= 2",
        "A[k % 3] = x",
        "A[:, 1] = A[:, 2] * x[0]",
        "A[1:] -= A[:-1] * 0.1",
        "A[0, :] = k",
        "A[0] = x.real",
        "x[1:] = x[:-1] + 1",
        "x[f] = 1j",
        "x[f] = x[f] * 0.5",
        "A[A.real > 0] = k",
        "A[:2][A[:2] == 0] = 1",
        "x.real[:] = 1",
        "x.imag[1:] = x.real[:-1]",
        "A.imag[0, 1] += 1",
        "x[0] = A.real[0, 1] + x.imag[1]",
        "A[[0, 1]] = A[[1, 0]]",
    ],
)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_statements(dtype, statement):
    agree_on("x[0] + A[0, 0]", numbers(dtype, 4, 12), numbers(dtype, 12), statement)
    if dtype == "c16":
        agree_on("x[0] + A[0, 0]", columns(numbers(dtype, 4, 12)), numbers(dtype, 12), statement, is_native=False)


@pytest.mark.parametrize(
    "expression", ["x.sum()", "np.sum(A)", "A.sum(axis=0)", "np.sum(A * x, axis=1)", "A @ A.T", "A[:, :4] @ A"]
)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_sums_and_products(dtype, expression):
    agree_on(f"({expression}).imag", numbers(dtype, 4, 12), numbers(dtype, 12), exactly=False)


@pytest.mark.parametrize(
    "expression",
    [
        "x / (x - x)",
        "x / 0",
        "x * 1e300 * 1e300",
        "x * np.inf",
        "(x * np.inf) * 0",
        "x * (A[0] / 0.0)",
        "x + A[:, :2]",
        "x[:3] * x[:4]",
        "np.where(f[1:], x, 0)",
        "x.real / 0",
        "x * 1e-200 * 1e-200",
    ],
)
def test_errors_and_warnings(expression):
    agree_on(expression, numbers("c16", 4, 12), numbers("c16", 12))


@pytest.mark.parametrize("statement", ["A.real[0] = x", "x.imag[:] = x", "x[:] = A", "x[f[1:]] = 1", "x += A", "A.real[1] += x"])
def test_errors_of_assignments(statement):
    agree_on("x[0]", numbers("c16", 4, 12), numbers("c16", 12), statement, is_native=False)


def test_a_part_is_a_view():
    def parts(z, n):
        y = z.real
        for k in range(n):
            y = z.imag
            z[k] = z[k] * 1j
        return y

    compiled, z = agrees(parts, numbers("c16", 40), 40), numbers("c16", 40)
    view = compiled(z, 40)
    assert view.base is z and view.strides == (16,) and view.flags.writeable


def test_the_conjugate_of_real_numbers_is_the_array():
    def conjugated(x, n):
        y = x
        for _ in range(n):
            y = x.conj()
            y[0] += 1
        return y is x, y

    agrees(conjugated, np.ones(5), 40)


def test_random_programs(backend="cpu"):
    check_examples(draw_complex, check_native, backend, 8)
