"""Reverse mode: from a structured program, one that also computes gradients. Loop IR in, loop IR out.

The program runs forward and appends to tapes what an iteration cannot compute again: numbers that were read from memory that
is written, results of loops and conditions, carried values. Then every region runs backward, with loops in reverse. Tapes are
lists of one type, read at explicit positions, so taping and reading are ordinary ops.

The derivative of an array is in its shadow: on entry the gradient of what the array ends with, on return of what it began with.
As in Tapenade (Hascoet and Pascual, 2013) and Enzyme (Moses and Churavy, 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.backward import Backward
from npcompile.tensor_core.loop_ir.clone import renumber
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
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
from npcompile.tensor_core.loop_ir.shadows import mirror
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, Tagged, TupleOf, Use
from npcompile.tensor_core.loop_ir.tapes import TAPES, Taping
from npcompile.tensor_core.loop_ir.types import F32, F64, FLOAT, FLOATING, INT, Kind, List, Memref, Scalar, Type

Seed: TypeAlias = Callable[[Backward, Recipe], None]  # what the gradient of the result is
Results: TypeAlias = Callable[[Recipe, list[Use]], Sequence[Recipe]]  # of the result and the gradients of numbers


def adjoint(source: Program, wanted: Sequence[bool] | None = None) -> Program:
    """The program of the gradients with respect to some params of `source`, or all: it runs that, and then backward.

    Its params are those of `source`, then a shadow for each wanted array of f64, then the gradient of the result, if that is a
    number or an array. It returns a tuple: a gradient for each wanted param that is a floating number. Raises NoDerivative.
    """
    taping = Taping(mirror(source, floating(source, wanted)))
    given = Given(taping)
    return reversed_program(taping, given.seed, lambda result, gradients: gradients)


def gradient(source: Program, order: Sequence[int], has_aux: bool = False) -> Program:
    """The program of a function that gives one floating number, and of its gradients.

    Its params are those of `source`, then a shadow for each array of f64 among the params of the numbers `order`, which gets the
    gradient added. It returns a tuple: the number, then a gradient for each of `order`, of arrays the shadow. With `has_aux` the
    function gives a pair, whose first is the number, and the program the same in the number's place. Raises NoDerivative.
    """
    mirrored = mirror(source, floating(source, [k in order for k in range(len(source.params))]))
    params = [param.value for param in mirrored.program.params[: len(source.params)]]
    numbers = [value for value in params if mirrored.wanted[value] and isinstance(mirrored.program.types[value], Scalar)]

    def results(result: Recipe, gradients: list[Use]) -> list[Recipe]:
        of_number = dict(zip(numbers, gradients, strict=True))
        return [result, *(of_number.get(params[k]) or Use(mirrored.shadow[params[k]]) for k in order)]

    return reversed_program(Taping(mirrored), of_first if has_aux else of_one_number, results)


def floating(source: Program, wanted: Sequence[bool] | None) -> list[bool]:
    """Which params have a gradient that is asked for."""
    asked = wanted or [True] * len(source.params)
    return [is_asked and is_floating(source.types[param.value]) for is_asked, param in zip(asked, source.params, strict=True)]


def is_floating(kind: Type) -> bool:
    return isinstance(kind, Scalar | Memref) and (kind.kind if isinstance(kind, Scalar) else kind.element) in FLOATING


def reversed_program(taping: Taping, seed: Seed, results: Results) -> Program:
    """The program, then its regions backward."""
    program, body = taping.program, taping.program.body
    end = body.pop()
    assert isinstance(end, Return), end
    starts: Region = []
    for kind in TAPES:
        taping.tapes[kind] = program.new(List(kind), "tape")
        starts.append(NewList(taping.tapes[kind]))
    taping.note_homes(body, [param.value for param in program.params])
    top = Backward(taping, body, None)
    for kind, tape in taping.tapes.items():
        top.position[kind] = top.define(INT)
        top.ops.append(Size(top.position[kind], tape, 0))
    numbers = [param.value for param in program.params if taping.is_wanted(param.value)]
    seed(top, end.value)
    top.run()
    gradients = [top.bars.get(value) or top.constant(0.0) for value in numbers]
    backward = [*top.finished(), Return(TupleOf(tuple(results(end.value, list(map(Use, gradients))))))]
    drop_unused(program, backward, is_reported=False)
    for region, values in taping.pushes:
        taping.push(region, values)
    for region, call, vectors in taping.vectors:
        taping.push_vectors(region, call, vectors)
    program.body = [*starts, *body, *backward]
    drop_unused(program, program.body)
    renumber(program)
    return program


def of_one_number(top: Backward, result: Recipe) -> None:
    """The result is the loss itself."""
    match result:
        case Fixed(float()):
            return
        case Use(value) | Tagged(_, value) if top.type_of(value) in (F32, F64, FLOAT):
            top.add(value, top.constant(1.0))
        case _:
            raise NoDerivative("a result that is not one floating-point number")


def of_first(top: Backward, result: Recipe) -> None:
    """The result is a pair, of which the first is the loss."""
    if not isinstance(result, TupleOf) or len(result.items) != 2:
        raise NoDerivative("a result that is not a pair of a number and something else")
    of_one_number(top, result.items[0])


@dataclass(slots=True)
class Given:
    """The gradient of the result is one more argument."""

    taping: Taping

    def seed(self, top: Backward, result: Recipe) -> None:
        program = self.taping.program
        match result:
            case Fixed():
                return
            case Use(value) | Tagged(_, value) if program.types[value] in (F32, F64, FLOAT):
                given = program.new(F64, "d_result")
                program.params.append(Param(given, None))
                top.add(value, given)
            case Use(value) if self.taping.activity.has_shadow(value):
                kind = program.types[value]
                assert isinstance(kind, Memref), kind
                given = program.new(Memref(Kind.F64, kind.rank, writeable=True), "d_result")
                program.params.append(Param(given, None))
                add_elements(top, self.taping.mirrored.shadow[value], given, kind.rank)
            case Use(value) if not isinstance(program.types[value], Memref):
                return  # an integer
            case _:
                raise NoDerivative("a result that is neither a number nor an array")


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
