"""Tensors in Python that is not captured, or only in part: the answer is the eager one."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import npcompile as npc
from tests.tracer.tensor_harness import check, leaf, with_gradient, without_gradient


def rows(round: int) -> Any:
    return leaf(np.random.default_rng(round).normal(size=(40, 3)))


def weights(round: int) -> Any:
    return leaf(np.full((3, 3), 0.1 + round))


@check(rows, weights, graphs=None, breaks=None)
def test_a_long_loop_over_rows(x, w):
    h = x[0]
    for row in x:
        h = np.tanh(h @ w + row)
    return h


@check(rows, weights, graphs=None, breaks=None)
def test_a_long_loop_over_numbers(x, w):
    h = x[0]
    for k in range(40):
        h = np.tanh(h @ w + x[k])
    return h


@check(graphs=None, breaks=None)
def test_data_decides(x):
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    return x if x[0, 0] < 10 else -x, n


@check(graphs=None, breaks=None)
def test_generators(x):
    return sum(r * 2 for r in x), [k for k, r in enumerate(x)]


@check(graphs=None, breaks=None)
def test_an_index_out_of_bounds(x):
    y = x * 2
    try:
        y[10]
    except IndexError:
        return x * 3
    return y


@check(graphs=None, breaks=None)
def test_numbers_of_tensors(x):
    y = x * 2
    return y, f"{float(y.sum()):.6f} {y.sum().item():.6f} {y.tolist()[0][0]:.6f}", repr(y.detach())[:6]


@check(graphs=None, breaks=None)
def test_copies(x):
    return copy.deepcopy(x) * x


@check(graphs=None, breaks=None)
def test_leaves_that_are_made_inside(x):
    y, w = x.detach().clone().requires_grad_(), npc.tensor(np.ones(3), requires_grad=True)
    (y * x.detach() @ w).sum().backward()
    return y.grad * x, w.grad


@check(graphs=None, breaks=None)
def test_retain_grad_and_hooks(x):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward()
    return y.grad


@npc.no_grad()
def doubled(x: Any) -> Any:
    return x * 2


@check(graphs=None, breaks=None)
def test_modes_as_decorators(x):
    return doubled(x), x * 3


@check(with_gradient, lambda round: npc.tensor(np.array([0, 2, round])), graphs=None, breaks=None)
def test_tensors_as_indices(x, i):
    return x[i], x[i] * 2, np.take(x, i, axis=0), x[x > 1]


@check(graphs=None, breaks=None)
def test_arrays_filled_from_tensors(x):
    a, y = np.zeros((4, 3)), npc.zeros((4, 3))
    a[...] = x.detach()
    y[0] = x[1]
    y[1:, 0] = 3
    y += x
    return a, x * a, y


@check(without_gradient, graphs=None, breaks=None)
def test_writes_through_arrays(x):
    a = x.numpy()
    a[0] = 3
    a += 1
    return x * 2, a


@check(graphs=None, breaks=None)
def test_writes_through_detached_arrays(x):
    x.detach().numpy()[0] = 3
    return x * 2


@check(lambda round: leaf(np.zeros((0, 3))), graphs=None, breaks=None)
def test_no_elements(x):
    return x * 2, x.sum(), np.concatenate([x, x])


@check(lambda round: 0.9 - round / 4, lambda round: round + 2, lambda round: 1.5 + round)
def test_powers_of_numbers(b, t, p, x):
    return x * (1 - b**t) + x * b**p + x * 0.99**t, x ** (t + 1)
