"""Statements about arrays in loops come from numpy_shim: gradients against differences, and where they must be left to others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.loop_losses import LOSSES, Loss
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients
from npcompile.loop_questions import Question

LEFT = {"bundle", "clipped_walk", "kalman_matrices"}  # np.cross and np.linalg.norm, which are Python, and LAPACK


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) + 0.5


def normalised(x, y):
    total = 0.0
    for k in range(3):
        p = np.exp(x - np.max(x, axis=1, keepdims=True))
        p = p / p.sum(axis=1)[:, None]
        total = total + np.sum(p.T @ y) * k + np.mean(p[:, ::-1] * x, axis=0).sum()
    return total


def chosen(x, y):
    out = np.zeros_like(x)
    for k in range(2):
        out = np.where(x > y + k, x * out + y, np.minimum(x, 2.0 * y))
        out[out > 1.0] = 0.5
        out[~(x < y)] = x[::-1][0]
    return out.sum()


def looked_up(x, y):
    places, total = np.array([2, 0, 2, 1]), 0.0
    for k in range(3):
        picked = x[places] * (k + 1.0)
        total = total + (picked * y[places[k]]).sum() + x[[0, -1]].sum() + np.cumsum(picked)[2]
    return total


def views(x, y):
    """What a view shows is read when it is used; what is stored into one is stored into the array."""
    x = x.copy()
    for k in range(2):
        turned, every = x.T, x[::2, 1:]
        x[k] = x[k] * y[0]
        x.T[0] += turned[1]
        every[:] = every * 2.0
        a, b, c = x[:, k][:, None] + turned[None, 0, :3]
        y = y + (a * b * c).sum() * 0.01
    return x.sum() + y.sum()


def joined(x, y):
    total = 0.0
    for k in range(1, 4):
        m = np.concatenate([x[:k] * y[0], y, np.ones(2)])
        total = total + np.prod(m) + np.outer(m[k:], x).sum() + np.linspace(0.0, x[k], 3).sum() + m.min() + np.var(m)
    return total


def shrinking(x, y):
    """The sizes of what an iteration makes are known in the iteration alone."""
    total = 0.0
    for i in range(x.size):
        d = x[i:] * y[0]
        e = d[: d.size // 2 + 1] + d[0]
        total = total + np.sum(np.sqrt(d)) * e[-1]
    return total


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (normalised, (numbers(3, 4), numbers(3, 2, seed=1))),
    (chosen, (numbers(5), numbers(5, seed=1))),
    (looked_up, (numbers(4), numbers(4, seed=1))),
    (views, (numbers(3, 4), numbers(4, seed=1))),
    (joined, (numbers(5), numbers(3, seed=1))),
    (shrinking, (numbers(6), numbers(2, seed=1))),
]


def native(function: Any, arguments: Any, argnums: tuple[int, ...]) -> tuple[Any, LoopGradients]:
    made = LoopGradients(Question(argnums), compile_native)
    return made(function, copy.deepcopy(arguments)), made


def agree(function: Any, arguments: Any, argnums: tuple[int, ...], found: Any) -> None:
    """The value is the function's, and gradients are what it changes by along random directions."""
    np.testing.assert_allclose(found[0], function(*copy.deepcopy(arguments)), rtol=1e-10)
    rng = np.random.default_rng(5)
    for k, gradient in zip(argnums, found[1:], strict=True):
        assert np.shape(gradient) == np.shape(arguments[k]) and gradient.dtype == np.float64
        direction = rng.normal(size=np.shape(gradient))
        values = []
        for step in (1e-6, -1e-6):
            moved = list(copy.deepcopy(arguments))
            moved[k] = moved[k] + step * direction
            values.append(function(*moved))
        slope = np.sum(gradient * direction)
        np.testing.assert_allclose((values[0] - values[1]) / 2e-6, slope, rtol=1e-5, atol=1e-7 * abs(values[0]))


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_statements_agree_with_differences(function: Any, arguments: Any) -> None:
    found, made = native(function, arguments, (0, 1))
    assert found is not None, made.reasons
    agree(function, arguments, (0, 1), found)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.name not in LEFT], ids=lambda loss: loss.name)
def test_losses_are_native(loss: Loss) -> None:
    arguments = loss.arguments()
    found, made = native(loss.function, arguments, loss.argnums)
    assert found is not None, made.reasons
    agree(loss.function, arguments, loss.argnums, found)


def test_equal_elements_share_the_gradient_of_an_extreme() -> None:
    def largest(x):
        total = 0.0
        for k in range(2):
            total = total + np.max(x) + np.min(x[k:])
        return total

    found, made = native(largest, (np.array([3.0, 1.0, 3.0, 1.0, 3.0, 1.0]),), (0,))
    assert found is not None, made.reasons
    np.testing.assert_allclose(found[1], np.array([2.0, 2.0, 2.0, 2.0, 2.0, 2.0]) / 3.0, rtol=1e-15)


def test_a_program_serves_other_sizes() -> None:
    def total(x, y):
        s = 0.0
        for row in x:
            s = s + np.sum(row * y) + y.max()
        return s

    made = LoopGradients(Question((0, 1)), compile_native)
    for n, m in ((3, 4), (5, 2), (2, 1), (1, 3)):
        x, y = numbers(n, m), numbers(m, seed=1)
        found = made(total, (x, y))
        assert found is not None, made.reasons
        agree(total, (x, y), (0, 1), found)
    assert len(made.versions) == 1


def test_sizes_that_do_not_fit_are_left_to_python() -> None:
    def total(x, y):
        s = 0.0
        for _ in range(2):
            s = s + np.sum(x * y)
        return s

    made = LoopGradients(Question((0,)), compile_native)
    assert made(total, (numbers(3), numbers(3))) is not None
    assert made(total, (numbers(3), numbers(1))) is None  # it broadcasts there
    assert made(total, (numbers(3), numbers(4))) is None  # and raises here


def test_a_list_is_an_index_of_several_places() -> None:
    def corner(x):
        s = 0.0
        for _ in range(2):
            s = s + np.sum(x[[0, 1]]) + x[0, 1]
        return s

    x = numbers(3, 3)
    found, made = native(corner, (x,), (0,))
    assert found is not None, made.reasons
    agree(corner, (x,), (0,), found)


def test_axes_that_depend_on_sizes_are_left_to_python() -> None:
    def total(x):
        s = 0.0
        for k in range(2):
            s = s + np.squeeze(x).ndim * np.sum(x) + x.squeeze().sum()
        return s

    found, made = native(total, (numbers(3, 2),), (0,))
    assert found is None and "squeeze of arrays" in next(iter(made.reasons.values()))
