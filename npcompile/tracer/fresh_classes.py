"""Classes and functions that are made anew for each call, by statements in a function: another one is not another program.

A program for the first class asks for that class. When another of the same name comes to the same place, a program is made that
asks whether the class is made of the same parts, and reaches each part of it by an expression.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from npcompile.tensor_core.guards import Is, Keeps, Truth
from npcompile.tensor_core.source import Bound, Call, Source
from npcompile.tracer.values import MADE_FOR_NAMED_TUPLES, is_named_tuple

IS_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
WRAPPERS: dict[type, tuple[str, ...]] = {  # what stands in a class for functions, and where it has them
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
}
PARTS_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
COMPARED = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))


def may_be_anew(kind: type) -> bool:
    """Was it made by a `class` statement, of a plain metaclass?"""
    return type(kind) is type and bool(kind.__flags__ & IS_OF_PYTHON)


def meet_class(capture: Any, source: Source, kind: type) -> None:
    """A class from outside is met: one of a name that another had before is taken for what it is made of, in this program."""
    if id(kind) in capture.anew or not may_be_anew(kind):
        return
    name = kind.__module__, kind.__qualname__
    earlier = capture.seen.setdefault(("class", source), [])
    if (*name, id(kind)) not in earlier:
        earlier.append((*name, id(kind)))
    if all(each[:2] != name or each[2] == id(kind) for each in earlier):
        return
    for other_source, other in capture.anew.values():
        if isinstance(other, type) and (other.__module__, other.__qualname__) == name:
            capture.guard(Is(source, other_source, False))
    known = capture.remembered.setdefault(source, Bound(f"known_{len(capture.remembered)}"))
    capture.guard(Keeps(source, known.name))  # before the program changes what leads to it
    capture.guard(Truth(Call(capture.known_object(is_made_alike), known, capture.known_object(kind))))
    capture.anew = {id(part): (found, part) for found, part in parts_of(known, kind)} | capture.anew


def parts_of(source: Source, kind: type) -> Iterator[tuple[Source, Any]]:
    """The class that `source` gives, and what is made anew with it, each with an expression that gives it."""
    yield source, kind
    yield source.attribute("__mro__"), kind.__mro__
    for name, value in vars(kind).items():
        if is_read_by_source(value):
            yield from parts_of_value(source.attribute("__dict__").item(name), value)
    for k, base in enumerate(kind.__bases__):
        if may_be_anew(base):
            yield from parts_of(source.attribute("__bases__").item(k), base)


def is_read_by_source(value: Any) -> bool:
    """Does capture look at it by an expression, so that its contents are guarded? What is known by identity stays so."""
    kind = type(value)
    if kind in (types.FunctionType, types.MemberDescriptorType, *WRAPPERS):
        return True
    return isinstance(value, (np.ndarray, list, dict, set)) or (may_be_anew(kind) and not hasattr(kind, "__get__"))


def parts_of_value(source: Source, value: Any) -> Iterator[tuple[Source, Any]]:
    yield source, value
    if isinstance(value, types.FunctionType):
        found_parts = ((part, getattr(value, part)) for part in PARTS_OF_FUNCTIONS)
        yield from ((source.attribute(part), found) for part, found in found_parts if found is not None)
    for part in WRAPPERS.get(type(value), ()):
        found = getattr(value, part)
        if found is not None:
            yield from parts_of_value(source.attribute(part), found)


def is_made_alike(one: Any, other: Any) -> bool:
    """Is this class made of the same parts as the other: the same code, with constants that are the same?

    What else their functions hold, and objects among their attributes, need only be of the same types.
    """
    if one is other:
        return True
    if not isinstance(one, type) or type(one) is not type(other) or not may_be_anew(one) or not may_be_anew(other):
        return False
    if (one.__module__, one.__qualname__) != (other.__module__, other.__qualname__):
        return False
    names = vars(one).keys() - (MADE_FOR_NAMED_TUPLES if is_named_tuple(one) and is_named_tuple(other) else set())
    return (
        [*vars(one)] == [*vars(other)]
        and len(one.__bases__) == len(other.__bases__)
        and all(a is b or is_made_alike(a, b) for a, b in zip(one.__bases__, other.__bases__))
        and all(are_alike(vars(one)[name], vars(other)[name]) for name in names)
    )


def are_compared(values: tuple[Any, ...]) -> bool:
    """Does their text tell whether others are the same?"""
    return all(type(v) in COMPARED for v in values)


def compared_text(value: Any) -> str:
    """Equal for values that are the same. Integers are hexadecimal: Python writes no more than 4,300 decimal digits."""
    return hex(value) if type(value) is int else repr(value)


def are_alike(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in COMPARED:
        return compared_text(one) == compared_text(other)  # which tells signed zeros apart, and takes one NaN for another
    if kind is tuple:
        return len(one) == len(other) and all(map(are_alike, one, other))
    if kind is dict:
        return [*one] == [*other] and all(are_alike(one[key], other[key]) for key in one)
    if kind is types.FunctionType:
        return one.__globals__ is other.__globals__ and all(
            are_alike(getattr(one, part), getattr(other, part)) for part in (*PARTS_OF_FUNCTIONS, "__dict__")
        )
    if kind is types.CodeType:
        return bool(one == other)
    if isinstance(one, type):
        return is_made_alike(one, other)
    return all(are_alike(getattr(one, part), getattr(other, part)) for part in WRAPPERS.get(kind, ()))
