"""What a program is for: numbers and arrays are its params; trees of these, and functions, one param for each leaf."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from npcompile import trees
from npcompile.tensor_core.loop_ir.types import Object, Type, type_of
from npcompile.tracer.entry import plain_function
from npcompile.tracer.loop_ir.abstract import Abstract, Closure, Held, Known, Partial, Record, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.control import is_written
from npcompile.tracer.loop_ir.inlining import is_users
from npcompile.tracer.values import is_named_tuple

OF_TUPLES: Final = vars(tuple).keys() - {
    "__new__",
    "__repr__",
    "__getnewargs__",
    "__doc__",
}  # what named tuples have as tuples do
MOST_LEVELS: Final = 16  # of trees and functions inside each other
MOST_PARTS: Final = 64  # of a tree
EMPTY: Final = CellType()
HELD: Final = Object("an object")


def typed(argument: object) -> Type:
    """The type of an argument's values in the program. Raises Unsupported where the IR has none."""
    kind = type_of(argument)
    if kind is None:
        raise Unsupported("an argument of a type without IR")
    return kind


def taken(b: Builder, argument: Any, name: str, slot: int | None, level: int = 0) -> Abstract:
    """An argument: a param. A tree of a program that aborts is one for each leaf, in the order of `trees.flatten`.

    A function is one for each leaf of what it holds. Containers that are handed on have one of their own, before their leaves.
    """
    if level == MOST_LEVELS:
        raise Unsupported("an argument that holds itself")
    if b.aborts:
        if argument is None or is_named(argument) or b.hands_on and type(argument) is str:
            return Known(argument)
        if isinstance(argument, FunctionType):
            defaults, held = [
                tuple(taken(b, x, f"{name}_{k}", None, level + 1) for k, x in enumerate(part)) for part in held_by(argument)
            ]
            return Closure(plain_function(argument), (), defaults, held)
        if b.hands_on and type(argument) is partial:
            function, *given = [taken(b, x, f"{name}_{k}", None, level + 1) for k, x in enumerate(parts_of_partial(argument))]
            return Partial(function, tuple(given), tuple(argument.keywords))
        if trees.kind_of(argument) is not None:
            return tree_taken(b, argument, name, slot, level)
    if not b.aborts and type_of(argument) is None:
        return held_on(b, name, slot)
    kind = typed(argument)
    if b.hands_on and isinstance(kind, Object):
        raise Unsupported("an argument that is not a number or array")
    value = b.param(kind, name, slot)
    if isinstance(argument, np.ndarray):
        b.shapes[value] = argument.shape
    return Value(value)


def held_on(b: Builder, name: str = "", slot: int | None = None) -> Held:
    """A param for an object of which nothing is known."""
    return Held(b.param(HELD, name, slot))


def parts_of_partial(argument: partial[Any]) -> list[Any]:
    return [argument.func, *argument.args, *argument.keywords.values()]


def tree_taken(b: Builder, argument: Any, name: str, slot: int | None, level: int) -> Abstract:
    tree = trees.kind_of(argument)
    assert tree is not None, argument
    given = b.param(container_type(argument), name, slot) if b.hands_on and is_sequence(argument) else None
    parts = tree.parts(argument)
    if len(parts) > MOST_PARTS:
        raise Unsupported("an argument of many parts")
    items = tuple(taken(b, part, f"{name}_{key}", None, level + 1) for key, part in parts.items())
    if is_sequence(argument):
        return Tuple(items, isinstance(argument, list), getattr(argument, "_fields", ()), given)
    if not isinstance(argument, dict) and not is_dataclass(argument) or not all(isinstance(key, str | int) for key in parts):
        raise Unsupported(f"an argument that is a {type(argument).__name__}")
    return Record(tuple(parts), items, is_dataclass(argument))


def container_type(argument: object) -> Object:
    """Of a tuple or a list that is handed on as it was given."""
    return Object(type(argument).__name__)


def is_sequence(argument: object) -> bool:
    """Is it a tuple, a list, or a named tuple that does what tuples do?"""
    return type(argument) in (tuple, list) or is_named_tuple(type(argument))


def is_named(argument: object) -> bool:
    """Is it a module, a class, or a function that is no user's: what the program knows by its name?"""
    if isinstance(argument, FunctionType):
        return not is_users(argument) or is_written(argument)
    return isinstance(argument, ModuleType | type | np.ufunc | BuiltinFunctionType | type(np.dot))


def held_by(function: FunctionType) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The defaults of a function that is an argument, and what its variables of functions around hold."""
    cells = function.__closure__ or ()
    if function.__kwdefaults__ or EMPTY in cells:
        raise Unsupported("an argument that is a function with defaults of keywords, or with a variable that has no value")
    return function.__defaults__ or (), tuple(cell.cell_contents for cell in cells)
