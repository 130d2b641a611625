"""backward() and steps of optimisers inside of compiled functions."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.tensor_harness import check, count, leaf, same


def parameters(round: int) -> dict[str, Any]:
    rng = np.random.default_rng(round)
    return {"w": leaf(rng.normal(size=(3, 2))), "b": leaf(rng.normal(size=2))}


def with_gradients(round: int) -> dict[str, Any]:
    made = parameters(round)
    for p in made.values():
        p.grad = npc.ones_like(p)
    return made


def inputs(round: int) -> Any:
    return npc.tensor(np.random.default_rng(round + 10).normal(size=(5, 3)))


def targets(round: int) -> Any:
    return npc.tensor(np.random.default_rng(round + 20).normal(size=(5, 2)))


def loss_of(p: Any, x: Any, y: Any) -> Any:
    return np.mean((x @ p["w"] + p["b"] - y) ** 2)


def step(p: Any, rate: float) -> None:
    with npc.no_grad():
        for v in p.values():
            v -= rate * v.grad
            v.grad = None


# --- .grad


@check(parameters, inputs, targets)
def test_backward_sets_grad(p, x, y):
    loss = loss_of(p, x, y)
    loss.backward()
    return loss, p["w"].grad, p["b"].grad


@check(parameters, inputs, targets)
def test_the_second_backward_adds_to_the_same_tensor(p, x, y):
    (x @ p["w"]).sum().backward()
    first = p["w"].grad
    before = first.copy()
    loss_of(p, x, y).backward()
    return first, before, p["b"].grad, first is p["w"].grad


@check(with_gradients, inputs, targets)
def test_adds_to_what_is_there(p, x, y):
    g = p["w"].grad
    loss_of(p, x, y).backward()
    return g


@check(with_gradients, inputs, targets)
def test_grad_is_set_to_none_before(p, x, y):
    p["w"].grad = None
    p["b"].grad = None
    loss_of(p, x, y).backward()


@check(with_gradients, inputs, targets)
def test_grad_is_set_to_a_tensor(p, x, y):
    p["w"].grad = p["w"].grad * 3
    p["b"].grad = npc.zeros_like(p["b"])
    loss_of(p, x, y).backward()


@check(parameters, inputs, targets)
def test_some_leaves_are_not_reached(p, x, y):
    (x @ p["w"]).sum().backward()
    return p["b"] * 2, p["b"].grad


# --- what backward() takes, frees, refuses


@check(parameters, inputs, targets)
def test_a_gradient_is_given(p, x, y):
    h = x @ p["w"]
    h.backward(y)
    (x @ p["w"] + p["b"]).backward(npc.ones_like(y))


@check(parameters, inputs, targets)
def test_one_element_of_any_shape(p, x, y):
    (x @ p["w"]).sum(axis=(0, 1), keepdims=True).backward()


@check(parameters, inputs, targets)
def test_retain_graph(p, x, y):
    loss = loss_of(p, x, y)
    loss.backward(retain_graph=True)
    loss.backward()


@check(parameters, inputs, targets)
def test_the_same_computed_twice(p, x, y):
    for _ in range(2):
        loss = loss_of(p, x, y)
        loss.backward()
    return p["w"].grad


@check(parameters, inputs, targets, graphs=None, breaks=None)
def test_backward_twice_raises(p, x, y):
    loss = loss_of(p, x, y)
    loss.backward()
    loss.backward()


@check(parameters, inputs, targets, graphs=None, breaks=None)
def test_a_part_that_was_freed_raises(p, x, y):
    h = np.sin(x @ p["w"])
    h.sum().backward()
    (h * p["b"]).sum().backward()


@check(parameters, inputs, targets, graphs=None, breaks=None)
def test_more_than_one_element_raises(p, x, y):
    (x @ p["w"]).backward()


@check(parameters, inputs, targets)
def test_values_are_used_after(p, x, y):
    h = np.sin(x @ p["w"])
    h.sum().backward()
    return h.detach() * 2, h


@check(parameters, inputs, targets, graphs=None, breaks=None)
def test_create_graph(p, x, y):
    loss = loss_of(p, x, y)
    loss.backward(create_graph=True)
    (p["w"].grad ** 2).sum().backward()
    return p["b"].grad.requires_grad


@check(parameters, inputs, targets)
def test_backward_in_a_function(p, x, y):
    def train(p, x, y, rate=0.1):
        loss = loss_of(p, x, y)
        loss.backward()
        step(p, rate)
        return loss.detach()

    return train(p, x, y), train(p, x, y, rate=0.2)


def test_hooks_run() -> None:
    def program(x: Any) -> Any:
        (x * x).sum().backward()

    compiled = npc.compile(program)
    for hooked in (False, True, False):
        ours, theirs = leaf([1.0, 2.0]), leaf([1.0, 2.0])
        for x, function in ((ours, compiled), (theirs, program)):
            if hooked:
                x.register_hook(lambda g: g * 10)
            function(x)
        same(ours, theirs)


def test_one_tensor_in_two_places() -> None:
    """Compiled for two Tensors, called with one of which both are."""

    def program(x: Any, y: Any) -> Any:
        (x * y + x).sum().backward()

    compiled = npc.compile(program)
    for together in (False, True, False):
        ours, theirs = ([a, a if together else leaf([3.0, 4.0])] for a in (leaf([1.0, 2.0]), leaf([1.0, 2.0])))
        compiled(*ours)
        program(*theirs)
        same(ours, theirs)


# --- training


def test_descent() -> None:
    def train(p: Any, x: Any, y: Any, rate: float) -> Any:
        loss = loss_of(p, x, y)
        loss.backward()
        step(p, rate)
        return loss.detach()

    compiled = npc.compile(train)
    ours, theirs = parameters(0), parameters(0)
    x, y = inputs(0), targets(0)
    losses = [(compiled(ours, x, y, 0.5 / (1 + k)), train(theirs, x, y, 0.5 / (1 + k))) for k in range(100)]
    np.testing.assert_allclose(*zip(*[(float(a), float(b)) for a, b in losses]), rtol=1e-10)
    same_within_rounding(ours, theirs)
    count(compiled, 1, 0)


def same_within_rounding(ours: Any, theirs: Any) -> None:
    for name in theirs:
        np.testing.assert_allclose(ours[name].detach().numpy(), theirs[name].detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("form", ["numpy", "tensor"])
def test_adam(form: str) -> None:
    def numpy_adam(p: Any, g: Any, m: Any, v: Any, t: int) -> Any:
        m[...] = 0.9 * m + 0.1 * g
        v[...] = 0.99 * v + 0.01 * g * g
        p -= 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)

    def train(p: Any, moments: Any, x: Any, y: Any, t: int) -> None:
        loss_of(p, x, y).backward()
        with npc.no_grad():
            for name, q in p.items():
                m, v = moments[name]
                if form == "numpy":
                    numpy_adam(q.detach().numpy(), q.grad.numpy(), m.numpy(), v.numpy(), t)
                else:
                    m *= 0.9
                    m += 0.1 * q.grad
                    v *= 0.99
                    v += 0.01 * q.grad**2
                    q -= 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8)
                q.grad = None

    compiled = npc.compile(train)
    sides = [(parameters(0), {k: (npc.zeros_like(p.detach()), npc.zeros_like(p.detach())) for k, p in parameters(0).items()})
             for _ in range(2)]  # fmt: skip
    for t in range(1, 30):
        for (p, moments), function in zip(sides, (compiled, train)):
            function(p, moments, inputs(0), targets(0), t)
    same_within_rounding(sides[0][0], sides[1][0])
    count(compiled, 1, 0)


class Layer:
    def __init__(self, rng: Any, rows: int, columns: int):
        self.weight, self.bias = leaf(rng.normal(size=(rows, columns))), leaf(np.zeros(columns))

    def __call__(self, x: Any) -> Any:
        return x @ self.weight + self.bias


class Network:
    """A module in the plain sense: lists and dicts of objects with Tensors."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.layers, self.heads, self.scale = [Layer(rng, 3, 4), Layer(rng, 4, 4)], {"out": Layer(rng, 4, 2)}, 2.0

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = np.tanh(layer(x))
        return self.heads["out"](x) * self.scale

    def parameters(self) -> list[Any]:
        return [t for layer in [*self.layers, *self.heads.values()] for t in (layer.weight, layer.bias)]

    def train(self, x: Any, y: Any) -> Any:
        loss = np.mean((self(x) - y) ** 2)
        loss.backward()
        with npc.no_grad():
            for p in self.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss.detach()


@pytest.mark.parametrize("how", ["object", "method", "argument"])
def test_objects_that_hold_tensors(how: str) -> None:
    ours, theirs = Network(0), Network(0)
    on_argument = npc.compile(lambda net, x: net(x), fullgraph=True)
    compiled = {
        "object": npc.compile(ours, fullgraph=True),
        "method": npc.compile(ours.__call__, fullgraph=True),
        "argument": lambda x: on_argument(ours, x),
    }[how]
    for round in range(3):
        for call, net in ((compiled, ours), (theirs, theirs)):
            np.mean((call(inputs(round)) - targets(round)) ** 2).backward()
            net.scale = 3.0
        same(ours, theirs)


def test_training_of_an_object() -> None:
    ours, theirs = Network(0), Network(0)
    train = npc.compile(ours.train)
    for _ in range(20):
        a, b = train(inputs(0), targets(0)), theirs.train(inputs(0), targets(0))
        np.testing.assert_allclose(float(a), float(b), rtol=1e-10)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-9)
    count(train.__func__, 1, 0)


def test_threads_train_their_own_parameters() -> None:
    def train(p: Any, x: Any, y: Any) -> None:
        loss_of(p, x, y).backward()
        step(p, 0.1)

    compiled, sides = npc.compile(train), [(parameters(k), parameters(k)) for k in range(4)]

    def work(p: Any) -> None:
        for round in range(20):
            compiled(p, inputs(round), targets(round))

    threads = [threading.Thread(target=work, args=[ours]) for ours, _ in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in sides:
        for round in range(20):
            train(theirs, inputs(round), targets(round))
        same_within_rounding(ours, theirs)


def test_after_reset() -> None:
    compiled = npc.compile(lambda x: (x * x).sum().backward())
    for _ in range(2):
        x = leaf([1.0, 2.0])
        compiled(x)
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
        npc.reset()
