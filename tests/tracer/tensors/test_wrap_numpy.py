"""wrap_numpy, and arrays that lose their gradient at a graph break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import default_input
from tests.tracer.tensor_harness import backward, count, leaf, same


def pair() -> tuple[Any, Any]:
    return leaf(default_input("x", 0)), leaf(default_input("y", 0))


def standardized(x, axis=0, *, eps=1e-9):
    return (x - x.mean(axis=axis)) / (x.std(axis=axis) + eps)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def in_place(x):
    out = np.empty_like(x)
    for k in range(len(x)):
        out[k] = x[k] * k
    out[0] += x[-1]
    return out


def several(x):
    return x * 2, {"sum": x.sum(), "shape": x.shape}, [x > 1, None, 3.5], np.float64(2.0)


def itself(x):
    return x


def views(x):
    return x[1:], x.T


NUMPY = [standardized, softmax, in_place, several, itself, views]


def wrapped_leaves(value: Any) -> Any:
    """What wrap_numpy makes of a result: Tensors of its arrays and NumPy scalars."""
    if isinstance(value, (np.ndarray, np.generic)):
        return npc.from_numpy(np.asarray(value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(wrapped_leaves, value))
    return {k: wrapped_leaves(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("compiled", [False, True, "fullgraph"])
@pytest.mark.parametrize("function", NUMPY, ids=lambda f: f.__name__)
def test_tensors_in_tensors_out(function: Any, compiled: Any) -> None:
    f = npc.wrap_numpy(function)
    if compiled:
        f = npc.compile(f, fullgraph=compiled == "fullgraph")
    for round in range(2):
        x = default_input("x", round)
        same(f(npc.tensor(x)), wrapped_leaves(function(x)))
        x_leaf = leaf(x)
        result = f(x_leaf)
        same(strip(result), wrapped_leaves(function(x)))
        backward(result)
        expected = npc.grad(lambda x, function=function: weighted(function(x)))(x)
        np.testing.assert_allclose(x_leaf.grad.numpy(), expected, rtol=1e-12, atol=1e-14)


def strip(value: Any) -> Any:
    if isinstance(value, npc.Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        return type(value)(map(strip, value))
    return {k: strip(v) for k, v in value.items()} if isinstance(value, dict) else value


def weighted(result: Any) -> Any:
    """What `backward` of the harness differentiates, in NumPy."""
    total, position, pending = 0.0, 0, [result]
    while pending:
        part = pending.pop(0)
        if isinstance(part, (tuple, list)):
            pending = [*part, *pending]
        elif isinstance(part, dict):
            pending = [*part.values(), *pending]
        elif isinstance(part, (np.ndarray, np.generic)):
            if part.dtype.kind == "f":
                total = total + np.sum(part * np.cos(np.arange(part.size) + position).reshape(part.shape))
            position += 1
    return total


def test_what_goes_in() -> None:
    """Arrays beside Tensors, keywords, trees; Tensors share their memory with the arrays inside."""

    def function(x, tree, *rest, scale=1.0, other=None):
        x[0] = 0.0
        return x * scale + tree["a"][0] + sum(rest), other

    for f in (npc.wrap_numpy(function), npc.compile(npc.wrap_numpy(function))):
        x, y = (npc.tensor(default_input(n, 0)) for n in "xy")
        a = default_input("a", 0)
        result, other = f(x, {"a": [y]}, a, 1.0, scale=2.0, other=y)
        assert isinstance(result, npc.Tensor) and isinstance(other, npc.Tensor)
        np.testing.assert_allclose(result.numpy(), x.numpy() * 2 + y.numpy() + a + 1.0)
        assert not x.numpy()[0].any() and np.may_share_memory(other.numpy(), y.numpy())


@dataclass
class Scaled:
    x: Any
    scale: float = 2.0


def test_dataclasses() -> None:
    function = npc.wrap_numpy(lambda s: Scaled(np.sin(s.x) * s.scale, s.scale * 2))
    for f in (function, npc.compile(function, fullgraph=True)):
        x = leaf(default_input("x", 0))
        result = f(Scaled(x))
        assert isinstance(result, Scaled) and isinstance(result.x, npc.Tensor) and result.scale == 4.0
        result.x.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(x.detach().numpy()))


def test_without_it_arrays_stay_arrays() -> None:
    x = default_input("x", 0)
    assert type(npc.compile(standardized)(x)) is np.ndarray
    assert type(npc.wrap_numpy(standardized)(x)) is npc.Tensor


def test_within_a_compiled_function() -> None:
    inner = npc.wrap_numpy(standardized)

    def program(x, y):
        return inner(x * 2, eps=0.5) * y + inner(inner(y))

    compiled = npc.compile(program, fullgraph=True)
    ours, theirs = pair(), pair()
    result, expected = compiled(*ours), program(*theirs)
    same(result, expected)
    backward(result)
    backward(expected)
    same(ours, theirs)
    count(compiled, 1, 0)


def test_calls_of_each_other_and_of_transforms() -> None:
    inner = npc.wrap_numpy(lambda x: np.sum(np.sin(x) ** 2))
    x = leaf(default_input("x", 0))
    gradient = npc.grad(inner)(x)
    assert isinstance(gradient, npc.Tensor)
    np.testing.assert_allclose(gradient.detach().numpy(), np.sin(2 * x.detach().numpy()))


# --- what is lost at a break


def broken(x):
    y = x * 2
    npc.graph_break()
    return y + 1


def broken_in_a_loop(x):
    for _ in range(3):
        x = x * 2
        npc.graph_break()
    return x


def decided_by_data(x):
    y = x * 2
    sign = 1 if y.sum() > 0 else -1  # Python's integers: no node of the graph gives one of two
    y = y * sign
    y = y + 0.5
    return y


BROKEN = [broken, broken_in_a_loop, decided_by_data]


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_arrays_lose_their_gradient_at_a_break(function: Any) -> None:
    for f in (npc.wrap_numpy(function), npc.compile(npc.wrap_numpy(function))):
        for round in range(2):
            x = leaf(default_input("x", round))
            result = f(x)
            np.testing.assert_allclose(result.detach().numpy(), function(x.detach().numpy()))
            for lost in (result.sum(), (result * x).sum()):
                with pytest.raises(RuntimeError, match=r"graph break: .*test_wrap_numpy\.py:\d+.*fullgraph=True"):
                    lost.backward()
            assert x.grad is None
        assert not f(npc.tensor(default_input("x", 0))).requires_grad
    with pytest.raises(npc.GraphBreakError, match=r"test_wrap_numpy\.py:\d+"):
        npc.compile(npc.wrap_numpy(function), fullgraph=True)(leaf(default_input("x", 0)))


@pytest.mark.parametrize("function", BROKEN, ids=lambda f: f.__name__)
def test_tensors_keep_their_gradient_at_a_break(function: Any) -> None:
    compiled = npc.compile(function)
    for round in range(2):
        ours, theirs = leaf(default_input("x", round)), leaf(default_input("x", round))
        result, expected = compiled(ours), function(theirs)
        same(result, expected)
        backward(result)
        backward(expected)
        same(ours, theirs)
    known = compiled_function(compiled)
    assert known is not None and known.breaks


def test_a_leaf_that_is_changed_loses_its_gradient() -> None:
    def function(x):
        y = x + 1
        y *= 2
        x *= 3
        return x * y

    x = leaf(default_input("x", 0))
    with pytest.raises(npc.GraphBreakError, match="changed in place"):
        npc.compile(npc.wrap_numpy(function), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="changed in place"):
        npc.wrap_numpy(function)(x).sum().backward()


def test_arrays_made_of_tensors_lose_their_gradient_at_a_break() -> None:
    def program(x):
        a = x.numpy() * 2
        npc.graph_break()
        return npc.from_numpy(a) + x, npc.from_numpy(a + 1)

    compiled = npc.compile(program)
    for _ in range(2):
        x = leaf(default_input("x", 0))
        both, alone = compiled(x)
        for result in (both, alone):
            with pytest.raises(RuntimeError, match=r"test_wrap_numpy\.py:\d+.*fullgraph=True"):
                result.sum().backward()
    with pytest.raises(npc.GraphBreakError):
        npc.compile(program, fullgraph=True)(x)
    assert not compiled(npc.tensor(default_input("x", 0)))[0].requires_grad


def test_a_break_after_what_has_no_gradient() -> None:
    """Integers, detached values and numbers lose nothing."""

    def program(x, y):
        places, fixed = np.argsort(y.numpy(), axis=0), y.detach().numpy() * 2
        npc.graph_break()
        return x * npc.from_numpy(fixed) + places

    compiled = npc.compile(program)
    for _ in range(2):
        x, y = pair()
        compiled(x, y).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.detach().numpy() * 2)


def test_backward_natively_after_a_break() -> None:
    def program(x):
        y = np.sin(x)
        npc.graph_break()
        (y * x).sum().backward()
        return x.grad

    compiled = npc.compile(program)
    ours, theirs = pair()[0], pair()[0]
    same(compiled(ours), program(theirs))
    same(ours, theirs)


def mean_of_sums(x, y):
    return np.mean(np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1)))


def test_mean_of_sums() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((16, 8)), rng.random((16, 8))
    for call in (npc.wrap_numpy(mean_of_sums), npc.compile(npc.wrap_numpy(mean_of_sums), fullgraph=True)):
        leaf = npc.tensor(x, requires_grad=True)
        result = call(leaf, npc.from_numpy(y))
        np.testing.assert_allclose(result.item(), mean_of_sums(x, y), rtol=1e-12)
        result.backward()
        np.testing.assert_allclose(leaf.grad.numpy(), np.broadcast_to(y.sum(1, keepdims=True) / 16, (16, 8)), rtol=1e-12)
