"""The device: memory, copies, launches and libraries, all through CuPy. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cuda.compiler import Binary, Request, compile_all

MISSING = (
    'device "cuda" needs CuPy and Triton, and {} not installed: '
    "pip install 'npcompile[cuda12]' or 'npcompile[cuda13]', for the CUDA version of the driver"
)


class NoDevice(RuntimeError):
    """There is no CUDA device, or nothing that could use it."""


class Device(Protocol):
    """What compiled graphs need of a device. Its arrays have `shape`, `dtype` and `strides` as NumPy's."""

    library: Any  # NumPy's functions for its arrays

    def is_array(self, value: Any) -> bool: ...
    def empty(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Any: ...
    def zeros(self, size: int, dtype: np.dtype) -> Any: ...
    def upload(self, host: np.ndarray) -> Any: ...  # dense, strides kept
    def download(self, array: Any, out: np.ndarray) -> None: ...  # dense, of equal strides
    def address(self, array: Any) -> int: ...
    def load(self, requests: Sequence[Request]) -> list[Callable[..., None]]: ...  # each: (grid, *arguments) -> None


class CupyDevice:
    """The current CUDA device, its current stream and CuPy's memory pool."""

    def __init__(self) -> None:
        self.library = import_cupy()
        if importlib.util.find_spec("triton") is None:
            raise NoDevice(MISSING.format("Triton is"))
        try:
            count = self.library.cuda.runtime.getDeviceCount()
        except self.library.cuda.runtime.CUDARuntimeError as error:
            raise NoDevice(f'device "cuda" cannot be used: {error}') from None
        if not count:
            raise NoDevice('device "cuda" cannot be used: this machine has no CUDA device')
        self.architecture = int(self.library.cuda.Device().compute_capability)
        self.functions: dict[str, Any] = {}

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self.library.ndarray)

    def empty(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Any:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = self.library.cuda.alloc(max(size, 1))
        return self.library.ndarray(tuple(shape), dtype, memory, strides=tuple(strides))

    def zeros(self, size: int, dtype: np.dtype) -> Any:
        return self.library.zeros(size, dtype)

    def upload(self, host: np.ndarray) -> Any:
        array = self.empty(host.shape, host.dtype, host.strides)
        if host.nbytes:
            array.data.copy_from_host_async(host.ctypes.data, host.nbytes, self.library.cuda.get_current_stream())
        return array

    def download(self, array: Any, out: np.ndarray) -> None:
        if out.nbytes:
            stream = self.library.cuda.get_current_stream()
            array.data.copy_to_host_async(out.ctypes.data, out.nbytes, stream)
            stream.synchronize()

    def address(self, array: Any) -> int:
        return array.data.ptr

    def load(self, requests: Sequence[Request]) -> list[Callable[..., None]]:
        return [self.launcher(binary) for binary in compile_all(requests, self.architecture)]

    def launcher(self, binary: Binary) -> Callable[..., None]:
        """`(grid, *arguments)`: addresses and numbers in the order of the parameters."""
        module = self.library.cuda.function.Module()
        module.load(binary.cubin)
        function = module.get_function(binary.name)
        if binary.shared > 48 * 1024:
            driver = self.library.cuda.driver
            driver.funcSetAttribute(function.ptr, 8, binary.shared)  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        block, shared = (32 * binary.warps,), binary.shared
        convert = [ARGUMENTS.get(t, np.uint64) for t in binary.types]
        hidden = (np.uint64(0),) * binary.hidden  # scratch of Triton's own, which these kernels have none of

        def launch(grid: int, *arguments: Any) -> None:
            given = [c(a) for c, a in zip(convert, arguments)]
            function((grid,), block, (*given, *hidden), shared_mem=shared)

        launch.module = module  # type: ignore[attr-defined]  # it is unloaded with its last reference
        return launch


ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "i32": np.int32,
    "i64": np.int64,
    "u64": np.uint64,
    "fp64": np.float64,
}


def import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise NoDevice(f"{MISSING.format('CuPy is')} ({error})") from None
    return cupy


_lock = threading.Lock()
_devices: dict[int, CupyDevice] = {}


def current_device() -> CupyDevice:
    """The current CUDA device. Raises NoDevice, which names what is missing."""
    cupy = import_cupy()
    try:
        number = cupy.cuda.runtime.getDevice()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise NoDevice(f'device "cuda" cannot be used: {error}') from None
    with _lock:
        if number not in _devices:
            _devices[number] = CupyDevice()
        return _devices[number]
