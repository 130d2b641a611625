"""checkpoint: what gradients save and compute again, and that they are the same gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.explain import Explanation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 8))
W, V = RNG.normal(size=(2, 8, 8))


def block(x: Any, w: Any) -> Any:
    return np.tanh(np.exp(-((x @ w) ** 2)) @ w.T)


def network(of_block: Callable[..., Any]) -> Callable[..., Any]:
    def loss(x: Any, w: Any, v: Any) -> Any:
        return np.sum(of_block(of_block(x, w), v) ** 2)

    return loss


def explained(function: Callable[..., Any], *arrays: Any) -> tuple[Explanation, list[Any]]:
    """What is saved for the gradients of all arrays, and these."""
    leaves = [npc.tensor(x, requires_grad=True) for x in arrays]
    found = npc.explain(npc.compile(function, fullgraph=True))(*leaves)
    found.result.backward()
    return found, [x.grad.numpy() for x in leaves]


def test_only_the_arguments_of_checkpointed_functions_are_saved() -> None:
    plain, expected = explained(network(block), X, W, V)
    saving, gradients = explained(network(npc.checkpoint(block)), X, W, V)
    (before,), (after,) = plain.gradients, saving.gradients
    assert after.bytes_saved == 2 * X.nbytes < before.bytes_saved  # the two blocks' results: one is an argument, one a result
    assert after.bytes_recomputed > before.bytes_recomputed
    assert f"{after.bytes_saved} bytes saved, {after.bytes_recomputed} bytes recomputed" in str(saving)
    for ours, theirs in zip(gradients, expected):
        np.testing.assert_array_equal(ours, theirs)


def test_nested_checkpoints_save_the_outer_arguments() -> None:
    both = npc.checkpoint(lambda x, w, v: npc.checkpoint(block)(npc.checkpoint(block)(x, w), v))
    plain, expected = explained(network(block), X, W, V)
    found, gradients = explained(lambda x, w, v: np.sum(both(x, w, v) ** 2), X, W, V)
    assert found.gradients[0].bytes_saved == X.nbytes < plain.gradients[0].bytes_saved
    for ours, theirs in zip(gradients, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("transform", [
    lambda f: npc.grad(f, (0, 1, 2)),
    lambda f: npc.vmap(npc.grad(f, (0, 1, 2)), (0, None, None)),
    lambda f: npc.grad(lambda x, w, v: np.sum(npc.vmap(f, (0, None, None))(x, w, v))),
    lambda f: npc.hessian(lambda x, w, v: f(x[0], w, v)),
    lambda f: lambda *given: npc.jvp(f, given, given),
    lambda f: npc.grad(npc.compile(f)),
    npc.checkpoint,
], ids=["grad", "vmap of grad", "grad of vmap", "hessian", "jvp", "grad of compile", "twice"])  # fmt: skip
def test_transforms_of_checkpointed_functions(transform: Callable[..., Any]) -> None:
    x = X[:6].reshape(3, 2, 8)
    found = transform(network(npc.checkpoint(block)))(x, W, V)
    expected = transform(network(block))(x, W, V)
    for ours, theirs in zip(*map(leaves_of, (found, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def leaves_of(tree: Any) -> list[Any]:
    return [x for part in tree for x in leaves_of(part)] if isinstance(tree, tuple) else [tree]


def test_in_the_body_of_a_loop() -> None:
    def loss(of_step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, w: np.sum(npc.fori_loop(0, 4, lambda k, c: of_step(c, w) + k, x))

    found = npc.grad(loss(npc.checkpoint(block)), (0, 1))(X, W)
    for ours, theirs in zip(found, npc.grad(loss(block), (0, 1))(X, W)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_of_eager_tensors() -> None:
    x, y = (npc.tensor(X, requires_grad=True) for _ in range(2))
    np.sum(npc.checkpoint(block)(x, W) ** 2).backward()
    np.sum(block(y, W) ** 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12, atol=1e-14)


@npc.custom_gradient
def halved(x: Any) -> Any:
    y = np.exp(x)
    return y, lambda g: g * y / 2


@pytest.mark.parametrize("place", [
    npc.checkpoint,
    lambda f: lambda x: npc.cond(np.sum(x) < 1e9, f, lambda x: x, x),
    lambda f: lambda x: npc.fori_loop(0, 1, lambda k, c: f(c), x),
    lambda f: lambda x: npc.scan(lambda c, row: (c, f(row)), 0.0, x)[1],
    lambda f: lambda x: npc.while_loop(lambda c: c[1] < 1, lambda c: (f(c[0]), c[1] + 1), (x, 0))[0],
    lambda f: lambda x: npc.vmap(npc.checkpoint(f))(x),
    lambda f: lambda x: npc.vmap(lambda row: npc.cond(row[0] > 0, f, lambda r: f(r), row))(x),
], ids=["checkpoint", "cond", "fori_loop", "scan", "while_loop", "vmap of checkpoint", "vmap of cond"])  # fmt: skip
def test_custom_gradients_inside_of_functions_that_are_nodes(place: Callable[..., Any]) -> None:
    f = place(lambda x: np.sin(halved(x)))
    np.testing.assert_allclose(npc.grad(lambda x: np.sum(f(x)))(X), np.cos(np.exp(X)) * np.exp(X) / 2, 1e-12, 1e-13)


def test_arguments_and_results_that_are_no_arrays() -> None:
    @npc.checkpoint
    def chosen(tree: Any, *, power: int, mode: str) -> Any:
        return {"x": tree["x"] ** power if mode == "power" else tree["x"], "mode": mode, "none": None}

    def loss(x: Any) -> Any:
        found = chosen({"x": x}, power=3, mode="power")
        return np.sum(found["x"]) if found["mode"] == "power" and found["none"] is None else 0.0

    np.testing.assert_allclose(npc.grad(loss)(X), 3 * X**2)
    np.testing.assert_allclose(npc.grad(lambda x: np.sum(x) * npc.checkpoint(lambda n: 3 * n)(4))(X), np.full(X.shape, 12.0))


def doubled(x: Any) -> Any:
    x *= 2
    return np.exp(x)


def test_writes_to_arguments_are_the_callers() -> None:
    x = X.copy()
    found = npc.compile(npc.checkpoint(doubled), fullgraph=True)(x)
    np.testing.assert_array_equal(x, 2 * X)
    np.testing.assert_allclose(found, np.exp(2 * X), rtol=1e-14)
    gradient = npc.grad(lambda x: np.sum(npc.checkpoint(doubled)(x) + x))(X.copy())
    np.testing.assert_allclose(gradient, 2 * np.exp(2 * X) + 2, rtol=1e-14)


# --- functions that are no one graph run on Tensors


def until_large(x: Any, w: Any) -> Any:
    y = x
    while np.abs(y).max() < 10:
        y = y * y * w + np.random.rand(2)
    return np.sum(y)


def test_a_loop_that_data_ends_is_computed_again_with_the_same_random_numbers() -> None:
    calls = []
    weights = npc.tensor([2.0, 3.0], requires_grad=True)  # that the function reads beside its argument

    def counted(x: Any) -> Any:
        calls.append(x)
        return until_large(x, weights)

    found = []
    for function in (counted, npc.checkpoint(counted)):
        np.random.seed(0)
        x = npc.tensor([1.0, 2.0], requires_grad=True)
        function(x * 1.5).backward()
        found.append((x.grad.numpy(), weights.grad.numpy(), np.random.rand()))
        weights.grad = None
    assert len(calls) == 1 + 2
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def squared_until_large(x: Any) -> Any:
    y = x
    while np.abs(y).max() < 10:
        y = y * y * 2
    return np.sum(y)


def test_second_derivatives_of_such_functions() -> None:
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(npc.hessian(npc.checkpoint(squared_until_large))(x), npc.hessian(squared_until_large)(x))
    gradients = []
    for function in (squared_until_large, npc.checkpoint(squared_until_large)):
        t = npc.tensor(x, requires_grad=True)
        function(t).backward(create_graph=True)
        first, t.grad = t.grad, None
        np.sum(first**2).backward()
        gradients.append(t.grad.numpy())
    np.testing.assert_allclose(*gradients)


def test_a_custom_gradient_of_such_a_function() -> None:
    @npc.custom_gradient
    def scaled(x: Any) -> Any:
        y = x * x if x.sum() > 0 else x
        return y, lambda g: g * x * 3

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(scaled(x), x * x)
    np.testing.assert_array_equal(npc.grad(lambda x: np.sum(scaled(x)))(x), 3 * x)
    np.testing.assert_array_equal(npc.hessian(lambda x: np.sum(scaled(x)))(x), np.diag([3.0, 3.0]))
    t = npc.tensor(x, requires_grad=True)
    np.sum(scaled(t)).backward()
    np.testing.assert_array_equal(t.grad.numpy(), 3 * x)


def test_random_numbers_and_prints_under_grad(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(x: Any) -> Any:
        print("called")
        return np.sum(x * np.random.rand(3))

    np.random.seed(1)
    expected = np.random.rand(3)
    np.random.seed(1)
    np.testing.assert_array_equal(npc.grad(loss)(np.ones(3)), expected)
    assert capsys.readouterr().out == "called\n"
