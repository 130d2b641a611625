"""Objects that generated programs make for values: iterators that have begun, functions, objects with attributes."""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Callable, Container
from functools import partial
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import array_kind
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.reachable_values import rows_from
from npcompile.tracer.values import Constant, Generator, Iterator, Sequence, SetValue


def fill_object(made: Any, attributes: dict[str, Any], hidden: Container[str] = ()) -> None:
    """Give a new object its attributes, whatever its class does when they are set. Descriptors would answer for `hidden` ones."""
    for name, value in attributes.items():
        if name in hidden:
            made.__dict__[name] = value
        else:
            object.__setattr__(made, name, value)


def ended(make: Callable[[], Any]) -> Any:
    """An iterator that has no items left."""
    made = make()
    for _ in made:
        pass
    return made


def maker_of_iterator(iterator: Iterator) -> Callable[[], Any]:
    """Makes an iterator of the same type that ends. It keeps nothing of the capture."""
    part: Any = iterator.parts[0] if iterator.parts else None
    go: Any = reversed if "reversed" in iterator.kind else iter
    match iterator.kind:
        case _ if isinstance(iterator, Generator):
            return lambda: (item for item in "")
        case "view" | "reversed view":
            return partial(go, getattr({}, part.kind)())
        case "sequence" if len(iterator.parts) > 1:
            return partial(iter, iterator.parts[1].value)
        case "sequence" | "reversed" if isinstance(part, Sequence):
            return partial(go, () if part.kind is tuple else [])
        case "set":
            return partial(iter, set() if isinstance(part, SetValue) else collections.deque())
        case "range":
            return partial(iter, range(0))
        case "lazy" if len(iterator.parts) == 1 and part.value is itertools.groupby:  # one of its groups
            return lambda: next(itertools.groupby((0,)))[1]
        case "lazy":
            kind = part.value if isinstance(part, Constant) else part.positional[0].value
            return partial(kind, *NO_ITEMS.get(kind, ((),)))
        case _:
            return partial(go, np.empty(0))


NO_ITEMS: dict[Any, tuple[Any, ...]] = {  # arguments with which there are none, where these are not (): such iterators end
    iter: (int, 0),
    itertools.repeat: (None, 0),
    np.ndindex: (0,),
    **dict.fromkeys((itertools.islice, itertools.permutations, itertools.combinations), ((), 1)),
    itertools.combinations_with_replacement: ((), 1),
    **dict.fromkeys((itertools.starmap, itertools.takewhile, itertools.dropwhile, itertools.filterfalse), (None, ())),
    itertools.compress: ((), ()),
}
if hasattr(itertools, "batched"):  # from Python 3.12 on
    NO_ITEMS[itertools.batched] = ((), 1)


def maker_of(items: set[Any]) -> tuple[Callable[[Any], set[Any]], Any] | None:
    """A function and its argument that make an equal set with the same order and table, if there are such ones.

    The order is that of the table, whose length the set's history has a part in.
    """
    makers: tuple[Callable[[Any], set[Any]], ...] = (set.copy, set)
    for make, given in zip(makers, (items.copy(), (*items,))):
        again = make(given)
        if [*again] == [*items] and again.__sizeof__() == items.__sizeof__():
            return make, given
    return None


def changed_set(items: set[Any], changes: tuple[tuple[str, tuple[Any, ...]], ...]) -> set[Any]:
    for method, given in changes:
        getattr(items, method)(*given)
    return items


def iterator_after(items: Any, count: int) -> Any:
    """An iterator over a dict, a view of one, or a set, that has given `count` items already."""
    iterator = iter(items)
    for _ in range(count):
        next(iterator)
    return iterator


def iterator_at(items: Any, position: int) -> Any:
    """An iterator over a list, tuple or array that has given `position` items already."""
    if array_kind(type(items)) is not None:
        return rows_from(items, position)
    iterator = iter(items)
    iterator.__setstate__(position)
    return iterator


def reversed_at(items: Any, index: int) -> Any:
    """A reversed iterator over a list or tuple whose next item is that at `index`."""
    iterator = reversed(items)
    iterator.__setstate__(index)
    return iterator


def make_function(
    code: types.CodeType,
    namespace: dict[str, Any],
    name: str,
    defaults: Any,
    closure: tuple[Any, ...],
    kwdefaults: Any,
    annotations: tuple[Any, ...] | types.FunctionType,
) -> types.FunctionType:
    function = types.FunctionType(code, namespace, name, defaults, closure or None)
    function.__kwdefaults__ = kwdefaults
    if isinstance(annotations, tuple):
        function.__annotations__ = dict(zip(annotations[::2], annotations[1::2]))
    else:
        function.__annotate__ = annotations  # type: ignore[attr-defined]
    return function


# --- iterators that a native program goes on with


def rest_of_range(iterator: Any) -> range:
    """What a range_iterator has still to give."""
    _, (span,), position = iterator.__reduce__()
    return span[position or 0 :]


def advance_range(iterator: Any, rest: range, following: int) -> Any:
    """The iterator, whose next item is `following`."""
    count = (following - rest.start) // rest.step
    _, _, position = iterator.__reduce__()
    iterator.__setstate__(count if RUNNING.counts_from_itself else (position or 0) + count)
    return iterator


def walked_array(iterator: Any) -> tuple[Any, int]:
    """The array that an iterator goes over, and its position; None when it is exhausted."""
    _, (array, *_), *state = iterator.__reduce__()
    return (array, state[0]) if state and type(array) is np.ndarray else (None, 0)


def advance_walk(iterator: Any, position: int) -> Any:
    iterator.__setstate__(position)
    return iterator
