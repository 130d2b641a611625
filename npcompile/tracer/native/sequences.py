"""Tuples and lists of numbers in native programs that become arrays or rows of them, and arrays that are unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.tracer.native.arrays import filled
from npcompile.tracer.native.creation import DEFAULT_KINDS, dtype_of
from npcompile.tracer.native.types import Elements, Items, Listed, Scalar

MOST_NUMBERS = 64  # of an array, each of which is a statement in C


def common_kind(numbers: Sequence[Any]) -> str:
    """Of the array that NumPy makes of these."""
    if not all(isinstance(x, Scalar) for x in numbers) or not 1 <= len(numbers) <= MOST_NUMBERS:
        raise NoForm("an array of other than a few numbers")
    kind = reduce(np.promote_types, (np.dtype(DEFAULT_KINDS.get(x.kind, x.kind)) for x in numbers)).str[1:]
    if kind not in C_OF_KIND:
        raise NoForm(f"an array of {kind}")
    return kind


def array(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.array and np.asarray of a list or a tuple of numbers, or of such: a vector or a matrix."""
    if not arguments or not isinstance(arguments[0], Items | Listed):
        raise NoForm("np.array of other than a list or a tuple")
    rows = arguments[0].items
    is_nested = bool(rows) and all(isinstance(row, Items | Listed) for row in rows)
    if is_nested and len({len(row.items) for row in rows}) != 1:
        raise NoForm("lists of different lengths")
    numbers = [x for row in rows for x in row.items] if is_nested else rows
    kind = dtype_of("array", 1, arguments, keywords, common_kind(numbers))
    values = [code.stored(x.text, x.kind, kind, fail) for x in numbers]
    sizes = (str(len(rows)), str(len(values) // len(rows))) if is_nested else (str(len(values)),)
    made = filled(code, kind, sizes, None, fail)
    for k, value in enumerate(values):
        code.line(f"(({C_OF_KIND[kind]}*){made.data})[{k}] = {value};")
    return made


def store_row(code: ScalarLoops, owner: Elements, places: Sequence[str], numbers: Sequence[Any], fail: Fail) -> None:
    """Numbers into all elements of a row: through the array that NumPy makes of them, which must not show."""
    target = owner.input
    if target.ndim != len(places) + 1 or len(numbers) == 1:
        raise NoForm("a tuple that is stored in other than a row")
    common = common_kind(numbers)
    if target.kind not in (common, "f8"):
        raise NoForm(f"numbers of {common} that are stored as {target.kind}")
    code.leave_if(f"{target.name}_n{len(places)} != {len(numbers)}", fail)
    values = [code.stored(x.text, x.kind, target.kind, fail) for x in numbers]
    for k, value in enumerate(values):
        code.store(target, [*places, f"INT64_C({k})"], value, fail)
