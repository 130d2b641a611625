"""Reverse mode: from a structured program, one that also computes gradients. Loop IR in, loop IR out.

The program runs forward and appends to tapes what an iteration cannot compute again: numbers that were read from memory that
is written, results of loops and conditions, carried values. Then every region runs backward, with loops in reverse. Tapes are
lists of one type, read at explicit positions, so taping and reading are ordinary ops.

The derivative of an array is in its shadow: on entry the gradient of what the array ends with, on return of what it began with.
As in Tapenade (Hascoet and Pascual, 2013) and Enzyme (Moses and Churavy, 2020).
"""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.backward import Backward
from npcompile.tensor_core.loop_ir.clone import renumber
from npcompile.tensor_core.loop_ir.ops import (
    Constant,
    For,
    Let,
    Load,
    LoopKind,
    NewList,
    Param,
    Program,
    Region,
    Return,
    Size,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.shadows import NoDerivative, has_shadow, mirror
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.tapes import TAPES, Taping, is_number
from npcompile.tensor_core.loop_ir.types import F64, INT, List, Memref


def adjoint(source: Program) -> Program:
    """The program of the gradients. Its params are those of `source`, then a shadow for each array of f64 among them, then the
    gradient of the result, if that is a number or an array. It returns a tuple: a gradient for each param that is a floating
    number. Raises NoDerivative.
    """
    made = reversed_program(Taping(mirror(source)))
    drop_unused(made, made.body)
    renumber(made)
    return made


def reversed_program(taping: Taping) -> Program:
    """The program, then its regions backward."""
    program, body = taping.program, taping.program.body
    end = body.pop()
    if not isinstance(end, Return):
        raise NoDerivative("a function with several ends")
    starts: Region = []
    for kind in TAPES:
        taping.tapes[kind] = program.new(List(kind), "tape")
        starts.append(NewList(taping.tapes[kind]))
    taping.note_homes(body, [param.value for param in program.params])
    taping.note_writes()
    top = Backward(taping, body, None)
    for kind, tape in taping.tapes.items():
        top.position[kind] = top.define(INT)
        top.ops.append(Size(top.position[kind], tape, 0))
    numbers = [param.value for param in program.params if is_number(program, param.value)]
    seed(taping, top, end.value)
    top.run()
    gradients = [top.bars.get(value) or top.constant(0.0) for value in numbers]
    for region, values in taping.pushes:
        taping.push(region, values)
    for region, call, vectors in taping.vectors:
        taping.push_vectors(region, call, vectors)
    program.body = [*starts, *body, *top.finished(), Return(TupleOf(tuple(map(Use, gradients))))]
    return program


def seed(taping: Taping, top: Backward, result: Recipe) -> None:
    """Take the gradient of the result as one more argument."""
    match result:
        case Fixed():
            return
        case Use(value) | Tagged(_, value) if is_number(taping.program, value):
            given = taping.program.new(F64, "d_result")
            taping.program.params.append(Param(given, None))
            top.add(value, given)
        case Use(value) if has_shadow(taping.program, value):
            kind = taping.program.types[value]
            assert isinstance(kind, Memref), kind
            given = taping.program.new(Memref(kind.element, kind.rank, writeable=True), "d_result")
            taping.program.params.append(Param(given, None))
            add_elements(top, taping.mirrored.shadow[value], given, kind.rank)
        case Use(value) if not isinstance(taping.program.types[value], Memref):
            return  # an integer
        case _:
            raise NoDerivative("a result that is neither a number nor an array")

    # --- taping


def add_elements(b: Backward, into: int, given: int, rank: int) -> None:
    """`into += given`, element by element."""

    def nest(axis: int, index: list[int]) -> Region:
        if axis == rank:
            one, other, total = (b.define(F64) for _ in range(3))
            added = Let(total, "add", [one, other])
            return [Load(one, into, index), Load(other, given, index), added, Store(into, index, total)]
        size, zero, k = (b.define(INT) for _ in range(3))
        inside = nest(axis + 1, [*index, k])
        return [Size(size, into, axis), Constant(zero, 0), For(LoopKind.SERIAL, k, zero, size, [], [], [*inside, Yield([])], [])]

    b.ops += nest(0, [])
