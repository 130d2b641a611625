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

from npcompile.backends.cpu.errors import NoCompiler
from npcompile.backends.cpu.loader import InBackground, loader, python_function
from npcompile.backends.cpu.prelude import TYPES
from npcompile.backends.cuda.runtime.compiler import Binary

SOURCE = Path(__file__).with_name("launch.c")
KNOWN, INTEGER, DOUBLE = range(3)
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
    """One launch: `launcher(grid, *arguments)`."""

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

    def numbers(self, step: Step) -> list[int]:
        """This launch as launch.c reads it."""
        made = [self.function.ptr, step.grid, self.threads, self.shared, len(self.types) + self.hidden]
        for argument, type_ in zip(step.arguments, self.types, strict=True):
            if argument.index is None:
                made += (KNOWN, 0, argument.number)
            else:
                made += (DOUBLE if type_ == "fp64" else INTEGER, argument.index, argument.number)
        return made + [KNOWN, 0, 0] * self.hidden


Run = Callable[[Sequence[Any]], None]  # of the values that arguments refer to


def make_run(steps: Sequence[Step]) -> Run:
    """What launches these, one after the other, on the current stream."""
    functions = [s.launcher for s in steps if isinstance(s.launcher, Function)]
    native = native_launcher() if functions and len(functions) == len(steps) else None
    if native is not None:
        return Batch.of(functions[0].library, native, steps)

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
    def of(cls, library: Any, native: Native, steps: Sequence[Step]) -> Batch:
        made = cls(library, native.launch, steps, library.cuda.get_current_stream)
        room = 0
        for step in steps:
            assert isinstance(step.launcher, Function)
            numbers = step.launcher.numbers(step)
            assert numbers[4] <= MOST_PARAMETERS, step.launcher.function
            if not made.plans or room < numbers[4]:
                made.plans.append(array("q", [native.driver, 0]))
                room = MOST_PARAMETERS
            made.plans[-1].extend(numbers)
            made.plans[-1][1] += 1
            room -= numbers[4]
        made.addresses = [plan.buffer_info()[0] for plan in made.plans]
        return made

    def __call__(self, values: Sequence[Any]) -> None:
        stream = self.current_stream().ptr
        for plan in self.addresses:
            error = self.launch(plan, stream, *values)
            if error == NO_CONTEXT:  # nothing was launched
                self.library.cuda.runtime.free(0)  # any call that needs the context makes it this thread's
                error = self.launch(plan, stream, *values)
            if error:
                raise self.library.cuda.driver.CUDADriverError(error)


@dataclass(frozen=True, slots=True)
class Native:
    """`launch` of launch.c, and the address of the driver's cuLaunchKernel."""

    launch: Callable[..., int]
    driver: int


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
        address = ctypes.cast(ctypes.CDLL(driver).cuLaunchKernel, ctypes.c_void_p).value
        made = loader()
        source = f'{TYPES}#line 1 "{SOURCE.name}"\n{SOURCE.read_text()}'
        launch = python_function(made.library(source, made.key(source), "npc_launch"), "npc_launch")
    except (OSError, AttributeError, NoCompiler):
        return None
    assert address is not None
    return Native(launch, address)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=preparing.cache_clear)  # a thread that was still compiling is not there
