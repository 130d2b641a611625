"""Values from outside of a native program: what they are in it, and the guards under which they are that in other calls."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cpu.loops.scalar_loops import NoForm, ScalarLoops
from npcompile.tracer.assumptions import of_function
from npcompile.tracer.native.kinds import (
    LONG_LONG,
    CellOf,
    Closure,
    Elements,
    Items,
    Known,
    Outside,
    Scalar,
    Slice,
    can_inline,
    kind_of_number,
)
from npcompile.tracer.native.meanings import FUNCTIONS, OF_ARRAYS, OF_COMPLEX, is_known
from npcompile.tracer.python.class_attributes import is_of_python


class Asking(Protocol):
    """The program that takes them."""

    code: ScalarLoops
    inputs: list[str]
    arrays: list[str]
    globals: dict[str, Any]
    globals_source: str
    cells: dict[str, CellOf]
    contents: dict[int, tuple[str, str]]

    @property
    def guard(self) -> Callable[..., None]: ...

    @property
    def name_constant(self) -> Callable[[Any], str]: ...

    def realize(self, value: Any) -> Any: ...


def wrapped(b: Asking, source: str, x: Any) -> Any:
    """What the object that an expression gives is in the program. NoForm where it is nothing there."""
    kind = kind_of_number(x)
    if kind is not None:
        return given_number(b, source, x, kind)
    if type(x) is np.ndarray and x.dtype.isnative and x.ndim and x.dtype.char not in LONG_LONG:
        return given_array(b, source, x)
    if source.isidentifier() and can_inline(x):
        b.guard(f"type({source}) is {b.name_constant(types.FunctionType)}")
        for text in of_function(source, x, b.name_constant):
            b.guard(text)
        return Closure(x, source)
    is_function = isinstance(x, (types.ModuleType, types.BuiltinFunctionType, np.ufunc, type))
    is_function |= any(is_known(x, table) for table in (OF_ARRAYS, FUNCTIONS, OF_COMPLEX))
    if is_function or x is None or can_inline(x):
        constant = b.name_constant(x)
        if source != constant:
            b.guard(f"{source} is {constant}")
        return Known(x, constant)
    if type(x) in (str, dict) or is_of_python(type(x)):
        return Outside(source, x)  # what is asked of it decides what is guarded
    raise NoForm(f"an object of type {type(x).__name__}")


def given_number(b: Asking, source: str, x: Any, kind: str) -> Scalar:
    checked = source.isidentifier()  # else it is no parameter, and may not be there
    b.guard(f"type({source}) is {b.name_constant(type(x))}", checked)
    if kind == "int":
        if not -(2**63) < x < 2**63:
            raise NoForm("a Python integer beyond 64 bits")
        b.guard(f"{-(2**63)} < {source} < {2**63}", checked)
    elif isinstance(x, np.generic) and type(x) is not np.dtype(kind).type:
        raise NoForm(f"a number of type {type(x).__name__}")
    b.inputs.append(source)
    return Scalar(kind, b.code.number(kind))


def given_array(b: Asking, source: str, x: np.ndarray) -> Elements:
    is_contiguous = x.flags.c_contiguous
    made = b.code.array(x.dtype, x.ndim, is_contiguous)
    b.code.examples |= {f"{made.name}_n{axis}": n for axis, n in enumerate(x.shape)}
    b.guard(f"type({source}) is {b.name_constant(np.ndarray)}", source.isidentifier())
    b.guard(f"{source}.dtype == {b.name_constant(x.dtype)}", True)
    if x.dtype.char in "lL":  # equal to those that are LONG_LONG
        b.guard(f"{source}.dtype.num == {x.dtype.num}", True)
    b.guard(f"{source}.ndim == {x.ndim}", True)
    if is_contiguous:
        b.guard(f"{source}.flags.c_contiguous", True)
    b.arrays.append(source)
    return Elements(made, source, x.dtype is np.dtype(x.dtype.str))


def constant_value(b: Asking, value: Any) -> Any:
    kind = kind_of_number(value)
    if kind in ("int", "float", "bool", "complex"):
        return Scalar(kind, b.code.constant(kind, value))
    if type(value) is tuple:
        return Items(tuple(constant_value(b, item) for item in value))
    if type(value) is slice:
        return Slice(*(None if part is None else constant_value(b, part) for part in (value.start, value.stop, value.step)))
    return Known(value, b.name_constant(value))


def cell_value(b: Asking, name: str) -> Any:
    """Of a variable that the code shares with other functions."""
    cell = b.cells[name]
    known = b.contents.get(id(cell.real))
    if known is None:
        known = b.contents[id(cell.real)] = cell.source, f"c{len(b.contents)}"
        b.guard(f"[{known[1]} := {cell.source}.cell_contents]")
    elif known[0] != cell.source:
        b.guard(f"{cell.source} is {known[0]}")
    try:
        return b.realize(Outside(known[1], cell.real.cell_contents))
    except ValueError:
        raise NoForm(f"variable {name!r} has no value") from None


def global_value(b: Asking, name: str) -> Any:
    space = b.globals_source
    if name in b.globals:
        value = b.realize(Outside(f"{space}[{name!r}]", b.globals[name]))
        if isinstance(value, Outside):  # of which nothing else may be asked
            b.guard(f"{name!r} in {space}")
        return value
    if not hasattr(builtins, name):
        raise NoForm(f"name {name!r} is not defined")
    value = getattr(builtins, name)
    constant = b.name_constant(value)
    b.guard(f"{name!r} not in {space}")
    b.guard(f"{b.name_constant(vars(builtins))}[{name!r}] is {constant}")
    return Known(value, constant)
