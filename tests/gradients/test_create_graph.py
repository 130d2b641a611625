"""Gradients of gradients of what compiled programs give, to the third order, are those of eager Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

X = np.array([[0.5, 1.5], [-0.3, 0.7]])


@npc.custom_gradient
def halved(x: Any) -> Any:
    y = np.exp(x)
    return y, lambda g: g * y / 2


def with_a_break(x: Any) -> Any:
    y = np.sin(x) * x
    npc.graph_break()
    return np.sum(np.exp(y) * x)


def with_writes(x: Any) -> Any:
    y = x * 2
    y[0] += x[1]
    y *= x
    return np.sum(y**2)


def long_loop(x: Any) -> Any:
    y = x
    for _ in range(30):
        y = y * 0.9 + x * x * 0.01
    return np.sum(y**2)


def until_large(x: Any) -> Any:
    def step(c: Any) -> Any:
        return c[0] * c[0] * c[2] + c[1], c[1] * 1.1, c[2]

    return np.sum(npc.while_loop(lambda c: np.sum(c[0]) < 30.0, step, (x * x, x * 0.3, x * x + 1))[0])


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a break": with_a_break,
    "writes": with_writes,
    "cond": lambda x: npc.cond(np.sum(x) > 0, lambda a: np.sum(np.sin(a) * a), lambda a: np.sum(a**3), x),
    "scan": lambda x: npc.scan(lambda c, row: (c * np.sum(row**2) + 1, c), 1.0, x)[0],
    "scan backwards": lambda x: np.sum(npc.scan(lambda c, row: (c * row + 1, c * row), x[0], x, reverse=True)[1] ** 2),
    "fori_loop": lambda x: np.sum(npc.fori_loop(0, 3, lambda k, c: c * x + k, x)),
    "while_loop": until_large,
    "a long loop": long_loop,
    "checkpoint": lambda x: np.sum(npc.checkpoint(lambda a: np.sin(a) * a**2)(x)),
    "custom_gradient": lambda x: np.sum(halved(x) ** 2),
    "custom_gradient in checkpoint": lambda x: np.sum(npc.checkpoint(lambda x: halved(x) ** 2)(x)),
    "grad": lambda x: np.sum(npc.grad(lambda a: np.sum(a**3))(x) ** 2),
    "vmap": lambda x: np.sum(npc.vmap(lambda row: row @ row * row[0])(x)),
    "inverse": lambda x: np.sum(np.linalg.inv(x + 3 * np.eye(2))),
}


def three_orders(function: Callable[[Any], Any]) -> list[Any]:
    x = npc.tensor(X, requires_grad=True)
    y, found = function(x), []
    for order in range(3):
        y.backward(create_graph=order < 2)
        assert x.grad is not None
        found.append(x.grad.detach().numpy())
        y, x.grad = np.sum(x.grad**2), None
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_three_orders(name: str) -> None:
    function = PROGRAMS[name]
    for ours, theirs in zip(three_orders(npc.compile(function)), three_orders(function)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def bound_is_data(x: Any, n: Any) -> Any:
    return np.sum(npc.fori_loop(0, n, lambda k, c: c * c * x, x))


def test_second_derivatives_of_loops_whose_length_is_data() -> None:
    np.testing.assert_allclose(npc.hessian(bound_is_data)(X[0], np.array(3)), npc.hessian(bound_is_data)(X[0], 3), rtol=1e-13)
    x = X[0]
    gradient = npc.grad(until_large)
    columns = [(gradient(x + h) - gradient(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(npc.hessian(until_large)(x), np.array(columns).T, rtol=1e-6, atol=1e-4)


def test_within_one_program() -> None:
    def program(x: Any) -> None:
        np.sum(x**3).backward(create_graph=True)
        gradient, x.grad = x.grad, None
        np.sum(gradient**2).backward()

    found = []
    for function in (program, npc.compile(program)):
        x = npc.tensor(X, requires_grad=True)
        function(x)
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[0], 36 * X**3, rtol=1e-13)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-13)
