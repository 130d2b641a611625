"""What is said of a program that becomes a function of Python's, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.report import Report
from npcompile.tensor_core.loop_ir.types import Type


@dataclass(frozen=True, slots=True)
class Taken:
    """An argument of the function, a param of the program."""

    kind: Type  # as it is given: Python's number may be the program's f64
    is_written: bool = False
    is_wanted: bool = False  # its gradient is a result


@dataclass(frozen=True, slots=True)
class Native:
    call: Callable[..., Any]
    source: str
    seconds: float  # to compile and load it
    was_cached: bool


class CompileGradient(Protocol):
    """The native function of an adjoint.gradient: it gives the value, and the gradients of the arguments `order`.

    Raises Unsupported: where an op has no text, with the user's line, and where there is no compiler.
    """

    def __call__(self, program: Program, arguments: Sequence[Taken], order: Sequence[int], /) -> Native: ...


class LeftAlone(Exception):
    """A program does not run for these arguments, or was left: nothing is changed."""


class DeviceProgram(Protocol):
    """A program of loops on a device, called with the arguments of the function: what it gives, or LeftAlone is raised."""

    @property
    def program(self) -> Program: ...  # as it runs: with parallel loops
    @property
    def report(self) -> Report: ...  # which loops run on the threads of the device, and why others do not
    @property
    def source(self) -> str: ...
    @property
    def written(self) -> Sequence[bool]: ...  # which arguments are arrays that may be stored to
    def __call__(self, arguments: Sequence[Any], /) -> Any: ...


def kind_of_call(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Of arguments of known types: sizes and integers, which say how much there is to do."""
    return tuple([x if isinstance(x, int | np.integer) else getattr(x, "shape", None) for x in arguments])
