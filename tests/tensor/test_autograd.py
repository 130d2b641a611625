"""backward: accumulation, hooks, modes, errors, what is kept in memory, threads."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core.tensor import attach, lost
from npcompile.tensor_core.tensors.devices import to_host
from npcompile.tensors import Tensor, enable_grad, gradients_of, is_grad_enabled, no_grad, tensor
from tests.tensor.checks import same, shares_memory


def leaf(*values: float) -> Any:
    return tensor(list(values), float, requires_grad=True)


# --- backward and .grad


def test_gradients_add_up_in_leaves() -> None:
    x = leaf(1, 2)
    assert x.grad is None
    (x * x).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    same(x.grad, np.array([5.0, 7.0]))
    assert not x.grad.requires_grad
    x.grad = None
    x.sum().backward()
    same(x.grad, np.ones(2))


def test_gradients_of_two_leaves_do_not_share_memory() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    (x + y).sum().backward()
    assert not shares_memory(x.grad, y.grad)
    x.grad += 1
    same(y.grad, np.ones(2))


def test_a_tensor_used_often() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y * y + y + y[0] * x[1]
    z.sum().backward()
    same(x.grad, np.array([8 * 1 + 2 + 2 * 2 * 2, 8 * 2 + 2 + 2 * 2 * 1.0]))


def test_backward_takes_the_gradient_of_what_is_no_number() -> None:
    x = leaf(1, 2)
    y = x * x
    with pytest.raises(RuntimeError, match=r"shape \(2,\) needs a gradient"):
        y.backward()
    with pytest.raises(RuntimeError, match=r"shape \(3,\)"):
        y.backward(np.ones(3))
    with pytest.raises(RuntimeError, match="complex128"):
        y.backward(np.ones(2) * 1j)
    y.backward(np.array([1, 10]))
    same(x.grad, np.array([2.0, 40.0]))
    x.grad = None
    (x * x).backward(tensor([1.0, 1.0]))
    same(x.grad, np.array([2.0, 4.0]))
    x.grad = None
    (x[:1] * 4).backward()
    same(x.grad, np.array([4.0, 0.0]))


def test_backward_without_a_graph() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        tensor([1.0]).backward()
    x = leaf(1)
    with no_grad():
        y = x * 2
    with pytest.raises(RuntimeError, match="no_grad"):
        y.backward()
    x.backward()
    same(x.grad, np.ones(1))


def test_backward_twice() -> None:
    x = leaf(1, 2)
    y = np.exp(x)
    z = y.sum()
    z.backward(retain_graph=True)
    z.backward()
    same(x.grad, 2 * np.exp([1.0, 2.0]))
    with pytest.raises(RuntimeError, match=r"second time.*retain_graph=True"):
        z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        (y * 2).sum().backward()


def test_only_what_depends_on_a_leaf_is_differentiated() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    (x * y.detach()).sum().backward()
    same(x.grad, np.array([3.0, 4.0]))
    assert y.grad is None
    z = np.floor(x).sum() + (x > 0).sum()
    z.backward()
    same(x.grad, np.array([3.0, 4.0]))


def test_gradients_of_named_inputs() -> None:
    x, y, unused = leaf(1, 2), leaf(3, 4), leaf(5)
    z = x * y
    w = (z * z).sum()
    dx, dz, none = gradients_of([w], [x, z, unused], retain_graph=True)
    same(dx, 2 * np.array([3.0, 8.0]) * [3, 4])
    same(dz, 2 * np.array([3.0, 8.0]))
    assert none is None and x.grad is None
    (dy,) = gradients_of([w, z], [y], [None, np.ones(2)])
    same(dy, 2 * np.array([3.0, 8.0]) * [1, 2] + [1, 2])
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradients_of([w], [tensor(1.0)])
    v = x * x
    v.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        gradients_of([v.sum() + x.sum()], [x])


def test_higher_derivatives() -> None:
    x = tensor(0.7, requires_grad=True)
    y, signs = np.sin(x), [np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]
    for expected in signs:
        (y,) = gradients_of([y], [x], create_graph=True)
        same(y, np.float64(expected(0.7)))
    x = leaf(1, 2)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    x.grad = None
    (first * first).sum().backward()
    same(x.grad, 36 * np.array([1.0, 8.0]))


def test_gradient_penalty() -> None:
    """A loss that contains a gradient, as one program."""
    w = leaf(0.5, -1.0, 2.0)
    x = tensor(np.linspace(-1, 1, 12).reshape(4, 3), requires_grad=True)

    def loss(values: np.ndarray) -> float:
        inner = np.tanh(x._host @ values)
        return float((((1 - inner**2)[:, None] * values) ** 2).sum())

    y = np.tanh(x @ w).sum()
    (dx,) = gradients_of([y], [x], create_graph=True)
    penalty = (dx**2).sum()
    assert penalty.item() == pytest.approx(loss(w._host))
    penalty.backward()
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        slope = (loss(w._host + step) - loss(w._host - step)) / 2e-6
        assert w.grad[k].item() == pytest.approx(slope, rel=1e-6)


def test_long_chains() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(5000):
        y = y + 1e-6
    y.backward()
    same(x.grad, np.ones(1))
    for _ in range(20000):
        y = y + 1e-6
    del y  # as many nodes go, without a recursion as deep
    view = x * 1
    for _ in range(300):
        view = view[:]
    view[0] = 5.0
    x.grad = None
    (view * x).sum().backward()
    same(x.grad, np.array([5.0]))


# --- leaves


def test_which_tensors_require_grad() -> None:
    x = leaf(1, 2)
    assert x.is_leaf and x.requires_grad and x.grad_fn is None
    y = x * 2
    assert not y.is_leaf and y.requires_grad and y.grad_fn == "multiply"
    z = tensor([1.0])
    assert z.is_leaf and not z.requires_grad
    assert not (x > 1).requires_grad and not x.astype(int).requires_grad
    z.requires_grad = True
    assert z.requires_grad and z.is_leaf
    z.requires_grad_(False)
    assert not z.requires_grad
    with pytest.raises(RuntimeError, match="only leaf Tensors"):
        y.requires_grad_(False)
    for dtype in (int, bool, np.uint8):
        with pytest.raises(RuntimeError, match="floating point and complex"):
            tensor([1], dtype, requires_grad=True)


def test_a_view_becomes_a_leaf_of_its_own() -> None:
    x = tensor([1.0, 2.0, 3.0])
    v = x[1:].requires_grad_()
    assert not x.requires_grad and v.is_leaf
    (v * v).sum().backward()
    same(v.grad, np.array([4.0, 6.0]))
    x[1] = 7.0
    same(v, np.array([7.0, 3.0]))


# --- hooks


def test_hooks_run_in_order_and_replace_gradients() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    second = x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0], [30.0, 30.0]]
    same(x.grad, np.array([30.0, 30.0]))
    second.remove()
    second.remove()
    x.grad = None
    (x * 3).sum().backward()
    same(x.grad, np.array([3.0, 3.0]))


def test_hooks_of_computed_tensors_see_the_whole_gradient() -> None:
    x = leaf(1, 2)
    y = x * 2
    seen: list[Any] = []

    def clip(g: Tensor) -> Tensor:
        seen.append(g.tolist())
        return np.minimum(g, 2.0)

    y.register_hook(clip)
    (y * 3).sum().backward(retain_graph=True)
    (y * y + y).sum().backward()
    assert seen == [[3.0, 3.0], [5.0, 9.0]]
    same(x.grad, np.array([8.0, 8.0]))


def test_hooks_must_keep_shape_and_dtype() -> None:
    x = leaf(1, 2)
    x.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="a hook gives None, or a Tensor"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        tensor(1.0).register_hook(print)


def test_an_exception_in_a_hook_comes_through() -> None:
    x = leaf(1, 2)

    def fail(g: Tensor) -> None:
        raise KeyError("mine")

    x.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        x.sum().backward()
    assert is_grad_enabled()


def test_retained_gradients() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = y * y
    (z.sum() + y.sum()).backward(retain_graph=True)
    assert y.grad is None
    y.retain_grad()
    (z.sum() + y.sum()).backward()
    same(y.grad, np.array([5.0, 9.0]))
    with pytest.raises(RuntimeError, match="no grad to retain"):
        tensor(1.0).retain_grad()
    x.retain_grad()


# --- modes


def test_modes() -> None:
    x = leaf(1, 2)
    assert is_grad_enabled()
    with no_grad() as mode:
        assert not is_grad_enabled() and not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
        with mode:
            assert not is_grad_enabled()
        assert not is_grad_enabled()
        assert tensor([1.0], requires_grad=True).requires_grad
    assert is_grad_enabled()
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()


def test_modes_as_decorators() -> None:
    x = leaf(1, 2)

    @no_grad()
    def halves(depth: int) -> Tensor:
        assert not is_grad_enabled()
        return x / 2 if not depth else halves(depth - 1)

    assert not halves(3).requires_grad and is_grad_enabled()

    @enable_grad()
    def doubled() -> Tensor:
        return x * 2

    with no_grad():
        assert doubled().requires_grad


# --- memory


def test_without_gradients_no_graph_is_kept() -> None:
    x = tensor(np.ones(10))
    y = x * 2
    z = (y + 1)[2:]
    kept = weakref.ref(y)
    array = weakref.ref(y._data)
    assert z._data is not None
    del y
    assert kept() is None and array() is None


def test_under_no_grad_no_graph_is_kept() -> None:
    w = tensor(np.ones(10), requires_grad=True)
    with no_grad():
        y = np.exp(w)
        z = y.reshape(2, 5) * 3
    array = weakref.ref(y._data)
    del y
    assert array() is None and z.size == 10


def test_a_graph_goes_with_its_result() -> None:
    gc.disable()  # nothing here waits for the collector of cycles
    try:
        w = tensor(np.ones(10), requires_grad=True)
        y = np.exp(w)
        array, node = weakref.ref(y._data), weakref.ref(y)
        z = (y * y).sum()
        del y
        assert array() is not None and node() is None
        z.backward()
        assert array() is None
        y = np.exp(w)
        array = weakref.ref(y._data)
        z = y.sum()
        del y, z
        assert array() is None
        array = weakref.ref(w._data)
        del w
        assert array() is None
    finally:
        gc.enable()


def test_values_that_no_rule_reads_go_with_their_tensors() -> None:
    x, w, b = (tensor(np.full(shape, 0.5), requires_grad=True) for shape in ((4, 3), (3, 2), 2))
    product = x @ w
    shifted = product + b
    result = np.tanh(shifted)
    arrays = [weakref.ref(t._data) for t in (product, shifted, result)]
    kept = product._node
    del product, shifted
    assert [a() is None for a in arrays] == [True, True, False]
    loss = result.sum()
    del result
    assert arrays[2]() is not None  # the rule of tanh reads its result
    np.testing.assert_array_equal(to_host(kept.value), np.full((4, 2), 0.75))  # what is asked for after all is computed again
    loss.backward()
    slope = 1 - np.tanh(1.25) ** 2
    np.testing.assert_allclose(b.grad.numpy(), 4 * slope)
    np.testing.assert_allclose(w.grad.numpy(), np.full((3, 2), 2 * slope))


# --- threads


def test_threads_have_modes_and_graphs_of_their_own() -> None:
    w = tensor(np.ones(50), requires_grad=True)
    failures: list[Any] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            barrier.wait()
            for k in range(30):
                assert is_grad_enabled()
                x = tensor(np.full(50, float(number + 1)), requires_grad=True)
                (np.sin(x) * w.detach() * (k + 1)).sum().backward()
                np.testing.assert_allclose(x.grad.numpy(), np.cos(number + 1.0) * (k + 1))
                with no_grad():
                    assert not (x * 2).requires_grad
        except BaseException as error:
            failures.append(error)

    with no_grad():
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


# --- programs compiled elsewhere


def test_attached_programs() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    calls: list[Any] = []

    def backward(cotangents: list[np.ndarray | None]) -> list[np.ndarray | None]:
        calls.append(cotangents)
        g, h = (np.zeros(2) if c is None else c for c in (cotangents[0], cotangents[2]))
        return [g * y._data + h, g * x._data]

    product, integers, total = attach([x._data * y._data, np.arange(2), x._data + 0.0], [x, y], backward)
    assert product.requires_grad and total.requires_grad and not integers.requires_grad
    assert product.grad_fn == "program"
    (product * product + total * 10).sum().backward()
    assert len(calls) == 1 and calls[0][1] is None
    same(x.grad, 2 * np.array([3.0, 8.0]) * [3, 4] + 10)
    same(y.grad, 2 * np.array([3.0, 8.0]) * [1, 2])
    first, *_ = attach([x._data * y._data, np.arange(2), x._data + 0.0], [x, y], backward)
    first.sum().backward()
    assert [c is None for c in calls[1]] == [False, True, True]
    with pytest.raises(RuntimeError, match="second time"):
        first.sum().backward()


def test_gradients_of_attached_programs_do_not_share_memory() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    (total,) = attach([x._data + y._data], [x, y], lambda g: [g[0], g[0]])
    total.retain_grad()
    total.sum().backward()
    total.grad += 1
    x.grad += 1
    same(y.grad, np.ones(2))
    same(x.grad, np.full(2, 2.0))


def test_attached_programs_without_gradients() -> None:
    x = leaf(1, 2)

    def backward(cotangents: list[np.ndarray | None]) -> list[np.ndarray | None]:
        raise AssertionError

    with no_grad():
        (a,) = attach([np.ones(2)], [x], backward)
    (b,) = attach([np.ones(2)], [x.detach()], backward)
    (c,) = attach([np.arange(2)], [x], backward)
    assert not (a.requires_grad or b.requires_grad or c.requires_grad)
    array = np.ones(2)
    (d,) = attach([array], [x], lambda g: [None])
    assert d._data is array
    d.sum().backward()
    assert x.grad is None


def test_second_derivatives_of_attached_programs_say_what_to_do() -> None:
    x = leaf(1, 2)
    (y,) = attach([x._data**2], [x], lambda g: [g[0] * 2 * x._data])
    (dx,) = gradients_of([y.sum()], [x], create_graph=True)
    same(dx, np.array([2.0, 4.0]))
    with pytest.raises(RuntimeError, match=r"npc\.grad\(npc\.grad"):
        dx.sum().backward()


def test_lost_gradients() -> None:
    array = np.ones(2)
    made, integers = lost([array, np.arange(2)], "lost at a graph break in f.py:3")
    assert made._data is array and made.requires_grad and not integers.requires_grad
    x = leaf(1, 2)
    for result in (made.sum(), (made * x)[0], np.sin(made.reshape(2, 1)).sum()):
        with pytest.raises(RuntimeError, match=r"lost at a graph break in f\.py:3"):
            result.backward()
    with no_grad():
        assert not (made * 2).requires_grad
    (made.detach() * x).sum().backward()
    same(x.grad, np.ones(2))
