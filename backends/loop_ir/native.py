"""What is said of a program that becomes a function of Python's, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from npcompile.backends.loop_ir.exits import Ways
from npcompile.backends.passes import Pass
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.pipeline import Ran
from npcompile.tensor_core.loop_ir.report import Report
from npcompile.tensor_core.loop_ir.types import Type


@dataclass(frozen=True, slots=True)
class Taken:
    """An argument of the function, a param of the program."""

    kind: Type  # as it is given: Python's number may be the program's f64
    is_written: bool = False


@dataclass(frozen=True, slots=True)
class Native:
    call: Callable[..., Any]
    source: str
    seconds: float  # to compile and load it
    was_cached: bool


class CompileGradient(Protocol):
    """The native function of a program of derivatives: it gives what that returns. The program's last params are arrays of zeros,
    each as large as the argument that `made` has the number of. `tells`: the function takes, last, the errors that NumPy is to
    report (bits of FP_ERRORS), and gives where the program was left the point of the state that it left at, an int.

    Raises Unsupported: where an op has no text, with the user's line, and where there is no compiler.
    """

    def __call__(self, program: Program, arguments: Sequence[Taken], made: Sequence[int], /, tells: bool = False) -> Native: ...


@dataclass(frozen=True, slots=True)
class CType:
    """Of a number that C gives or takes. `text`: its name in C, "void" for a result that is none."""

    text: str
    is_floating: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of a function of C."""

    name: str
    type: CType
    length: int | str | None = None  # of an array: a number, or the name of the parameter that says it
    is_passed: bool = True  # is it an argument of the program?
    is_written: bool = False

    @property
    def is_pointer(self) -> bool:
        return self.length is not None or not self.is_passed

    @property
    def text(self) -> str:
        return self.type.text + "*" * self.is_pointer


@dataclass(frozen=True, slots=True)
class Callback:
    """A function of C: its address, given that of the one that it calls where its program is left."""

    address: Callable[[int], int]
    source: str
    seconds: float


class CompileCallback(Protocol):
    """The function of C of a program that aborts. `outside`: the program's last arguments, which stay what they are.

    Raises Unsupported: where an op has no text, with the user's line, and where there is no compiler.
    """

    def __call__(
        self, program: Program, parameters: Sequence[Parameter], result: CType, outside: Sequence[object], /
    ) -> Callback: ...


@dataclass(frozen=True, slots=True)
class Resuming:
    """A program that may be left, as a unit: the entry of the backend says how its function is called and what it gives."""

    source: str
    unit: Callable[[], Any]  # compiles and loads it: its function and how long it took
    ways: Ways


class PrintResuming(Protocol):
    """Raises Unsupported with the user's line where an op has no text."""

    def __call__(self, program: Program, /) -> Resuming: ...


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


def said_of(ran: Sequence[Ran]) -> tuple[Pass, ...]:
    """What passes did, and where, once for each line."""
    said = [(each.name, f"the loop at line {x.at.line}", x.reason or None) for each in ran for x in each.said]
    return tuple(Pass(*each) for each in dict.fromkeys(said))
