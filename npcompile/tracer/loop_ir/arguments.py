"""What a program is for: numbers and arrays are its params, and trees of these one param for each leaf."""

from __future__ import annotations

from dataclasses import is_dataclass

import numpy as np

from npcompile import trees
from npcompile.tensor_core.loop_ir.ops import Param
from npcompile.tensor_core.loop_ir.types import Type, type_of
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Record, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder


def typed(argument: object) -> Type:
    """The type of an argument's values in the program. Raises Unsupported where the IR has none."""
    kind = type_of(argument)
    if kind is None:
        raise Unsupported("an argument of a type without IR")
    return kind


def taken(b: Builder, argument: object, name: str, slot: int | None) -> Abstract:
    """An argument: a param. A tree of a program that aborts is one for each leaf, in the order of `trees.flatten`."""
    tree = trees.kind_of(argument)
    if tree is None and argument is not None or not b.aborts:
        value = b.new(typed(argument), name)
        b.program.params.append(Param(value, slot))
        if isinstance(argument, np.ndarray):
            b.shapes[value] = argument.shape
        return Value(value)
    if tree is None:
        return Known(None)
    parts = tree.parts(argument)
    items = tuple(taken(b, part, f"{name}_{key}", None) for key, part in parts.items())
    if type(argument) in (tuple, list):
        return Tuple(items, isinstance(argument, list))
    if not isinstance(argument, dict) and not is_dataclass(argument) or not all(isinstance(key, str | int) for key in parts):
        raise Unsupported(f"an argument that is a {type(argument).__name__}")
    return Record(tuple(parts), items, is_dataclass(argument))
