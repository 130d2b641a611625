"""What a loop goes over: ranges, arrays, zip and enumerate of these. Each has a length, and an item for each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from npcompile.tensor_core.loop_ir.ops import Load
from npcompile.tensor_core.loop_ir.types import INT, Memref, Scalar
from npcompile.tracer.loop_ir import indexing
from npcompile.tracer.loop_ir.abstract import (
    Abstract,
    Enumerate,
    Iterating,
    Range,
    Rest,
    Slice,
    Tuple,
    Unsupported,
    Value,
    Zip,
    in_words,
)
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.rebuilding import rest_of_range

RANGE_ITERATOR: Final = type(iter(range(0)))
MOST_UNROLLED = 64  # items of a tuple or a list that a loop goes over


def begun(b: Builder, iterator: Any) -> Iterating:
    """An iterator of a range, with params for where it goes on and how many numbers it has left."""
    if type(iterator) is not RANGE_ITERATOR:
        raise Unsupported("a loop over something else than a range")
    start, length = b.param(INT), b.param(INT)
    return Iterating(Range(start, rest_of_range(iterator).step, length), length, b.constant(0))


def known_items(b: Builder, over: Abstract) -> tuple[Abstract, ...] | None:
    """All items of what is made of tuples, lists and dicts of this program's."""
    match over:
        case Tuple(items) if b.aborts:
            if len(items) > MOST_UNROLLED:
                raise Unsupported("a loop over many items, each of its own type")
            return items
        case Enumerate(start, inner) if (inside := known_items(b, inner)) is not None:
            return tuple(Tuple((Value(b.let("add", start, b.constant(k))), item)) for k, item in enumerate(inside))
        case Zip(parts) if parts:
            found = [known_items(b, part) for part in parts]
            known = [items for items in found if items is not None]
            if len(known) == len(parts):
                return tuple(Tuple(items) for items in zip(*known))
    return None


def goes_on(b: Builder, rest: Rest, end: int) -> bool:
    """Push the next of items that are known; after the last one jump to the loop's end."""
    if rest.items:
        b.frame.stack[-1:] = [Rest(rest.items[1:]), rest.items[0]]
        return True
    b.frame.stack.pop()
    b.jump(end)
    return False


def length_of(b: Builder, over: Abstract) -> int:
    match over:
        case Range(_, _, length):
            return length
        case Value(array) if isinstance(b.type(array), Memref):
            return indexing.size(b, array)
        case Tuple(items):
            return b.constant(len(items))
        case Enumerate(_, inner):
            return length_of(b, inner)
        case Zip(parts) if parts:
            shortest = length_of(b, parts[0])
            for part in parts[1:]:
                shortest = b.let("least", shortest, length_of(b, part))
            return shortest
    raise Unsupported(f"a loop over {in_words(over, b.program.types)}")


def item_of(b: Builder, over: Abstract, place: int) -> Abstract:
    """The item at a place that is inside."""
    match over:
        case Range(start, step, _):
            if step in (1, -1):
                return Value(b.let("add" if step == 1 else "subtract", start, place))
            return Value(b.let("add", start, b.let("multiply", place, b.constant(step))))
        case Value(array) if isinstance(kind := b.type(array), Memref):
            if kind.rank > 1:
                return indexing.view(b, array, kind, [Value(place), *[Slice(None, None)] * (kind.rank - 1)], is_inside=True)
            result = b.new(Scalar(kind.element))
            b.emit(Load(result, array, [place], b.at))
            return Value(result)
        case Tuple(items):
            return one_of(b, items, place)
        case Enumerate(start, inner):
            return Tuple((Value(b.let("add", start, place)), item_of(b, inner, place)))
        case Zip(parts):
            return Tuple(tuple(item_of(b, part, place) for part in parts))
    raise AssertionError(over)


def one_of(b: Builder, items: Sequence[Abstract], place: int) -> Value:
    """The item of a tuple at a place that only the program knows: they are numbers of one kind."""
    values = [x.value for x in items if isinstance(x, Value) and isinstance(b.type(x.value), Scalar)]
    if len(values) < len(items) or len({b.type(value) for value in values}) != 1:
        raise Unsupported("a loop over a tuple of other than numbers of one kind")
    *rest, found = values
    for k, value in reversed(list(enumerate(rest))):
        found = b.let("choose", b.let("equal", place, b.constant(k)), value, found)
    return Value(found)


def items_of(b: Builder, x: Abstract, count: int) -> tuple[Abstract, ...]:
    """The items of what is unpacked into so many variables."""
    match x:
        case Tuple(items) if len(items) == count:
            return items
        case Value(array) if b.aborts and isinstance(b.type(array), Memref):
            b.check(b.let("equal", indexing.size(b, array), b.constant(count)))
            return tuple(item_of(b, x, b.constant(k)) for k in range(count))
    raise Unsupported("unpacking of this")
