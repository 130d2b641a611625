"""What the front end knows of an object on Python's stack or in a local variable: its structure, and the values at its leaves.

Iterators, tuples and methods are not values of the IR. They are taken apart here, and recipes put them together again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from types import CellType, CodeType, EllipsisType, FunctionType, ModuleType
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.loop_ir.states import ErrorState, Fixed, RangeIterator, Recipe, SequenceIterator, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import Type, kind_in_words


class Unsupported(Exception):
    """The front end has no IR for this: why, and on which line."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Raises(Unsupported):
    """Python raises an error here: execution that can be left is."""


class Mark(Enum):
    NULL = "NULL"  # CPython's, below or above a callable


# What a program may name: modules, functions, classes, and constants that are not numbers.
Named: TypeAlias = ModuleType | Callable[..., object] | str | np.dtype | EllipsisType | CodeType | Mark | None


@dataclass(frozen=True, slots=True)
class Value:
    """A number, an array or a list: one value of the IR."""

    value: int


@dataclass(frozen=True, slots=True)
class Held:
    """An object that the program does nothing with but hand it on."""

    value: int


@dataclass(frozen=True, slots=True)
class Known:
    """An object that is the same whenever the program runs."""

    named: Named


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple, or a list that nobody changes."""

    items: tuple[Abstract, ...]
    is_list: bool = False
    names: tuple[str, ...] = ()  # of a named tuple
    given: int | None = None  # the object itself, where an argument is it


@dataclass(frozen=True, slots=True)
class Record:
    """A dict, or an object of a dataclass, that nobody changes: what it holds, by key or by attribute."""

    keys: tuple[str | int, ...]
    items: tuple[Abstract, ...]
    has_attributes: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """An iterator over items that are known: those that it has not given yet. Each iteration is a version of its own."""

    items: tuple[Abstract, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice: None where a bound is left out."""

    start: Abstract | None
    stop: Abstract | None
    step: int = 1


@dataclass(frozen=True, slots=True)
class Along:
    """An axis of a Seen array: elements at `start + step * k` of an axis of the array that it shows."""

    axis: int
    step: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A view that no op of the IR makes: axes in another order, new ones (None), or with steps. It is read when it is used."""

    array: int
    starts: tuple[int, ...]  # where each axis of the array begins
    axes: tuple[Along | None, ...]
    lengths: tuple[int, ...]  # of the axes that are not new


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """A new array whose elements are not computed yet: Python's next effect, or another block, has them computed."""

    array: Array  # of the graph of statements since the last one


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

    receiver: Value | Seen | Pending
    name: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A variable that functions inside read: of the frame that has so many callers, or of a function around the program's."""

    name: str
    where: int | CellType


@dataclass(frozen=True, slots=True)
class Closure:
    """A function that the program makes, and calls while the frame that made it is there; or one that is an argument.

    Its own cells are empty, or what they hold is `held`.
    """

    function: FunctionType
    cells: tuple[Cell, ...]
    defaults: tuple[Abstract, ...]
    held: tuple[Abstract, ...] = ()


@dataclass(frozen=True, slots=True)
class Partial:
    """A functools.partial that is an argument. The last of what it gives to the function have `names`."""

    function: Abstract
    args: tuple[Abstract, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewErrorState:
    """An np.errstate that is not entered yet."""

    modes: ErrorState


@dataclass(frozen=True, slots=True)
class EnteredErrorState:
    """The `__exit__` of one that is."""

    modes: ErrorState


Traversal: TypeAlias = "Range | Enumerate | Zip | Iterating | Rest"
Function: TypeAlias = "Method | Cell | Closure | Partial"
Abstract: TypeAlias = (
    "Value | Held | Known | Tuple | Record | Slice | Seen | Pending | Traversal | Function | NewErrorState | EnteredErrorState"
)
Key: TypeAlias = tuple["Type | Named | int | str | ErrorState | Key", ...]


WORDS = {
    Held: "an object",
    Rest: "an iterator",
    Slice: "a slice",
    Seen: "a view",
    Pending: "an array",
    Range: "a range",
    Enumerate: "an enumerate",
    Zip: "a zip",
    Iterating: "an iterator",
    Closure: "a function made here",
    Partial: "a functools.partial",
    Cell: "a variable of a function around",
    NewErrorState: "an np.errstate",
    EnteredErrorState: "an np.errstate",
}


def in_words(x: Abstract, types: Sequence[Type] = ()) -> str:
    """What users call it: with the types of the program's values, if these are given."""
    match x:
        case Value(value):
            return kind_in_words(types[value]) if types else "a number or an array"
        case Known(None):
            return "None"
        case Known(Mark()):
            return "a call"
        case Known(named):
            name = getattr(named, "__name__", None)
            return f"a {type(named).__name__}" if name is None else name
        case Tuple(is_list=is_list):
            return "a list" if is_list else "a tuple"
        case Record(has_attributes=has_attributes):
            return "an object of a dataclass" if has_attributes else "a dict"
        case Method(_, name):
            return f"the method {name}"
    return WORDS[type(x)]


def leaves(x: Abstract) -> Iterator[int]:
    match x:
        case Value(value) | Held(value):
            yield value
        case Tuple(items) | Record(_, items) | Rest(items):
            if isinstance(x, Tuple) and x.given is not None:
                yield x.given
            for item in items:
                yield from leaves(item)
        case Closure(_, _, defaults, held):
            for item in (*defaults, *held):
                yield from leaves(item)
        case Partial(function, args):
            for item in (function, *args):
                yield from leaves(item)
        case Slice(start, stop):
            for bound in (start, stop):
                if bound is not None:
                    yield from leaves(bound)
        case Seen(array, starts, _, lengths):
            yield from (array, *starts, *lengths)
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
            yield from leaves(receiver)


def rebuilt(x: Abstract, values: Iterator[int]) -> Abstract:
    """The same structure over other values, in the order of `leaves`."""
    match x:
        case Value() | Held():
            return type(x)(next(values))
        case Tuple(items, is_list, names, given):
            given = None if given is None else next(values)
            return Tuple(tuple(rebuilt(item, values) for item in items), is_list, names, given)
        case Record(keys, items):
            return Record(keys, tuple(rebuilt(item, values) for item in items), x.has_attributes)
        case Rest(items):
            return Rest(tuple(rebuilt(item, values) for item in items))
        case Partial(inner, args, bound):
            inner = rebuilt(inner, values)
            return Partial(inner, tuple(rebuilt(item, values) for item in args), bound)
        case Slice(start, stop, step):
            first = start and rebuilt(start, values)
            return Slice(first, stop and rebuilt(stop, values), step)
        case Seen(_, starts, axes, lengths):
            return Seen(next(values), tuple(next(values) for _ in starts), axes, tuple(next(values) for _ in lengths))
        case Range(_, step, _):
            return Range(next(values), step, next(values))
        case Enumerate(_, over):
            return Enumerate(next(values), rebuilt(over, values))
        case Zip(parts):
            return Zip(tuple(rebuilt(part, values) for part in parts))
        case Iterating(Range(_, step, _), _, _):
            begin, count = next(values), next(values)
            return Iterating(Range(begin, step, count), count, next(values))
        case Iterating(over, _, _):
            return Iterating(rebuilt(over, values), next(values), next(values))
        case Method(receiver, name):
            return Method(rebuilt(receiver, values), name)  # type: ignore[arg-type]
        case Closure(function, cells, defaults, held):
            before = tuple(rebuilt(item, values) for item in defaults)
            return Closure(function, cells, before, tuple(rebuilt(item, values) for item in held))
    return x


def key_of(x: Abstract, types: list[Type]) -> Key:
    """The structure with types at its leaves: what a version of a block is made for."""
    match x:
        case Value(value):
            return ("value", types[value])
        case Held():
            return ("held",)
        case Known(named):
            return ("known", named if isinstance(named, str | Mark) else id(named))
        case Tuple(items):
            kind = "list" if x.is_list else "tuple"
            return (kind, x.given is not None, *x.names, *(key_of(item, types) for item in items))
        case Record(keys, items):
            return ("record", x.has_attributes, *keys, *(key_of(item, types) for item in items))
        case Rest(items):
            return ("rest", *(key_of(item, types) for item in items))
        case Slice(start, stop, step):
            return ("slice", step, *(key_of(bound, types) if bound is not None else () for bound in (start, stop)))
        case Seen(array, _, axes):
            return ("seen", types[array], *((each.axis, each.step) if each is not None else () for each in axes))
        case Range(_, step, _):
            return ("range", step)
        case Enumerate(_, over):
            return ("enumerate", key_of(over, types))
        case Zip(parts):
            return ("zip", *(key_of(part, types) for part in parts))
        case Iterating(over, _, _):
            return ("iterator", key_of(over, types))
        case Method(receiver, name):
            return ("method", name, key_of(receiver, types))
        case Cell(name, where):
            return ("cell", name, where if isinstance(where, int) else id(where))
        case Closure(function, cells, defaults, held):
            around = *cells, *defaults, *held
            return ("closure", id(function.__code__), id(function.__globals__), *(key_of(item, types) for item in around))
        case Partial(inner, args, bound):
            return ("partial", *bound, *(key_of(item, types) for item in (inner, *args)))
        case NewErrorState(modes):
            return ("new error state", modes)
        case EnteredErrorState(modes):
            return ("error state", modes)
        case Pending():
            raise AssertionError("what waits is computed before another block begins")


def recipe_of(x: Abstract) -> Recipe:
    """How Python's object is made. Raises Unsupported for what no recipe makes."""
    match x:
        case Value(value) | Held(value):
            return Use(value)
        case Known(None):
            return Fixed(None)
        case Tuple(given=int() as given):
            return Use(given)
        case Tuple(items, is_list=False, names=()):
            return TupleOf(tuple(map(recipe_of, items)))
        case Iterating(Range(start, step, _), length, taken):
            return RangeIterator(start, step, length, taken)
        case Iterating(Tuple(is_list=False) | Value() as over, _, taken):
            return SequenceIterator(recipe_of(over), taken)
        case EnteredErrorState(modes):
            return modes
    raise Unsupported(f"execution cannot be left while {in_words(x)} is on the stack")
