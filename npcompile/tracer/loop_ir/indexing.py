"""Elements and views of arrays and lists: indices that may count from the end, slices, and what is outside."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.tensor_core.loop_ir.ops import Alloc, Load, Size, Store, View
from npcompile.tensor_core.loop_ir.types import INT, Kind, List, Memref, Scalar
from npcompile.tracer.loop_ir import numbers, tuples
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Raises, Record, Slice, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.numbers import to_index


def size(b: Builder, array: int, axis: int = 0) -> int:
    result = b.new(INT, "n")
    b.emit(Size(result, array, axis, b.at))
    if (known := b.size_hint(array, axis)) is not None:
        b.hints[result] = known
    return result


def shape(b: Builder, array: int) -> Tuple:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    return Tuple(tuple(Value(size(b, array, axis)) for axis in range(kind.rank)))


def count(b: Builder, array: int) -> int:
    """How many elements an array has: that fits in a word, as they are in memory, unless an axis is empty."""
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    total = size(b, array)
    for axis in range(1, kind.rank):
        other = size(b, array, axis)
        b.check_not(b.let("multiply_overflows", total, other))
        total = b.let("multiply", total, other)
    return total


def checked_index(b: Builder, index: int, length: int) -> int:
    """The index counted from the start. A Check sees to it that it is inside."""
    index = to_index(b, index)
    found = b.constants.get(index)
    if not (isinstance(found, int) and found >= 0):
        index = b.let("wrap_index", index, length)
    b.check(b.let("is_index", index, length))
    return index


def bound(b: Builder, x: Abstract | None, length: int, default: int) -> int:
    match x:
        case None:
            return default
        case Value(value):
            return b.let("clip_bound", to_index(b, value), length)
    raise Unsupported("a slice's bound that is not an integer")


def parts_of(key: Abstract) -> Sequence[Abstract]:
    return key.items if isinstance(key, Tuple) and not key.is_list else (key,)


def is_element(b: Builder, x: Abstract, parts: Sequence[Abstract]) -> bool:
    """Is `x[parts]` one element of an array?"""
    kind = b.type(x.value) if isinstance(x, Value) else None
    return isinstance(kind, Memref) and len(parts) == kind.rank and all(isinstance(part, Value) for part in parts)


def element(b: Builder, x: Abstract, key: Abstract) -> Abstract:
    """`x[key]`."""
    match x, key:
        case Tuple(items), Value(value) if isinstance(k := b.constants.get(value), int) and -len(items) <= k < len(items):
            return items[k]
        case Tuple(), Slice(start, stop, step):
            return tuples.part(x, known_bound(b, start), known_bound(b, stop), step)
        case Record(keys, items, has_attributes=False), Known(str() as name) if name in keys:
            return items[keys.index(name)]
        case Record(keys, items, has_attributes=False), Value(value) if (number := b.constants.get(value)) in keys:
            return items[keys.index(number)]  # type: ignore[arg-type]
        case Value(array), _ if isinstance(b.type(array), Memref):
            return of_array(b, array, parts_of(key))
        case Value(items), Value(index) if isinstance(kind := b.type(items), List):
            index = checked_index(b, index, size(b, items))
            result = b.new(Scalar(kind.element))
            b.emit(Load(result, items, [index], b.at))
            return Value(result)
    raise Unsupported("an index of this")


def known_bound(b: Builder, x: Abstract | None) -> int | None:
    """A bound of a slice of a tuple: a constant."""
    if x is None:
        return None
    found = b.constants.get(x.value) if isinstance(x, Value) else None
    if not isinstance(found, int):
        raise Unsupported("a slice of a tuple with bounds that are not constant")
    return found


def of_array(b: Builder, array: int, keys: Sequence[Abstract]) -> Value:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    if len(keys) > kind.rank:
        is_wrong = all(isinstance(key, Value | Slice) for key in keys)
        raise (Raises if is_wrong else Unsupported)("more indices than axes")
    keys = all_axes(keys, kind)
    if all(isinstance(key, Value) for key in keys):
        index = [checked_index(b, key.value, size(b, array, axis)) for axis, key in enumerate(keys) if isinstance(key, Value)]
        result = b.new(Scalar(kind.element))
        b.emit(Load(result, array, index, b.at))
        return Value(result)
    return view(b, array, kind, keys)


def all_axes(keys: Sequence[Abstract], kind: Memref) -> Sequence[Abstract]:
    return (*keys, *(Slice(None, None),) * (kind.rank - len(keys)))


def view(b: Builder, array: int, kind: Memref, keys: Sequence[Abstract], is_inside: bool = False) -> Value:
    """Part of an array. `is_inside`: the indices are known to be inside, and not to count from the end."""
    starts, kept, sizes = [], [], []
    for axis, key in enumerate(keys):
        length = size(b, array, axis)
        match key:
            case Value(index):
                starts.append(index if is_inside else checked_index(b, index, length))
                kept.append(False)
            case Slice(low, high, 1):
                start = bound(b, low, length, zero := b.constant(0))
                stop = bound(b, high, length, length)
                starts.append(start)
                sizes.append(stop if start == zero else b.let("span", start, stop))
                kept.append(True)
            case _:
                raise Unsupported("an index of an array that is neither an integer nor a slice")
    # A part of C order is in C order where only leading axes are cut.
    whole = all(isinstance(key, Slice) and key.start is key.stop is None for key in keys[1 + kept.index(True) :])
    made = part(b, array, kind, starts, kept, sizes, whole and all(kept[kept.index(True) :]))
    b.views[made.value] = array, keys
    return made


def part(
    b: Builder, array: int, kind: Memref, starts: list[int], kept: list[bool], sizes: list[int], in_order: bool = False
) -> Value:
    """The elements from `starts` on, so many along the kept axes. `in_order`: are they in C order where the array's are?"""
    result = b.new(Memref(kind.element, sum(kept), kind.contiguous and in_order, kind.writeable))
    b.emit(View(result, array, starts, kept, sizes, b.at))
    b.shapes[result] = tuple(b.hints.get(size) for size in sizes)
    return Value(result)


def store(b: Builder, x: Abstract, key: Abstract, value: int) -> None:
    """`x[key] = value`, for one element."""
    match x:
        case Value(array) if isinstance(kind := b.type(array), Memref):
            keys = [part.value for part in parts_of(key) if isinstance(part, Value)]
            if len(keys) != kind.rank or not kind.writeable:
                raise Unsupported("a store that is not into one element of an array that may be written")
            index = [checked_index(b, each, size(b, array, axis)) for axis, each in enumerate(keys)]
            b.effect(Store(array, index, numbers.stored(b, value, kind.element), b.at))
            return
    raise Unsupported("a store into this")


def empty(b: Builder, sizes: Sequence[int], zeroed: bool, element: Kind = Kind.F64) -> Value:
    """A new array, after a Check that no size is negative."""
    for each in sizes:
        b.check(b.let("greater_equal", each, b.constant(0)))
    result = b.new(Memref(element, len(sizes), contiguous=True, writeable=True, owned=not b.aborts))  # else two versions
    b.emit(Alloc(result, list(sizes), zeroed, at=b.at))
    b.shapes[result] = tuple(b.hints.get(size) for size in sizes)
    return Value(result)
