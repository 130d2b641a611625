"""itertools and np.ndindex: iterators whose items are found while capturing, each when it is asked for."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from collections.abc import Iterator as AbstractIterator
from typing import Any

import numpy as np

from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import forward, operators
from npcompile.tracer.python.calls import BUILTINS, Arguments, Keywords
from npcompile.tracer.python.iteration import items_of, iterate, iterator_of, lazily, next_item
from npcompile.tracer.python.operators import plain
from npcompile.tracer.values import Constant, Iterator, Partial, Sequence

Items = AbstractIterator[Any]


def inside(capture: Capture, value: Any) -> Iterator:
    """An iterator whose items are known to the capture."""
    found = iterator_of(capture, capture.realize(value))
    if not isinstance(found, Iterator):
        raise Decline("itertools over an outside iterator")
    return found


def is_true(capture: Capture, value: Any) -> bool:
    said = operators.truth(capture, value)
    if not isinstance(said, Constant):
        raise Decline("itertools asks array data")
    return bool(said.value)


def ask(capture: Capture, function: Any, *arguments: Any) -> bool:
    return is_true(capture, forward.call_function(capture, function, [*arguments]))


# --- what each of them does. A row takes the capture and the arguments, and gives these as real ones would be made of them,
# and the function that finds the items.

Made = tuple[list[Any], Callable[[], Items]]


def combined(function: Any, capture: Capture, items: Any, *r: Any) -> Made:
    pool = iterate(capture, capture.realize(items))
    count = [plain(capture, n) for n in r]
    return [Sequence(tuple, pool), *map(Constant, count)], lambda: map(as_tuple, function(pool, *count))


def product(capture: Capture, *parts: Any, repeat: Any = None) -> Made:
    pools = [iterate(capture, capture.realize(p)) for p in parts] * (1 if repeat is None else plain(capture, repeat))
    return [Sequence(tuple, p) for p in pools], lambda: map(as_tuple, itertools.product(*pools))


def ndindex(capture: Capture, *shape: Any) -> Made:
    """The places of an array of this shape, which may be one tuple."""
    lengths = [plain(capture, n) for n in shape]
    given = np.ndindex(*lengths)
    return [*map(Constant, lengths)], lambda: (Sequence(tuple, [*map(Constant, place)]) for place in given)


def as_tuple(items: tuple[Any, ...]) -> Sequence:
    return Sequence(tuple, [*items])


def chain(capture: Capture, *parts: Any) -> Made:
    return [*parts], lambda: (item for part in parts for item in items_of(capture, inside(capture, part)))


def chain_from_iterable(capture: Capture, parts: Any) -> Made:
    outer = inside(capture, parts)
    return [outer], lambda: (item for part in items_of(capture, outer) for item in items_of(capture, inside(capture, part)))


def repeat(capture: Capture, item: Any, times: Any = None) -> Made:
    if times is None:
        return [item], lambda: itertools.repeat(item)
    count = operator.index(plain(capture, times))
    return [item, Constant(count)], lambda: itertools.repeat(item, count)


def count(capture: Capture, start: Any = None, step: Any = None) -> Made:
    first, each = (Constant(d) if v is None else capture.realize(v) for v, d in ((start, 0), (step, 1)))

    def items() -> Items:
        current = first
        while True:
            yield current
            current = operators.binary(capture, "+", current, each)

    return [first, each], items


def cycle(capture: Capture, items: Any) -> Made:
    source = inside(capture, items)
    return [source], lambda: itertools.cycle(items_of(capture, source))


def islice(capture: Capture, items: Any, *bounds: Any) -> Made:
    source, limits = inside(capture, items), [plain(capture, b) for b in bounds]
    return [source, *map(Constant, limits)], lambda: itertools.islice(items_of(capture, source), *limits)


def zip_longest(capture: Capture, *parts: Any, fillvalue: Any = None) -> Made:
    sources = [inside(capture, p) for p in parts]
    fill = Constant(None) if fillvalue is None else fillvalue
    return sources, lambda: map(as_tuple, itertools.zip_longest(*(items_of(capture, s) for s in sources), fillvalue=fill))


def accumulate(capture: Capture, items: Any, function: Any = None, *, initial: Any = None) -> Made:
    source = inside(capture, items)
    add = Constant(operator.add) if function is None or operators.is_none(capture.realize(function)) else function

    def found() -> Items:
        rest = items_of(capture, source)
        total = next(rest, None) if initial is None or operators.is_none(capture.realize(initial)) else initial
        while total is not None:
            yield total
            item = next(rest, None)
            total = None if item is None else forward.call_function(capture, add, [total, item])

    return [source, add], found


def pairwise(capture: Capture, items: Any) -> Made:
    source = inside(capture, items)
    return [source], lambda: map(as_tuple, itertools.pairwise(items_of(capture, source)))


def starmap(capture: Capture, function: Any, items: Any) -> Made:
    source = inside(capture, items)

    def found() -> Items:
        for each in items_of(capture, source):
            yield forward.call_function(capture, function, iterate(capture, capture.realize(each)))

    return [function, source], found


def takewhile(capture: Capture, function: Any, items: Any) -> Made:
    source = inside(capture, items)
    return [function, source], lambda: itertools.takewhile(functools.partial(ask, capture, function), items_of(capture, source))


def dropwhile(capture: Capture, function: Any, items: Any) -> Made:
    source = inside(capture, items)
    return [function, source], lambda: itertools.dropwhile(functools.partial(ask, capture, function), items_of(capture, source))


def filterfalse(capture: Capture, function: Any, items: Any) -> Made:
    source = inside(capture, items)
    is_plain = operators.is_none(capture.realize(function))
    said = functools.partial(is_true, capture) if is_plain else functools.partial(ask, capture, function)
    return [function, source], lambda: itertools.filterfalse(said, items_of(capture, source))


def compress(capture: Capture, data: Any, selectors: Any) -> Made:
    source, chosen = inside(capture, data), inside(capture, selectors)

    def found() -> Items:
        for item, flag in zip(items_of(capture, source), items_of(capture, chosen)):
            if is_true(capture, flag):
                yield item

    return [source, chosen], found


def batched(capture: Capture, items: Any, n: Any) -> Made:
    source, size = inside(capture, items), operator.index(plain(capture, n))

    def found() -> Items:
        while batch := list(itertools.islice(items_of(capture, source), size)):
            yield Sequence(tuple, batch)

    return [source, Constant(size)], found


def groupby(capture: Capture, items: Any, key: Any = None) -> Made:
    """As CPython does it: a group takes items until the key is another one, while no other group was asked for."""
    source = inside(capture, items)
    is_plain = key is None or operators.is_none(capture.realize(key))
    current: list[Any] = []  # the item and its key
    asked: list[Iterator] = []  # the group that was asked for last

    def step() -> bool:
        item = next_item(capture, source)
        if item is not None:
            current[:] = item, item if is_plain else forward.call_function(capture, key, [item])
        return item is not None

    def is_of(wanted: Any) -> bool:
        return operators.contains(capture, Sequence(tuple, [wanted]), capture.realize(current[1]))

    def group_of(wanted: Any) -> Iterator:
        def found() -> Items:
            while asked[-1] is group and (current[0] is not None or step()) and is_of(wanted):
                item, current[0] = current[0], None
                yield item

        group = lazily(capture, Constant(itertools.groupby), [], found)
        group.position = 1  # no other one can be made in its place
        return group

    def groups() -> Items:
        wanted = None
        while True:
            asked.append(Iterator("sequence", []))
            while not current or (wanted is not None and is_of(wanted)):
                if not step():
                    return
            wanted = current[1]
            asked.append(group_of(wanted))
            yield Sequence(tuple, [wanted, asked[-1]])

    return [source, *([] if key is None else [key])], groups


ROWS: dict[Any, Callable[..., Made]] = {
    itertools.product: product,
    itertools.combinations: functools.partial(combined, itertools.combinations),
    itertools.combinations_with_replacement: functools.partial(combined, itertools.combinations_with_replacement),
    itertools.permutations: functools.partial(combined, itertools.permutations),
    itertools.chain: chain,
    itertools.repeat: repeat,
    itertools.count: count,
    itertools.cycle: cycle,
    itertools.islice: islice,
    itertools.zip_longest: zip_longest,
    itertools.accumulate: accumulate,
    itertools.pairwise: pairwise,
    itertools.starmap: starmap,
    itertools.takewhile: takewhile,
    itertools.dropwhile: dropwhile,
    itertools.filterfalse: filterfalse,
    itertools.compress: compress,
    itertools.groupby: groupby,
    np.ndindex: ndindex,
}
if hasattr(itertools, "batched"):  # from Python 3.12 on
    ROWS[itertools.batched] = batched


def call_iterator(kind: Any, row: Callable[..., Made], frame: Frame, positional: Arguments, keywords: Keywords) -> Iterator:
    try:
        arguments, items = row(frame.capture, *positional, **keywords)
    except (TypeError, ValueError) as error:  # arguments that it does not take: Python raises its own
        raise Decline(f"{kind.__qualname__}: {error}") from None
    kept = {k: v for k, v in keywords.items() if k != "repeat"}  # of product(), whose arguments are repeated above
    function = Partial(functools.partial, [Constant(kind)], kept) if kept else Constant(kind)
    return lazily(frame.capture, function, arguments, items)


BUILTINS |= {kind: functools.partial(call_iterator, kind, row) for kind, row in ROWS.items()}


def call_chain(frame: Frame, positional: Arguments, keywords: Keywords) -> Iterator:
    arguments, items = chain_from_iterable(frame.capture, *positional)
    return lazily(frame.capture, Constant(itertools.chain.from_iterable), arguments, items)


FROM_ITERABLE = itertools.chain.from_iterable
BUILTINS[FROM_ITERABLE] = call_chain
