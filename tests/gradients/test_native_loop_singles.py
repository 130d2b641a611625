"""Gradients with respect to float32 arguments of functions with loops: computed in float64, rounded at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question

SINGLE = np.float32
X, A = np.array([0.4, 1.3, 0.9, 0.7, 1.1], SINGLE), SINGLE(0.6)


def smoothed(x, a):
    s, total = x[0], a
    for i in range(x.size):
        s = a * x[i] + (1 - a) * s
        total = total + s * s * np.sin(s)
    return total


def from_pythons_zero(x, a):
    """The result of no iteration is Python's."""
    total = 0.0
    for i in range(x.size):
        total = total + a * x[i] ** 3
    return total


def overwritten(x, a):
    for i in range(1, x.size):
        x[i] = x[i] * x[i - 1] + np.sqrt(x[i])
    total = a
    for i in range(x.size):
        if x[i] > 1:
            total = total * np.exp(-x[i])
        else:
            total = total + np.maximum(x[i], a)
    return total


def searched(x, a):
    total, k = a, 0
    while total < 2.5 and k < x.size:
        total = total + x[k] * x[k] / a
        k += 1
    return total


def mixed(x, y):
    """float32 and float64 make float64."""
    total = y[0]
    for i in range(x.size):
        total = total + x[i] * y[i] * y[i]
    return total


def norm(x, a):
    squares = x[0] * x[0]
    for i in range(1, x.size):
        squares = squares + x[i] * x[i]
    return np.sqrt(squares) + a


FUNCTIONS = [smoothed, from_pythons_zero, overwritten, searched, norm]


def native(function: Callable[..., Any], *args: Any) -> Any:
    loops = LoopGradients(Question((0, 1)), compile_native)
    found = loops(function, tuple(np.copy(x)[()] for x in args))  # type: ignore[arg-type]
    assert found is not None and not loops.reasons, loops.reasons
    return found


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients(function: Callable[..., Any]) -> None:
    value, of_x, of_a = native(function, X, A)
    plain = function(X.copy(), A)
    assert type(value) is type(plain) is SINGLE
    np.testing.assert_allclose(value, plain, rtol=1e-6)
    assert of_x.dtype == SINGLE and of_x.shape == X.shape and type(of_a) is SINGLE
    _, exact_x, exact_a = native(function, X.astype(float), float(A))
    np.testing.assert_allclose(of_x, exact_x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_a, exact_a, rtol=1e-5)
    again, (found_x, found_a) = npc.value_and_grad(function, (0, 1))(X.copy(), A)
    assert again == value and found_a == of_a
    np.testing.assert_array_equal(found_x, of_x)


def test_single_and_double_numbers() -> None:
    y = np.linspace(0.5, 1.5, X.size)
    value, of_x, of_y = native(mixed, X, y)
    assert type(value) is np.float64 and of_x.dtype == SINGLE and of_y.dtype == float
    np.testing.assert_allclose(of_x, y * y, rtol=1e-6)
    np.testing.assert_allclose(of_y, 2 * X * y + (np.arange(X.size) == 0), rtol=1e-6)


def test_no_iteration() -> None:
    value, of_x, of_a = native(from_pythons_zero, X[:0], A)
    assert value == 0.0 and of_x.shape == (0,) and of_a == 0


def test_the_norm_of_zeros() -> None:
    _, of_x, _ = native(norm, np.zeros(3, SINGLE), A)
    np.testing.assert_array_equal(of_x, np.zeros(3))


def test_second_derivatives() -> None:
    found = npc.hessian(smoothed)(X, A)
    assert found.dtype == SINGLE
    np.testing.assert_allclose(found, npc.hessian(smoothed)(X.astype(float), float(A)), rtol=1e-4, atol=1e-5)
