"""Arrays of a device for tests: those of the stand-in, and CuPy's where there is a GPU."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import devices as npc_devices
from npcompile.backends import device_arrays as arrays
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.cuda.tensors import CudaArrays
from npcompile.backends.eager import compile_eager
from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.tensors import devices
from tests.backends import gpu
from tests.cuda.interpreted import KIND, DeviceArray
from tests.cuda.numpy_library import StrictDevice


class There:
    """A device, and its arrays made of NumPy's and turned into these."""

    def __init__(self, device: Any, array_type: type):
        self.device, self.array_type = device, array_type

    @property
    def second(self) -> There:
        return There(cuda_device.numbered_device(1), self.array_type)

    def require_second(self) -> None:
        if self.array_type is not DeviceArray and cuda_device.device_count() < 2:
            pytest.skip("this machine has one CUDA device")

    def put(self, value: Any, memo: dict[int, Any] | None = None) -> Any:
        """The value with arrays of the device for NumPy's, of the same strides. One array given twice stays one."""
        memo = {} if memo is None else memo
        if id(value) not in memo:
            if type(value) is np.ndarray and kind_of(value.dtype) in "biufc":
                memo[id(value)] = self.copy(value, memo)
            elif type(value) in (list, tuple):
                memo[id(value)] = type(value)(self.put(v, memo) for v in value)
            elif type(value) is dict:
                memo[id(value)] = {k: self.put(v, memo) for k, v in value.items()}
            elif isinstance(value, npc.Tensor):
                memo[id(value)] = self.tensor(value.detach().numpy(), value.requires_grad)
                memo[id(value)].grad = self.put(value.grad, memo)
            else:
                memo[id(value)] = value
                if hasattr(value, "__dict__") and not isinstance(value, (type, types.FunctionType)):
                    vars(value).update(self.put(vars(value), memo))
        return memo[id(value)]

    def copy(self, x: np.ndarray, memo: dict[int, Any]) -> Any:
        """The array with all the memory that it is a view of, so that strides stay, and what arrays share."""
        owner = x
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        low, high = np.lib.array_utils.byte_bounds(owner) if owner.size else (x.ctypes.data, x.ctypes.data)
        if -id(owner) not in memo:  # beside the arrays by their ids
            with self.device.use():
                memory = self.device.upload(np.frombuffer(ctypes.string_at(low, high - low), np.uint8))
            memo[-id(owner)] = owner, memory
        return self.view(memo[-id(owner)][1], x.shape, x.strides, x.dtype, x.ctypes.data - low)

    def tensor(self, x: np.ndarray, requires_grad: bool = False) -> npc.Tensor:
        return npc.Tensor._of(self.put(x)).requires_grad_(requires_grad)

    def view(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = None, offset: int = 0) -> Any:
        kind = arrays.array_kind(self.array_type)
        assert kind is not None
        return kind.view(x, offset, shape, x.dtype if dtype is None else dtype, strides)

    def get(self, value: Any, memories: dict[int, np.ndarray] | None = None) -> Any:
        """The value with NumPy's arrays for those of the device: of the same memory where that is the stand-in's.

        Else each allocation is copied as a whole, once in `memories`, so that strides and what shares memory stay.
        """
        memories = {} if memories is None else memories
        if isinstance(value, DeviceArray):
            return value.view(np.ndarray)
        if isinstance(value, self.array_type):
            return host_view(value, memories)
        if isinstance(value, npc.Tensor):
            grad = None if value.grad is None else self.get(value.grad.detach()._data, memories)
            data = self.get(value.detach()._data, memories)
            return {"data": data, "grad": grad, "flags": str((value.requires_grad, value.is_leaf))}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.get(v, memories) for v in value))
        if type(value) in (list, tuple):
            return type(value)(self.get(v, memories) for v in value)
        if type(value) is dict:
            return {k: self.get(v, memories) for k, v in value.items()}
        if type(value).__module__.startswith("tests.") and hasattr(value, "__dict__"):
            return self.get(vars(value), memories)
        return value


def host_view(array: Any, memories: dict[int, np.ndarray]) -> np.ndarray:
    """A CuPy array in a copy of its whole allocation."""
    memory = array.data.mem
    if memory.ptr not in memories:
        with array.device:
            memories[memory.ptr] = type(array)((memory.size,), np.uint8, type(array.data)(memory, 0)).get()
    offset = array.data.ptr - memory.ptr
    return np.ndarray(array.shape, array.dtype, memories[memory.ptr], offset, array.strides)


@pytest.fixture(params=["interpreted", pytest.param("gpu", marks=gpu)])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[There]:
    if request.param == "gpu":
        device = cuda_device.current_device()
        devices.open_kind("cuda")  # Tensors may hold its arrays
        yield There(device, device.library.ndarray)
        return
    monkeypatch.setattr(npc_devices, "_in_use", [])
    devices_there = [StrictDevice(), StrictDevice()]
    devices_there[1].number = 1
    for module in (cuda_device, cuda_backend):
        monkeypatch.setattr(module, "current_device", lambda: devices_there[0])
        monkeypatch.setattr(module, "numbered_device", devices_there.__getitem__)
    monkeypatch.setitem(arrays.ARRAY_KINDS, DeviceArray, KIND)
    monkeypatch.setitem(devices.KINDS, DeviceArray, CudaArrays(DeviceArray))
    yield There(devices_there[0], DeviceArray)


@pytest.fixture
def calls(there: There, monkeypatch: pytest.MonkeyPatch) -> There:
    """The same, where graphs run by NumPy in place of the interpreter, which takes long: for tests of what is around them."""
    if there.array_type is DeviceArray:
        monkeypatch.setattr(cuda_backend, "compile_program", by_numpy)
    return there


def by_numpy(graph: Graph, device: Any, stays: bool = False, *_: Any, **__: Any) -> CompiledGraph:
    on_host = compile_eager(graph, ()).call
    on_copies = cuda_backend.copying(on_host, graph, device)
    return CompiledGraph(lambda *args: (on_copies if stays or any(map(device.is_array, args)) else on_host)(*args))


def same(a: Any, b: Any, rtol: float = 1e-12) -> None:
    """Are the values NumPy's? An array of no dimensions may stand for a scalar."""
    if isinstance(b, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b), (a, b)
        for x, y in zip(a, b):
            same(x, y, rtol)
    elif isinstance(b, dict):
        assert list(a) == list(b)
        for k in b:
            same(a[k], b[k], rtol)
    elif isinstance(b, (np.ndarray, np.generic)) and b.dtype.kind in "biufc":
        assert isinstance(a, (np.ndarray, np.generic)), (a, b)
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        rounding = max(rtol, 8 * float(np.finfo(b.dtype).eps)) if b.dtype.kind in "fc" else 0
        np.testing.assert_allclose(a, b, rtol=rounding, atol=rounding)
    elif isinstance(b, (float, complex)):
        assert type(a) is type(b) and a == pytest.approx(b, rel=rtol, nan_ok=True)
    else:
        assert type(a) is type(b)
        assert not isinstance(b, (int, str, bytes)) or a == b
