"""The device: memory, copies, launches and libraries, all through CuPy. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, TypeVar

import numpy as np

from npcompile.backends.cuda.runtime import launch, memory, quick, staging
from npcompile.backends.cuda.runtime.compiler import Request, compile_all
from npcompile.backends.cuda.runtime.graphs import capture_with_cupy, refuse_while_capturing
from npcompile.backends.cuda.runtime.tuning import time_with_cupy
from npcompile.backends.registry import NoDevice
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.meta import contiguous_strides

T = TypeVar("T")

MISSING = (
    'device "cuda" needs CuPy and Triton, and {} not installed: '
    "pip install triton cupy-cuda12x, or cupy-cuda13x with a driver of CUDA 13"
)
FORKED = (
    "CUDA cannot be used here: this process was forked from one that had used it. Start processes with "
    'multiprocessing.get_context("spawn"), or use CUDA only after the fork'
)


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes empty arrays on a device, in C order where `strides` is None."""

    device: CupyDevice
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...] | None
    size: int  # bytes, at least one

    def __call__(self) -> Any:
        library = self.device.library
        try:
            room = library.cuda.alloc(self.size)
        except MemoryError:
            room = self.device.attempt(lambda: library.cuda.alloc(self.size))
        return library.ndarray(self.shape, self.dtype, room, self.strides)


HERE = nullcontext()  # the device that is wanted is current


class CupyDevice:
    """A CUDA device, its current stream and CuPy's memory pool."""

    def __init__(self, number: int = 0) -> None:
        self.library = import_cupy()
        if importlib.util.find_spec("triton") is None:
            raise NoDevice(MISSING.format("Triton is"))
        count = device_count()
        if not count:
            raise NoDevice('device "cuda" cannot be used: this machine has no CUDA device')
        if number >= count:
            there = "one CUDA device" if count == 1 else f"{count} CUDA devices"
            raise NoDevice(f'there is no device "cuda:{number}": this machine has {there}, the last is "cuda:{count - 1}"')
        self.number = number
        self.current_stream = self.library.cuda.get_current_stream
        self.staging = staging.Staging(staging.CupyTransport(self.library))
        launch.prepare()
        self.architecture = int(self.library.cuda.Device(number).compute_capability)

    @property
    def name(self) -> str:
        return f"cuda:{self.number}"

    def use(self) -> AbstractContextManager[Any]:
        """The current device of this thread, and so CuPy's, in a `with` block."""
        if self.library.cuda.runtime.getDevice() == self.number:
            return HERE
        return self.library.cuda.Device(self.number)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.library.ndarray)

    def attempt(self, call: Callable[[], T]) -> T:
        """`call()`, and once more with caches and CuPy's pools freed when memory is short.

        Raises MemoryError, which says how much was asked for, is used and is there, when that does not help.
        """

        def free_pools() -> None:
            self.library.fft.config.get_plan_cache().clear()
            self.library.get_default_memory_pool().free_all_blocks()
            self.library.get_default_pinned_memory_pool().free_all_blocks()

        return memory.retried(call, free_pools, self.memory_report)

    def linalg_errors(self) -> AbstractContextManager[Any]:
        import cupyx

        return cupyx.errstate(linalg="raise")

    def memory_report(self) -> str:
        free, total = self.library.cuda.runtime.memGetInfo()
        used = self.library.get_default_memory_pool().used_bytes()
        return f'On "{self.name}" arrays of this process use {used:,} bytes, and {free:,} of {total:,} are free'

    def empty(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Any:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        alloc = self.library.cuda.alloc
        try:
            room = alloc(max(size, 1))
        except MemoryError:
            room = self.attempt(lambda: alloc(max(size, 1)))
        return self.library.ndarray(tuple(shape), dtype, room, strides=tuple(strides))

    def maker(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Callable[[], Any]:
        """What makes arrays as `empty` does, with nothing left to compute."""
        shape, strides = tuple(shape), tuple(strides)
        is_c_order = strides == contiguous_strides(shape, dtype.itemsize)  # made faster
        return Maker(self, shape, dtype, None if is_c_order else strides, max(math.prod(shape) * dtype.itemsize, 1))

    def zeros(self, size: int, dtype: np.dtype) -> Any:
        return self.attempt(lambda: self.library.zeros(size, dtype))

    def upload(self, host: np.ndarray) -> Any:
        refuse_while_capturing("memory of the host is copied")
        array = self.empty(host.shape, host.dtype, host.strides)
        if host.nbytes < staging.LEAST or not self.staging.upload(array.data.ptr, staging.bytes_of(host)):
            array.data.copy_from_host_async(host.ctypes.data, host.nbytes, self.library.cuda.get_current_stream())
        return array

    def download(self, array: Any, out: np.ndarray) -> None:
        refuse_while_capturing("memory is copied to the host")
        if out.nbytes < staging.LEAST or not self.staging.download(array.data.ptr, staging.bytes_of(out)):
            stream = self.library.cuda.get_current_stream()
            array.data.copy_to_host_async(out.ctypes.data, out.nbytes, stream)
            stream.synchronize()

    def address(self, array: Any) -> int:
        return array.data.ptr

    def addresses(self, values: Sequence[Any]) -> list[int | None]:
        array = self.library.ndarray
        return [x.data.ptr if isinstance(x, array) else None for x in values]

    def assign(self, target: Any, value: Any) -> None:
        stream = self.library.cuda.get_current_stream()
        if self.is_array(value):
            target.data.copy_from_device_async(value.data, target.nbytes, stream)
        else:
            target.data.copy_from_host_async(value.ctypes.data, target.nbytes, stream)

    def copier(self, size: int) -> Callable[..., None]:
        return launch.Copy(self.library, size)

    def multiplier(self, geometry: Any) -> Callable[..., None] | None:
        from npcompile.backends.cuda.runtime import blas  # here: first calls are to be short

        try:
            cublas = blas.CUBLAS.opened(self.library)
        except OSError:  # CuPy finds it elsewhere
            return None
        return blas.Gemm(self.library, cublas, geometry)

    def blas_handle(self) -> int:
        from npcompile.backends.cuda.runtime import blas

        return blas.CUBLAS.handle(self.library, self.number)

    def references(self, arrays: Sequence[Any]) -> list[Any]:
        return [(getrefcount(x), getrefcount(x.data), getrefcount(x.data.mem)) for x in arrays]

    def stream(self) -> int:
        return self.current_stream().ptr

    def wait(self) -> None:
        self.library.cuda.get_current_stream().synchronize()

    def capture(self, run: Callable[[], T]) -> tuple[T, Callable[[], None]]:
        return capture_with_cupy(self.library, run)

    def times(self, runs: Sequence[Callable[[], None]]) -> list[float]:
        return time_with_cupy(self.library, runs)

    def shortened(self, graph: Graph, program: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        return quick.Quick(self, graph, program, call).call()

    def loop_kernel(self, source: str, meets: bool) -> Any:
        from npcompile.backends.cuda.loop_ir.cupy_kernel import CupyKernel  # here: few programs need it

        with self.use():
            return CupyKernel.of(self.library, source, self.architecture, meets)

    def load(self, requests: Sequence[Request]) -> list[Callable[..., None]]:
        binaries = compile_all(requests, self.architecture)
        with self.use():
            return [launch.Function.of(self.library, binary) for binary in binaries]


class ForkedDevice(CupyDevice):
    """A device of the process that this one was forked from: the driver would fail without saying why, or hang."""

    def refuse(self, *_: Any, **__: Any) -> Any:
        raise NoDevice(FORKED)

    use = attempt = empty = maker = zeros = upload = download = address = addresses = load = loop_kernel = refuse


def import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise NoDevice(f"{MISSING.format('CuPy is')} ({error})") from None
    return cupy


_lock = threading.Lock()
_devices: dict[int, CupyDevice] = {}


def forget_after_fork() -> None:
    """In a forked child: CUDA does not work there, so devices refuse, those in compiled programs too."""
    global _lock
    _lock = threading.Lock()
    for device in _devices.values():
        device.__class__ = ForkedDevice
    quick.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_after_fork)


def device_count() -> int:
    """How many CUDA devices there are. Raises NoDevice, which names what is missing."""
    cupy = import_cupy()
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoDevice(f'device "cuda" cannot be used: {error}') from None


def current_device() -> CupyDevice:
    """The current CUDA device. Raises NoDevice, which names what is missing."""
    cupy = import_cupy()
    try:
        number = cupy.cuda.runtime.getDevice()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if any(isinstance(d, ForkedDevice) for d in _devices.values()):
            raise NoDevice(FORKED) from None
        raise NoDevice(f'device "cuda" cannot be used: {error}') from None
    return numbered_device(number)


def numbered_device(number: int) -> CupyDevice:
    """The CUDA device of this number. Raises NoDevice, which says how many there are."""
    with _lock:
        if number not in _devices:
            _devices[number] = CupyDevice(number)
        found = _devices[number]
    if isinstance(found, ForkedDevice):
        raise NoDevice(FORKED)
    return found


def device_number(name: str) -> int | None:
    """1 of "cuda:1"; None of "cuda", which is the current device. Raises ValueError for another name."""
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ValueError(f'unknown device {name!r}: a CUDA device is "cuda", the current one, or "cuda:1", by its number')
    return None if match[1] is None else int(match[1])


def named_device(name: str) -> CupyDevice:
    """The device "cuda", which is the current one, or "cuda:1". Raises ValueError for another name, and NoDevice."""
    number = device_number(name)
    return current_device() if number is None else numbered_device(number)


def device_of(array: Any) -> CupyDevice:
    """The device that has the memory of a CuPy array."""
    return numbered_device(array.device.id)


def copy_to(array: Any, device: CupyDevice) -> Any:
    """A copy of a CuPy array on a device, another or its own, in the same memory order. Does not wait for the copy."""
    source = device_of(array)
    with source.use():
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = device.library.ascontiguousarray(array)
        there = device.library.cuda.get_current_stream()
        ready = there.record(device.library.cuda.Event(disable_timing=True))
    with device.use():
        copy = device.empty(array.shape, array.dtype, array.strides)
        here = device.library.cuda.get_current_stream()
        here.wait_event(ready)
        copy.data.copy_from_device_async(array.data, array.nbytes, here)
        copied = here.record(device.library.cuda.Event(disable_timing=True))
    with source.use():
        there.wait_event(copied)  # else the memory of `array` could be given to others before it is read
    return copy
