"""Tensors compared with arrays, and their gradients with differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from npcompile.tensor_core.tensors.devices import is_on_device, share_memory
from npcompile.tensors import Tensor, gradients_of, tensor


def same(ours: Any, theirs: Any) -> None:
    """A Tensor for each of NumPy's arrays and scalars: the same dtype, shape, strides and values. Else equal."""
    if isinstance(theirs, (tuple, list)) and any(isinstance(t, (np.ndarray, np.generic, tuple, list)) for t in theirs):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b)
        return
    if not isinstance(theirs, (np.ndarray, np.generic)):
        assert not isinstance(ours, Tensor) and ours == theirs
        return
    assert isinstance(ours, Tensor), f"{ours!r} instead of a Tensor"
    data, expected = ours._host, np.asarray(theirs)
    units = 4 if ours.device == "cpu" else 64  # a device adds up in an order of its own
    assert (data.dtype, data.shape) == (expected.dtype, expected.shape)
    if expected.size:
        long = [axis for axis, n in enumerate(expected.shape) if n > 1]
        assert [ours.strides[a] for a in long] == [expected.strides[a] for a in long]
        is_repeated = 0 in [expected.strides[a] for a in long]  # of np.broadcast_arrays NumPy lets the first write warn
        assert is_repeated or not isinstance(theirs, np.ndarray) or ours.flags.writeable == expected.flags.writeable
    if data.dtype.kind in "fc":
        np.testing.assert_allclose(data, expected, rtol=units * np.finfo(data.dtype).eps, atol=1e-14)
    else:
        np.testing.assert_array_equal(data, expected)


def shares_memory(x: Tensor, y: Tensor) -> bool:
    return share_memory(x._data, y._data) if is_on_device(x._data) else np.shares_memory(x._data, y._data)


def arrays_of(result: Any) -> Iterator[Any]:
    """The arrays and Tensors in a result."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from arrays_of(part)
    elif isinstance(result, (np.ndarray, np.generic, Tensor)):
        yield result


def loss_of(function: Callable[[Any], Any], x: Any) -> Any:
    """One number that depends on every float in the function's result, each with another weight."""
    total: Any = 0.0
    for k, part in enumerate(arrays_of(function(x))):
        if part.dtype.kind == "f" and part.size:
            weights: Any = np.cos(np.arange(part.size) + k).reshape(part.shape).astype(part.dtype)
            weights = tensor(weights, device=part.device) if isinstance(part, Tensor) else weights
            total = total + (part * weights).sum()
    return total


def difference(function: Callable[[np.ndarray], Any], x: np.ndarray, direction: np.ndarray, step: float = 1e-6) -> float:
    """The derivative of the loss along a direction, by NumPy."""
    ahead, behind = (loss_of(function, moved(x, s * direction)) for s in (step, -step))
    return float(ahead - behind) / (2 * step)


def moved(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """x + by, in the memory order of x."""
    return np.add(x, by, out=x.copy(order="K"))


def check_gradient(function: Callable[[Any], Any], x: np.ndarray) -> None:
    made = tensor(x, requires_grad=True)
    loss = loss_of(function, made)
    if not isinstance(loss, Tensor) or not loss.requires_grad:
        # Nothing here has a gradient: integers, Python objects.
        assert x.size == 0 or not any(a.requires_grad for a in arrays_of(function(made)) if isinstance(a, Tensor))
        return
    loss.backward()
    direction = np.random.default_rng(3).normal(size=x.shape)
    wide = any(a.dtype == np.float32 for a in arrays_of(function(x)))
    expected = difference(function, x, direction, 1e-2 if wide else 1e-6)
    gradient = np.zeros_like(x) if made.grad is None else made.grad.numpy()
    assert gradient.dtype == x.dtype and gradient.shape == x.shape
    np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-3 if wide else 1e-6, atol=1e-3 if wide else 1e-7)


def check_second_derivative(function: Callable[[Any], Any], x: np.ndarray) -> None:
    """The derivative of the gradient along a direction, which `create_graph` makes, is the difference of gradients."""

    def gradient(at: np.ndarray) -> np.ndarray:
        made = tensor(at, requires_grad=True)
        loss = loss_of(function, made)
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            return np.zeros_like(at)
        (found,) = gradients_of([loss], [made])
        return np.zeros_like(at) if found is None else found.numpy()

    made = tensor(x, requires_grad=True)
    loss = loss_of(function, made)
    if not isinstance(loss, Tensor) or not loss.requires_grad:
        return
    (first,) = gradients_of([loss], [made], create_graph=True)
    one, other = np.random.default_rng(5).normal(size=(2, *x.shape))
    second: Any = np.zeros_like(x)
    if first is not None and first.requires_grad:
        (found,) = gradients_of([(first * tensor(one, device=made.device)).sum()], [made])
        second = np.zeros_like(x) if found is None else found.numpy()
    step = 1e-5
    expected = np.sum((gradient(moved(x, step * other)) - gradient(moved(x, -step * other))) * one) / (2 * step)
    wide = any(a.dtype == np.float32 for a in arrays_of(function(x)))
    np.testing.assert_allclose(np.sum(second * other), expected, rtol=1e-2 if wide else 1e-5, atol=1e-2 if wide else 1e-5)
