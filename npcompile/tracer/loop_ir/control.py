"""npc.fori_loop, while_loop and scan as Python's own loops, which programs that abort have written into them like user functions.

What these loops ask of a carry is asked here: of its types when the program is made, of the shapes of its arrays when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np

from npcompile import control
from npcompile.tensor_core.loop_ir.ops import Place
from npcompile.tensor_core.loop_ir.types import OPERANDS, Kind, Memref, Scalar, Type, dtype_of
from npcompile.tracer.loop_ir import indexing, statements
from npcompile.tracer.loop_ir.abstract import Abstract, Known, Named, Tuple, Unsupported, Value
from npcompile.tracer.loop_ir.builder import Builder, Frame
from npcompile.tracer.loop_ir.number_functions import Arguments, Function, only, require_count

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


WRITTEN: Final[dict[Callable[..., Any], FunctionType]] = {control.fori_loop: fori_loop, control.while_loop: while_loop}  # type: ignore[dict-item]
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
        case Tuple(items, is_list):
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
        case Tuple(items, is_list), Tuple(others, is_other) if (len(items), is_list) == (len(others), is_other):
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


first: Any = first_carry  # as the loops above call them
following: Any = next_carry
one: Any = condition
OWN: Final[dict[Named, Function]] = {each: each for each in (first_carry, next_carry, condition)}
