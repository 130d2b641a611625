"""Tensors that are changed behind the gradient's back in one compiled program: it raises as eager Tensors do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc


def under_no_grad(w: Any) -> None:
    with npc.no_grad():
        w -= 1


def through_detached(w: Any) -> None:
    w.detach()[0] = 5


def in_a_row(w: Any) -> None:
    with npc.no_grad():
        w[0] = 5


CHANGES = pytest.mark.parametrize("change", [under_no_grad, through_detached, in_a_row])
READ_LATER = pytest.mark.parametrize("loss", [lambda w: np.sum(w * w), lambda w: np.sum(np.sin(w)), lambda w: np.sum(w.T @ w)])
NOT_READ = pytest.mark.parametrize("loss", [lambda w: np.sum(3 * w), lambda w: np.sum(np.exp(w))])


def programs(loss: Callable[..., Any], change: Callable[..., Any]) -> list[Callable[..., Any]]:
    """`backward` after the program, and in it."""

    def after(w: Any) -> Any:
        y = loss(w)
        change(w)
        return y

    def within(w: Any) -> None:
        y = loss(w)
        change(w)
        y.backward()

    return [lambda w: after(w).backward(), lambda w: npc.compile(after)(w).backward(), within, npc.compile(within)]


def leaf() -> Any:
    return npc.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


@CHANGES
@READ_LATER
def test_a_leaf_that_the_gradient_needs(loss: Callable[..., Any], change: Callable[..., Any]) -> None:
    for program in programs(loss, change):
        w = leaf()
        with pytest.raises(RuntimeError, match=r"needs a value.* that was changed in place since"):
            program(w)
        assert w.grad is None


@CHANGES
@NOT_READ
def test_a_leaf_that_the_gradient_does_not_need(loss: Callable[..., Any], change: Callable[..., Any]) -> None:
    found = []
    for program in programs(loss, change):
        w = leaf()
        program(w)
        found.append((w.grad.numpy(), w.detach().numpy()))
    for gradient, contents in found[1:]:
        np.testing.assert_allclose(gradient, found[0][0], rtol=1e-14)
        np.testing.assert_array_equal(contents, found[0][1])


def test_steps_of_a_training_loop_in_one_program() -> None:
    def steps(w: Any, x: Any) -> None:
        for _ in range(3):
            np.sum((w * x) ** 2).backward()
            with npc.no_grad():
                w -= 0.1 * w.grad
            w.grad = None

    found = []
    for function in (steps, npc.compile(steps, fullgraph=True)):
        w = leaf()
        function(w, npc.tensor([0.5, 0.25]))
        found.append(w.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-14)
