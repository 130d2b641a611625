"""What the front end knows of an object on Python's stack or in a local variable: its structure, and the values at its leaves.

Iterators, tuples and methods are not values of the IR. They are taken apart here, and recipes put them together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.states import ErrorState, Fixed, RangeIterator, Recipe, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import Type


class Unsupported(Exception):
    """The front end has no IR for this: why, and on which line."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Mark(Enum):
    NULL = "NULL"  # CPython's, below or above a callable


# What a program may name: modules, functions, classes, and constants that are not numbers.
Named: TypeAlias = ModuleType | Callable[..., object] | str | Mark | None


@dataclass(frozen=True, slots=True)
class Value:
    """A number, an array or a list: one value of the IR."""

    value: int


@dataclass(frozen=True, slots=True)
class Known:
    """An object that is the same whenever the program runs."""

    named: Named


@dataclass(frozen=True, slots=True)
class Tuple:
    items: tuple[Abstract, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice with step 1: None where a bound is left out."""

    start: Abstract | None
    stop: Abstract | None


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    step: int
    length: int


@dataclass(frozen=True, slots=True)
class Enumerate:
    start: int
    over: Abstract


@dataclass(frozen=True, slots=True)
class Zip:
    parts: tuple[Abstract, ...]


@dataclass(frozen=True, slots=True)
class Iterating:
    """An iterator that is begun: `taken` of `length` items have been given."""

    over: Abstract
    length: int
    taken: int


@dataclass(frozen=True, slots=True)
class Method:
    """An attribute that is called next."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class NewErrorState:
    """An np.errstate that is not entered yet."""

    modes: ErrorState


@dataclass(frozen=True, slots=True)
class EnteredErrorState:
    """The `__exit__` of one that is."""

    modes: ErrorState


Abstract: TypeAlias = (
    Value | Known | Tuple | Slice | Range | Enumerate | Zip | Iterating | Method | NewErrorState | EnteredErrorState
)
Key: TypeAlias = tuple["Type | Named | int | str | ErrorState | Key", ...]


def leaves(x: Abstract) -> Iterator[int]:
    match x:
        case Value(value):
            yield value
        case Tuple(items):
            for item in items:
                yield from leaves(item)
        case Slice(start, stop):
            for bound in (start, stop):
                if bound is not None:
                    yield from leaves(bound)
        case Range(start, _, length):
            yield from (start, length)
        case Enumerate(start, over):
            yield start
            yield from leaves(over)
        case Zip(parts):
            for part in parts:
                yield from leaves(part)
        case Iterating(Range(start, _, _), length, taken):
            yield from (start, length, taken)
        case Iterating(over, length, taken):
            yield from leaves(over)
            yield from (length, taken)
        case Method(receiver):
            yield receiver.value


def rebuilt(x: Abstract, values: Iterator[int]) -> Abstract:
    """The same structure over other values, in the order of `leaves`."""
    match x:
        case Value():
            return Value(next(values))
        case Tuple(items):
            return Tuple(tuple(rebuilt(item, values) for item in items))
        case Slice(start, stop):
            return Slice(*(bound and rebuilt(bound, values) for bound in (start, stop)))
        case Range(_, step, _):
            return Range(next(values), step, next(values))
        case Enumerate(_, over):
            return Enumerate(next(values), rebuilt(over, values))
        case Zip(parts):
            return Zip(tuple(rebuilt(part, values) for part in parts))
        case Iterating(Range(_, step, _), _, _):
            first, count = next(values), next(values)
            return Iterating(Range(first, step, count), count, next(values))
        case Iterating(over, _, _):
            return Iterating(rebuilt(over, values), next(values), next(values))
        case Method(_, name):
            return Method(Value(next(values)), name)
    return x


def key_of(x: Abstract, types: list[Type]) -> Key:
    """The structure with types at its leaves: what a version of a block is made for."""
    match x:
        case Value(value):
            return ("value", types[value])
        case Known(named):
            return ("known", named if isinstance(named, str | Mark) else id(named))
        case Tuple(items):
            return ("tuple", *(key_of(item, types) for item in items))
        case Slice(start, stop):
            return ("slice", *(key_of(bound, types) if bound is not None else () for bound in (start, stop)))
        case Range(_, step, _):
            return ("range", step)
        case Enumerate(_, over):
            return ("enumerate", key_of(over, types))
        case Zip(parts):
            return ("zip", *(key_of(part, types) for part in parts))
        case Iterating(over, _, _):
            return ("iterator", key_of(over, types))
        case Method(receiver, name):
            return ("method", name, types[receiver.value])
        case NewErrorState(modes):
            return ("new error state", modes)
        case EnteredErrorState(modes):
            return ("error state", modes)


def recipe_of(x: Abstract) -> Recipe:
    """How Python's object is made. Raises Unsupported for what no recipe makes."""
    match x:
        case Value(value):
            return Use(value)
        case Known(None):
            return Fixed(None)
        case Tuple(items):
            return TupleOf(tuple(map(recipe_of, items)))
        case Iterating(Range(start, step, _), length, taken):
            return RangeIterator(start, step, length, taken)
        case EnteredErrorState(modes):
            return modes
    raise Unsupported(f"execution cannot be left while {type(x).__name__} is on the stack")
