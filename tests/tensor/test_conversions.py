"""Tensors from what there is, and back: arrays, numbers, text, pickles, other libraries."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import npcompile.tensors as npt
from npcompile.backends.cuda.runtime.device import NoDevice, current_device
from npcompile.tensor_core.tensor import rebuilt
from npcompile.tensors import Tensor, asarray, from_dlpack, from_numpy, tensor
from tests.tensor.checks import same


def test_tensor_copies() -> None:
    a = np.arange(3.0)
    x = tensor(a)
    a[0] = 9
    same(x, np.arange(3.0))
    same(tensor([1, 2]), np.array([1, 2]))
    same(tensor([1, 2], np.float32), np.array([1, 2], np.float32))
    same(tensor(3), np.array(3))
    same(tensor([x, x]), np.array([x._data, x._data]))
    same(tensor(np.asfortranarray(np.ones((2, 3)))), np.array(np.asfortranarray(np.ones((2, 3)))))
    same(Tensor([1.0, 2.0]), np.array([1.0, 2.0]))


@pytest.mark.parametrize("bad", ["text", [None], np.array(["a"]), np.array([1], ">f8"), np.datetime64("2020-01-01")])
def test_what_is_no_number_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="a Tensor holds"):
        tensor(bad)


def test_from_numpy_shares() -> None:
    a = np.arange(6.0).reshape(2, 3).T
    x = from_numpy(a)
    assert x._data is a and x.strides == a.strides
    x[0, 0] = 9
    assert a[0, 0] == 9
    a[1, 1] = 7
    assert x[1, 1].item() == 7
    with pytest.raises(TypeError, match="from_numpy takes an ndarray, not list"):
        from_numpy([1.0])  # type: ignore[arg-type]


def test_asarray_shares_where_it_can() -> None:
    a = np.arange(3.0)
    assert asarray(a)._data is a
    x = tensor(a)
    assert asarray(x) is x and asarray(x, float) is x
    same(asarray(x, np.float32), a.astype(np.float32))
    same(asarray([1, 2]), np.array([1, 2]))


def test_numpy_and_array_protocol() -> None:
    x = tensor([1.0, 2.0])
    assert x.numpy() is x.numpy() and x.__array__() is x.numpy() and np.shares_memory(np.asarray(x), x.numpy())
    same(tensor(np.array(x)), np.array([1.0, 2.0]))
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(ValueError):
        np.asarray(x, np.float32, copy=False)
    w = tensor([1.0], requires_grad=True)
    for use in (w.numpy, lambda: np.asarray(w), lambda: np.array(w), lambda: np.ma.add(w, np.ma.array([1.0]))):
        with pytest.raises(RuntimeError, match=r"x\.detach\(\)\.numpy\(\)"):
            use()
    assert w.detach().numpy().tolist() == [1.0]


def test_python_numbers() -> None:
    x = tensor(2.75, requires_grad=True)
    assert (x.item(), float(x), int(x), complex(x), bool(x)) == (2.75, 2.75, 2, 2.75 + 0j, True)
    assert type(x.item()) is float
    assert tensor([[1, 2]]).tolist() == [[1, 2]] and tensor([4, 5]).item(1) == 5
    assert [10, 11, 12][tensor(1)] == 11
    with pytest.raises(TypeError):
        [10][tensor(1.0)]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tensor([1, 2]))
    with pytest.raises(TypeError):
        float(tensor([1.0, 2.0]))
    assert 2.0 in tensor([1.0, 2.0]) and 3 not in tensor([1.0, 2.0])


def test_length_and_iteration() -> None:
    x = tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    assert len(x) == 3 and [r.tolist() for r in x] == [[0, 1], [2, 3], [4, 5]]
    a, b, _ = x
    (a * b).sum().backward()
    same(x.grad, np.array([[2.0, 3.0], [0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(TypeError, match="0-D"):
        iter(tensor(1.0))
    with pytest.raises(TypeError):
        len(tensor(1.0))


def test_hash_is_identity() -> None:
    x, y = tensor([1.0]), tensor([1.0])
    assert {x: 1}[x] == 1 and hash(x) != hash(y)


def test_text() -> None:
    assert repr(tensor([1.0, 2.0])) == "Tensor([1., 2.])" and str(tensor([1.0, 2.0])) == "[1. 2.]"
    assert repr(tensor([1, 2], requires_grad=False)) == "Tensor([1, 2])"
    x = tensor(np.ones((2, 2), np.float32), requires_grad=True)
    assert repr(x) == "Tensor([[1., 1.],\n        [1., 1.]], dtype=float32, requires_grad=True)"
    assert repr(x[0] * 2) == "Tensor([2., 2.], dtype=float32, grad_fn=multiply)"
    assert repr(x.T) == "Tensor([[1., 1.],\n        [1., 1.]], dtype=float32, grad_fn=permute)"
    assert repr(tensor(np.ones((0, 3)))) == "Tensor([], shape=(0, 3), dtype=float64)"
    assert f"{tensor(3.14159):.2f}" == "3.14" and f"{tensor([1.0])}" == "[1.]"
    with np.printoptions(precision=2, suppress=True):
        for a in (np.linspace(0, 1, 7), np.arange(2000), np.eye(3), np.array(5), np.array([1 + 2j])):
            assert repr(tensor(a)).replace(" ", "") == repr(a).replace("array", "Tensor").replace(" ", "")
            assert str(tensor(a)) == str(a)


def test_devices() -> None:
    x = tensor([1.0], device="cpu")
    assert x.device == "cpu" and x.to("cpu") is x and x.cpu() is x
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        x.to("gpu")
    try:
        current_device()
    except NoDevice as error:
        missing = re.escape(str(error))
    else:
        pytest.skip("there is a device: tests/cuda/test_tensors_on_device.py")
    for use in (
        lambda: x.to("cuda"),
        lambda: tensor([1.0], device="cuda"),
        lambda: npt.zeros(3, device="cuda:1"),
        lambda: rebuilt(Tensor, np.ones(2), False, "cuda"),  # what a pickle makes
    ):
        with pytest.raises(RuntimeError, match=missing):
            use()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol: int) -> None:
    for x in (tensor(np.asfortranarray(np.ones((2, 3)))), tensor([1.0], requires_grad=True), tensor([True, False])):
        made = pickle.loads(pickle.dumps(x, protocol))
        same(made, x._data)
        assert made.requires_grad == x.requires_grad and made.is_leaf


def test_copies() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    deep = copy.deepcopy({"w": x, "same": x})
    assert deep["w"] is deep["same"] and deep["w"].requires_grad and deep["w"].is_leaf
    same(deep["w"].grad, x.grad._data)
    assert not np.shares_memory(deep["w"]._data, x._data)
    shallow = copy.copy(x)
    assert shallow._data is x._data and shallow.requires_grad and shallow is not x
    y = x * 2
    assert copy.copy(y).requires_grad
    with pytest.raises(RuntimeError, match="only leaf Tensors have deep copies"):
        copy.deepcopy(y)
    clone = x.clone()
    assert clone.grad_fn and not np.shares_memory(clone._data, x._data)
    same(tensor(np.ones((2, 3)).T).clone(), np.ones((2, 3)).T.copy("K"))


def test_dlpack_with_numpy() -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    a = np.from_dlpack(x)
    a[0, 0] = 9 if a.flags.writeable else a[0, 0]
    assert np.shares_memory(a, x.numpy()) and x.__dlpack_device__() == (1, 0)
    y = from_dlpack(np.arange(3))
    same(y, np.arange(3))
    b = np.ones(4)
    assert np.shares_memory(from_dlpack(b).numpy(), b)
    z = from_dlpack(x)
    assert np.shares_memory(z.numpy(), x.numpy())
    with pytest.raises(BufferError, match="requires grad"):
        np.from_dlpack(tensor([1.0], requires_grad=True))


@pytest.mark.torch
def test_dlpack_with_torch() -> None:
    import torch

    x = tensor(np.arange(6.0).reshape(2, 3))
    t = torch.from_dlpack(x)
    t[0, 0] = 9
    assert x[0, 0].item() == 9
    made = torch.arange(4.0)
    y = from_dlpack(made)
    made[1] = 8
    same(y, np.array([0, 8, 2, 3], np.float32))
    y[2] = 7
    assert made[2].item() == 7


CREATED = {
    "zeros": lambda m: m.zeros((2, 3)),
    "ones": lambda m: m.ones(4, np.float32),
    "full": lambda m: m.full((2,), 7),
    "arange": lambda m: m.arange(0, 1, 0.25),
    "arange of integers": lambda m: m.arange(5),
    "linspace": lambda m: m.linspace(0, 1, 5),
    "eye": lambda m: m.eye(3, k=1),
    "zeros_like": lambda m: m.zeros_like(m.ones((2, 2))),
    "ones_like": lambda m: m.ones_like(m.zeros(3, np.int16)),
    "full_like": lambda m: m.full_like(m.zeros(3), 5),
}


@pytest.mark.parametrize("create", CREATED.values(), ids=CREATED)
def test_creation_functions_are_numpys(create: Any) -> None:
    same(create(npt), create(np))


def test_empty_arrays_have_the_shape_and_dtype_of_numpys() -> None:
    for made, expected in (
        (npt.empty((2, 3), np.float32), np.empty((2, 3), np.float32)),
        (npt.empty_like(npt.ones((3, 2), np.int16).T), np.empty_like(np.ones((3, 2), np.int16).T)),
    ):
        assert (made.shape, made.dtype, made.strides) == (expected.shape, expected.dtype, expected.strides)


def test_creation_with_gradients() -> None:
    assert npt.zeros((2, 3), requires_grad=True).requires_grad
    assert npt.zeros_like(tensor([1.0], requires_grad=True), requires_grad=True).is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        npt.arange(3, requires_grad=True)


def test_random_numbers_are_numpys_stream() -> None:
    np.random.seed(5)
    made = [npt.rand(2, 3), npt.randn(4, dtype=np.float32), npt.randint(0, 10, (3,)), npt.randn(requires_grad=True)]
    np.random.seed(5)
    same(made[0], np.random.rand(2, 3))
    same(made[1], np.random.randn(4).astype(np.float32))
    same(made[2], np.random.randint(0, 10, (3,)))
    same(made[3], np.float64(np.random.randn()))
    assert made[3].requires_grad


def test_random_numbers_like_a_tensor() -> None:
    x = npt.zeros((2, 3), dtype=np.float32)
    for make in (npt.rand_like, npt.randn_like):
        made = make(x, requires_grad=True)
        assert (made.shape, made.dtype, made.requires_grad) == (x.shape, x.dtype, True)
        assert not np.array_equal(made.detach().numpy(), make(x).numpy())
