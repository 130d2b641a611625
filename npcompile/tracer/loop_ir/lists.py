"""Lists of numbers of one kind: how they are made, grow and are repeated."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.tensor_core.loop_ir.ops import Append, Load, NewList, Store
from npcompile.tensor_core.loop_ir.types import Kind, List, Scalar
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder
from npcompile.tracer.loop_ir.element_loops import nested
from npcompile.tracer.loop_ir.number_functions import value_of


class OtherElement(Unsupported):
    """Numbers of another kind are appended to a list than was thought when it was made."""

    def __init__(self, element: Kind):
        super().__init__("a list with numbers of several kinds")
        self.element = element


def new_list(b: Builder, element: Kind) -> Value:
    result = b.new(List(element))
    b.emit(NewList(result, b.at))
    return Value(result)


def append(b: Builder, items: int, value: int) -> None:
    kind = b.type(items)
    assert isinstance(kind, List), kind
    if b.type(value) != Scalar(kind.element):
        raise OtherElement(numbers.kind_of(b, value))
    b.effect(Append(items, value, b.at))


def push_list(b: Builder, items: Sequence[Abstract]) -> None:
    """`[x, y]` on the stack, where execution can be resumed."""
    values = [value_of(x) for x in items]
    kinds = {numbers.kind_of(b, value) for value in values}
    if len(kinds) > 1:
        raise Unsupported("a list with numbers of several kinds")
    b.flush()
    made = new_list(b, kinds.pop())
    for value in values:
        b.emit(Append(made.value, value, b.at))
    b.frame.stack.append(made)
    b.begin_point(b.frame.index + 1)


def set_item(b: Builder, items: int, key: Abstract, value: int) -> None:
    """`items[key] = value`."""
    kind = b.type(items)
    if not isinstance(kind, List) or b.type(value) != Scalar(kind.element):
        raise Unsupported("a list with numbers of several kinds")
    index = indexing.checked_index(b, value_of(key), indexing.size(b, items))
    b.effect(Store(items, [index], value, b.at))


def repeated(b: Builder, items: int, times: int) -> Abstract:
    """`items * times`: a new list."""
    kind = b.type(items)
    assert isinstance(kind, List), kind
    count = b.let("span", b.constant(0), numbers.to_index(b, times))
    b.flush()
    made = new_list(b, kind.element)

    def body(index: list[int], handed: list[int]) -> Sequence[int]:
        value = b.new(Scalar(kind.element))
        b.emit(Load(value, items, [index[1]], b.at))
        b.emit(Append(made.value, value, b.at))
        return ()

    nested(b, [count, indexing.size(b, items)], body)
    b.frame.stack[-1] = made
    b.begin_point(b.frame.index + 1)
    return made
