"""What compiled programs need of a device, and how arrays get between the host and it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np

from npcompile.backends.cuda.runtime.compiler import Request

T = TypeVar("T")


class Device(Protocol):
    """What compiled graphs need of a device. Its arrays have `shape`, `dtype` and `strides` as NumPy's."""

    library: Any  # NumPy's functions for its arrays
    architecture: int  # 90 for sm_90

    def use(self) -> AbstractContextManager[Any]: ...  # the device that calls in the block are for
    def attempt(self, call: Callable[[], T]) -> T: ...  # again with more memory free; then MemoryError
    def linalg_errors(self) -> AbstractContextManager[Any]: ...  # the library raises LinAlgError in the block
    def is_array(self, value: Any) -> bool: ...
    def empty(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Any: ...
    def maker(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Callable[[], Any]: ...  # of empty arrays
    def zeros(self, size: int, dtype: np.dtype) -> Any: ...
    def upload(self, host: np.ndarray) -> Any: ...  # dense, strides kept
    def download(self, array: Any, out: np.ndarray) -> None: ...  # dense, of equal strides
    def address(self, array: Any) -> int: ...
    def addresses(self, values: Sequence[Any]) -> list[int | None]: ...  # None: not on the device
    def assign(self, target: Any, value: Any) -> None: ...  # dense, of equal strides; `value` may be of the host
    def copier(self, size: int) -> Callable[..., None]: ...  # the same, of bytes: (0, target address, source address)
    def multiplier(self, geometry: Any) -> Callable[..., None] | None: ...  # see blas.py; None where there is no cuBLAS
    def blas_handle(self) -> int: ...  # this thread's
    def references(self, arrays: Sequence[Any]) -> list[Any]: ...  # how many there are to each: to be compared
    def stream(self) -> int: ...  # the current one
    def wait(self) -> None: ...  # for all that this stream was given
    def capture(self, run: Callable[[], T]) -> tuple[T, Callable[[], None]]: ...  # see graphs.py
    def times(self, runs: Sequence[Callable[[], None]]) -> list[float]: ...  # of each, to be compared
    def shortened(self, graph: Any, program: Any, call: Callable[..., Any]) -> Callable[..., Any]: ...  # see quick.py
    def load(self, requests: Sequence[Request]) -> list[Callable[..., None]]: ...  # each: (grid, *arguments) -> None
    def loop_kernel(self, source: str, meets: bool) -> Any: ...  # a LoopKernel, see loop_ir/kernel.py


# (device, arrays, symbols) -> arrays: a piece on arrays of the device; scalars may stand for 0-D inputs.
Runner = Callable[[Device, Sequence[Any], Sequence[int]], list[Any]]


def on_device(device: Device, value: Any) -> Any:
    """An array of the device: `value` itself, or a C-contiguous copy of an array of the host."""
    if device.is_array(value):
        return value
    host = np.asarray(value)
    return device.upload(np.ascontiguousarray(host).reshape(host.shape))


def copied(device: Device, value: Any) -> Any:
    """An array of the device that is not `value`."""
    return device.attempt(lambda: device.library.array(value)) if device.is_array(value) else on_device(device, value)


def to_host(device: Device, value: Any) -> np.ndarray:
    """A NumPy array of what may be on the device."""
    if not device.is_array(value):
        return np.asarray(value)
    out = np.empty(value.shape, value.dtype)
    dense = device.empty(out.shape, out.dtype, out.strides)
    dense[...] = value
    device.download(dense, out)
    return out
