"""A device without a GPU: memory is NumPy's, and Triton's interpreter runs the kernels.

Import this before anything imports triton: the interpreter is chosen when functions are decorated.
"""

from __future__ import annotations

import ctypes
import linecache
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from sys import getrefcount
from typing import Any

import numpy as np
from scipy import special

os.environ["TRITON_INTERPRET"] = "1"

import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from npcompile.backends.cuda.runtime.blas import Geometry
from npcompile.backends.cuda.runtime.compiler import Request
from npcompile.backends.cuda.runtime.graphs import CAPTURING, CannotCapture, refuse_while_capturing
from npcompile.backends.device_arrays import ArrayKind
from tests.cuda import interpreted_reductions  # noqa: F401  (they replace the interpreter's own)
from tests.cuda.loops_on_cpu import KernelOnCpu


def create_splat(self: InterpreterBuilder, block: Any, value: TensorHandle) -> TensorHandle:
    """Triton 3.6's own makes integers of booleans that it does not take for booleans afterwards."""
    return TensorHandle(np.full(block.shape, np.ravel(value.data)[0], value.data.dtype), value.dtype.scalar)


def get_all_ones_value(self: InterpreterBuilder, dtype: Any) -> TensorHandle:
    """Its own asks NumPy for an unsigned -1."""
    kind = np.dtype(
        bool if dtype.scalar.is_int1() else NUMPY_NAMES[f"*{str(dtype.scalar).replace('int', 'i').replace('ui', 'u')}"]
    )
    return TensorHandle(np.invert(np.zeros(1, kind)), dtype.scalar)


InterpreterBuilder.create_splat = create_splat
InterpreterBuilder.get_all_ones_value = get_all_ones_value

NAMES = {"pow": "power", "rint": "rint", "sqrt": "sqrt"}
NAMES |= {f"a{f}": f"arc{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")} | {"atan2": "arctan2"}


OF_SCIPY = {"erf": special.erf, "erfc": special.erfc, "lgamma": special.gammaln}


class Libdevice:
    """NVIDIA's functions by NumPy's and SciPy's: the interpreter has none."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = OF_SCIPY[name] if name in OF_SCIPY else getattr(np, NAMES.get(name, name))

        def call(*tensors: Any) -> Any:
            with np.errstate(all="ignore"):
                data = function(*(t.handle.data for t in tensors))
            shaped = max(tensors, key=lambda t: np.size(t.handle.data))
            data = np.asarray(data, shaped.handle.data.dtype)
            return tl.tensor(TensorHandle(data, tensors[0].handle.dtype), shaped.type)

        return call


class Memory:
    """An address dressed as the tensor that the interpreter asks for."""

    def __init__(self, address: int, dtype: str):
        self.address, self.dtype, self.shape = address, dtype, (1,)

    def data_ptr(self) -> int:
        return self.address

    def untyped_storage(self) -> Memory:
        return self

    cpu = untyped_storage

    def copy_(self, other: Memory) -> None:
        pass

    def set_(self, *_: Any) -> Memory:
        return self

    def new_empty(self, *_: Any, **__: Any) -> Memory:
        return self

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return (1,)

    def stride(self) -> tuple[int, ...]:
        return (1,)


NUMPY_NAMES = {"*fp16": "float16", "*fp32": "float32", "*fp64": "float64"}
NUMPY_NAMES |= {f"*{k}{n}": f"{'u' if k == 'u' else ''}int{n}" for k in "iu" for n in (8, 16, 32, 64)}


class Unrecorded:
    """The library while launches are recorded: here it computes at once."""

    def __getattr__(self, name: str) -> Any:
        raise CannotCapture(name)


class InterpretedDevice:
    """See npcompile.backends.cuda.runtime.device.Device."""

    library: Any = np
    architecture = 90
    number = 0

    def __init__(self) -> None:
        self.requests: list[Request] = []  # everything that was loaded

    def use(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def linalg_errors(self) -> AbstractContextManager[Any]:
        return np.errstate(all="ignore")

    def attempt(self, call: Callable[[], Any]) -> Any:
        return call()

    def is_array(self, value: Any) -> bool:
        return isinstance(value, DeviceArray)

    def empty(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> DeviceArray:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = np.full(size + 64, 0xA5, np.uint8)  # what is not written shows
        aligned = memory[-memory.ctypes.data % 16 :]
        made = np.ndarray(tuple(shape), dtype, aligned, strides=tuple(strides)).view(DeviceArray)
        made.number = self.number
        if CAPTURING.flags is not None:
            self.held.append(made)  # its address is in the recording
        return made

    def maker(self, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> Callable[[], DeviceArray]:
        return lambda: self.empty(shape, dtype, strides)

    def zeros(self, size: int, dtype: np.dtype) -> DeviceArray:
        array = np.empty(size, dtype).view(DeviceArray)
        self.do(lambda: array.fill(0))
        return array

    def upload(self, host: np.ndarray) -> DeviceArray:
        refuse_while_capturing("upload")
        array = self.empty(host.shape, host.dtype, host.strides)
        array[...] = host
        return array

    def download(self, array: DeviceArray, out: np.ndarray) -> None:
        refuse_while_capturing("download")
        assert all(n == 1 or a == b for n, a, b in zip(out.shape, array.strides, out.strides)) or not out.size
        out[...] = array

    def address(self, array: DeviceArray) -> int:
        return array.__array_interface__["data"][0]

    def addresses(self, values: Sequence[Any]) -> list[int | None]:
        return [self.address(x) if self.is_array(x) else None for x in values]

    def assign(self, target: DeviceArray, value: np.ndarray) -> None:
        assert target.strides == value.strides and target.dtype == value.dtype
        self.do(lambda: np.copyto(target, value))

    def copier(self, size: int) -> Callable[..., None]:
        return lambda _, target, source: self.do(lambda: bytes_at(target, size).__setitem__(..., bytes_at(source, size)))

    def multiplier(self, geometry: Geometry) -> Callable[..., None]:
        return lambda _, handle, *addresses: self.do(lambda: multiply(geometry, *addresses))

    def blas_handle(self) -> int:
        return 0

    def references(self, arrays: Sequence[DeviceArray]) -> list[int]:
        return [getrefcount(x) for x in arrays]

    def stream(self) -> int:
        return 0

    def wait(self) -> None:
        """All is done at once."""

    def times(self, runs: Sequence[Callable[[], None]]) -> list[float]:
        return [float(k) for k, run in enumerate(runs) if run() is None]  # all are run, and the first is the best

    def do(self, action: Callable[[], None]) -> None:
        """What a device does later: now, or in each run of a recording."""
        if CAPTURING.flags is None:
            action()
        else:
            self.recorded.append(action)

    def capture(self, run: Callable[[], Any]) -> tuple[Any, Callable[[], None]]:
        self.recorded: list[Callable[[], None]] = []
        self.held: list[DeviceArray] = []
        library, self.library = self.library, Unrecorded()
        try:
            result, actions, held = run(), self.recorded, self.held
        finally:
            self.library = library

        def launch(held: Any = held) -> None:
            for action in actions:
                action()

        return result, launch

    def shortened(self, graph: Any, program: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        return call

    def loop_kernel(self, source: str, meets: bool) -> KernelOnCpu:
        return KernelOnCpu(source)

    def load(self, requests: Sequence[Request]) -> list[Callable[..., None]]:
        self.requests += requests
        return [self.launcher(request) for request in requests]

    def launcher(self, request: Request) -> Callable[..., None]:
        call = interpret(request)
        return lambda *arguments: self.do(lambda: call(*arguments))


def bytes_at(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def multiply(g: Geometry, first: int, second: int, result: int) -> None:
    """What cuBLAS computes, which counts along columns first."""
    columns, rows, inner = g.sizes

    def operand(address: int, layout: tuple[int, int, int], shape: tuple[int, int]) -> np.ndarray:
        is_transposed, step, apart = layout
        itemsize = np.dtype(g.char).itemsize
        strides = [s * itemsize for s in ((apart, step, 1) if is_transposed else (apart, 1, step))]
        size = sum((n - 1) * s for n, s in zip((g.count, *shape), strides)) + itemsize
        return np.ndarray((g.count, *shape), g.char, bytes_at(address, size), strides=strides)

    made = operand(first, g.first, (columns, inner)) @ operand(second, g.second, (inner, rows))
    operand(result, (0, columns, columns * rows), (columns, rows))[...] = made


makers: list[Callable[[], Any]] = [InterpretedDevice]  # the last one makes the device of a test


def make_device() -> Any:
    return makers[-1]()


class DeviceArray(np.ndarray):
    """Told from arrays of the host by its type alone."""

    number = 0  # of its device

    def __array_finalize__(self, other: Any) -> None:
        self.number = getattr(other, "number", 0)


class At:
    """Memory at an address, which stays while this does."""

    def __init__(self, x: DeviceArray, offset: int, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]):
        place = x.__array_interface__["data"][0] + offset, False
        self.owner = x
        self.__array_interface__ = {
            "version": 3, "data": place, "shape": tuple(shape), "typestr": dtype.str, "strides": tuple(strides)
        }  # fmt: skip


def view_of(x: DeviceArray, offset: int, shape: Sequence[int], dtype: np.dtype, strides: Sequence[int]) -> DeviceArray:
    """An array of the same memory, `offset` bytes from the first element of `x`."""
    made = np.asarray(At(x, offset, shape, dtype, strides)).view(dtype).view(DeviceArray)
    made.number = x.number
    return made


KIND = ArrayKind(
    DeviceArray,
    "cuda",
    lambda x: x.number,
    "{}.number",
    "{}.flags.c_contiguous",
    lambda x: x.__array_interface__["data"][0],
    view_of,
)


def double(value: float) -> tl.tensor:
    """A floating-point argument, which the interpreter leaves a Python number."""
    return tl.tensor(TensorHandle(np.array([value], np.float64), tl.float64), tl.float64)


def range_of(*limits: Any) -> range:
    """The interpreter's own asks NumPy for the integer of an array of one element, which NumPy 2.5 refuses."""
    return range(*(n.handle.data.item() if isinstance(n, tl.tensor) else n for n in limits))


def interpret(request: Request) -> Callable[..., None]:
    filename = f"<interpreted {request.name} {id(request)}>"
    linecache.cache[filename] = (len(request.source), None, request.source.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": filename}
    exec(compile(request.source, filename, "exec"), namespace)
    namespace["libdevice"] = Libdevice()
    namespace["range"] = range_of
    types = [t for _, t in request.signature]

    def launch(grid: int, *arguments: Any) -> None:
        given = [
            Memory(a, NUMPY_NAMES[t]) if t.startswith("*") else double(a) if t == "fp64" else int(a)
            for a, t in zip(arguments, types, strict=True)
        ]
        for k, t in enumerate(types):
            if t.startswith("*") and k in request.divisible:
                assert arguments[k] % 16 == 0
        with np.errstate(all="ignore"):
            namespace[request.name][(grid,)](*given)

    return launch
