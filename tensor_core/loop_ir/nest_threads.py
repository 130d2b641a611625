"""Loop nests of statements about arrays on threads, in a part of a program that is undone as a whole: nothing is kept for one."""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.tensor_core.loop_ir import cost
from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, pairs_apart
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import regions, replace_loops, walk
from npcompile.tensor_core.loop_ir.ops import (
    Call,
    Constant,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Poll,
    Program,
    Region,
    Size,
    Store,
    Threads,
    View,
    Yield,
)
from npcompile.tensor_core.loop_ir.parallelize import GRAIN, WORTH
from npcompile.tensor_core.loop_ir.report import Declined
from npcompile.tensor_core.loop_ir.types import INT

PLAIN = (Constant, Let, Size, Load, Store, View, Call, For, If, Yield)


@dataclass(slots=True)
class NestThreads:
    """`state`: where execution is left if a signal's handler raises meanwhile."""

    program: Program
    places: Ranges
    fresh: Fresh
    state: int

    def region(self, region: Region, known: set[int]) -> None:
        """`known`: the values that there are where the region begins."""
        replace_loops(region, known, self.nest, regions)

    def nest(self, op: For, known: set[int]) -> Region | None:
        inside = walk(op.body)
        has_stores = any(isinstance(each, Store) for each in inside)
        if op.args or not has_stores or not all(isinstance(each, PLAIN) for each in inside):
            return None
        try:
            pairs = pairs_apart(op, self.program, self.places, self.fresh)
        except Declined:
            return None
        program, made = self.program, Emitter(self.program, op.at)
        one = made.constant(1)
        each = made.let("add", cost.cost_of(made, op.body, known), one)
        count = made.let("span", op.start, op.stop)
        made.emit(Threads(threads := program.new(INT), op.at))
        is_worth = made.let("less_equal", made.constant(WORTH), cost.product(made, count, each))
        holds = [is_worth, made.let("less", one, threads), *(made.disjoint(*pair) for pair in pairs)]
        then = Emitter(program, op.at)
        self.on_threads(then, op, each, count)
        made.emit(If(made.all_of(holds), then.ops, [op, Yield([], op.at)], [], op.at))
        return made.ops

    def on_threads(self, made: Emitter, op: For, each: int, count: int) -> None:
        """Blocks of so many iterations as a thread takes at once."""
        program = self.program
        zero, one = made.constant(0), made.constant(1)
        size = made.let("add", made.let("floor_divide", made.constant(GRAIN), each), one)
        blocks = made.let("add", made.let("floor_divide", made.let("subtract", count, one), size), one)
        number, body = program.new(INT, "block"), Emitter(program, op.at)
        body.emit(Poll(self.state, op.at))
        low = body.let("add", op.start, body.let("multiply", number, size))
        rows: Op = Cloner(program, program).op(op)
        assert isinstance(rows, For), rows
        rows.start, rows.stop = low, body.let("least", body.let("add", low, size), op.stop)
        body.emit(rows)
        body.emit(Yield([], op.at))
        made.emit(For(LoopKind.PARALLEL, number, zero, blocks, [], [], body.ops, [], op.at))
        made.emit(Yield([], op.at))
