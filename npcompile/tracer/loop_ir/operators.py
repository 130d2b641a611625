"""Python's operators: of numbers, and in programs that abort of arrays, which are statements."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.types import List, Scalar
from npcompile.tracer.loop_ir import calls, filling, indexing, lists, numbers, objects, statements, tuples
from npcompile.tracer.loop_ir.abstract import Abstract, Tuple, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.number_functions import value_of


def is_statement(b: Builder, *operands: Abstract) -> bool:
    return statements.is_about_arrays(b, *operands)


def is_number(b: Builder, x: Value) -> bool:
    return isinstance(b.type(x.value), Scalar)


def item(b: Builder, x: Abstract, key: Abstract) -> Abstract:
    """`x[key]`."""
    if is_statement(b, x) and not isinstance(x, Tuple) and not statements.is_plain(b, x, key):
        return statements.item(b, x, key)
    return indexing.element(b, x, key)


def set_item(b: Builder, x: Abstract, key: Abstract, value: Abstract) -> None:
    """`x[key] = value`."""
    keys = indexing.parts_of(key)
    if statements.is_own_view(b, x, keys, value):
        b.flush()
        b.begin_point(b.frame.index + 1)
        return  # what `x[1:] += y` ends with
    is_element = indexing.is_element(b, x, keys)
    if isinstance(x, Value) and isinstance(b.type(x.value), List):
        lists.set_item(b, x.value, key, value_of(value))
    elif not b.aborts and not is_element and isinstance(x, Value) and isinstance(value, Value) and is_number(b, value):
        filling.set_all(b, x.value, keys, value.value)
        b.begin_point(b.frame.index + 1)
    elif is_statement(b, x) and not (statements.is_plain(b, x, key) and is_element):
        statements.set_item(b, x, key, value)
    else:
        indexing.store(b, x, key, value_of(value))


def binary(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    if symbol == "@":
        return calls.matmul(b, left, right)
    if isinstance(left, Tuple) and isinstance(right, Tuple):
        return tuples.joined(symbol, left, right)
    if is_statement(b, left, right):
        return statements.binary(b, symbol, left, right)
    if symbol == "*" and isinstance(left, Value) and isinstance(b.type(left.value), List) and not b.aborts:
        return lists.repeated(b, left.value, value_of(right))
    return Value(numbers.binary(b, symbol, value_of(left), value_of(right)))


def compare(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    if (known := objects.compared(b, symbol, left, right)) is not None:
        return known
    if isinstance(left, Tuple) and isinstance(right, Tuple):
        return Value(b.constant(tuples.compared(symbol, left, right)))
    if is_statement(b, left, right):
        return statements.compare(b, symbol, left, right)
    return Value(numbers.compare(b, symbol, value_of(left), value_of(right)))


def negative(b: Builder, x: Abstract) -> Abstract:
    return statements.unary(b, "-", x) if is_statement(b, x) else Value(numbers.negative(b, value_of(x)))


def inverted(b: Builder, x: Abstract) -> Abstract:
    return statements.unary(b, "~", x) if is_statement(b, x) else Value(numbers.inverted(b, value_of(x)))
