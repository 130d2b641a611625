"""Shared memory: views, writes in place, what gradients make of them, and values that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core.array import STEPS, AxisSlice, BasicIndex, Step, Strided, index_text
from npcompile.tensor_core.tensors.views import VIEWS, view_of
from npcompile.tensors import Tensor, from_numpy, gradients_of, no_grad, tensor
from tests.tensor.checks import same, shares_memory

rng = np.random.default_rng(11)
A = rng.uniform(0.5, 1.5, (3, 4))


def test_every_step_has_its_view_of_memory() -> None:
    captured_only = {"variable", "constant", "position"}  # of programs: a Tensor knows its positions and its gradient
    assert set(VIEWS) == set(STEPS) - captured_only


def test_views_by_strides() -> None:
    x = np.arange(20.0)
    view = view_of(x, [Step("strided", Strided(9, (4, 3), (-2, 3), 8, True))])
    np.testing.assert_array_equal(view, x[9 + np.arange(4)[:, None] * -2 + np.arange(3) * 3])
    assert np.shares_memory(view, x)


VIEWED: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:, ::2],
    "backwards": lambda x: x[::-1],
    "row": lambda x: x[1],
    "newaxis": lambda x: x[:, None],
    "T": lambda x: x.T,
    "reshape": lambda x: x.reshape(2, 6),
    "reshape F": lambda x: x.T.reshape(6, 2, order="F"),
    "ravel": lambda x: x.ravel(),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "squeeze": lambda x: x[None].squeeze(),
    "split": lambda x: np.split(x, 2, axis=1)[1],
    "view": lambda x: x.view(),
    "slice of a slice": lambda x: x[1:][:, 1:][::-1],
    "real": lambda x: x.real,
    "moveaxis": lambda x: np.moveaxis(x, 0, 1)[2],
}
WRITES: dict[str, Callable[[Any, Any], None]] = {
    "fill": lambda v, w: v.fill(2.5),
    "assign": lambda v, w: v.__setitem__(..., w.sum()),
    "iadd": lambda v, w: v.__iadd__(w[0, 0]),
    "imul": lambda v, w: v.__imul__(w[0, 1]),
    "itruediv": lambda v, w: v.__itruediv__(w[1, 1]),
    "ipow": lambda v, w: v.__ipow__(2),
    "square itself": lambda v, w: v.__imul__(v),
    "ufunc out": lambda v, w: np.exp(v, out=v),
    "where": lambda v, w: np.multiply(v, w[0, 2], out=v, where=v > 1),
    "element": lambda v, w: v.__setitem__((0,) * v.ndim, w[2, 2]),
    "part": lambda v, w: v.__setitem__(slice(1, None), v[1:] + w[0, 0]),
    "shifted itself": lambda v, w: v.__setitem__(slice(1, None), v[:-1].copy()),
    "overlapping": lambda v, w: v.__setitem__(slice(1, None), v[:-1]),
    "mask": lambda v, w: v.__setitem__(v > 1, w[1, 2]),
    "places": lambda v, w: v.__setitem__(np.array([0, -1]), w[1, 0]),
    "copyto": lambda v, w: np.copyto(v, w[0, 3]),
    "add.at": lambda v, w: np.add.at(v, np.array([0, 0]), w[0, 0]),
}


def program(x: Any, view: Callable[[Any], Any], write: Callable[[Any, Any], Any]) -> Any:
    base = x * 2
    v = view(base)
    before = v.sum()
    write(v, x)
    return (base * np.arange(12.0).reshape(3, 4)).sum() + (v * v).sum() + before


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("view", VIEWED.values(), ids=VIEWED)
def test_writes_to_views_are_seen_and_have_gradients(view: Callable[[Any], Any], write: Callable[[Any, Any], Any]) -> None:
    x = tensor(A, requires_grad=True)
    result = program(x, view, write)
    same(result, program(A.copy(), view, write))
    result.backward()
    direction, step = rng.normal(size=A.shape), 1e-6
    expected = (program(A + step * direction, view, write) - program(A - step * direction, view, write)) / (2 * step)
    np.testing.assert_allclose(np.sum(x.grad.numpy() * direction), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("view", VIEWED.values(), ids=VIEWED)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_views_share_memory_as_numpys_do(view: Callable[[Any], Any], requires_grad: bool) -> None:
    x = tensor(A, requires_grad=requires_grad) * 1
    v = view(x)
    assert shares_memory(v, x) and np.shares_memory(view(A), A)
    v[...] = 7.0
    x_after = A.copy()
    view(x_after)[...] = 7.0
    same(x, x_after)
    x[...] = A
    same(v, view(A.copy()))


def test_elements_and_index_arrays_are_copies() -> None:
    x = tensor(A, requires_grad=True) * 1
    for copied in (x[0, 0], x[[0, 1]], x[x > 1], x.copy(), x.flatten(), np.take(x, [0])):
        assert not shares_memory(copied, x)


def test_a_write_of_gradients_into_a_view_reaches_the_base_and_other_views() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    buffer = tensor(np.zeros(6))
    middle, head = buffer[2:4], buffer[:3]
    assert not buffer.requires_grad
    middle[...] = x * x
    assert buffer.requires_grad and head.requires_grad and not buffer.is_leaf
    (buffer.sum() + 10 * head.sum()).backward()
    same(x.grad, np.array([22.0, 4.0]))


def test_recurrences_written_into_a_buffer() -> None:
    x = tensor(0.5, requires_grad=True)
    states = tensor(np.zeros(20))
    states[0] = x
    for i in range(1, 20):
        states[i] = states[i - 1] * 1.1 + x
    states[19].backward()
    same(x.grad, np.float64(sum(1.1**k for k in range(20))))


def test_iadd_on_subscripts() -> None:
    x = tensor(A, requires_grad=True)
    y = x * 1
    y[0] += 10
    y[:, 1] *= 3
    y[1, 2] += x[0, 0]
    expected = np.ones((3, 4))
    expected[:, 1] = 3
    expected[0, 0] += 1
    y.sum().backward()
    same(x.grad, expected)


# --- values that are gone


def test_backward_through_an_overwritten_value_raises() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    e = np.exp(x)
    y = e.sum()
    e += 1
    with pytest.raises(RuntimeError, match=r"the gradient of exp needs a value that was changed in place.*x\.clone\(\)"):
        y.backward()
    other = tensor([3.0, 4.0])
    z = (x * other).sum()
    other[0] = 0
    with pytest.raises(RuntimeError, match="multiply needs a value that was changed"):
        z.backward()


def test_a_write_through_any_view_is_noticed() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    for write in (
        lambda t: t[::-1].__setitem__(0, 5.0),
        lambda t: t.detach().__imul__(2),
        lambda t: np.square(t.reshape(2, 1), out=t.reshape(2, 1)),
        lambda t: t.T.fill(1.0),
        lambda t: t.sort(),
        lambda t: np.fill_diagonal(t.reshape(1, 2), 3.0),
        lambda t: np.sum(tensor(np.ones((2, 2))), 0, None, t),
        lambda t: tensor(np.ones((2, 2))).max(0, t),
        lambda t: np.add(1.0, 2.0, t),
    ):
        other = tensor([4.0, 3.0])
        y = (x * other).sum()
        write(other)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.backward()


def test_a_view_read_by_two_operations_is_one_value() -> None:
    x = tensor(A, requires_grad=True)
    v = (x * 1.5).T
    e, s = np.exp(-v * v), np.sin(v)
    v += 1.0
    for result in (e, s):
        with pytest.raises(RuntimeError, match="changed in place"):
            gradients_of([result.sum()], [x])


def test_values_that_no_rule_reads_may_be_overwritten() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x + 1
    z = y * 3
    y += 5  # the gradient of y * 3 reads 3 alone
    z.sum().backward()
    same(x.grad, np.array([3.0, 3.0]))


def test_what_in_place_operations_overwrite_themselves_is_kept() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y *= x
    y *= y
    y **= 2
    np.sin(y, out=y)
    y.sum().backward()
    a = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(a**8) * 8 * a**7)


def test_leaves_are_not_changed_in_place() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    for write in (
        lambda: x.__iadd__(1),
        lambda: x.__setitem__(0, 1.0),
        lambda: x[:1].fill(0.0),
        lambda: np.exp(x, out=x),
        lambda: x.__setitem__(slice(None), x * 2),
    ):
        with pytest.raises(RuntimeError, match="leaf Tensor that requires grad cannot be changed in place"):
            write()
    same(x, np.array([1.0, 2.0]))
    with no_grad():
        x -= 1
        x[0] = 8.0
    same(x, np.array([8.0, 1.0]))
    assert x.is_leaf and x.requires_grad
    (x * x).sum().backward()
    same(x.grad, np.array([16.0, 2.0]))


def test_training_steps_keep_no_history() -> None:
    w = tensor([0.0, 0.0], requires_grad=True)
    target = tensor([1.0, -2.0])
    for _ in range(200):
        w.grad = None
        ((w - target) ** 2).sum().backward()
        with no_grad():
            w -= 0.1 * w.grad
    np.testing.assert_allclose(w.detach().numpy(), [1, -2], atol=1e-8)
    assert not w._node.inputs or not w._node.inputs[0].inputs


def test_writes_under_no_grad_leave_the_graph_as_it_was() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x + 1
    with no_grad():
        y += 5
    assert y.requires_grad
    z = (y * 2).sum()
    same(z, np.float64(30))
    z.backward()
    same(x.grad, np.array([2.0, 2.0]))


def test_views_made_under_no_grad() -> None:
    x = tensor([1.0, 2.0], requires_grad=True) * 1
    with no_grad():
        v = x[:1]
        v += 1
    assert not v.requires_grad
    same(x, np.array([2.0, 2.0]))
    with pytest.raises(RuntimeError, match="made under no_grad"):
        v *= x[0]
    plain = tensor([1.0, 2.0])
    with no_grad():
        part = plain[:1]
    part *= x[0]
    assert plain.requires_grad


def test_views_that_steps_cannot_tell() -> None:
    x = tensor(np.zeros(2))
    halves = x.view(np.float32)
    x[1] = 2.0
    same(halves, np.array([0.0, 2.0]).view(np.float32))
    w = tensor(np.float32(1.0), requires_grad=True)
    y = (w * halves).sum()
    x[0] = 3.0
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()
    with pytest.raises(RuntimeError, match="gradients cannot follow"):
        halves[0] = w


def test_detached_tensors_share_memory_and_versions() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    d = x.detach()
    assert not d.requires_grad and shares_memory(d, x)
    y = (x * x).sum()
    d[0] = 5.0
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()
    (x * x).sum().backward()
    same(x.grad, np.array([10.0, 4.0]))


def test_read_only_arrays_stay_read_only() -> None:
    a = np.arange(3.0)
    a.flags.writeable = False
    x = from_numpy(a)
    assert x._data is a and not x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    w = tensor(2.0, requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        x *= w
    view = np.broadcast_to(w, (3,))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    assert (x * w).requires_grad


def test_integer_tensors_take_the_values_without_the_gradient() -> None:
    x = tensor([1.6, 2.6], requires_grad=True)
    places = tensor([0, 0])
    places[...] = x
    assert places.tolist() == [1, 2] and not places.requires_grad


def test_views_keep_gradients_of_their_own() -> None:
    x = tensor(A, requires_grad=True)
    v = x[1:]
    v.retain_grad()
    w = v[:, 1:]
    (w * w).sum().backward()
    expected = np.zeros((2, 4))
    expected[:, 1:] = 2 * A[1:, 1:]
    same(v.grad, expected)
    v2 = x[1:]
    (v2.sum() * 2).backward()
    v2.sum().backward()  # what was freed is not the view itself


def test_bits_have_no_gradient() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    bits = x.view(np.int64)
    assert not bits.requires_grad and shares_memory(bits, x)
    same(bits, np.array([1.0, 2.0]).view(np.int64))


def test_complex_parts() -> None:
    z = tensor([1 + 2j, 3 - 1j], requires_grad=True) * 1
    z.real[0] = 5.0
    z.imag = z.real * 2
    same(z, np.array([5 + 10j, 3 + 6j]))
    assert isinstance(z, Tensor)
    (g,) = gradients_of([z.imag.sum()], [z])
    same(g, np.array([-1j, -1j]))


@pytest.mark.parametrize(
    ("first", "step", "length", "text"), [(5, -1, 6, "x[5::-1, ...]"), (5, -2, 2, "x[5:1:-2, ...]"), (0, 2, 3, "x[0:6:2, ...]")]
)
def test_a_slice_of_known_size_leaves_nothing_to_decide(first: int, step: int, length: int, text: str) -> None:
    assert index_text("x", BasicIndex((AxisSlice(first, step, length),))) == text
    np.testing.assert_array_equal(eval(text, {"x": np.arange(6)}), first + step * np.arange(length))
