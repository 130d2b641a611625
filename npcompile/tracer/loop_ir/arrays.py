"""Statements about whole arrays, as loops over their elements. In programs that abort: where shapes differ, they are left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.ops import Branch, Call, Jump, Load, Store
from npcompile.tensor_core.loop_ir.types import F64, Kind, Memref, Scalar
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Slice, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Begun, Builder

# (builder, index, held) -> held: one iteration. What it reads and what it changes is among `held`.
Body: TypeAlias = Callable[[Builder, list[int], list[int]], list[int]]
Rule: TypeAlias = Callable[[Builder, list[int]], int]  # of numbers: the number that it gives


def is_array(b: Builder, x: Abstract) -> bool:
    return isinstance(x, Value) and isinstance(b.type(x.value), Memref)


def kind_of(b: Builder, array: int) -> Memref:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    return kind


def loops(b: Builder, sizes: Sequence[int], held: Sequence[int], body: Body, index: Sequence[int] = ()) -> list[int]:
    """Run `body` for all indices below `sizes`. What `held` is afterwards."""
    if not sizes:
        return body(b, list(index), list(held))
    first, count = len(held), len(held) + len(sizes) + len(index) + 1
    b.frame.stack += [Value(value) for value in (*held, *sizes, *index, b.constant(0))]
    b.flush()
    header = b.new_block(b.frame)
    b.emit(Jump(header.block.label, b.values(b.frame), b.at))
    enter(b, header)
    values = at_top(b, count)
    condition = b.let("less", values[-1], values[first])
    inside, after = b.new_block(b.frame), b.new_block(b.frame)
    b.emit(Branch(condition, inside.block.label, b.values(b.frame), after.block.label, b.values(b.frame), b.at))
    enter(b, inside)
    b.poll()
    values = at_top(b, count)
    behind = first + len(sizes)
    now = loops(b, values[first + 1 : behind], values[:first], body, values[behind:])
    *kept, k = at_top(b, count - first)
    b.frame.stack[-count:] = [Value(value) for value in (*now, *kept, b.let("add", k, b.constant(1)))]
    b.flush()
    b.emit(Jump(header.block.label, b.values(b.frame), b.at))
    enter(b, after)
    left = at_top(b, count)[:first]
    del b.frame.stack[-count:]
    return left


def enter(b: Builder, begun: Begun) -> None:
    b.block, b.frame, b.constants = begun.block, begun.frame, {}


def at_top(b: Builder, count: int) -> list[int]:
    """The values on top of the stack."""
    return [x.value for x in b.frame.stack[-count:] if isinstance(x, Value)]


def is_repeated(b: Builder) -> bool:
    """Is the instruction in a loop of the user's, or in a function that one calls?"""
    return any(f.index in loop_region(f.facts, header) for f in b.frame.chain() for header in f.facts.loop_headers)


def load(b: Builder, array: int, index: Sequence[int]) -> int:
    result = b.new(Scalar(kind_of(b, array).element))
    b.emit(Load(result, array, list(index), b.at))
    return result


def shape_of(b: Builder, array: int) -> list[int]:
    return [indexing.size(b, array, axis) for axis in range(kind_of(b, array).rank)]


def same_shape(b: Builder, array: int, sizes: Sequence[int]) -> None:
    for axis, size in enumerate(sizes):
        b.check(b.let("equal", indexing.size(b, array, axis), size))


def elementwise(b: Builder, rule: Rule, operands: Sequence[Abstract]) -> Value:
    """A new array of what `rule` gives for the elements of arrays of one shape; numbers are the same for all."""
    values = [x.value for x in operands if isinstance(x, Value)]
    arrays = [value for value in values if isinstance(b.type(value), Memref)]
    ranks = {kind_of(b, array).rank for array in arrays}
    if len(values) != len(operands) or len(ranks) > 1:
        raise Unsupported("an operation of arrays with several numbers of dimensions, or of other objects")
    if any(kind_of(b, array).element is not Kind.F64 for array in arrays):
        raise Unsupported("an operation of arrays that are not of float64")
    sizes = shape_of(b, arrays[0])
    for array in arrays[1:]:
        same_shape(b, array, sizes)
    made = indexing.empty(b, sizes, False)

    def body(b: Builder, index: list[int], held: list[int]) -> list[int]:
        into, *given = held
        found = rule(b, [load(b, value, index) if isinstance(b.type(value), Memref) else value for value in given])
        b.emit(Store(into, index, numbers.as_f64(b, found), b.at))
        return held

    b.has_arrays = b.has_arrays or is_repeated(b)
    result = loops(b, sizes, [made.value, *values], body)[0]
    b.fresh.add(result)
    return Value(result)


def binary(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    """`left symbol right`, where one is an array. In place for `+=` and its like."""
    name = symbol.removesuffix("=")
    is_inplace = name != symbol and is_array(b, left)
    b.frame.stack += [left] * is_inplace
    # The right side may be a part of what is written to: it is computed first.
    made = elementwise(b, lambda b, args: numbers.binary(b, name, *args), (left, right))
    return Value(assign(b, b.frame.stack.pop(), made)) if is_inplace else made


def assign(b: Builder, target: Abstract, source: Abstract) -> int:
    """Write a number, or an array that shares no memory with it, into all elements. The target afterwards."""
    assert isinstance(target, Value) and isinstance(source, Value)
    kind = kind_of(b, target.value)
    if not kind.writeable or kind.element is not Kind.F64:
        raise Unsupported("a store into an array that may not be written, or is not of float64")
    sizes = shape_of(b, target.value)
    if isinstance(b.type(source.value), Memref):
        if kind_of(b, source.value).rank != kind.rank or kind_of(b, source.value).element is not Kind.F64:
            raise Unsupported("a store of an array with another number of dimensions, or of other numbers")
        same_shape(b, source.value, sizes)

    def body(b: Builder, index: list[int], held: list[int]) -> list[int]:
        into, given = held
        found = load(b, given, index) if isinstance(b.type(given), Memref) else given
        b.emit(Store(into, index, numbers.as_f64(b, found), b.at))
        return held

    return loops(b, sizes, [target.value, source.value], body)[0]


def store(b: Builder, x: Abstract, parts: Sequence[Abstract], source: Abstract) -> None:
    """`x[parts] = source`, where that is more than one element."""
    assert isinstance(x, Value), x
    if len(parts) > kind_of(b, x.value).rank:
        raise Unsupported("more indices than axes")
    b.frame.stack.append(x)
    if is_array(b, source) and isinstance(source, Value) and source.value not in b.fresh:
        source = copy(b, source)  # it may be a part of the same array
    x = b.frame.stack.pop()
    assert isinstance(x, Value), x
    kind = kind_of(b, x.value)
    assign(b, indexing.view(b, x.value, kind, indexing.all_axes(parts, kind)), source)


def copy(b: Builder, x: Abstract) -> Value:
    return elementwise(b, lambda b, args: args[0], (x,))


def filled(b: Builder, sizes: Sequence[int], value: int) -> Value:
    return Value(assign(b, indexing.empty(b, sizes, False), Value(value)))


def total(b: Builder, x: Abstract) -> Value:
    """The sum of all elements."""
    assert isinstance(x, Value), x
    if kind_of(b, x.value).element is not Kind.F64:
        raise Unsupported("a sum of an array that is not of float64")

    def body(b: Builder, index: list[int], held: list[int]) -> list[int]:
        array, so_far = held
        return [array, b.let("add", so_far, load(b, array, index))]

    zero = b.let("to_f64", b.constant(0.0))
    return Value(loops(b, shape_of(b, x.value), [x.value, zero], body)[1])


def mean(b: Builder, x: Abstract) -> Value:
    """The sum of all elements, divided by how many there are."""
    b.frame.stack.append(x)
    made, x = total(b, x), b.frame.stack.pop()
    assert isinstance(x, Value), x
    count = b.constant(1)
    for size in shape_of(b, x.value):
        count = b.let("multiply", count, size)
    return Value(numbers.binary(b, "/", made.value, numbers.as_f64(b, count)))


def of_items(b: Builder, items: Sequence[Abstract]) -> Value:
    """np.array of a list of numbers."""
    values = [x.value for x in items if isinstance(x, Value) and isinstance(b.type(x.value), Scalar)]
    kinds = {numbers.kind_of(b, value) for value in values}
    if len(values) != len(items) or not kinds & set(numbers.FLOATING) or not kinds <= {*numbers.FLOATING, *numbers.INTEGERS}:
        raise Unsupported("np.array of something else than floating-point numbers")
    made = indexing.empty(b, [b.constant(len(values))], False)
    for k, value in enumerate(values):
        b.emit(Store(made.value, [b.constant(k)], numbers.as_f64(b, value), b.at))
    b.fresh.add(made.value)
    return made


def product(b: Builder, matrix: int, vector: int) -> Value:
    """A matrix times a vector: a dot product for each row."""
    b.has_products = True
    rows, columns = shape_of(b, matrix)
    b.check(b.let("equal", columns, indexing.size(b, vector)))
    made = indexing.empty(b, [rows], False)

    def body(b: Builder, index: list[int], held: list[int]) -> list[int]:
        into, a, x = held
        row = indexing.view(b, a, kind_of(b, a), [Value(index[0]), Slice(None, None)], is_inside=True)
        result = b.new(F64)
        b.emit(Call(result, "dot", [row.value, x], b.at))
        b.flagged = True
        b.emit(Store(into, index, result, b.at))
        return held

    return Value(loops(b, [rows], [made.value, matrix, vector], body)[0])
