"""The functions and methods that a loop program may call, and the attributes that it may read."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping
from types import EllipsisType, ModuleType
from typing import Final

import numpy as np

from npcompile.numpy_shim import registry
from npcompile.tensor_core.loop_ir.ops import FP_ERRORS, Call
from npcompile.tensor_core.loop_ir.states import ErrorState, Mode
from npcompile.tensor_core.loop_ir.types import DTYPES, F64, PYTHON, Kind, List, Memref, Scalar
from npcompile.tracer.loop_ir import control, filling, indexing, inlining, lists, numbers, statements, tuples
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    Closure,
    Enumerate,
    Known,
    Method,
    Named,
    NewErrorState,
    Partial,
    Range,
    Record,
    Seen,
    Slice,
    Tuple,
    Unsupported,
    Value,
    Zip,
    in_words,
)
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.number_functions import OF_NUMBERS, Arguments, Function, only, require_count, value_of
from npcompile.tracer.loop_ir.sources import ModuleAttribute

MODES = {"ignore": Mode.IGNORE}
PYTHON_TYPES = {kind: python for python, kind in PYTHON.items()}


def constant(b: Builder, value: object) -> Abstract:
    match value:
        case bool() | int() | float() | complex() if not isinstance(value, int) or -(2**63) <= value < 2**63:
            return Value(b.constant(value))
        case None | str() | EllipsisType():
            return Known(value)
        case tuple():
            return Tuple(tuple(constant(b, item) for item in value))
        case slice(start=None | int(), stop=None | int(), step=None | int()):
            start, stop = (None if x is None else constant(b, x) for x in (value.start, value.stop))
            return Slice(start, stop, 1 if value.step is None else value.step)
    raise Unsupported(f"the constant {value!r}")


def array_of(b: Builder, x: Abstract) -> tuple[int, Memref]:
    value = value_of(x)
    kind = b.type(value)
    if not isinstance(kind, Memref):
        raise Unsupported("an argument that is not an array")
    return value, kind


def make_range(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 1, 3)
    values = [numbers.to_index(b, value_of(x)) for x in args]
    start, stop = (b.constant(0), values[0]) if len(values) == 1 else values[:2]
    step = b.constants.get(values[2]) if len(values) == 3 else 1
    if step not in (1, -1) and isinstance(step, int) and step:
        return strided(b, start, stop, step)
    if step == 1 and b.constants.get(start) == 0:
        return Range(start, 1, stop if known_size(b, stop) else b.let("span", start, stop))
    if step not in (1, -1):
        raise Unsupported("a range with another step than 1 or -1")
    low, high = (start, stop) if step == 1 else (stop, start)
    b.check_not(b.let("subtract_overflows", high, low))
    return Range(start, int(step.real), b.let("span", low, high))


def strided(b: Builder, start: int, stop: int, step: int) -> Range:
    """A range with another step than 1 or -1."""
    low, high = (start, stop) if step > 0 else (stop, start)
    b.check_not(b.let("subtract_overflows", high, low))
    distance, more = b.let("span", low, high), b.constant(abs(step) - 1)
    b.check_not(b.let("add_overflows", distance, more))
    return Range(start, step, b.let("floor_divide", b.let("add", distance, more), b.constant(abs(step))))


def enumerate_(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 1, 2)
    over, *rest = args
    return Enumerate(numbers.to_index(b, value_of(rest[0])) if rest else b.constant(0), over)


def zip_(b: Builder, args: Arguments) -> Abstract:
    return Zip(tuple(args))


def known_size(b: Builder, value: int) -> bool:
    """Is it not negative for certain: a constant?"""
    found = b.constants.get(value)
    return isinstance(found, int) and found >= 0


def length(b: Builder, args: Arguments) -> Abstract:
    x = only(args)
    if isinstance(x, Tuple | Record):
        return Value(b.constant(len(x.items)))
    if isinstance(x, Seen):
        return Value(
            dict(zip([each for each in x.axes if each is not None], x.lengths))[x.axes[0]] if x.axes[0] else b.constant(1)
        )
    if not isinstance(b.type(value_of(x)), Memref | List):
        raise Unsupported("len of this")
    return Value(indexing.size(b, value_of(x)))


def is_instance(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 2, 2)
    x, classes = args
    kind = class_of(b, x)
    several = classes.items if isinstance(classes, Tuple) else [classes]
    asked = [each.named if isinstance(each, Known) else None for each in several]
    found = [each for each in asked if isinstance(each, type) and type(each) is type]
    if kind is None or len(found) < len(asked):
        raise Unsupported("isinstance of this")
    return Value(b.constant(issubclass(kind, tuple(found))))


def tuple_(b: Builder, args: Arguments) -> Abstract:
    return tuples.made_of(only(args), False)


def list_(b: Builder, args: Arguments) -> Abstract:
    return tuples.made_of(only(args), True)


def is_callable(b: Builder, args: Arguments) -> Abstract:
    match only(args):
        case Closure() | Partial():
            return Value(b.constant(True))
        case Known(named):
            return Value(b.constant(callable(named)))
        case Tuple(names=()) | Value():
            return Value(b.constant(False))
    raise Unsupported("callable of this")


def class_of(b: Builder, x: Abstract) -> type | None:
    """Of a number, an array, a tuple or a list, a string; None where it is not known."""
    match x:
        case Tuple(names=()):
            return list if x.is_list else tuple
        case Known(str() | None as found):
            return type(found)
        case Value(value) if isinstance(kind := b.type(value), Scalar):
            return DTYPES[kind.kind].type if kind.is_numpys else PYTHON_TYPES[kind.kind]
        case Value(value) if isinstance(b.type(value), Memref):
            return np.ndarray
    return None


def absolute(b: Builder, args: Arguments) -> Abstract:
    x = only(args)
    if statements.is_about_arrays(b, x):
        return statements.unary(b, "abs", x)
    return Value(numbers.absolute(b, value_of(x)))


def dot(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 2, 2)
    return matmul(b, *args)


OWN: Final[dict[Named, Function]] = {
    range: make_range,
    enumerate: enumerate_,
    zip: zip_,
    len: length,
    abs: absolute,
    isinstance: is_instance,
    tuple: tuple_,
    list: list_,
    callable: is_callable,
    np.empty_like: filling.like(False),
    np.empty: filling.new_array(False),
    np.zeros: filling.new_array(True),
    np.dot: dot,
    **control.OWN,
}
FUNCTIONS: Final[Mapping[Named, Function]] = ChainMap(OWN, OF_NUMBERS)  # rows may be added to the second later

# Where execution can be resumed: statements make these arrays elsewhere.
OF_NEW_ARRAYS: Final[dict[Named, Function]] = {
    np.ones: filling.ones,
    np.full: filling.full,
    np.zeros_like: filling.like(True),
    np.ones_like: filling.ones_like,
}
OF_OBJECTS: Final = (range, enumerate, zip, len, float, int, bool, max, min, round)


def call(b: Builder, function: Abstract, args: Arguments, names: tuple[str, ...] = ()) -> Abstract:
    """`function(*args)`, where the last arguments have `names`."""
    match function:
        case Known(named) if named is np.errstate:
            if len(names) == len(args):
                return NewErrorState(modes_of(args, names))
        case Known(named) if is_statement(b, named, args, names):
            positional = len(args) - len(names)
            return statements.function(b, named, args[:positional], dict(zip(names, args[positional:])))
        case Known(named) if not names and (rule := FUNCTIONS.get(named)) is not None:
            if isinstance(named, np.ufunc):
                require_count(args, named.nin, named.nin)
            return rule(b, args)
        case Known(named) if not names and not b.aborts and named in OF_NEW_ARRAYS:
            return made_here(b, lambda: OF_NEW_ARRAYS[named](b, args))
        case Method(Value(array), "copy") if not args and not b.aborts and isinstance(b.type(array), Memref):
            return made_here(b, lambda: filling.copied(b, array))
        case Method(Value(items), "append") if isinstance(b.type(items), List) and len(args) == 1:
            lists.append(b, items, value_of(args[0]))
            return Known(None)
        case Method(receiver, name) if statements.is_about_arrays(b, receiver):
            positional = len(args) - len(names)
            return statements.method(b, receiver, name, args[:positional], dict(zip(names, args[positional:])))
    raise Unsupported(f"a call of {in_words(function)}")


def made_here(b: Builder, make: Callable[[], Abstract]) -> Abstract:
    """An array that a call makes and stores to: after that the frame, with the result on the stack, is another one."""
    b.frame.stack[-1] = result = make()
    b.begin_point(b.frame.index + 1)
    return result


def is_statement(b: Builder, named: Named, args: Arguments, names: tuple[str, ...]) -> bool:
    """Is a call of one of NumPy's functions about arrays: does it take or make some?"""
    if named not in registry.FUNCTIONS or named in OF_OBJECTS:
        return False
    if not b.aborts and (named in OWN or named in OF_NEW_ARRAYS or not any(statements.is_about_arrays(b, x) for x in args)):
        return False
    if named in (np.zeros, np.empty) and len(args) == 1 and not names:
        return False  # memory of the IR's own
    return bool(names) or named not in FUNCTIONS or any(statements.is_about_arrays(b, x) for x in args)


def modes_of(args: Arguments, names: tuple[str, ...]) -> ErrorState:
    given: dict[str, Mode] = {}
    for name, x in zip(names, args):
        mode = MODES.get(x.named) if isinstance(x, Known) and isinstance(x.named, str) else None
        if mode is None or name not in (*FP_ERRORS, "all"):
            raise Unsupported("an np.errstate that does more than ignore errors")
        given |= dict.fromkeys(FP_ERRORS, mode) if name == "all" else {name: mode}
    return ErrorState(**given)


def named(b: Builder, source: ModuleAttribute) -> Abstract:
    """A function of a module, or a number there."""
    found = b.read(source)
    if isinstance(found, float):
        return Value(b.constant(found))
    if not callable(found) and not isinstance(found, ModuleType | None):
        raise Unsupported(f"{source.module.__name__}.{source.name}")
    return Known(found)


def is_known_in(b: Builder, module: ModuleType, name: str) -> bool:
    """May it be a function that the program knows, or writes into itself?"""
    found = vars(module).get(name)
    return module in (np, np.linalg, math) or control.is_written(found) or b.aborts and inlining.is_users(found)


def attribute(b: Builder, x: Abstract, name: str) -> Abstract:
    """`x.name`."""
    match x:
        case Record(keys, items, has_attributes=True) if name in keys:
            return items[keys.index(name)]
        case Tuple(items, names=names) if name in names:
            return items[names.index(name)]
        case Known(ModuleType() as module) if is_known_in(b, module, name):
            return named(b, ModuleAttribute(module, name))
        case Value(array) if isinstance(kind := b.type(array), Memref):
            match name:
                case "shape":
                    return indexing.shape(b, array)
                case "size":
                    return Value(indexing.count(b, array))
                case "ndim":
                    return Value(b.constant(kind.rank))
    if statements.is_about_arrays(b, x):
        return statements.attribute(b, x, name)
    raise Unsupported(f"the attribute {name}")


def matmul(b: Builder, left: Abstract, right: Abstract) -> Abstract:
    """`left @ right`: of two vectors after a Check that they are equally long."""
    kinds = [b.type(x.value) if isinstance(x, Value) else None for x in (left, right)]
    if not all(isinstance(kind, Memref) and (kind.element, kind.rank) == (Kind.F64, 1) for kind in kinds):
        return statements.binary(b, "@", left, right)
    x, y = value_of(left), value_of(right)
    b.check(b.let("equal", indexing.size(b, x), indexing.size(b, y)))
    result = b.new(F64)
    b.emit(Call(result, "dot", [x, y], b.at))
    b.flagged = True
    return Value(result)
