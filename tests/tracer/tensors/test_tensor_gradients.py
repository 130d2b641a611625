"""Gradients of compiled programs on Tensors: taken outside of them, of all results at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import default_input
from tests.tracer.tensor_harness import check, count, leaf, same, with_gradient, without_gradient


def vector(round: int, n: int = 3) -> Any:
    return leaf(np.arange(1.0, n + 1) + round)


def twice(round: int) -> Any:
    x = vector(round)
    return [x, x]


def beside(make: Any) -> Any:
    def given(round: int) -> list[Any]:
        x = vector(round)
        return [x, *make(x)]

    return given


def backwards(make: Any) -> Any:
    return lambda round: beside(make)(round)[::-1]


# --- what is an argument twice, with a gradient or without


@check(twice)
def test_one_tensor_in_two_places(given):
    a, b = given
    return a * b + a, a is b


@check(beside(lambda x: [x.detach()]))
def test_a_detached_argument(given):
    a, b = given
    return a * b + a, b


@check(backwards(lambda x: [x.detach()]))
def test_a_detached_argument_that_is_seen_first(given):
    a, b = given
    return a * b + a, a


@check(beside(lambda x: [x.detach().numpy()]))
def test_the_array_of_an_argument(given):
    b, a = given
    return a * b + a, b, npc.from_numpy(a) * b


@check(backwards(lambda x: [x.detach().numpy()]))
def test_the_array_of_an_argument_that_is_seen_first(given):
    a, b = given
    return a * b + a, b, npc.from_numpy(a)


@check(beside(lambda x: [x * 2, x[1:]]))
def test_arguments_that_were_computed(given):
    t, u, v = given
    return t * u, u[1:] * v, v, u


# --- writes and gradients


@check(beside(lambda x: [x * 2]), graphs=None, breaks=None)
def test_an_argument_that_was_computed_is_changed(given):
    t, u = given
    u *= 3
    return t * u, u


@check(with_gradient, graphs=None, breaks=None)
def test_a_leaf_cannot_be_changed(x):
    x += 1
    return x


@check(with_gradient, graphs=None, breaks=None)
def test_a_view_of_a_leaf_cannot_be_changed(x):
    x.T[0] = 1.0
    return x


@check(without_gradient, with_gradient, graphs=None, breaks=None)
def test_a_gradient_is_written_into_an_argument(x, y):
    x[0] = y[0] * 2
    return x * 2


@check(with_gradient, graphs=None, breaks=None)
def test_gradients_of(x):
    y = (x * x).sum()
    return npc.gradients_of([y], [x])


@check(with_gradient)
def test_a_leaf_is_changed_under_no_grad_and_used(x):
    y = x + 1
    with npc.no_grad():
        x *= 2
        x[0] = 1
    return y + x * x, x


@check(with_gradient)
def test_a_view_of_a_leaf_is_changed_under_no_grad(x):
    with npc.no_grad():
        row = x[0]
        row -= 1
    return x * 2, row


@check(with_gradient)
def test_a_detached_leaf_is_changed(x):
    d = x.detach()
    d *= 2
    d[0] -= 1
    return x + 1, d


@check(with_gradient)
def test_a_result_is_changed_under_no_grad(x):
    y = x * 2
    with npc.no_grad():
        y *= 3
    return y + x


@check(with_gradient)
def test_a_detached_result_is_changed(x):
    y = x * 2
    y.detach()[0] = 5.0
    return y + x


@check(with_gradient)
def test_modes(x):
    with npc.no_grad():
        y = x * 2
        inside = npc.is_grad_enabled()
        with npc.enable_grad():
            z = x * 3
    return y, z, y * x, y.requires_grad, z.requires_grad, (x * 2).detach(), inside, npc.is_grad_enabled()


@check(with_gradient, lambda round: round + 1)
def test_branches_on_what_is_known_of_gradients(x, k):
    y = x * 2
    if x.requires_grad and x.is_leaf and not y.is_leaf and not y.detach().requires_grad:
        return y * k
    return x + k


# --- results


@check()
def test_some_arguments_are_not_used(x, y, z):
    return x * 2, z + 1


@check(with_gradient)
def test_results_of_which_some_are_integers(x):
    return x * 2, x.argmax(axis=0), x > 1, (x * 3).astype(np.int64), x.astype(np.float32) * 2


@check(with_gradient)
def test_steps_have_no_gradient(x):
    return np.round(x, 1), np.floor(x) * x


@check(with_gradient)
def test_no_derivative(x):
    return np.linalg.svd(x)[1], x * 2


@check(with_gradient)
def test_results_that_are_computed_alike_in_other_memory_order(x):
    return x[:, [0, 2]], np.take(x, [0, 2], axis=1)


def test_only_part_of_the_results() -> None:
    def program(x: Any) -> Any:
        return x * 2, x**2, np.sum(x)

    compiled = npc.compile(program)
    for round in range(2):
        for part in range(3):
            ours, theirs = vector(round), vector(round)
            compiled(ours)[part].sum().backward()
            program(theirs)[part].sum().backward()
            same(ours, theirs)
    count(compiled, 1, 0)


def test_backward_a_second_time() -> None:
    compiled = npc.compile(lambda x: x * x)
    x = vector(0)
    y = compiled(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 4 * x.detach().numpy())
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_two_programs_before_one_backward() -> None:
    compiled = npc.compile(lambda x, y: np.sin(x) * y)
    x, y, u, v = (vector(k % 2) for k in range(4))
    (compiled(compiled(x, y), y) + compiled(x, x)).sum().backward()
    (np.sin(np.sin(u) * v) * v + np.sin(u) * u).sum().backward()
    same([x, y], [u, v])


@pytest.mark.parametrize("cotangent", ["F", "broadcast", "strided", "reversed"])
def test_memory_order_of_the_cotangent(cotangent: str) -> None:
    g = default_input("g", 0)
    given = {"F": np.asfortranarray(g), "broadcast": np.broadcast_to(g[0], (4, 3)), "strided": np.repeat(g, 2, 1)[:, ::2],
             "reversed": g[::-1]}[cotangent]  # fmt: skip
    compiled = npc.compile(lambda x: np.exp(x) * x)
    ours, theirs = with_gradient(0), with_gradient(0)
    compiled(ours).backward(given)
    (np.exp(theirs) * theirs).backward(given)
    same(ours, theirs)


def test_sizes_that_change() -> None:
    def program(x: Any, w: Any) -> Any:
        return np.tanh(x @ w).mean(axis=0), x[1:] * 2, np.concatenate([x, x])

    compiled = npc.compile(program)
    for n in (4, 5, 7, 9):
        rng = np.random.default_rng(n)
        data = rng.normal(size=(n, 3)), rng.normal(size=(3, 2))
        ours, theirs = [leaf(d) for d in data], [leaf(d) for d in data]
        for parameters, function in ((ours, compiled), (theirs, program)):
            sum(part.sum() for part in function(*parameters)).backward()
        same(ours, theirs)
    count(compiled, 2, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes(dtype: Any) -> None:
    def program(x: Any, y: Any) -> Any:
        return (x * y + x / y) * 2

    compiled = npc.compile(program)
    ours, theirs = ([leaf(default_input(n, 1), dtype) for n in "xy"] for _ in range(2))
    for parameters, function in ((ours, compiled), (theirs, program)):
        function(*parameters).sum().real.backward()
    for a, b in zip(ours, theirs):
        assert a.grad.dtype == b.grad.dtype == dtype
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=16 * eps)


def test_a_leaf_changed_before_backward() -> None:
    """As eagerly: the gradient of a product needs what its operands were."""
    for function in (lambda x: x * x, npc.compile(lambda x: x * x)):
        x = vector(0)
        y = function(x)
        with npc.no_grad():
            x += 1
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


@pytest.mark.parametrize("change", ["eager", "compiled"])
def test_an_operand_without_gradient_changed_before_backward(change: str) -> None:
    increment = npc.compile(lambda a: np.add(a, 1, out=a)) if change == "compiled" else lambda a: a.fill(1)
    for function in (lambda x, a: x * a, npc.compile(lambda x, a: x * a)):
        x, a = vector(0), npc.tensor([1.0, 2.0, 3.0])
        y = function(x, a)
        increment(a)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


def test_a_result_may_be_changed_before_backward() -> None:
    x = vector(0)
    y = npc.compile(lambda x: np.exp(x))(x)
    y.detach()[...] = 0.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.detach().numpy()))


def test_second_derivatives() -> None:
    compiled = npc.compile(lambda x: np.sum(x**3))
    x = vector(0)
    (first,) = npc.gradients_of([compiled(x)], [x], create_graph=True)
    first.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * x.detach().numpy())


def test_hooks_of_arguments_and_results() -> None:
    seen = []
    x = vector(0)
    x.register_hook(lambda g: seen.append("leaf") or g * 2)
    y = npc.compile(lambda x: x * 3)(x)
    y.register_hook(lambda g: seen.append("result"))
    y.sum().backward()
    assert seen == ["result", "leaf"]
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 6.0, 6.0])


def test_what_a_program_was_compiled_for() -> None:
    """Another program where a Tensor requires a gradient, or the mode is another; else the same."""
    compiled = npc.compile(lambda x: x * 2)
    x, y = npc.tensor([1.0, 2.0]), leaf([1.0, 2.0])
    assert not compiled(x).requires_grad and compiled(y).requires_grad
    with npc.no_grad():
        assert not compiled(y).requires_grad
    assert not compiled(x.requires_grad_().detach()).requires_grad and compiled(x).requires_grad
    known = compiled_function(compiled)
    assert known is not None
    (point,) = known.points.values()
    assert len(point.variants) == 3
