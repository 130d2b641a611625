"""Python's operators: of numbers, and in programs that abort of arrays, which are statements."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.types import List
from npcompile.tracer.loop_ir import calls, filling, indexing, lists, numbers, objects, statements
from npcompile.tracer.loop_ir.abstract import Abstract, Tuple, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.number_functions import value_of


def is_statement(b: Builder, *operands: Abstract) -> bool:
    return b.aborts and statements.is_about_arrays(b, *operands)


def item(b: Builder, x: Abstract, key: Abstract) -> Abstract:
    """`x[key]`."""
    if is_statement(b, x) and not isinstance(x, Tuple) and not statements.is_plain(b, x, key):
        return statements.item(b, x, key)
    return indexing.element(b, x, key)


def set_item(b: Builder, x: Abstract, key: Abstract, value: Abstract) -> None:
    """`x[key] = value`."""
    keys = indexing.parts_of(key)
    if is_statement(b, x) and not (statements.is_plain(b, x, key) and indexing.is_element(b, x, keys)):
        statements.set_item(b, x, key, value)
    elif isinstance(x, Value) and isinstance(b.type(x.value), List):
        lists.set_item(b, x.value, key, value_of(value))
    elif isinstance(x, Value) and not b.aborts and not indexing.is_element(b, x, keys):
        filling.set_all(b, x.value, keys, value_of(value))
        b.begin_point(b.frame.index + 1)
    else:
        indexing.store(b, x, key, value_of(value))


def binary(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    if symbol == "@":
        return calls.matmul(b, left, right)
    if is_statement(b, left, right):
        return statements.binary(b, symbol, left, right)
    if symbol == "*" and isinstance(left, Value) and isinstance(b.type(left.value), List) and not b.aborts:
        return lists.repeated(b, left.value, value_of(right))
    return Value(numbers.binary(b, symbol, value_of(left), value_of(right)))


def compare(b: Builder, symbol: str, left: Abstract, right: Abstract) -> Abstract:
    if (known := objects.compared(b, symbol, left, right)) is not None:
        return known
    if is_statement(b, left, right):
        return statements.compare(b, symbol, left, right)
    return Value(numbers.compare(b, symbol, value_of(left), value_of(right)))


def negative(b: Builder, x: Abstract) -> Abstract:
    return statements.unary(b, "-", x) if is_statement(b, x) else Value(numbers.negative(b, value_of(x)))


def inverted(b: Builder, x: Abstract) -> Abstract:
    return statements.unary(b, "~", x) if is_statement(b, x) else Value(numbers.inverted(b, value_of(x)))
