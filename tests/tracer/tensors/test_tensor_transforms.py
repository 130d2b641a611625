"""Transforms and control flow on Tensors, outside and inside of compiled functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import default_input
from tests.tracer.tensor_harness import check, leaf, with_gradient, without_gradient


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours.detach() if isinstance(ours, npc.Tensor) else ours), theirs, rtol=1e-10)


def cube(x: Any) -> Any:
    return np.sum(x**3)


# --- transforms of functions of Tensors


@pytest.mark.parametrize("requires_grad", [False, True])
def test_transforms_give_tensors(requires_grad: bool) -> None:
    a = default_input("x", 0)
    x = npc.tensor(a, requires_grad=requires_grad)
    value, gradient = npc.value_and_grad(cube)(x)
    (primal, moved), (_, pullback) = npc.jvp(cube, (x,), (npc.ones_like(x.detach()),)), npc.vjp(np.sin, x)
    results = {
        "value": (value, np.sum(a**3)),
        "gradient": (gradient, 3 * a**2),
        "jacobian": (npc.jacobian(lambda x: x[0] ** 2)(x)[:, 0], np.diag(2 * a[0])),
        "hessian": (npc.hessian(cube)(x)[0, 0, 0, 0], 6 * a[0, 0]),
        "primal": (primal, np.sum(a**3)),
        "moved": (moved, np.sum(3 * a**2)),
        "pulled": (pullback(npc.ones_like(x.detach()))[0], np.cos(a)),
        "batch": (npc.vmap(cube)(x), np.sum(a**3, axis=1)),
        "batch of gradients": (npc.vmap(npc.grad(cube))(x), 3 * a**2),
    }
    for name, (ours, theirs) in results.items():
        assert isinstance(ours, npc.Tensor), name
        close(ours, theirs)


def test_backward_of_a_gradient() -> None:
    x = leaf(default_input("x", 0))
    npc.grad(cube)(x).sum().backward()
    close(x.grad, 6 * x.detach().numpy())


def test_arrays_and_tensors_beside_each_other() -> None:
    a, t = default_input("a", 0), npc.tensor(default_input("t", 0))
    for_a, for_t = npc.grad(lambda a, t: np.sum(a * t.numpy() ** 2), argnums=(0, 1))(a, t)
    assert isinstance(for_a, np.ndarray) and isinstance(for_t, npc.Tensor)
    close(for_a, t.numpy() ** 2)
    close(for_t, 2 * a * t.numpy())


def test_a_pullback_outside_and_inside() -> None:
    @npc.compile(fullgraph=True)
    def inside(x: Any, g: Any) -> Any:
        y, pullback = npc.vjp(np.sin, x)
        return y, pullback(g)[0], pullback(2 * g)[0]

    @npc.compile(fullgraph=True)
    def outside(pullback: Any, g: Any) -> Any:
        return pullback(g * 3)[0]

    x, g = npc.tensor(default_input("x", 0)), npc.tensor(default_input("g", 0))
    for _ in range(2):
        y, once, twice = inside(x, g)
        close(y, np.sin(x.numpy()))
        close(once, np.cos(x.numpy()) * g.numpy())
        close(twice, 2 * np.cos(x.numpy()) * g.numpy())
        close(outside(npc.vjp(np.sin, x)[1], g), 3 * np.cos(x.numpy()) * g.numpy())


def test_a_step_by_value_and_grad() -> None:
    def step(p: Any, x: Any, y: Any) -> Any:
        loss, gradient = npc.value_and_grad(lambda p: np.mean((x @ p["w"] + p["b"] - y) ** 2))(p)
        for name in p:
            p[name] -= 0.1 * gradient[name]
        return loss

    compiled = npc.compile(step)
    rng = np.random.default_rng(0)
    start, x, y = {"w": rng.normal(size=(3, 2)), "b": np.zeros(2)}, rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    arrays, tensors = ({k: kind(v) for k, v in start.items()} for kind in (np.array, npc.tensor))
    for _ in range(5):
        error = x @ arrays["w"] + arrays["b"] - y
        expected = np.mean(error**2)
        arrays["w"] -= 0.1 * x.T @ error * 2 / error.size
        arrays["b"] -= 0.1 * error.sum(axis=0) * 2 / error.size
        close(compiled(tensors, npc.tensor(x), npc.tensor(y)), expected)
    for name in start:
        close(tensors[name], arrays[name])


# --- functions with gradients of their own


def clipped(x: Any) -> Any:
    return x * 1.0, lambda g: np.clip(g, -0.5, 0.5)


def scaled(x: Any, y: Any) -> Any:
    return x * y, lambda g: (g * 2, None)


@pytest.mark.parametrize("how", ["eager", "compiled", "grad"])
def test_custom_gradient(how: str) -> None:
    clip, scale = npc.custom_gradient(clipped), npc.custom_gradient(scaled)

    def program(x: Any, y: Any) -> Any:
        return np.sum(clip(x) * 10 + scale(x, y) + y)

    x, y = leaf(default_input("x", 0)), leaf(default_input("y", 0))
    if how == "grad":
        for_x, for_y = npc.grad(program, argnums=(0, 1))(x.detach(), y.detach())
    else:
        (npc.compile(program, fullgraph=True) if how == "compiled" else program)(x, y).backward()
        for_x, for_y = x.grad, y.grad
    close(for_x, np.full((4, 3), 0.5 + 2))
    close(for_y, np.ones((4, 3)))


# --- control flow


def loops(x: Any, y: Any) -> Any:
    summed = npc.fori_loop(0, 5, lambda k, c: c * 0.5 + x * k, y)
    last, all_ = npc.scan(lambda c, row: ({"c": c["c"] * row.sum()}, c["c"] + row), {"c": y[0]}, x)
    chosen = npc.cond(np.sum(y) > 0, lambda a: np.sin(a) * y, lambda a: a * 2, x)
    halved = npc.while_loop(lambda c: np.sum(c) > 1.0, lambda c: c * 0.5, x)
    return summed, last, all_, chosen, halved


@check(with_gradient)
def test_loops_and_branches(x, y):
    return loops(x, y)


@check(without_gradient)
def test_loops_and_branches_of_tensors_beside_those_with_gradient(x, y):
    return loops(x, y)


@check(with_gradient)
def test_backward_through_loops(x, y):
    first, *_, last = loops(x, y)
    (np.sum(first * y) + np.sum(last)).backward()


@check(with_gradient)
def test_nested_loops(x):
    def inner(k: Any, c: Any) -> Any:
        return npc.fori_loop(0, 3, lambda i, d: d * x[0, 0] + i, c) * k

    return npc.fori_loop(1, 3, inner, x * 2)


@check(lambda round: default_input("a", round), graphs=1)
def test_arrays_and_tensors_as_carries(a, x):
    t, b = npc.fori_loop(0, 3, lambda k, c: (c[0] * 2, c[1] + 1), (x, a))
    return t, b, isinstance(t, npc.Tensor), isinstance(b, np.ndarray)


@pytest.mark.parametrize("wrong", [
    lambda x: npc.fori_loop(0, 3, lambda k, c: (c, c), x),
    lambda x: npc.fori_loop(0, 3, lambda k, c: c[0], x),
    lambda x: npc.while_loop(lambda c: np.sum(c) < 100, lambda c: c.astype(np.float32) * 2, x),
    lambda x: npc.scan(lambda c, r: ({"c": c}, r), x[0], x),
    lambda x: npc.cond(np.sum(x) > 0, lambda a: a, lambda a: (a, a), x),
    lambda x: npc.cond(np.sum(x) > 0, lambda a: a, lambda a: a[0], x),
])  # fmt: skip
@pytest.mark.parametrize("kind", [np.array, npc.tensor, leaf])
def test_errors_are_those_of_the_native_run(wrong: Any, kind: Any) -> None:
    x = kind(default_input("x", 0))
    try:
        wrong(x)
    except TypeError as error:
        with pytest.raises(TypeError) as ours:
            npc.compile(wrong)(x)
        assert str(ours.value) == str(error)
    else:  # natively only the branch that is taken is seen
        npc.compile(wrong)(x)


# --- trees of dataclasses


@dataclass
class Line:
    slope: Any
    offset: Any
    name: str = field(default="line", metadata={"static": True})

    def __call__(self, x: Any) -> Any:
        return self.slope * x + self.offset


@dataclass(frozen=True)
class Model:
    lines: list[Line]
    scale: Any


def model(kind: Any) -> Model:
    return Model([Line(kind(2.0), kind(1.0)), Line(kind(3.0), kind([1.0, 2.0]), "other")], kind(0.5))


def error_of(m: Model, x: Any) -> Any:
    for line in m.lines:
        x = line(x)
    return np.sum(x * m.scale)


@pytest.mark.parametrize("kind", [np.array, npc.tensor])
def test_dataclasses_are_trees(kind: Any) -> None:
    x = np.array([1.0, 2.0])
    gradient = npc.grad(error_of)(model(kind), x)
    assert isinstance(gradient, Model) and [line.name for line in gradient.lines] == ["line", "other"]
    assert type(gradient.scale) is type(kind(1.0))
    close(gradient.scale, np.sum(3 * (2 * x + 1) + [1, 2]))
    close(gradient.lines[0].slope, np.sum(3 * x * 0.5))
    close(gradient.lines[1].offset, [0.5, 0.5])
    _, (first, second) = npc.value_and_grad(error_of, argnums=(0, 1))(model(kind), x)
    close(first.scale, gradient.scale.numpy() if kind is npc.tensor else gradient.scale)
    close(second, [3.0, 3.0])


def test_dataclasses_as_results() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    batched = npc.vmap(lambda r: Line(r * 2, r.sum()))(rows)
    assert isinstance(batched, Line)
    np.testing.assert_array_equal(batched.slope, rows * 2)
    np.testing.assert_array_equal(batched.offset, rows.sum(axis=1))


def test_dataclasses_in_compiled_functions() -> None:
    compiled = npc.compile(lambda m, x: npc.grad(error_of)(m, x))
    for _ in range(2):
        close(compiled(model(np.array), np.array([1.0, 2.0])).scale, 27.0)
