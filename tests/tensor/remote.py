"""A device without one: arrays that NumPy cannot read, and an op table that runs behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tensors.tape import product

NAMES = ("remote", "remote:1")


class RemoteArray:
    """As an array of CuPy: NumPy's attributes and basic views, and a TypeError for who wants an ndarray."""

    def __init__(self, inside: np.ndarray, device: str):
        self.inside, self.device = inside, device

    def again(self, inside: Any) -> RemoteArray:
        assert isinstance(inside, np.ndarray), inside
        return RemoteArray(inside, self.device)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "strides", "ndim", "size", "itemsize", "nbytes", "base"):
            return getattr(self.inside, name)
        if name in ("real", "imag"):
            return self.again(getattr(self.inside, name))
        if name in ("transpose", "diagonal", "view", "copy"):
            return lambda *args, **kwargs: self.again(getattr(self.inside, name)(*args, **kwargs))
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.inside)

    def __getitem__(self, key: Any) -> RemoteArray:
        items = key if isinstance(key, tuple) else (key,)
        assert all(i is None or i is ... or isinstance(i, (int, slice)) for i in items), f"{key} is no basic index"
        return self.again(self.inside[(*items, ...) if ... not in items else items])

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("an array of a device has no implicit copy on the host")

    def __array_function__(self, function: Callable[..., Any], types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        assert function is np.expand_dims, f"{function} of an array of a device"
        return self.again(function(args[0].inside, *args[1:], **kwargs))


def ordered(array: np.ndarray, strides: Sequence[int]) -> np.ndarray:
    order = sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))
    return np.array(array.transpose(order), order="C").transpose(np.argsort(order)) if order else np.array(array)


class RemoteArrays:
    """See tensor_core.tensors.devices.DeviceArrays."""

    def device_of(self, array: RemoteArray) -> str:
        return array.device

    def normalize(self, device: str) -> str:
        if device not in NAMES:
            raise RuntimeError(f"there is no device {device!r}")
        return device

    def upload(self, host: np.ndarray, device: str) -> RemoteArray:
        assert type(host) is np.ndarray
        return RemoteArray(ordered(host, host.strides), device)

    def download(self, array: RemoteArray) -> np.ndarray:
        return ordered(array.inside, array.inside.strides)

    def move(self, array: RemoteArray, device: str) -> RemoteArray:
        return RemoteArray(self.download(array), device)

    def full(self, shape: Any, dtype: np.dtype, strides: Any, value: Any, device: str) -> RemoteArray:
        prototype = np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, strides)
        return RemoteArray(np.full_like(prototype, value), device)

    def copy(self, array: RemoteArray, strides: Any) -> RemoteArray:
        return array.again(ordered(array.inside, strides))

    def assign(self, target: RemoteArray, value: Any) -> None:
        assert target.inside.flags.writeable
        target.inside[...] = self.inside(value, target.device)

    def strided(self, array: RemoteArray, shape: Any, strides: Any, offset: int = 0, dtype: Any = None) -> RemoteArray:
        return array.again(np.asarray(View(array.inside, shape, strides, offset, array.dtype if dtype is None else dtype)))

    def shares_memory(self, a: RemoteArray, b: RemoteArray) -> bool:
        return np.may_share_memory(a.inside, b.inside)

    def evaluate(self, op: str, values: Sequence[Any], params: dict[str, Any], dtypes: Sequence[np.dtype] = ()) -> Any:
        device = next(v.device for v in values if isinstance(v, RemoteArray))
        arrays = [self.inside(v, device) for v in values]
        if dtypes:
            arrays = list(np.broadcast_arrays(*(a.astype(d) for a, d in zip(arrays, dtypes))))
        if op == "einsum" and len(arrays) == 2:
            result: Any = product(*arrays, params["inputs"], params["output"])
        else:
            result = OPS[op].eager(*arrays, **params)
        if isinstance(result, tuple):
            return tuple(RemoteArray(np.array(r), device) for r in result)
        return RemoteArray(np.array(result), device)

    def grid(self, shape: Any, axis: int, device: str) -> RemoteArray:
        return RemoteArray(np.array(OPS["index"].eager(shape=shape, axis=axis)), device)

    def inside(self, value: Any, device: str) -> np.ndarray:
        if isinstance(value, RemoteArray):
            assert value.device == device, f"an array on {value.device} meets one on {device}"
            return value.inside
        assert type(value) is np.ndarray, value
        return value

    def from_dlpack(self, x: Any) -> Any:
        raise AssertionError("no other library has arrays here")

    from_interface = from_dlpack


class View:
    """Memory at a place of an ndarray."""

    def __init__(self, x: np.ndarray, shape: Any, strides: Any, offset: int, dtype: np.dtype):
        self.owner = x
        place = x.__array_interface__["data"][0] + offset
        interface = {"version": 3, "data": (place, False), "shape": tuple(shape), "typestr": dtype.str, "strides": tuple(strides)}
        self.__array_interface__ = interface
