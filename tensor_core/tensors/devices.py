"""Arrays in the memory of devices: what Tensors need of them, given by the backends when a device is first used.

Such an array has NumPy's `shape`, `dtype`, `strides`, `ndim`, `size`, `nbytes`, and the methods that make views of it:
`transpose`, basic subscripts, `diagonal`, `real`, `imag`, `view`. What it computes, the op table says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from npcompile.tensor_core.context import set_within
from npcompile.tensor_core.meta import Shape, TensorMeta, broadcast_strides, contiguous_strides, reshape_strides
from npcompile.tensor_core.op import OPS


class DeviceArrays(Protocol):
    """The arrays of one type, on one or several devices."""

    def device_of(self, array: Any) -> str: ...  # its name: the kind, and ":1" for another than the current one
    def upload(self, host: np.ndarray, device: str) -> Any: ...  # dense, axes in the order in which they lie in memory
    def download(self, array: Any) -> np.ndarray: ...  # likewise; fresh
    def move(self, array: Any, device: str) -> Any: ...  # a copy on another device of this kind
    def full(self, shape: Shape, dtype: np.dtype, strides: Shape, value: Any, device: str) -> Any: ...
    def copy(self, array: Any, strides: Shape) -> Any: ...  # on its device, dense, axes in the order that strides have
    def assign(self, target: Any, value: Any) -> None: ...  # target[...] = value; a host value has no dimensions
    # A view that begins `offset` bytes from the first element of `array`, of its dtype unless another is named.
    def strided(self, array: Any, shape: Shape, strides: Shape, offset: int = 0, dtype: np.dtype | None = None) -> Any: ...
    def shares_memory(self, a: Any, b: Any) -> bool: ...  # do they lie in one allocation?
    # Some values may be of the host. With `dtypes`, operands of an elementwise op are cast to them and repeated to one shape.
    def evaluate(self, op: str, values: Sequence[Any], params: dict[str, Any], dtypes: Sequence[np.dtype] = ()) -> Any: ...
    def grid(self, shape: Shape, axis: int, device: str) -> Any: ...  # the op "index"
    def from_dlpack(self, x: Any) -> Any: ...
    def from_interface(self, x: Any) -> Any: ...  # of what has one of INTERFACES
    def normalize(self, device: str) -> str: ...  # the name that device_of gives; RuntimeError: there is no such device


# The kind of arrays of each type. Empty while no device is in use: then nothing asks where an array is.
KINDS: dict[type, DeviceArrays] = {}
# By the first part of a device's name: what gives its arrays, and fills KINDS. RuntimeError says why there are none.
OPENERS: dict[str, Callable[[], DeviceArrays]] = {}
# Where programs run, and Tensors are made, unless their arrays say it. Each thread, and each task, has its own answer.
HOST = "cpu"  # has NumPy's arrays
CURRENT: ContextVar[str] = ContextVar("npcompile_device", default=HOST)
# The device that a call with Tensors, or backward, computes for: large arrays of positions are made there. None: the CPU.
PLACE: ContextVar[str | None] = ContextVar("npcompile_place", default=None)
LARGE = 1024  # elements: captured forms look into index arrays up to this size (known.LARGEST)
DLPACK_NAMES: dict[int, str] = {}  # DLDeviceType -> the first part of a device's name
INTERFACES: dict[str, str] = {}  # the attribute by which other libraries' arrays tell of their memory -> the same


def kind_of(array: Any) -> DeviceArrays | None:
    """What computes with an array of a device; None for all else."""
    return KINDS.get(type(array))


def is_on_device(value: Any) -> bool:
    return type(value) in KINDS


def kind_among(values: Sequence[Any]) -> DeviceArrays | None:
    for value in values:
        kind = KINDS.get(type(value))
        if kind is not None:
            return kind
    return None


def device_of(array: Any) -> str:
    kind = KINDS.get(type(array))
    return HOST if kind is None else kind.device_of(array)


def interface_of(value: Any) -> str | None:
    """The kind of device that has the memory of another library's array."""
    return next((kind for attribute, kind in INTERFACES.items() if hasattr(value, attribute)), None)


def open_kind(device: str) -> DeviceArrays:
    """The arrays of a device by its name. ValueError for a name that no backend has, RuntimeError where it is missing."""
    opener = OPENERS.get(device.partition(":")[0])
    if opener is None:
        known = " or ".join(f'"{name}"' for name in (HOST, *OPENERS))
        raise ValueError(f"unknown device {device!r}: Tensors are on {known}")
    return opener()


def to_device(array: Any, device: str) -> Any:
    """The array itself where it is there, else a copy in the same order of memory."""
    kind = KINDS.get(type(array))
    if device == HOST:
        return array if kind is None else kind.download(array)
    target = open_kind(device)
    if kind is not target:
        return target.upload(array if kind is None else kind.download(array), target.normalize(device))
    name = target.normalize(device)
    return array if kind.device_of(array) == name else kind.move(array, name)


def to_host(array: Any) -> np.ndarray:
    """The array itself on the CPU, or a copy of what is on a device."""
    kind = KINDS.get(type(array))
    return array if kind is None else kind.download(array)


def with_host_arrays(value: Any) -> Any:
    """Nested lists, with ndarrays in place of the arrays of devices."""
    if KINDS and isinstance(value, (list, tuple)):
        return [with_host_arrays(v) for v in value]
    return to_host(value)


def as_data(value: Any) -> Any:
    """np.asarray, which leaves arrays of devices where they are."""
    return value if type(value) in KINDS else np.asarray(value)


def share_memory(view: Any, array: Any) -> bool:
    """May a write to one change the other? Never between devices."""
    kind = KINDS.get(type(view))
    if kind is not None or type(array) in KINDS:
        return type(view) is type(array) and kind is not None and kind.shares_memory(view, array)
    return np.may_share_memory(view, array)


def is_writeable(array: Any) -> bool:
    """Arrays of devices are, if no element is there twice: what NumPy makes read-only, its Tensor alone knows."""
    if type(array) in KINDS:
        return all(s for n, s in zip(array.shape, array.strides) if n > 1)
    return array.flags.writeable


def shadow(array: Any, writeable: bool = True) -> np.ndarray:
    """An ndarray of the same shape, dtype and strides, to ask NumPy what it makes of such a one. It cannot be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, array.strides, writeable=writeable)


def operand_for(kind: DeviceArrays, value: Any, array: Any) -> Any:
    """A value to be met by `array`: on its device, or a host array of no dimensions, which stands for all elements."""
    if type(value) in KINDS or not value.ndim:
        return value
    if value.size and not any(value.strides):
        return value[(*(0,) * value.ndim, ...)]
    return kind.upload(value, kind.device_of(array))


# --- ops that move: views, and copies


def reshape(kind: DeviceArrays, x: Any, shape: Shape) -> Any:
    strides = reshape_strides(TensorMeta(x.shape, x.dtype, x.strides), shape)
    if strides is not None:
        return kind.strided(x, shape, strides)
    copy = kind.copy(x, contiguous_strides(x.shape, x.dtype.itemsize))
    return kind.strided(copy, shape, contiguous_strides(shape, x.dtype.itemsize))


def broadcast_to(kind: DeviceArrays, x: Any, shape: Shape) -> Any:
    return kind.strided(x, shape, broadcast_strides(TensorMeta(x.shape, x.dtype, x.strides), shape))


def slice_update(kind: DeviceArrays, x: Any, value: Any, start: Shape, step: Shape) -> Any:
    """A copy, and a copy into a part of it: no program, which would be another one for each place."""
    device, strides = kind.device_of(x if type(x) in KINDS else value), contiguous_strides(x.shape, x.dtype.itemsize)
    if type(x) not in KINDS and x.size and not any(x.strides):
        made = kind.full(x.shape, x.dtype, strides, x[(0,) * x.ndim], device)
    else:
        made = kind.copy(x if type(x) in KINDS else kind.upload(x, device), strides)
    part = OPS["slice"].eager(made, start=start, step=step, shape=value.shape)
    kind.assign(part, operand_for(kind, value, made))
    return made


VIEWS: dict[str, Callable[..., Any]] = {
    "alias": lambda kind, x, name: x,
    "permute": lambda kind, x, axes: x.transpose(axes),
    "reshape": reshape,
    "broadcast_to": broadcast_to,
    "slice": lambda kind, x, **params: OPS["slice"].eager(x, **params),
}
MOVES = VIEWS | {"slice_update": slice_update}


@contextmanager
def computing_on(device: str) -> Iterator[None]:
    with set_within(PLACE, None if device == HOST else device):
        yield


def evaluate(kind: DeviceArrays, op: str, values: Sequence[Any], params: dict[str, Any]) -> Any:
    """The op's meaning, on the device."""
    move = MOVES.get(op)
    if move is not None:
        return move(kind, *values, **params)
    if op in ("real", "imag") and values[0].dtype.kind == "c":
        return getattr(values[0], op)
    return kind.evaluate(op, values, params)
