"""Which kinds the values of a call are of: what is learned of one kind says nothing of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from numbers import Number
from types import NoneType
from typing import Any

import numpy as np

from npcompile.tensor_core.dtypes import is_number
from npcompile.tracer.plain_loops import MOST_ITEMS, attributes_of, is_builtin


def are_usual(values: Iterable[Any], depth: int = 2) -> bool:
    """Are all arrays among them, and among their items and attributes, NumPy's own, of numbers?"""
    return all(is_usual(value, depth) for value in values)


def is_usual(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        return is_number(value.dtype) and value.flags.aligned
    if isinstance(value, np.ndarray) or (hasattr(kind, "__array__") and not isinstance(value, np.generic)):
        return False
    if not depth or isinstance(value, type):
        return True
    if kind in (list, tuple):
        return are_usual(value[:MOST_ITEMS], depth - 1)
    return is_builtin(value) or are_usual(attributes_of(value), depth - 1)


def kinds_of(values: Iterable[Any]) -> tuple[Any, ...]:
    """The types of values; of arrays also the dtypes, the numbers of dimensions, and whether they are aligned."""
    return tuple((type(v), v.dtype, v.ndim, v.flags.aligned) if isinstance(v, np.ndarray) else type(v) for v in values)


MOST_REFUSALS = 2  # for values of the same kinds: then a loop runs as a compiled body from the start
MOST_REFUSED = 8  # kinds of values


class Refusals:
    """How often what begins at an instruction was no native program, by kinds of values: of others it may be one."""

    def __init__(self) -> None:
        self.counts: dict[int, Counter[frozenset[Any]]] = {}

    def add(self, index: int, values: Iterable[Any], count: int = 1) -> None:
        self.counts.setdefault(index, Counter())[self.kinds(values)] += count

    def are_enough(self, index: int, values: Iterable[Any]) -> bool:
        """Is it asked no more? `values` may be those of a place before, where there are fewer."""
        if (found := self.counts.get(index)) is None:
            return False
        kinds = self.kinds(values)
        return len(found) >= MOST_REFUSED or any(n >= MOST_REFUSALS and kinds <= refused for refused, n in found.copy().items())

    def kinds(self, values: Iterable[Any]) -> frozenset[Any]:
        """Without numbers and places in iterations."""
        return frozenset(kinds_of(v for v in values if not isinstance(v, (Number, Iterator, NoneType))))
