"""Tangents, Jacobians, second derivatives and `has_aux` of functions with loops, by native programs, against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question

Function = Callable[..., Any]
STEP = 1e-5


def smoothed(x, a):
    s, total = 0.0, 0.0
    for i in range(x.size):
        s = a * x[i] + (1.0 - a) * s
        total = total + s * s * np.sin(s)
    return total


def branching(x, a):
    """Conditions, functions of numbers, and elements that are overwritten."""
    y = np.zeros(x.size)
    for i in range(x.size):
        if x[i] > 0.8:
            y[i] = np.sqrt(x[i]) * a + np.maximum(x[i], a)
        else:
            y[i] = np.exp(-a * x[i]) / (1.0 + x[i] ** 2)
        y[i] = y[i] * y[i - 1] + np.tanh(a) if i > 0 else y[i]
    total = 0.0
    for i in range(x.size):
        total = total + y[i] ** 3
    return total


def root(x, a):
    """Newton's iteration, as often as numbers say, for each element."""
    total = 0.0
    for i in range(x.size):
        y = x[i]
        while abs(y * y - x[i] - a * a) > 1e-9:
            y = 0.5 * (y + (x[i] + a * a) / y)
        total = total + y * x[i]
        if total > 8.0:
            break
    return total


def grown(x, a):
    """A list that grows, and is read."""
    found = []
    for i in range(x.size):
        if x[i] > a:
            found.append(x[i] * x[i])
    total = a
    for i in range(len(found)):
        total = total * np.cos(found[i])
    return total


def stepped(x, a):
    """Statements about arrays, one carried from iteration to iteration."""
    u = x * 1.0
    for _ in range(4):
        u = u + a * np.sin(u) * u[0]
    return u @ u


def called(x, a):
    total = 0.0
    for i in range(x.size):
        total = total + cubed(x[i], a) * x[i - 1]
    return total


def cubed(v, a):
    return v**3 / (1.0 + a)


def arctangents(x, a):
    total = 0.0
    for i in range(x.size):
        total = total + np.arctan2(x[i], a) * np.hypot(x[i], a) + np.log(x[i]) * x[i] ** a
    return total


FUNCTIONS = [smoothed, branching, root, grown, stepped, called, arctangents]
X, A = np.array([0.4, 1.3, 0.9, 0.7, 1.1]), 0.6
DX, DA = np.array([0.3, -1.0, 0.5, 0.2, 0.0]), 0.7


def loops_of(question: Question) -> LoopGradients:
    return LoopGradients(question, compile_native)


def central(f: Function, h: float = STEP) -> Any:
    """The derivative along (DX, DA)."""
    return (np.asarray(f(X + h * DX, A + h * DA)) - np.asarray(f(X - h * DX, A - h * DA))) / (2 * h)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_tangents(function: Function) -> None:
    loops = loops_of(Question(None, moved=(0, 1)))
    found = loops(function, (X, A), [DX.copy(), DA])  # type: ignore[arg-type]
    assert found is not None and not loops.reasons
    np.testing.assert_allclose(found[0], function(X, A), rtol=1e-14)
    np.testing.assert_allclose(found[1], central(function), rtol=1e-6)
    value, tangent = npc.jvp(function, (X, A), (DX, DA))
    assert (value, tangent) == found and type(tangent) is np.float64


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_along_a_vector(function: Function) -> None:
    """Forward mode over reverse mode."""
    loops = loops_of(Question((1, 0), moved=(0, 1)))
    found = loops(function, (X, A), [DX.copy(), DA])  # type: ignore[arg-type]
    assert found is not None and not loops.reasons
    (value, of_a, of_x), (moved, moved_a, moved_x) = found
    gradient = npc.grad(function, (0, 1))
    np.testing.assert_allclose(value, function(X, A), rtol=1e-14)
    np.testing.assert_allclose(of_a, gradient(X, A)[1], rtol=1e-13)
    np.testing.assert_allclose(of_x, gradient(X, A)[0], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(moved, central(function), rtol=1e-6)
    np.testing.assert_allclose(moved_a, central(lambda x, a: gradient(x, a)[1]), rtol=1e-6)
    np.testing.assert_allclose(moved_x, central(lambda x, a: gradient(x, a)[0]), rtol=1e-6, atol=1e-8)
    assert_pairs(npc.jvp(npc.grad(function, (0, 1)), (X, A), (DX, DA)), ((of_x, of_a), (moved_x, moved_a)))
    both = npc.jvp(npc.value_and_grad(function, 0), (X, A), (DX, DA))
    assert_pairs(both, ((value, of_x), (moved, moved_x)))


def assert_pairs(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_hessians(function: Function) -> None:
    hessian, gradient = npc.hessian(function), npc.grad(function)
    found = hessian(X, A)
    moves = np.eye(X.size) * STEP
    wanted = [(gradient(X + move, A) - gradient(X - move, A)) / (2 * STEP) for move in moves]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-11)
    assert npc.explain(hessian)(X, A).natives
    mixed = npc.jacobian(npc.grad(function, 0), 1)(X, A)
    np.testing.assert_allclose(mixed, (gradient(X, A + STEP) - gradient(X, A - STEP)) / (2 * STEP), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(npc.jacobian(npc.grad(function, 1), 0)(X, A), mixed, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_gradient_of_a_gradient(function: Function) -> None:
    gradient, twice = npc.grad(function, 1), npc.grad(npc.grad(function, 1), 1)
    found = twice(X, A)
    np.testing.assert_allclose(found, (gradient(X, A + STEP) - gradient(X, A - STEP)) / (2 * STEP), rtol=1e-6)
    assert npc.explain(twice)(X, A).natives and type(found) is np.float64
    value, (of_x, of_a) = npc.value_and_grad(npc.grad(function, 1), (0, 1))(X, A)
    np.testing.assert_allclose([value, of_a], [gradient(X, A), found], rtol=1e-12)
    np.testing.assert_allclose(of_x, npc.jacobian(gradient, 0)(X, A), rtol=1e-12)


def running(x, a):
    made = np.zeros(x.size)
    s = 0.0
    for i in range(x.size):
        s = s * a + x[i] ** 2
        made[i] = s
    return made


def counted(x, n):
    """What is no floating-point number has no tangent."""
    total = 0.0
    for i in range(n):
        total = total + x[i] * x[i]
    return total


def test_columns_of_a_jacobian() -> None:
    jacobian = npc.jacobian(running)
    found = jacobian(X, A)
    wanted = [(running(X + move, A) - running(X - move, A)) / (2 * STEP) for move in np.eye(X.size) * STEP]
    np.testing.assert_allclose(found, np.transpose(wanted), atol=1e-8)
    assert npc.explain(jacobian)(X, A).natives
    column = npc.jacobian(running, 1)(X, A)
    np.testing.assert_allclose(column, (running(X, A + STEP) - running(X, A - STEP)) / (2 * STEP), atol=1e-8)
    value, tangent = npc.jvp(running, (X, A), (DX, DA))
    np.testing.assert_allclose(value, running(X, A), rtol=1e-14)
    np.testing.assert_allclose(tangent, found @ DX + column * DA, rtol=1e-12)


def test_wide_jacobians_are_made_of_rows() -> None:
    x = np.linspace(0.5, 1.5, 40)
    wanted = npc.grad(smoothed)(x, A)
    np.testing.assert_allclose(npc.jacobian(smoothed)(x, A), wanted, rtol=1e-12)


def test_matrices_and_keywords() -> None:
    def loss(w, *, scale=2.0):
        return scale * total_of(w)

    def total_of(w, scale=2.0):
        total = 0.0
        for i in range(w.shape[0]):
            for j in range(w.shape[1]):
                total = total + scale * w[i, j] ** 3 * w[j, i]
        return total

    w = np.arange(1.0, 10.0).reshape(3, 3) / 5
    found = npc.hessian(total_of)(w, scale=3.0)
    gradient = npc.grad(total_of)
    wanted = [
        [(gradient(w + e, 3.0) - gradient(w - e, 3.0)) / (2 * STEP) for e in np.eye(9)[3 * i : 3 * i + 3].reshape(3, 3, 3) * STEP]
        for i in range(3)
    ]
    assert found.shape == (3, 3, 3, 3)
    np.testing.assert_allclose(found, np.moveaxis(wanted, (0, 1), (2, 3)), atol=1e-5)
    np.testing.assert_allclose(npc.hessian(total_of)(w.T), np.asarray(npc.hessian(total_of)(w.T.copy())), rtol=1e-12)
    np.testing.assert_allclose(npc.grad(loss)(w), 2 * gradient(w), rtol=1e-12)


def test_what_is_no_number_is_not_moved() -> None:
    np.testing.assert_allclose(npc.hessian(counted)(X, 3), np.diag([2.0, 2, 2, 0, 0]))
    found = npc.jacobian(npc.grad(counted))(X, 2)
    np.testing.assert_allclose(found, np.diag([2.0, 2, 0, 0, 0]))


def test_arguments_stay_as_they_are() -> None:
    def written(x):
        total = 0.0
        for i in range(x.size):
            x[i] = x[i] * x[i]
            total = total + x[i] * x[i]
        return total

    x, direction = X.copy(), DX.copy()
    found = npc.hessian(written)(x)
    np.testing.assert_allclose(found, np.diag(12 * X**2), rtol=1e-12)
    np.testing.assert_allclose(x, X**2)  # written once
    npc.jvp(running, (X, A), (direction, DA))
    np.testing.assert_array_equal(direction, DX)


# --- has_aux


def with_aux(x, a):
    total, count = 0.0, 0
    seen = np.zeros(x.size)
    for i in range(x.size):
        total = total + a * x[i] ** 3
        seen[i] = total
        count += 1
    return total, (count, seen, None, total * 2.0)


def test_aux() -> None:
    for argnums in (0, (0, 1), (1, 0)):
        transformed = npc.grad(with_aux, argnums, has_aux=True)
        gradient, (count, seen, nothing, twice) = transformed(X, A)
        assert npc.explain(transformed)(X, A).natives
        total, wanted = with_aux(X, A)
        assert (count, nothing) == (5, None) and type(count) is int
        np.testing.assert_allclose(seen, wanted[1], rtol=1e-14)
        np.testing.assert_allclose(twice, 2 * total, rtol=1e-14)
        parts = dict(zip((argnums,) if isinstance(argnums, int) else argnums, (gradient,) if argnums == 0 else gradient))
        np.testing.assert_allclose(parts[0], 3 * A * X**2, rtol=1e-12)
        np.testing.assert_allclose(parts.get(1, np.sum(X**3)), np.sum(X**3), rtol=1e-12)
    (value, aux), gradient = npc.value_and_grad(with_aux, has_aux=True)(X, A)
    assert aux[0] == 5 and len(aux) == 4
    np.testing.assert_allclose(value, total, rtol=1e-14)
    np.testing.assert_allclose(gradient, 3 * A * X**2, rtol=1e-12)


def test_aux_of_another_kind_goes_the_way_of_other_functions() -> None:
    def named(x):
        total = 0.0
        for i in range(x.size):
            total = total + x[i] ** 2
        return total, {"sum": total}

    gradient, aux = npc.grad(named, has_aux=True)(X)
    np.testing.assert_allclose(gradient, 2 * X)
    np.testing.assert_allclose(aux["sum"], np.sum(X**2))


# --- borders


def entropy(x):
    total = 0.0
    for i in range(x.size):
        total = total + np.where(x[i] > 0, x[i] * np.log(x[i]), 0.0)
    return total


def distance(x):
    squares = 0.0
    for i in range(x.size):
        squares = squares + x[i] ** 2
    return np.sqrt(squares)


def test_second_derivatives_at_borders_are_those_of_what_was_taken() -> None:
    x = np.array([0.0, 1.0, 4.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(npc.hessian(entropy)(x), np.diag([0, 1, 0.25]), rtol=1e-12)
        np.testing.assert_array_equal(npc.hessian(distance)(np.zeros(3)), np.zeros((3, 3)))
        found = npc.jvp(npc.grad(entropy), (x,), (np.ones(3),))
    np.testing.assert_allclose(found, ([0, 1, 1 + np.log(4)], [0, 1, 0.25]), rtol=1e-12)
