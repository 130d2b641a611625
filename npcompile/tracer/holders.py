"""What holds the values that native code can reach: containers, iterators over them, and the variables of inner functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType
from typing import Any

MOST_ITEMS = 10_000  # of a container that is searched at a break: longer ones hold numbers


class Rows:
    """What iteration over an array of a device goes through: rows that see its memory, or scalars, made by `scalar`."""

    def __init__(self, array: Any, scalar: Callable[[Any], Any]):
        self.array, self.scalar = array, scalar

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        if index >= len(self.array):
            raise IndexError(index)
        return self.array[index] if self.array.ndim > 1 else self.scalar(self.array[index : index + 1])


LIST_ITERATOR: type = type(iter([]))
SEQUENCE_ITERATOR: type = type(iter(Rows(None, id)))
HOLDERS = (tuple, list, dict, CellType, FunctionType, LIST_ITERATOR, SEQUENCE_ITERATOR, Rows)


def held(holder: Any) -> Iterator[tuple[Any, Callable[[Any], None] | None]]:
    """The values in a holder, each with what puts another one in its place; None where nothing can."""
    kind = type(holder)
    if kind is tuple:
        yield from ((item, None) for item in holder)
    elif kind is list or kind is dict:
        if len(holder) <= MOST_ITEMS:
            for key, item in list(holder.items() if kind is dict else enumerate(holder)):
                yield item, partial(holder.__setitem__, key)
    elif kind is CellType:
        try:
            yield holder.cell_contents, partial(setattr, holder, "cell_contents")
        except ValueError:  # a variable without a value
            return
    elif kind is FunctionType:
        yield from ((cell, None) for cell in holder.__closure__ or ())
    elif kind is Rows:
        yield holder.array, partial(setattr, holder, "array")
    else:  # an iterator, unless it is at its end
        yield from ((part, None) for part in holder.__reduce__()[1][:1] if type(part) in (list, Rows))


def leaves(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """What is in a value and in the holders in it."""
    if type(value) not in HOLDERS:
        yield value
        return
    seen = set() if seen is None else seen
    if id(value) not in seen:
        seen.add(id(value))
        for item, _ in held(value):
            yield from leaves(item, seen)


def replaced(value: Any, others: dict[int, Any], seen: set[int] | None = None) -> Any:
    """The value with others in place of those with their ids. What can be changed is changed itself."""
    found = others.get(id(value))
    if found is not None:
        return found
    if type(value) not in HOLDERS:
        return value
    seen = set() if seen is None else seen
    if id(value) in seen:
        return value
    seen.add(id(value))
    items = []
    for item, put in held(value):
        made = replaced(item, others, seen)
        items.append(made)
        if made is not item and put is not None:
            put(made)
    if type(value) is tuple and any(a is not b for a, b in zip(items, value)):
        return tuple(items)
    return value
