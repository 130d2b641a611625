"""Iteration: over values that hold others, over what computes its items when it is asked, and what is left at a break."""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable
from collections.abc import Iterator as AbstractIterator
from typing import Any

from npcompile.tensor_core.array import Array, reshape
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline, is_contiguous, product
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import forward, operators, ranges, subscripts
from npcompile.tracer.python.arithmetic import plain_number
from npcompile.tracer.python.operators import describe, lift
from npcompile.tracer.raising import Raises
from npcompile.tracer.values import (
    LONGEST,
    ArrayFlat,
    Constant,
    Deque,
    DictView,
    Iterator,
    Mapping,
    Opaque,
    OutsideSequence,
    RangeValue,
    Sequence,
    SetValue,
    TensorValue,
    is_long,
)

ITERATED_ROWS = 16  # of an array that a loop goes through in one graph


def iterator_of(capture: Capture, value: Any) -> Any:
    match value:
        case Iterator():
            return value
        case Sequence():
            return over_container(capture, "sequence", [value])
        case RangeValue():
            return Iterator("range", [value])
        case Mapping():
            return over_view(capture, DictView("keys", value))
        case DictView():
            return over_view(capture, value)
        case Deque():
            return over_container(capture, "set", [value, Sequence(tuple, list(value.items))], value.resizes)
        case SetValue():
            members = Sequence(tuple, [lift(v) for v in ordered(capture, value)])
            return over_container(capture, "set", [value, members], value.resizes)
        case Constant(range() as span):
            return Iterator("range", [lift(span)])
        case Constant() if isinstance(value.value, (str, bytes, tuple, frozenset, types.MappingProxyType)):
            if len(value.value) > LONGEST:
                raise Decline("a long iteration")
            return Iterator("sequence", [Sequence(tuple, [lift(v) for v in value.value]), value])
        case Constant(enum.EnumMeta() as kind):
            return Iterator("sequence", [Sequence(tuple, [*map(Constant, kind)]), value])
        case Array():
            return Iterator("array", [iterable(value, any_length=capture.goes_through_gradients)])
        case ArrayFlat(x) if value.begun is None:
            if not is_contiguous(x.meta, "C"):
                raise Decline("iteration over ndarray.flat of an array in another order")
            made = Iterator("array", [iterable(reshape(x, (product(x.shape),)), any_length=capture.goes_through_gradients)])
            value.begun = capture.stands_at
            return made
        case TensorValue():
            iterable(value.array)
            return Iterator("array", [value])
        case Opaque() if hasattr(type(value.example), "__next__"):
            return value
        case _:
            found = forward.class_iter(capture, value)
            iterator = found if found is NotImplemented else capture.realize(found)
            is_known = isinstance(iterator, Iterator) or (
                isinstance(iterator, Opaque) and hasattr(type(iterator.example), "__next__")
            )
            if not is_known or iterator is value:  # the object is its own iterator, for one
                raise Decline(f"iteration over {describe(value)}")
            return iterator


def over_container(capture: Capture, kind: str, parts: list[Any], resizes: int = 0, start: int = 0) -> Iterator:
    """An iterator over what may change: it knows where it was made, as it cannot always be made again elsewhere."""
    return Iterator(kind, parts, start=start, made_at=capture.stands_at, resizes=resizes)


def over_view(capture: Capture, view: DictView, backwards: bool = False) -> Iterator:
    keys = Sequence(tuple, [lift(k) for k in view.owner.items][:: -1 if backwards else 1])
    return over_container(capture, "reversed view" if backwards else "view", [view, keys], view.owner.resizes)


def is_as_made(iterator: Iterator) -> bool:
    """Is the iterator the same when it is made of its container as the program hands it over?

    That is a container from outside before the program's changes to it, and one made in the program after them. A generator
    that has begun is not.
    """
    if iterator.is_exhausted or not iterator.parts:
        return True
    if iterator.kind == "lazy":
        return not iterator.position
    owner = iterator.parts[0].owner if "view" in iterator.kind else iterator.parts[0]
    if not isinstance(owner, (Sequence, Mapping, SetValue, Deque)):
        return True
    if not isinstance(owner, Sequence):
        return iterator.resizes == (owner.resizes if owner.source is None else 0)
    if owner.kind is not list:
        return True
    length = len(owner.example if isinstance(owner, OutsideSequence) else owner.items)
    return iterator.position <= length if iterator.kind == "sequence" else iterator.start - iterator.position < length


def ordered(capture: Capture, value: SetValue) -> list[Any]:
    capture.guard_order(value)
    return list(value.items)


def iterable(x: Array, any_length: bool = False) -> Array:
    if not x.ndim:
        raise Decline("iteration over a 0-D array")
    if any_length:
        return x
    if isinstance(x.shape[0], Dim) or x.shape[0] > ITERATED_ROWS:
        raise Decline("iteration over an array of many rows")
    return x


def next_item(capture: Capture, iterator: Iterator) -> Any | None:
    """The next item, or None at the end (no value is None)."""
    if iterator.is_exhausted:
        return None
    item = NEXT[iterator.kind](capture, iterator)
    if item is None:
        iterator.is_exhausted = iterator.kind not in ASKING
        return None
    iterator.position += 1
    return item


def next_of_sequence(capture: Capture, iterator: Iterator) -> Any | None:
    owner = iterator.parts[0]
    if is_long(owner) and iterator.position < len(owner.example):
        return capture.item_of_long(owner, iterator.position)
    items = owner.items
    return items[iterator.position] if iterator.position < len(items) else None


def next_of_view(capture: Capture, iterator: Iterator) -> Any | None:
    """Of a dict, whose keys may not change on the way: Python raises RuntimeError then."""
    view, keys = iterator.parts
    if iterator.resizes != view.owner.resizes:
        raise Decline("a dict whose keys change while it is iterated over")
    if iterator.position == len(keys.items):
        return None
    key = keys.items[iterator.position]
    if view.kind == "keys":
        return key
    value = view.owner.items[operators.constant_key(capture, key)]
    return value if view.kind == "values" else Sequence(tuple, [key, value])


def next_of_set(capture: Capture, iterator: Iterator) -> Any | None:
    if iterator.resizes != iterator.parts[0].resizes:
        raise Decline("a set that changes while it is iterated over")
    items = iterator.parts[1].items
    return items[iterator.position] if iterator.position < len(items) else None


def next_of_array(capture: Capture, iterator: Iterator) -> Any | None:
    x = iterator.parts[0]
    if iterator.position >= rows_of(x):
        return None
    return subscripts.getitem(capture, x, Constant(iterator.position))  # when asked for: the array may have changed


def next_of_reversed(capture: Capture, iterator: Iterator) -> Any | None:
    owner, at = iterator.parts[0], iterator.start - iterator.position
    if isinstance(owner, (Array, TensorValue)):
        return subscripts.getitem(capture, owner, Constant(at)) if at >= 0 else None
    return owner.items[at] if 0 <= at < len(owner.items) else None


def next_of_range(capture: Capture, iterator: Iterator) -> Any | None:
    span = iterator.parts[0]
    current = plain_number(span.start) + iterator.position * span.step
    stop = plain_number(span.stop)
    if not (current < stop if span.step > 0 else current > stop):
        return None
    return lift(current)


def next_of_enumerate(capture: Capture, iterator: Iterator) -> Any | None:
    inner = next_item(capture, iterator.parts[0])
    return None if inner is None else Sequence(tuple, [Constant(iterator.start + iterator.position), inner])


def next_of_zip(capture: Capture, iterator: Iterator) -> Any | None:
    items = next_of_each(capture, iterator.parts)
    return Sequence(tuple, items) if items else None


def next_of_each(capture: Capture, parts: list[Any]) -> list[Any] | None:
    """The next item of each iterator; those after one that has ended are not asked."""
    items = []
    for part in parts:
        item = next_item(capture, part)
        if item is None:
            return None
        items.append(item)
    return items


def next_of_map(capture: Capture, iterator: Iterator) -> Any | None:
    function, *parts = iterator.parts
    items = next_of_each(capture, parts)
    return None if items is None else forward.call_function(capture, function, items)


def next_of_filter(capture: Capture, iterator: Iterator) -> Any | None:
    function, source = iterator.parts
    while (item := next_item(capture, source)) is not None:
        is_kept = item if operators.is_none(function) else forward.call_function(capture, function, [item])
        answer = operators.truth(capture, is_kept)
        if not isinstance(answer, Constant):
            raise Decline("filter() by array data")
        if answer.value:
            return item
    return None


def next_of_lazy(capture: Capture, iterator: Iterator) -> Any | None:
    assert iterator.advance is not None
    return iterator.advance(iterator)


NEXT: dict[str, Callable[[Capture, Iterator], Any | None]] = {
    "sequence": next_of_sequence,
    "view": next_of_view,
    "reversed view": next_of_view,
    "set": next_of_set,
    "array": next_of_array,
    "reversed": next_of_reversed,
    "range": next_of_range,
    "enumerate": next_of_enumerate,
    "zip": next_of_zip,
    "map": next_of_map,
    "filter": next_of_filter,
    "lazy": next_of_lazy,
}
ASKING = ("enumerate", "zip", "map", "filter")  # kinds that ask others for each item, again after one has ended


def lazily(capture: Capture, function: Any, arguments: list[Any], items: Callable[[], AbstractIterator[Any]]) -> Iterator:
    """An iterator that `function(*arguments)` makes, and whose items are found by `items` while capturing."""
    given, bodies = items(), capture.bodies

    def advance(iterator: Iterator) -> Any:
        if capture.bodies != bodies:
            capture.require_no_body("an iterator goes on")
        try:
            return next(given, None)
        except Raises as raised:  # the iterator that this stands for goes on after an exception, and `given` does not
            raise Decline(raised.reason) from None

    return Iterator("lazy", [function, *arguments], made_at=capture.stands_at, advance=advance)


def remaining(iterator: Any) -> int | None:
    """How many items are left at the sizes of this call, where that is known."""
    if not isinstance(iterator, Iterator):
        return None
    match iterator.kind:
        case "sequence":
            owner = iterator.parts[0]
            return len(owner.example if is_long(owner) else owner.items) - iterator.position
        case "view" | "reversed view" | "set":
            return len(iterator.parts[1].items) - iterator.position
        case "reversed":
            return iterator.start + 1 - iterator.position
        case "range":
            return ranges.count_now(iterator.parts[0]) - iterator.position
        case "array":
            return rows_of(iterator.parts[0]) - iterator.position
        case "lazy":
            return None
        case _:
            known = [r for p in iterator.parts if (r := remaining(p)) is not None]
            return min(known, default=None)


def rows_of(x: Any) -> Any:
    return (x.array if isinstance(x, TensorValue) else x).shape[0]


def length_changes(iterator: Any) -> bool:
    """Does the number of iterations depend on an integer that changes from call to call? If not, it is fixed now."""
    spans = [p for p in iterator.parts if isinstance(p, RangeValue)]
    ends = [end for span in spans for end in (span.start, span.stop) if isinstance(end, Dim)]
    for end in ends:
        names = set(end.symbols())
        if names & end.env.changed:
            return True
        end.env.fixed |= names
    return any(isinstance(p, Iterator) and length_changes(p) for p in iterator.parts)


def is_of_containers(iterator: Any) -> bool:
    """Does it run over containers, whose items are values of their own, rather than over numbers or rows?"""
    return isinstance(iterator, Iterator) and (
        iterator.kind in ("sequence", "view", "reversed view", "reversed")
        or (iterator.kind in ("enumerate", "zip") and all(map(is_of_containers, iterator.parts)))
    )


def iterate(capture: Capture, value: Any, at_most: int | None = None) -> list[Any]:
    """All items of something finite, as values."""
    if isinstance(value, Sequence):
        return list(value.items)
    iterator = iterator_of(capture, value)
    if not isinstance(iterator, Iterator):
        raise Decline(f"iteration over {describe(value)}")
    if length_changes(iterator):
        raise Decline("as many items as an integer that changes from call to call")
    is_long = at_most is None and (remaining(iterator) or 0) >= LONGEST
    items = [] if is_long else list(itertools.islice(items_of(capture, iterator), LONGEST if at_most is None else at_most))
    if is_long or len(items) == LONGEST:
        raise Decline("a long iteration")
    return items


def items_of(capture: Capture, iterator: Iterator) -> AbstractIterator[Any]:
    """The items that an iterator has left, each asked for when it is wanted."""
    while (item := next_item(capture, iterator)) is not None:
        yield item
