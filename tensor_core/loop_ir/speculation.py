"""The pass that looks at floating-point flags, and for signals, once for a block of iterations.

Where a loop stores to what Python can see, its flags are looked at before each store, so that a warning finds memory as Python
would have it. Here the block's old numbers are kept aside first, the block runs without a look, and where a flag is set after
all, they are put back and the block runs again, by the loop as it was. This needs stores whose places are known before the block
runs: at indices that are made of the loop's index and of numbers from outside, once in each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.exactness import COMPUTES, write_only
from npcompile.tensor_core.loop_ir.forms import inner, regions, results, uses, walk
from npcompile.tensor_core.loop_ir.fp_status import strip
from npcompile.tensor_core.loop_ir.ops import (
    Constant,
    For,
    FpCheck,
    FrameState,
    Let,
    Load,
    LoopKind,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Scratch,
    Size,
    Speculate,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.types import F64, Kind, Memref

BLOCK = 512  # iterations; their old numbers stay in the nearest cache
SCRATCH = Memref(Kind.F64, 1, True, True, True)


def speculate(program: Program) -> Report:
    """Make blocks of iterations, in place."""
    pass_ = Speculation(program, write_only(program))
    if program.policy is Policy.ABORT:  # it looks at no flags
        return pass_.report
    pass_.region(program.body)
    program.body[:0] = pass_.scratch
    return pass_.report


@dataclass(slots=True)
class Speculation:
    program: Program
    only_written: set[int]
    scratch: Region = field(default_factory=list)
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            for part in regions(op):
                self.region(part)
            made += self.loop(op) if type(op) is For else [op]
        region[:] = made

    def loop(self, op: For) -> Region:
        inside = walk(op.body)
        if not any(type(each) is Store for each in inside):
            return [op]
        try:
            loop = Loop(op, prefix_of(op), self.stores(op, inside), errors_of(inside))
            if not loop.errors and any(type(each) is For for each in op.body):
                raise Declined("inner loops that look for signals, and no flags to look at")
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return [op]
        self.report.fire(op.at)
        return Blocks(self.program, loop, self.buffers(loop)).run()

    def stores(self, op: For, inside: Region) -> list[Stored]:
        """The stores to undo, each with the ops that its index needs."""
        if unknown := [each for each in inside if not isinstance(each, (*COMPUTES, FrameState, FpCheck))]:
            raise Declined(f"{type(unknown[0]).__name__} in the loop")
        top = {id(each) for each in op.body}
        own = {value for each in (op, *inside) for value in (*results(each), *inner(each))}
        found = []
        for each in inside:
            if type(each) is not Store or each.array in self.only_written:
                continue
            if id(each) not in top:
                raise Declined("a store that is not in each iteration")
            if self.program.types[each.value] != F64 or each.array in own:
                raise Declined("a store into other than numbers of an array from outside")
            found.append(Stored(each.array, each.index, slice_of(op.body, each.index)))
        return found

    def buffers(self, loop: Loop) -> list[int]:
        made = [Scratch(self.program.new(SCRATCH, "old"), BLOCK, loop.op.at) for _ in (loop.stores if loop.errors else ())]
        self.scratch += made
        self.only_written.update(each.result for each in made)
        return [each.result for each in made]


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a store goes, and the ops that compute its index."""

    array: int
    index: list[int]
    needs: Region


@dataclass(frozen=True, slots=True)
class Loop:
    op: For
    prefix: Region  # up to its Poll
    stores: list[Stored]
    errors: int


def prefix_of(op: For) -> Region:
    """The ops of an iteration up to the look for signals."""
    for k, each in enumerate(op.body):
        if type(each) is Poll:
            return op.body[: k + 1]
        if not isinstance(each, FrameState | Let | Constant | Size):
            break
    raise Declined("an iteration does not begin with a look for signals")


def errors_of(inside: Region) -> int:
    found = {each.errors for each in inside if type(each) is FpCheck}
    if len(found) > 1:
        raise Declined("looks at flags that report different errors")
    return found.pop() if found else 0


def slice_of(body: Region, values: list[int]) -> Region:
    """The ops of a body that compute these values."""
    needed, found = set(values), list[Op]()
    for each in reversed(body):
        if needed.intersection(results(each)):
            if not isinstance(each, Let | Constant | Size):
                raise Declined("a store at an index that is read from memory")
            needed.update(uses(each))
            found.append(each)
    return found[::-1]


@dataclass(slots=True)
class Blocks:
    """Makes the loop over blocks."""

    program: Program
    loop: Loop
    buffers: list[int]

    def run(self) -> Region:
        op, made = self.loop.op, Emitter(self.program, self.loop.op.at)
        block, zero = made.constant(BLOCK), made.constant(0)
        one = made.constant(1)
        # Of a count of 0 there is no block: (0 - 1) // size is -1.
        last = made.let("floor_divide", made.let("subtract", made.let("span", op.start, op.stop), one), block)
        blocks = made.let("add", last, one)
        number = self.program.new(self.program.types[op.index])
        args = [self.program.copy(arg) for arg in op.args]
        body = self.body(number, block, zero, args)
        made.emit(For(LoopKind.SERIAL, number, zero, blocks, args, op.initial, body, op.results, op.at))
        return made.ops

    def body(self, number: int, block: int, zero: int, args: list[int]) -> Region:
        op, made = self.loop.op, Emitter(self.program, self.loop.op.at)
        low = made.let("add", op.start, made.let("multiply", number, block))
        count = made.let("clip_bound", block, made.let("subtract", op.stop, low))
        high = made.let("add", low, count)
        entry = Cloner(self.program, self.program, {op.index: low, **dict(zip(op.args, args))})
        made.ops += entry.region(self.loop.prefix)
        poll = made.ops[-1]
        assert isinstance(poll, Poll), poll
        fast = Cloner(self.program, self.program).op(For(op.kind, op.index, low, high, op.args, args, op.body, op.results, op.at))
        assert isinstance(fast, For), fast
        strip(fast.body, poll.state)
        fast.body[:] = [each for each in fast.body if type(each) is not Poll]
        drop_unused(self.program, [fast])
        if not self.loop.errors:
            made.ops += [fast, Yield(fast.results, op.at)]
            return made.ops
        for place, buffer in zip(self.loop.stores, self.buffers):
            made.emit(self.moving(place, buffer, low, zero, count, keeps=True))
        undo = [
            self.moving(place, buffer, low, zero, count, keeps=False) for place, buffer in zip(self.loop.stores, self.buffers)
        ]
        slow = For(op.kind, op.index, low, high, op.args, args, op.body, self.copies(), op.at)
        ends = [Yield(list(each.results), op.at) for each in (fast, slow)]
        out = self.copies()
        made.emit(Speculate(self.loop.errors, [fast, ends[0]], [*undo, Yield([], op.at)], [slow, ends[1]], out, op.at))
        made.emit(Yield(list(out), op.at))
        return made.ops

    def copies(self) -> list[int]:
        return [self.program.copy(value) for value in self.loop.op.results]

    def moving(self, place: Stored, buffer: int, low: int, zero: int, count: int, keeps: bool) -> For:
        """Keep the numbers at a store's places aside, or put them back."""
        op, made = self.loop.op, Emitter(self.program, self.loop.op.at)
        index = self.program.new(self.program.types[op.index])
        cloner = Cloner(self.program, self.program, {op.index: made.let("add", low, index)})
        made.ops += cloner.region(place.needs)
        there = [cloner.values.get(value, value) for value in place.index]
        number = self.program.new(F64)
        if keeps:
            made.ops += [Load(number, place.array, there, op.at), Store(buffer, [index], number, op.at)]
        else:
            made.ops += [Load(number, buffer, [index], op.at), Store(place.array, there, number, op.at)]
        made.emit(Yield([], op.at))
        return For(LoopKind.SERIAL, index, zero, count, [], [], made.ops, [], op.at)
