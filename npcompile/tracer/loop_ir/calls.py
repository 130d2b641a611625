"""The functions and methods that a loop program may call, and the attributes that it may read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.loop_ir.ops import FP_ERRORS, Append, Call, NewList
from npcompile.tensor_core.loop_ir.rows import ROWS, Rule
from npcompile.tensor_core.loop_ir.states import ErrorState, Mode
from npcompile.tensor_core.loop_ir.types import F64, Kind, List, Memref, Scalar
from npcompile.tensor_core.op import OPS, Op
from npcompile.tensor_core.transforms.decompose import composition
from npcompile.tracer.loop_ir import indexing, numbers
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Method, Named, NewErrorState, Range, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder

Arguments: TypeAlias = Sequence[Abstract]
Function: TypeAlias = Callable[[Builder, Sequence[Abstract]], Abstract]
MODES = {"ignore": Mode.IGNORE}


class OtherElement(Unsupported):
    """Numbers of another kind are appended to a list than was thought when it was made."""

    def __init__(self, element: Kind):
        super().__init__("a list with numbers of several kinds")
        self.element = element


def value_of(x: Abstract) -> int:
    if not isinstance(x, Value):
        raise Unsupported(f"an argument that is a {type(x).__name__}")
    return x.value


def array_of(b: Builder, x: Abstract) -> tuple[int, Memref]:
    value = value_of(x)
    kind = b.type(value)
    if not isinstance(kind, Memref):
        raise Unsupported("an argument that is not an array")
    return value, kind


def make_range(b: Builder, args: Arguments) -> Abstract:
    values = [numbers.to_index(b, value_of(x)) for x in args]
    start, stop = (b.constant(0), values[0]) if len(values) == 1 else values[:2]
    step = b.constants.get(values[2]) if len(values) == 3 else 1
    if step == 1 and b.constants.get(start) == 0:
        return Range(start, 1, stop if known_size(b, stop) else b.let("span", start, stop))
    if step not in (1, -1):
        raise Unsupported("a range with another step than 1 or -1")
    low, high = (start, stop) if step == 1 else (stop, start)
    b.check_not(b.let("subtract_overflows", high, low))
    return Range(start, int(step.real), b.let("span", low, high))


def known_size(b: Builder, value: int) -> bool:
    """Is it not negative for certain: a constant?"""
    found = b.constants.get(value)
    return isinstance(found, int) and found >= 0


def length(b: Builder, args: Arguments) -> Abstract:
    (x,) = args
    if isinstance(x, Tuple):
        return Value(b.constant(len(x.items)))
    if not isinstance(b.type(value_of(x)), Memref | List):
        raise Unsupported("len of this")
    return Value(indexing.size(b, value_of(x)))


def empty_like(b: Builder, args: Arguments) -> Abstract:
    (x,) = args
    array, kind = array_of(b, x)
    if not kind.contiguous:
        raise Unsupported("an array like one that is not in C order")
    sizes = [indexing.size(b, array, axis) for axis in range(kind.rank)]
    return indexing.empty(b, sizes, False, kind.element)


def new_array(zeroed: bool) -> Function:
    def make(b: Builder, args: Arguments) -> Abstract:
        (size,) = args
        sizes = size.items if isinstance(size, Tuple) else (size,)
        return indexing.empty(b, [numbers.to_index(b, value_of(each)) for each in sizes], zeroed)

    return make


def of_number(rule: Callable[[Builder, int], int]) -> Function:
    def call(b: Builder, args: Arguments) -> Abstract:
        (x,) = args
        return Value(rule(b, value_of(x)))

    return call


FUNCTIONS: Final[dict[Named, Function]] = {
    range: make_range,
    len: length,
    abs: of_number(numbers.absolute),
    float: of_number(numbers.to_float),
    np.empty_like: empty_like,
    np.empty: new_array(False),
    np.zeros: new_array(True),
}


def of_row(op: Op) -> Function:
    """A function of float64 that the op table has, of numbers that are converted to these: its primitives one after another."""

    def call(b: Builder, args: Arguments) -> Abstract:
        values = [numbers.floating(b, value_of(x)) for x in args]
        values = [value if b.type(value) == F64 else b.let("to_f64", value) for value in values]
        graph = composition(op.name, (np.dtype(float),) * len(values))
        made = dict(zip(graph.inputs, values, strict=True))
        for node in graph.nodes[len(values) :]:
            made[node] = number_of(b, node, made)
        return Value(made[graph.outputs[0]])

    return call


def number_of(b: Builder, node: Node, made: Mapping[Node, int]) -> int:
    if node.op == "constant":
        return b.constant(float(node.params["value"]))
    if node.op not in ROWS:
        raise Unsupported(f"{node.op} of single numbers")
    return b.let(node.op, *(made[x] for x in node.inputs))


def add_row(op: Op) -> None:
    is_primitive = op.name in ROWS and ROWS[op.name].rule is Rule.FLOATING and isinstance(op.numpy, np.ufunc)
    if is_primitive or op.kind == "elementwise" and op.decomposition is not None:
        FUNCTIONS[op.numpy] = of_row(op)


OPS.for_each(add_row)


def call(b: Builder, function: Abstract, args: Arguments, names: tuple[str, ...] = ()) -> Abstract:
    """`function(*args)`, where the last arguments have `names`."""
    match function:
        case Known(named) if named is np.errstate:
            if len(names) == len(args):
                return NewErrorState(modes_of(args, names))
        case Known(named) if not names and (rule := FUNCTIONS.get(named)) is not None:
            return rule(b, args)
        case Method(receiver, "append") if isinstance(b.type(receiver.value), List) and len(args) == 1:
            append(b, receiver.value, value_of(args[0]))
            return Known(None)
    raise Unsupported(f"a call of {function}")


def modes_of(args: Arguments, names: tuple[str, ...]) -> ErrorState:
    given: dict[str, Mode] = {}
    for name, x in zip(names, args):
        mode = MODES.get(x.named) if isinstance(x, Known) and isinstance(x.named, str) else None
        if mode is None or name not in (*FP_ERRORS, "all"):
            raise Unsupported("an np.errstate that does more than ignore errors")
        given |= dict.fromkeys(FP_ERRORS, mode) if name == "all" else {name: mode}
    return ErrorState(**given)


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


def attribute(b: Builder, x: Abstract, name: str) -> Abstract:
    """`x.name`."""
    match x:
        case Known(module) if module is np:
            return Known(getattr(np, name))
        case Value(array) if isinstance(kind := b.type(array), Memref):
            match name:
                case "shape":
                    return indexing.shape(b, array)
                case "size":
                    return Value(indexing.count(b, array))
                case "ndim":
                    return Value(b.constant(kind.rank))
    raise Unsupported(f"the attribute {name}")


def matmul(b: Builder, left: Abstract, right: Abstract) -> Abstract:
    """`left @ right` of two vectors, after a Check that they are equally long."""
    (x, one), (y, other) = array_of(b, left), array_of(b, right)
    if (one.element, one.rank, other.element, other.rank) != (Kind.F64, 1, Kind.F64, 1):
        raise Unsupported("a product that is not of two vectors")
    b.check(b.let("equal", indexing.size(b, x), indexing.size(b, y)))
    result = b.new(F64)
    b.emit(Call(result, "dot", [x, y], b.at))
    b.flagged = True
    return Value(result)
