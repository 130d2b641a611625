"""The tests of eager Tensors where new ones are made on a real device, and exchange with other libraries there."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.runtime.device import device_count
from npcompile.tensor_core.tensors.devices import CURRENT
from tests.tensor import test_autograd, test_linalg, test_operations, test_random_programs, test_views
from tests.tensor.checks import same
from tests.tensor.test_on_device import DEVICES, lenient, reused  # noqa: F401  (a fixture of the tests)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_device() -> Iterator[None]:
    """New Tensors are made on it."""
    token = CURRENT.set("cuda")
    yield
    CURRENT.reset(token)


for tests in (test_autograd, test_linalg, test_operations, test_random_programs, test_views):
    globals().update(reused(tests))
globals().update(DEVICES)

A = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_exchange_with_cupy(dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.asarray(A.astype(dtype))
    for made in (npc.asarray(array), npc.from_dlpack(array), npc.asarray(array.T).T):
        assert made.device == "cuda" and made._data.data.ptr == array.data.ptr
        same(made, A.astype(dtype))
        back = cupy.asarray(made)
        assert back.data.ptr == array.data.ptr and back.dtype == array.dtype
        assert cupy.from_dlpack(made).data.ptr == array.data.ptr
    npc.asarray(array)[0, 0] = 1
    assert array[0, 0].get() == np.array(1, dtype)


def test_arithmetic_with_cupys_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    x, array = npc.tensor(A, requires_grad=True), cupy.asarray(A + 1)
    made = x * array
    array[...] = 0  # what was read is kept for the gradient
    made.sum().backward()
    same(made, A * (A + 1))
    same(x.grad, A + 1)
    same(np.maximum(x.detach(), cupy.asarray(A)), A)
    left = np.maximum(cupy.asarray(A), x.detach())  # CuPy is asked first, and takes the Tensor for an array
    assert type(left) is cupy.ndarray
    np.testing.assert_array_equal(left.get(), A)


@pytest.mark.torch
def test_exchange_with_torch() -> None:
    import torch

    x = npc.tensor(A)
    t = torch.from_dlpack(x)
    assert t.is_cuda and t.data_ptr() == x._data.data.ptr
    t[0, 0] = 9
    assert x[0, 0].item() == 9
    assert torch.as_tensor(x, device="cuda").data_ptr() == t.data_ptr()
    made = torch.arange(4.0, device="cuda")
    y = npc.from_dlpack(made)
    made[1] = 8
    same(y, np.array([0, 8, 2, 3], np.float32))
    y[2] = 7
    assert made[2].item() == 7
    assert npc.asarray(made)._data.data.ptr == made.data_ptr()


def test_exchange_with_jax() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed here")
    if not any(d.platform == "gpu" for d in jax.devices()):
        pytest.skip("jax has no device here")
    made = jax.numpy.arange(4, dtype="float32")
    same(npc.from_dlpack(made), np.arange(4, dtype=np.float32))
    taken = jax.dlpack.from_dlpack(npc.tensor(A, np.float32))
    np.testing.assert_array_equal(np.asarray(taken), A.astype(np.float32))


def test_a_tensor_that_requires_grad_is_not_exported() -> None:
    x = npc.tensor(A, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.__cuda_array_interface__
    with pytest.raises(BufferError, match="detach"):
        x.__dlpack__()
    assert not hasattr(x.detach().cpu(), "__cuda_array_interface__")


def test_two_devices() -> None:
    if device_count() < 2:
        pytest.skip("this machine has one device")
    x = npc.tensor(A, requires_grad=True)
    y = x.to("cuda:1")
    assert y.device == "cuda:1" and y.to("cuda:1") is y
    (np.sin(y) * y).sum().backward()
    assert x.grad is not None and x.grad.device == "cuda"
    same(x.grad, np.cos(A) * A + np.sin(A))
    with pytest.raises(RuntimeError, match=r"cuda:1.*cuda"):
        x + y
    same(npc.zeros(3, device="cuda:1") + 1, np.ones(3))
    assert (npc.ones((2, 2), device="cuda:1") @ npc.ones((2, 2), device="cuda:1")).device == "cuda:1"


def test_pickles_and_copies_are_on_the_device() -> None:
    x: Any = npc.tensor(A.T, requires_grad=True)
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert made.device == "cuda" and made.requires_grad
        same(made, A.T)
