"""Which kinds the values of a call are of: what is learned of one kind says nothing of others."""

from __future__ import annotations

from collections.abc import Iterable
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
    """The types of values; of arrays the dtypes and numbers of dimensions."""
    return tuple((v.dtype, v.ndim) if isinstance(v, np.ndarray) else type(v) for v in values)
