"""Launching kernels on CuPy's current stream: all of a recipe in one call of C, or one by one through CuPy."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np

from npcompile.backends.background import InBackground
from npcompile.backends.cpu.binding import python_function
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.prelude import TYPES
from npcompile.backends.cuda.runtime.compiler import Binary
from npcompile.backends.errors import NoCompiler

SOURCE = Path(__file__).with_name("launch.c")
KNOWN, INTEGER, DOUBLE = range(3)
LAUNCH, COPY, PRODUCT = range(3)
MOST_PARAMETERS = 1024  # of one plan of launch.c
NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: this thread has not used the device yet
MORE_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
SHARED = 48 * 1024  # bytes that a launch may ask for without it

CONVERT: dict[str, Callable[[Any], Any]] = {"i32": np.int32, "i64": np.int64, "u64": np.uint64, "fp64": np.float64}


@dataclass(frozen=True, slots=True)
class Argument:
    """`values[index] + number`; the number alone where there is no index."""

    index: int | None
    number: int = 0

    def of(self, values: Sequence[Any]) -> Any:
        if self.index is None:
            return self.number
        value = values[self.index]
        return value + self.number if self.number else value  # -0.0 stays


@dataclass(frozen=True, slots=True)
class Step:
    """One launch, or what else the device is given: `launcher(grid, *arguments)`."""

    launcher: Callable[..., None]
    grid: int
    arguments: tuple[Argument, ...]


@dataclass(slots=True, eq=False)
class Function:
    """A kernel in the memory of the device. It is unloaded with its last reference."""

    library: Any
    module: Any
    function: Any
    threads: int
    shared: int
    types: tuple[str, ...]
    hidden: int  # pointers to scratch memory of Triton's own, which these kernels have none of

    @classmethod
    def of(cls, library: Any, binary: Binary) -> Function:
        module = library.cuda.function.Module()
        module.load(binary.cubin)
        function = module.get_function(binary.name)
        if binary.shared > SHARED:
            library.cuda.driver.funcSetAttribute(function.ptr, MORE_SHARED, binary.shared)
        return cls(library, module, function, 32 * binary.warps, binary.shared, binary.types, binary.hidden)

    def __call__(self, grid: int, *arguments: Any) -> None:
        given = [CONVERT.get(t, np.uint64)(a) for t, a in zip(self.types, arguments, strict=True)]
        self.function((grid,), (self.threads,), (*given, *(np.uint64(0),) * self.hidden), shared_mem=self.shared)

    def numbers(self, native: Native, step: Step) -> list[int]:
        """This launch as launch.c reads it."""
        types = [*self.types, *["u64"] * self.hidden]
        arguments = [*step.arguments, *[Argument(None)] * self.hidden]
        return numbered(LAUNCH, [native.launch_kernel, self.function.ptr, step.grid, self.threads, self.shared], arguments, types)


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes from one place on the device to another: (0, target, source)."""

    library: Any
    size: int

    def __call__(self, grid: int, target: int, source: int) -> None:
        library = self.library
        library.cuda.runtime.memcpyAsync(
            target, source, self.size, library.cuda.runtime.memcpyDeviceToDevice, library.cuda.get_current_stream().ptr
        )

    def numbers(self, native: Native, step: Step) -> list[int]:
        return numbered(COPY, [native.copy_memory, self.size], step.arguments)


def numbered(kind: int, numbers: Sequence[int], arguments: Sequence[Argument], types: Sequence[str] = ()) -> list[int]:
    """A step as launch.c reads it."""
    made = [kind, len(arguments), len(numbers), *numbers]
    for k, argument in enumerate(arguments):
        if argument.index is None:
            made += (KNOWN, 0, argument.number)
        else:
            made += (DOUBLE if types and types[k] == "fp64" else INTEGER, argument.index, argument.number)
    return made


Run = Callable[[Sequence[Any]], None]  # of the values that arguments refer to


def make_run(steps: Sequence[Step]) -> Run:
    """What launches these, one after the other, on the current stream."""
    native = native_launcher() if steps and all(hasattr(s.launcher, "numbers") for s in steps) else None
    if native is not None:
        return Batch.of(native, steps)

    def run(values: Sequence[Any]) -> None:
        for step in steps:
            step.launcher(step.grid, *[a.of(values) for a in step.arguments])

    return run


@dataclass(slots=True, eq=False)
class Batch:
    """Launches by launch.c."""

    library: Any
    launch: Callable[..., int]
    steps: Sequence[Step]  # their functions stay loaded
    current_stream: Callable[[], Any]
    plans: list[array[int]] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, native: Native, steps: Sequence[Step]) -> Batch:
        library = steps[0].launcher.library  # type: ignore[attr-defined]
        made = cls(library, native.launch, steps, library.cuda.get_current_stream)
        room = 0
        for step in steps:
            numbers = step.launcher.numbers(native, step)  # type: ignore[attr-defined]
            _, needed, *_ = numbers
            assert needed <= MOST_PARAMETERS, step.launcher
            if not made.plans or room < needed:
                made.plans.append(array("q", [0]))
                room = MOST_PARAMETERS
            made.plans[-1].extend(numbers)
            made.plans[-1][0] += 1
            room -= needed
        made.addresses = [plan.buffer_info()[0] for plan in made.plans]
        return made

    def __call__(self, values: Sequence[Any]) -> None:
        stream = self.current_stream().ptr
        for plan in self.addresses:
            error = self.launch(plan, stream, *values)
            if error:
                self.again(error, plan, stream, values)

    def again(self, error: int, plan: int, stream: int, values: Sequence[Any]) -> None:
        """After an error. Raises it, unless it was that this thread has not used the device yet."""
        if error == NO_CONTEXT:  # nothing was launched
            self.library.cuda.runtime.free(0)  # any call that needs the context makes it this thread's
            error = self.launch(plan, stream, *values)
        if error:
            raise self.failure(error)

    def failure(self, error: int) -> Exception:
        """What launch.c said, as an exception."""
        if error < 0:
            return RuntimeError(f"cuBLAS says {-error}: https://docs.nvidia.com/cuda/cublas/index.html#cublasstatus-t")
        return self.library.cuda.driver.CUDADriverError(error)


@dataclass(frozen=True, slots=True)
class Native:
    """`npc_launch` of launch.c, and the addresses of the driver's functions."""

    launch: Callable[..., int]
    launch_kernel: int
    copy_memory: int


@once
def preparing() -> InBackground:
    return InBackground(load_native)


def prepare() -> None:
    """Compile launch.c, or find it in the cache, beside what this thread does."""
    preparing()


def native_launcher() -> Native | None:
    """None without a C compiler."""
    return preparing().result()


def load_native(driver: str = "libcuda.so.1") -> Native | None:
    try:
        library = ctypes.CDLL(driver)
        addresses = [address_of(f) for f in (library.cuLaunchKernel, library.cuMemcpyDtoDAsync_v2)]
        made = loader()
        source = f'{TYPES}#line 1 "{SOURCE.name}"\n{SOURCE.read_text()}'
        launch = python_function(made.library(made.part(source, "npc_launch")), "npc_launch")
    except (OSError, AttributeError, NoCompiler):
        return None
    return Native(launch, *addresses)


def address_of(function: Any) -> int:
    """Where a function of a shared library lies."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=preparing.cache_clear)  # a thread that was still compiling is not there
