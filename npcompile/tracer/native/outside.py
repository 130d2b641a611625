"""Values from outside of a native program: what they are in it, and the guards under which they are that in other calls."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cpu.loops.scalar_loops import NoForm, ScalarLoops
from npcompile.tensor_core.guards import Equals, HasKey, Is, Keeps, Layout, OfDType, OfType, Truth, within
from npcompile.tensor_core.source import Bound, Literal, Name, Object, Source
from npcompile.tracer.assumptions import of_function
from npcompile.tracer.native.meanings import FUNCTIONS, OF_ARRAYS, OF_COMPLEX, is_known
from npcompile.tracer.native.types import (
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
from npcompile.tracer.python.class_attributes import is_of_python


class Asking(Protocol):
    """The program that takes them."""

    code: ScalarLoops
    inputs: list[Source]
    arrays: list[Source]
    globals: dict[str, Any]
    globals_source: Source
    cells: dict[str, CellOf]
    contents: dict[int, tuple[Source, Name]]

    @property
    def guard(self) -> Callable[..., None]: ...

    def object_of(self, value: Any) -> Source: ...

    def realize(self, value: Any) -> Any: ...


def wrapped(b: Asking, source: Source, x: Any) -> Any:
    """What the object that an expression gives is in the program. NoForm where it is nothing there."""
    kind = kind_of_number(x)
    if kind is not None:
        return given_number(b, source, x, kind)
    if type(x) is np.ndarray and x.dtype.isnative and x.ndim and x.dtype.char not in LONG_LONG:
        return given_array(b, source, x)
    if isinstance(source, Name | Object) and can_inline(x):
        b.guard(OfType(source, b.object_of(types.FunctionType)))
        for guard in of_function(source, x, b.object_of):
            b.guard(guard)
        return Closure(x, source)
    is_function = isinstance(x, (types.ModuleType, types.BuiltinFunctionType, np.ufunc, type))
    is_function |= any(is_known(x, table) for table in (OF_ARRAYS, FUNCTIONS, OF_COMPLEX))
    if is_function or x is None or can_inline(x):
        constant = b.object_of(x)
        if source != constant:
            b.guard(Is(source, constant))
        return Known(x, constant)
    if type(x) in (str, dict) or is_of_python(type(x)):
        return Outside(source, x)  # what is asked of it decides what is guarded
    raise NoForm(
        f"the function {x.__qualname__}" if isinstance(x, types.FunctionType) else f"an object of type {type(x).__name__}"
    )


def given_number(b: Asking, source: Source, x: Any, kind: str) -> Scalar:
    checked = isinstance(source, Name | Object)  # else it is not a parameter, and may not be there
    b.guard(OfType(source, b.object_of(type(x))), checked)
    if kind == "int":
        if not -(2**63) < x < 2**63:
            raise NoForm("a Python integer beyond 64 bits")
        b.guard(within(Literal(-(2**63)), source, Literal(2**63), ("<", "<")), checked)
    elif isinstance(x, np.generic) and type(x) is not np.dtype(kind).type:
        raise NoForm(f"a number of type {type(x).__name__}")
    b.inputs.append(source)
    return Scalar(kind, b.code.number(kind))


def given_array(b: Asking, source: Source, x: np.ndarray) -> Elements:
    is_contiguous = x.flags.c_contiguous
    made = b.code.array(x.dtype, x.ndim, is_contiguous)
    b.code.examples |= {f"{made.name}_n{axis}": n for axis, n in enumerate(x.shape)}
    b.guard(OfType(source, b.object_of(np.ndarray)), isinstance(source, Name | Object))
    b.guard(OfDType(source, b.object_of(x.dtype), False), True)
    if x.dtype.char in "lL":  # equal to those that are LONG_LONG
        b.guard(Equals(source.attribute("dtype").attribute("num"), Literal(x.dtype.num)), True)
    b.guard(Layout(source, "ndim", x.ndim), True)
    if is_contiguous:
        b.guard(Truth(source.attribute("flags").attribute("c_contiguous")), True)
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
    return Known(value, b.object_of(value))


def cell_value(b: Asking, name: str) -> Any:
    """Of a variable that the code shares with other functions."""
    cell = b.cells[name]
    if cell.real == types.CellType():  # it is empty, so a guard that reads it would never hold
        raise NoForm(f"variable {name!r} has no value")
    known = b.contents.get(id(cell.real))
    if known is None:
        known = b.contents[id(cell.real)] = cell.source, Bound(f"c{len(b.contents)}")
        b.guard(Keeps(cell.source.attribute("cell_contents"), known[1].name))
    elif known[0] != cell.source:
        b.guard(Is(cell.source, known[0]))
    return b.realize(Outside(known[1], cell.real.cell_contents))


def global_value(b: Asking, name: str) -> Any:
    space = b.globals_source
    if name in b.globals:
        value = b.realize(Outside(space.item(name), b.globals[name]))
        if isinstance(value, Outside):  # of which nothing else may be asked
            b.guard(HasKey(space, Literal(name)))
        return value
    if not hasattr(builtins, name):
        raise NoForm(f"name {name!r} is not defined")
    value = getattr(builtins, name)
    constant = b.object_of(value)
    b.guard(HasKey(space, Literal(name), False))
    b.guard(Is(b.object_of(vars(builtins)).item(name), constant))
    return Known(value, constant)
