"""Derivatives of arrays and Tensors of a device: what is checkpointed, what data decides, and gradients of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.cuda.there import There, there  # noqa: F401  (a fixture)

X = np.abs(np.random.default_rng(0).standard_normal((4, 3))) + 1


def newton(x: Any) -> Any:
    y = x
    while np.abs(y * y - x).max() > 1e-13:
        y = 0.5 * (y + x / y)
    return np.sum(y**3)


PROGRAMS = {
    "checkpoint": lambda x: np.sum(npc.checkpoint(lambda a: np.sin(a) * a)(x)),
    "a branch that raises": lambda x: np.average(x, weights=x**2),
    "a loop that data ends": newton,
    "while_loop": lambda x: np.sum(npc.while_loop(lambda c: np.sum(c) < 90, lambda c: c * 1.5 + x * x, x)),
    "running products": lambda x: np.sum(np.cumprod(x, axis=0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(there: There, name: str) -> None:  # noqa: F811
    function = PROGRAMS[name]
    expected = npc.grad(function)(X)
    x = there.put(npc.tensor(X, requires_grad=True))
    npc.compile(function)(x).backward()
    found = npc.grad(function)(there.put(npc.tensor(X)))
    for gradient in (found, x.grad):
        assert gradient.device == x.device
        np.testing.assert_allclose(gradient.to("cpu").numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(there.get(npc.grad(function)(there.put(X))), expected, rtol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_gradients(there: There, name: str) -> None:  # noqa: F811
    function = PROGRAMS[name]
    x = there.put(npc.tensor(X, requires_grad=True))
    npc.compile(function)(x).backward(create_graph=True)
    first, x.grad = x.grad, None
    np.sum(first**2).backward()
    expected = npc.grad(lambda x: np.sum(npc.grad(function)(x) ** 2))(X)
    np.testing.assert_allclose(x.grad.to("cpu").numpy(), expected, rtol=1e-9)
