"""npc.fori_loop, while_loop and scan as Python's own loops, which programs that abort have written into them like user functions.

What these loops ask of a carry is asked here: of its types when the program is made, of the shapes of its arrays when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np

from npcompile import control
from npcompile.tensor_core.loop_ir.ops import Place
from npcompile.tensor_core.loop_ir.types import OPERANDS, Kind, Memref, Scalar, Type, dtype_of
from npcompile.tracer.loop_ir import indexing, iteration, numbers, statements
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Named, Record, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder, Frame
from npcompile.tracer.loop_ir.number_functions import Arguments, Function, only, require_count, value_of

NOTHING_YET: Final = Known("nothing yet")
WEAK: Final = (Kind.INT, Kind.FLOAT, Kind.COMPLEX)

# --- the loops. What they call are the functions of the table below


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    carry = first(init_val)
    for i in range(lower, upper):
        carry = following(carry, body_fun(i, carry))
    return carry


def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    carry = first(init_val)
    while one(cond_fun(carry)):
        carry = following(carry, body_fun(carry))
    return carry


def scan(f: Any, init: Any, xs: Any = None, length: Any = None, reverse: Any = False) -> Any:
    direction = direction_of(reverse)
    count, carry = count_of(xs, length), first(init)
    at = turned(0, count, direction)
    after, y = pair(f(carry, item(xs, at)))  # before the loop: it tells what is stacked
    carry, ys = following(carry, after), stacked("nothing yet", at, count, y)
    for k in range(1, count):
        at = turned(k, count, direction)
        after, y = pair(f(carry, item(xs, at)))
        carry, ys = following(carry, after), stacked(ys, at, count, y)
    return carry, ys


WRITTEN: Final[dict[object, FunctionType]] = {
    getattr(control, each.__name__): each for each in (fori_loop, while_loop, scan) if isinstance(each, FunctionType)
}
CODES: Final[frozenset[CodeType]] = frozenset(each.__code__ for each in WRITTEN.values())


def is_written(function: object) -> bool:
    return isinstance(function, FunctionType) and function in WRITTEN


def written_for(b: Builder, function: Abstract) -> Abstract:
    """The loop that is written where one of these functions is called."""
    if b.aborts and isinstance(function, Known) and is_written(function.named):
        return Known(WRITTEN[function.named])  # type: ignore[index]
    return function


def place_of(frame: Frame) -> Place:
    """The user's line: that of the call, in the loops that are written here."""
    while frame.function.__code__ in CODES and frame.caller is not None:
        frame = frame.caller
    return Place(frame.function.__code__.co_filename, frame.facts.instructions[frame.index].line)


# --- what a carry must be


def first_carry(b: Builder, args: Arguments) -> Abstract:
    """The first carry, in memory of its own."""
    x = only(args)
    match x:
        case Tuple(items, is_list, ()):
            return Tuple(tuple(first_carry(b, [item]) for item in items), is_list)
        case Value(value) if isinstance(b.type(value), Scalar):
            return x
        case Value(value) if b.aborts and isinstance(b.type(value), Memref):
            return statements.method(b, x, "copy", [], {})
    raise Unsupported("a carry of other than numbers, arrays and tuples of them")


def next_carry(b: Builder, args: Arguments) -> Abstract:
    """The next carry, which is like the one before: else the loop raises an error, elsewhere."""
    require_count(args, 2, 2)
    before, after = args
    match before, after:
        case Tuple(items, is_list, ()), Tuple(others, is_other, ()) if (len(items), is_list) == (len(others), is_other):
            return Tuple(tuple(next_carry(b, pair) for pair in zip(items, others)), is_list)
        case Value(x), Value(y) if are_alike(b.type(x), b.type(y)):
            return after
        case Value(x), Value(y) if isinstance(kind := b.type(x), Memref) and isinstance(other := b.type(y), Memref):
            if (kind.element, kind.rank) == (other.element, other.rank):
                for axis in range(kind.rank):
                    b.check(b.let("equal", indexing.size(b, x, axis), indexing.size(b, y, axis)))
                return after
    raise Unsupported("a carry that changes from one iteration to the next")


def are_alike(before: Type, after: Type) -> bool:
    """May a number be followed by another? Python's takes the dtype that NumPy's promotion has for both."""
    if before == after:
        return True
    if not isinstance(before, Scalar) or not isinstance(after, Scalar) or before.kind not in WEAK:
        return False
    return after.kind not in (*WEAK, Kind.BOOL) and np.result_type(dtype_of(after.kind), OPERANDS[before.kind]) == dtype_of(
        after.kind
    )


def condition(b: Builder, args: Arguments) -> Abstract:
    """A condition: one number."""
    x = only(args)
    if not isinstance(x, Value) or not isinstance(b.type(x.value), Scalar):
        raise Unsupported("a condition that is not one number")
    return x


# --- what a scan goes over, and what it gives


def number_of_elements(b: Builder, args: Arguments) -> Abstract:
    """How many iterations: at least one, as eager loops look at a function's results where there is none."""
    require_count(args, 2, 2)
    xs, length = args
    sizes = [indexing.size(b, array) for array in arrays_of(b, xs)]
    if length != Known(None):
        sizes.append(numbers.to_index(b, value_of(length)))
    if not sizes:
        raise Unsupported("a scan without arrays and length")
    for each in sizes[1:]:
        b.check(b.let("equal", sizes[0], each))
    b.check(b.let("less", b.constant(0), sizes[0]))
    return Value(sizes[0])


def arrays_of(b: Builder, xs: Abstract) -> Iterator[int]:
    match xs:
        case Known(None):
            return
        case Tuple(items) | Record(_, items):
            for each in items:
                yield from arrays_of(b, each)
        case Value(array) if isinstance(b.type(array), Memref):
            yield array
        case _:
            raise Unsupported("a scan over other than arrays")


def direction(b: Builder, args: Arguments) -> Abstract:
    """Known wherever the program is: None, or that the last element is the first."""
    is_reverse = b.constants.get(value_of(only(args)))
    if not isinstance(is_reverse, bool):
        raise Unsupported("a scan in a direction that is not constant")
    return Known("reverse" if is_reverse else None)


def element_number(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 3, 3)
    k, count = map(value_of, args[:2])
    return Value(b.let("subtract", b.let("subtract", count, b.constant(1)), k)) if args[2] == Known("reverse") else Value(k)


def elements(b: Builder, args: Arguments) -> Abstract:
    require_count(args, 2, 2)
    xs, at = args
    match xs:
        case Tuple(items, is_list, ()):
            return Tuple(tuple(elements(b, [each, at]) for each in items), is_list)
        case Record(keys, items, has_attributes):
            return Record(keys, tuple(elements(b, [each, at]) for each in items), has_attributes)
        case Value(array) if isinstance(b.type(array), Memref):
            return iteration.item_of(b, xs, numbers.to_index(b, value_of(at)))
        case Known(None):
            return xs
    raise Unsupported("a scan over other than arrays")


def carry_and_result(b: Builder, args: Arguments) -> Abstract:
    x = only(args)
    if not isinstance(x, Tuple) or x.is_list or len(x.items) != 2:
        raise Unsupported("a function of scan that returns no pair")
    return x


def with_result(b: Builder, args: Arguments) -> Abstract:
    """The stacked results with one more: they are made for the first."""
    require_count(args, 4, 4)
    ys, at, count, y = args
    is_first = ys == NOTHING_YET
    match y:
        case Known(None) if is_first or ys == y:
            return y
        case Tuple(items, is_list):
            before = ys.items if isinstance(ys, Tuple) and ys.is_list == is_list else (ys,) * len(items) if is_first else ()
            if len(before) != len(items):
                raise Unsupported("results of a scan that change")
            return Tuple(tuple(with_result(b, [old, at, count, new]) for old, new in zip(before, items)), is_list)
        case Value(value):
            of = b.type(value)
            kind = of.element if isinstance(of, Memref) else numbers.numpys_kind_of(b, value)
            sizes = [indexing.size(b, value, axis) for axis in range(of.rank)] if isinstance(of, Memref) else []
            made = indexing.empty(b, [value_of(count), *sizes], False, kind) if is_first else ys
            stack = b.type(made.value) if isinstance(made, Value) else None
            if (
                not isinstance(made, Value)
                or not isinstance(stack, Memref)
                or (stack.element, stack.rank) != (kind, 1 + len(sizes))
            ):
                raise Unsupported("results of a scan that change")
            for axis, size in enumerate(sizes, 1):
                b.check(b.let("equal", indexing.size(b, made.value, axis), size))
            if sizes:
                statements.set_item(b, made, at, y)
            else:
                indexing.store(b, made, at, value)
            return made
    raise Unsupported("results of a scan that are not numbers or arrays")


count_of: Any = number_of_elements
direction_of: Any = direction
turned: Any = element_number
item: Any = elements
pair: Any = carry_and_result
stacked: Any = with_result
first: Any = first_carry  # as the loops above call them
following: Any = next_carry
one: Any = condition
OWN: Final[dict[Named, Function]] = {
    each: each
    for each in (
        *(first_carry, next_carry, condition),
        *(number_of_elements, direction, element_number, elements, carry_and_result, with_result),
    )
}
