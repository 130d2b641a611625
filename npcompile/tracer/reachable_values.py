"""What holds the values that native code can reach: containers, objects, iterators, and the variables of inner functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType
from typing import Any

import numpy as np

from npcompile.tracer.identity_set import remember_scalar

MOST_ITEMS = 10_000  # of a list or dict that is searched: longer ones hold numbers
MOST_HOLDERS = 1_000  # that are searched: what an application is made of may hang together


class Rows:
    """What iteration over an array of a device goes through: rows that see its memory, or scalars."""

    def __init__(self, array: Any):
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        if index >= len(self.array):
            raise IndexError(index)
        if self.array.ndim > 1 or type(self.array) is np.ndarray:  # while native code sees a copy
            return self.array[index]
        return remember_scalar(self.array[index : index + 1].copy().reshape(()))


LIST_ITERATOR: type = type(iter([]))
ARRAY_ITERATOR: type = type(iter(Rows(None)))
ITERATORS = (LIST_ITERATOR, ARRAY_ITERATOR, enumerate, zip)
HOLDERS = (tuple, list, dict, CellType, FunctionType, *ITERATORS, Rows)
IS_OF_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE of a class: a `class` statement made it
NOT_SEARCHED = ("npcompile", "numpy", "cupy", "cupyx")


def is_holder(value: Any) -> bool:
    """Is it of HOLDERS, or an object with attributes?"""
    kind = type(value)
    if kind in HOLDERS:
        return True
    if not kind.__flags__ & IS_OF_PYTHON or isinstance(value, (type, np.ndarray)) or not hasattr(value, "__dict__"):
        return False
    return kind.__module__.partition(".")[0] not in NOT_SEARCHED


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
    elif kind in ITERATORS:  # of lists and arrays: what is at its end holds ()
        parts = holder.__reduce__()[1]
        yield from ((part, None) for part in (parts if kind is zip else parts[:1]) if type(part) is not tuple)
    else:
        yield vars(holder), None


def leaves(value: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """What is in a value and in the holders in it."""
    if not is_holder(value):
        yield value
        return
    seen = set() if seen is None else seen
    if id(value) not in seen and len(seen) < MOST_HOLDERS:
        seen.add(id(value))
        for item, _ in held(value):
            yield from leaves(item, seen)


def replaced(value: Any, others: dict[int, Any], seen: set[int] | None = None) -> Any:
    """The value with others in place of those with their ids. What can be changed is changed itself."""
    found = others.get(id(value))
    if found is not None:
        return found
    if not is_holder(value):
        return value
    seen = set() if seen is None else seen
    if id(value) in seen or len(seen) >= MOST_HOLDERS:
        return value
    seen.add(id(value))
    items, has_changed = [], False
    for item, put in held(value):
        made = replaced(item, others, seen)
        items.append(made)
        if made is not item:
            has_changed = True
            if put is not None:
                put(made)
    if type(value) is tuple and has_changed:
        return tuple(items)
    if has_changed and type(value) in ITERATORS:  # of a copy of what is on a device
        return iterator_like(value, items)
    return value


def iterator_like(iterator: Any, parts: list[Any]) -> Any:
    """The iterator with other parts, where it stands."""
    if type(iterator) is ARRAY_ITERATOR:
        return rows_from(parts[0], iterator.__reduce__()[2])  # type: ignore[arg-type]
    return zip(*parts) if type(iterator) is zip else enumerate(parts[0], iterator.__reduce__()[1][1])


def rows_from(array: Any, position: int) -> Iterator[Any]:
    """An iterator over an array of a device that has given `position` rows already."""
    iterator: Any = iter(Rows(array))
    iterator.__setstate__(position)
    return iterator
