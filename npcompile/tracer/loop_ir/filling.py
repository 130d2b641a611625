"""Arrays whose elements are all given by one statement, in programs that can be left: copies, ones, `x[:] = 0`.

Nothing is left in the loops that do so: what may fail is checked before, and Python's frame stands after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npcompile.tensor_core.loop_ir.ops import Store
from npcompile.tensor_core.loop_ir.types import Kind, Memref, kind_of_dtype
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Slice, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.element_loops import nested
from npcompile.tracer.loop_ir.elements import read
from npcompile.tracer.loop_ir.number_functions import Arguments, Function, require_count, value_of


def element_of(x: Abstract) -> Kind:
    """The kind of numbers of an array for which this dtype is asked."""
    named = x.named if isinstance(x, Known) else None
    if not isinstance(named, type | np.dtype | str):
        raise Unsupported("a dtype that is not a constant")
    try:
        kind = kind_of_dtype(np.dtype(named))
    except TypeError:
        kind = None
    if kind is None:
        raise Unsupported(f"the dtype {named}")
    return kind


def sizes_of(b: Builder, shape: Abstract) -> list[int]:
    """Those of an array of this shape, a number or a tuple of them."""
    items = shape.items if isinstance(shape, Tuple) else (shape,)
    return [numbers.to_index(b, value_of(each)) for each in items]


def with_dtype(args: Arguments, count: int, default: Kind) -> Kind:
    """The dtype that follows `count` arguments, if it does."""
    require_count(args, count, count + 1)
    return element_of(args[count]) if len(args) > count else default


def new_array(zeroed: bool) -> Function:
    """`np.zeros(shape, dtype)`, or `np.empty`."""

    def make(b: Builder, args: Arguments) -> Abstract:
        element = with_dtype(args, 1, Kind.F64)
        return indexing.empty(b, sizes_of(b, args[0]), zeroed, element)

    return make


def ones(b: Builder, args: Arguments) -> Abstract:
    """`np.ones(shape, dtype)`."""
    element = with_dtype(args, 1, Kind.F64)
    return filled(b, indexing.empty(b, sizes_of(b, args[0]), False, element).value, b.constant(1))


def full(b: Builder, args: Arguments) -> Abstract:
    """`np.full(shape, number, dtype)`."""
    require_count(args, 2, 3)
    number = value_of(args[1])
    element = with_dtype(args, 2, numbers.numpys_kind_of(b, number))
    number = numbers.stored(b, number, element)
    return filled(b, indexing.empty(b, sizes_of(b, args[0]), False, element).value, number)


def like(zeroed: bool) -> Function:
    """`np.zeros_like(x, dtype)`, or `np.empty_like`."""

    def make(b: Builder, args: Arguments) -> Abstract:
        require_count(args, 1, 2)
        kind = in_order(b, array := value_of(args[0]))
        return indexing.empty(b, shape_of(b, array), zeroed, with_dtype(args, 1, kind.element))

    return make


def ones_like(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 1, 2)
    kind = in_order(b, array := value_of(args[0]))
    element = with_dtype(args, 1, kind.element)
    return filled(b, indexing.empty(b, shape_of(b, array), False, element).value, b.constant(1))


def in_order(b: Builder, array: int) -> Memref:
    """An array whose axes are in C's order, and so are those of one like it."""
    kind = b.type(array)
    if not isinstance(kind, Memref) or not kind.contiguous and kind.rank > 1:
        raise Unsupported("an array like one that is not in C order")
    return kind


def shape_of(b: Builder, array: int) -> list[int]:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    return [indexing.size(b, array, axis) for axis in range(kind.rank)]


def copied(b: Builder, array: int) -> Value:
    """`x.copy()`: in C order."""
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    made = indexing.empty(b, shape_of(b, array), False, kind.element).value
    return each_stored(b, made, lambda index: read(b, array, index))


def filled(b: Builder, array: int, number: int) -> Value:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    stored = numbers.stored(b, number, kind.element)
    return each_stored(b, array, lambda index: stored)


def set_all(b: Builder, array: int, keys: Sequence[Abstract], number: int) -> None:
    """`array[keys] = number`, where a key is a slice."""
    kind = b.type(array)
    if not isinstance(kind, Memref) or not kind.writeable or len(keys) > kind.rank:
        raise Unsupported("a store into what may not be written")
    if not any(isinstance(key, Slice) for key in keys) and len(keys) == kind.rank:
        raise Unsupported("a store at an index that is not an integer")
    view = indexing.view(b, array, kind, indexing.all_axes(keys, kind))
    filled(b, view.value, number)


def each_stored(b: Builder, array: int, element: Callable[[list[int]], int]) -> Value:
    """Store `element(index)` at each index of an array."""
    b.flush()

    def body(index: list[int], handed: list[int]) -> Sequence[int]:
        b.emit(Store(array, index, element(index), b.at))
        return ()

    nested(b, shape_of(b, array), body)
    return Value(array)
