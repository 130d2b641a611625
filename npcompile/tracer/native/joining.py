"""Arrays side by side, and several times, in native programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, Read
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.tracer.native import sequences
from npcompile.tracer.native.arrays import as_index, is_array, known, memory, require_order, statements, tree_of, view
from npcompile.tracer.native.creation import MOST_COUNTED
from npcompile.tracer.native.reductions import axis_of
from npcompile.tracer.native.tables import positional
from npcompile.tracer.native.types import Items, Known, Listed, Scalar
from npcompile.tracer.native.views import EVERYTHING, ravel

MOST_JOINED = 32  # arrays, each of which is copied by a loop of its own


def parts_given(code: ScalarLoops, arrays: Any, fail: Fail) -> list[Part]:
    """The arrays of a tuple or a list. Numbers in it are arrays of no axes, which functions take differently."""
    if not isinstance(arrays, Items | Listed) or not 1 <= len(arrays.items) <= MOST_JOINED:
        raise NoForm("arrays that are in other than a tuple or a list")
    if not all(map(is_array, arrays.items)):
        raise NoForm("something else is joined to arrays")
    return [memory(code, x, fail) for x in arrays.items]


def joined(code: ScalarLoops, parts: Sequence[Part], axis: int, fail: Fail) -> Part:
    """np.concatenate of arrays of so many axes."""
    first, rank = parts[0], parts[0].ndim
    if any(p.ndim != rank for p in parts):
        raise NoForm("arrays of different numbers of axes")
    kind = reduce(np.promote_types, (p.dtype for p in parts)).str[1:]
    if kind not in C_OF_KIND:
        raise NoForm(f"an array of {kind}")
    for part in parts:
        require_order(Read(part), rank)
    for part in parts[1:]:
        for k in range(rank):
            if k != axis and part.sizes[k] != first.sizes[k]:
                code.leave_if(f"{part.sizes[k]} != {first.sizes[k]}", fail)
    length = sum_of(code, [p.sizes[axis] for p in parts])
    made = statements(code).fresh(np.dtype(kind), [*first.sizes[:axis], length, *first.sizes[axis + 1 :]])
    data = made.data
    for k, part in enumerate(parts):
        sizes = (*made.sizes[:axis], part.sizes[axis], *made.sizes[axis + 1 :])
        target = replace(made, data=data, sizes=sizes, is_whole=False, is_dense=axis == 0)
        statements(code).store(target, Read(part), fail, is_new=True)
        if k + 1 < len(parts):
            data = code.new("data", f"{data} + {part.sizes[axis]} * {made.strides[axis]}")
            if code.accesses is not None:
                code.accesses.view(data, made.data, None)
    return made


def sum_of(code: ScalarLoops, sizes: Sequence[str]) -> str:
    if all(known(n) is not None for n in sizes):
        return str(sum(map(int, sizes)))
    return sizes[0] if len(sizes) == 1 else code.new("int", " + ".join(sizes))


def given_axis(name: str, others: Sequence[Any], keywords: dict[str, Any], rank: int) -> int | None:
    if len(others) + len(keywords) > 1 or set(keywords) - {"axis"}:
        raise NoForm(f"np.{name} with these arguments")
    return axis_of(others[0] if others else keywords.get("axis", Scalar("int", "INT64_C(0)")), rank)


def concatenate(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    parts = parts_given(code, arguments[0] if arguments else None, fail)
    axis = given_axis("concatenate", arguments[1:], keywords, parts[0].ndim)
    if axis is None:
        return joined(code, [ravel(code, p, fail) for p in parts], 0, fail)
    return joined(code, parts, axis, fail)


def with_axis(code: ScalarLoops, part: Part, axis: int, fail: Fail) -> Part:
    """A new axis of one element."""
    items = [EVERYTHING] * part.ndim
    return view(code, part, Items((*items[:axis], Known(None), *items[axis:])), fail)


def stack(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.stack: of arrays of one shape, along a new axis."""
    parts = parts_given(code, arguments[0] if arguments else None, fail)
    axis = given_axis("stack", arguments[1:], keywords, parts[0].ndim + 1)
    if axis is None:
        raise NoForm("np.stack along no axis")
    if any(p.ndim != parts[0].ndim for p in parts):
        raise NoForm("arrays of different numbers of axes")
    return joined(code, [with_axis(code, p, axis, fail) for p in parts], axis, fail)


def in_rows(code: ScalarLoops, arrays: Any, fail: Fail) -> Part:
    """np.vstack: vectors are rows."""
    parts = parts_given(code, arrays, fail)
    return joined(code, [with_axis(code, p, 0, fail) if p.ndim == 1 else p for p in parts], 0, fail)


def in_columns(code: ScalarLoops, arrays: Any, fail: Fail) -> Part:
    """np.column_stack: vectors are columns."""
    parts = parts_given(code, arrays, fail)
    return joined(code, [with_axis(code, p, 1, fail) if p.ndim == 1 else p for p in parts], 1, fail)


def side_by_side(code: ScalarLoops, arrays: Any, fail: Fail) -> Part:
    """np.hstack."""
    parts = parts_given(code, arrays, fail)
    return joined(code, parts, int(parts[0].ndim > 1), fail)


def append(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.append of numbers, or of another array. Without an axis both are vectors then."""
    if len(arguments) < 2 or not is_array(arguments[0]):
        raise NoForm("np.append with these arguments")
    x, more, *others = arguments
    axis = given_axis("append", others, {"axis": Known(None)} | keywords if not others else keywords, len(tree_of(x)[1]))
    if isinstance(more, Scalar) and axis is not None:
        raise NoForm("a number is joined along an axis, which is an error")
    if isinstance(more, Scalar):
        more = Listed((more,))
    if isinstance(more, Items | Listed):
        more = sequences.array(code, [more], {}, fail)
    both = [memory(code, v, fail) for v in (x, more)]
    return joined(code, both if axis is not None else [ravel(code, v, fail) for v in both], axis or 0, fail)


def times(code: ScalarLoops, part: Part, count: Any, fail: Fail) -> str:
    """How many elements a vector has that is taken so many times."""
    if part.ndim != 1 or not isinstance(count, Scalar):
        raise NoForm("other than a vector is taken several times, or not a number of times")
    n = as_index(count)
    size = code.new("int", part.sizes[0])
    code.leave_if(f"{n} < 0 || {n} > {MOST_COUNTED} || {size} > {MOST_COUNTED}", fail)
    code.leave_if(f"(double){n} * (double){size} > {float(MOST_COUNTED)!r}", fail)
    return code.new("int", n)


def repeat(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.repeat of a vector: each element so many times."""
    x, *others = arguments
    count = others[0] if others else keywords.get("repeats")
    if len(others) + len(keywords) != 1 or set(keywords) - {"repeats"} or not is_array(x):
        raise NoForm("np.repeat with these arguments")
    part = memory(code, x, fail)
    n = times(code, part, count, fail)
    made = statements(code).fresh(part.dtype, [code.new("int", f"{part.sizes[0]} * {n}")])
    return in_two_axes(code, made, part, (part.sizes[0], n), (part.strides[0], "0"), fail)


def in_two_axes(code: ScalarLoops, made: Part, part: Part, sizes: tuple[str, str], strides: tuple[str, str], fail: Fail) -> Part:
    """Write a vector's elements to new memory, as a matrix in which they are several times."""
    item = str(part.dtype.itemsize)
    rows = replace(made, sizes=sizes, strides=(code.new("int", f"{sizes[1]} * {item}"), item))
    source = replace(part, sizes=sizes, strides=strides, is_whole=False, is_dense=False, is_ordered=False)
    statements(code).store(rows, Read(source), fail, is_new=True)
    return made


def tile(code: ScalarLoops, x: Any, count: Any, fail: Fail) -> Part:
    """np.tile of a vector: as NumPy's a view, of a matrix of rows."""
    if not is_array(x):
        raise NoForm("np.tile of other than an array")
    part = memory(code, x, fail)
    n = times(code, part, count, fail)
    (size,) = part.sizes
    code.leave_if(f"{n} == 1 || {size} == 0", fail)  # that is a copy
    made = statements(code).fresh(part.dtype, [n, size])
    in_two_axes(code, made, part, (n, size), ("0", part.strides[0]), fail)
    length = code.new("int", f"{n} * {size}")
    return replace(made, sizes=(length,), strides=(str(part.dtype.itemsize),), is_whole=False)


def array(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.array of numbers, of lists of these, or of arrays of one shape."""
    items = arguments[0].items if arguments and isinstance(arguments[0], Items | Listed) else ()
    if items and all(map(is_array, items)) and len(arguments) == 1 and not keywords:
        return stack(code, arguments, {}, fail)
    return sequences.array(code, arguments, keywords, fail)


JOINING: dict[Any, Callable[..., Any]] = {
    np.array: array,
    np.concatenate: concatenate,
    np.stack: stack,
    np.vstack: positional(in_rows, 1),
    np.hstack: positional(side_by_side, 1),
    np.column_stack: positional(in_columns, 1),
    np.append: append,
    np.repeat: repeat,
    np.tile: positional(tile, 2),
}
