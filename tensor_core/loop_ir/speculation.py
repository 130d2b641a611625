"""The pass that looks at floating-point flags once for a block of iterations.

Where a loop stores to what Python can see, its flags are looked at before each store, so that a warning finds memory as Python
would have it. Here the block's old numbers are kept aside first, the block runs without a look, and where a flag is set after
all, they are put back and the block runs again, by the loop as it was. This needs stores whose places are known before the block
runs: at indices that are made of the loop's index and of numbers from outside, at most once in an iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.blocks import BLOCK, Block, has_long_iterations, in_blocks, prefix_of
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.exactness import SPECULATED, write_only
from npcompile.tensor_core.loop_ir.forms import all_regions, inner, regions, results, walk
from npcompile.tensor_core.loop_ir.fp_status import strip
from npcompile.tensor_core.loop_ir.ops import (
    NOWHERE,
    Again,
    Break,
    Check,
    For,
    FpCheck,
    FrameState,
    Guard,
    Let,
    Load,
    LoopKind,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Scope,
    Scratch,
    Speculate,
    Store,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.slices import definers_of, outside_loops, slice_of
from npcompile.tensor_core.loop_ir.types import FLOATING, INT, Kind, Memref, Scalar


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
            for part in regions(op) if type(op) is not Speculate else ():
                self.region(part)
            made += self.loop(op) if type(op) is For else [op]
        region[:] = made

    def loop(self, op: For) -> Region:
        inside = walk(op.body)
        if not any(type(each) is FpCheck or type(each) is Store for each in inside):
            return [op]
        try:
            prefix = prefix_of(op)
            if unknown := [each for each in inside if not isinstance(each, (*SPECULATED, FrameState, FpCheck, Check))]:
                raise Declined.for_op(unknown[0])
            others = not_of_places(inside)
            if any(type(each) is Check and each.condition not in others for each in inside):
                raise Declined("a check of the index of a store")
            own = {each.label for each in inside if isinstance(each, Scope | While)}
            if any(isinstance(each, Break | Again) and each.target not in own for each in inside):
                raise Declined("a way out of the loop")
            loop = Loop(op, [], errors_of(inside))
            if not loop.errors and any(type(each) is Check for each in inside):
                raise Declined("checks, and no flags to look at")
            inner_loops = [each for each in inside if type(each) is For]
            if not loop.errors and not all(is_sum(each, self.program) for each in inner_loops):
                raise Declined("inner loops, and no flags to look at")
            if loop.errors or inner_loops:  # a signal may wait in the middle
                loop.stores.extend(self.stores(op, inside))
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return [op]
        self.report.fire(op.at)
        return in_blocks(self.program, op, prefix, Speculating(self.program, loop, self.buffers(loop)).block)

    def stores(self, op: For, inside: Region) -> list[Stored]:
        """The stores to undo, each with the ops that its index needs."""
        each_time = outside_loops(op.body)
        definers, known = definers_of(each_time), set(map(id, each_time))
        own = {value for each in (op, *inside) for value in (*results(each), *inner(each))}
        found: dict[tuple[int, ...], Stored] = {}  # arms may store at the same place
        for each in inside:
            if type(each) is not Store or each.array in self.only_written:
                continue
            if id(each) not in known:
                raise Declined("a store in an inner loop")
            array = self.program.types[each.array]
            if not isinstance(array, Memref) or each.array in own:
                raise Declined("a store into other than an array from outside")
            place = (each.array, *each.index)
            if place not in found:
                found[place] = Stored(each.array, array.element, each.index, slice_of(definers, each.index, op.args))
        return list(found.values())

    def buffers(self, loop: Loop) -> list[int]:
        kinds = [Memref(each.element, 1, True, True, True) for each in loop.stores]
        made = [Scratch(self.program.new(kind, "old"), BLOCK, loop.op.at) for kind in kinds]
        self.scratch += made
        self.only_written.update(each.result for each in made)
        return [each.result for each in made]


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a store goes, and the ops that compute its index."""

    array: int
    element: Kind
    index: list[int]
    needs: Region


@dataclass(frozen=True, slots=True)
class Loop:
    op: For
    stores: list[Stored]
    errors: int


def not_of_places(inside: list[Op]) -> set[int]:
    """What ops of the loop find out, but for whether a store's index is inside: its place may be outside otherwise. What was
    found before the loop may be of such an index."""
    places = {value for each in inside if type(each) is Store for value in each.index}
    return {each.result for each in inside if type(each) is Let and (each.op != "is_index" or each.args[0] not in places)}


def is_sum(loop: For, program: Program) -> bool:
    """Does an inner loop hand on floating-point numbers, so that several of its runs may be lanes of vectors?"""
    kinds = [program.types[arg] for arg in loop.args]
    return any(isinstance(kind, Scalar) and kind.kind in FLOATING for kind in kinds)


def errors_of(inside: Region) -> int:
    """What the looks at flags report. 0 where there are none."""
    found = {each.errors for each in inside if type(each) is FpCheck}
    if len(found) > 1:
        raise Declined("looks at flags that report different errors")
    return found.pop() if found else 0


@dataclass(slots=True)
class Speculating:
    """Makes the ops of a block."""

    program: Program
    loop: Loop
    buffers: list[int]

    def block(self, block: Block) -> list[int]:
        op, made = self.loop.op, block.made
        bounds = (op.kind, op.index, block.low, block.high, op.args, block.args, op.body)
        fast = Cloner(self.program, self.program).op(For(*bounds, op.results, op.at))
        assert isinstance(fast, For), fast
        strip(fast.body, block.state)
        for region in all_regions(fast.body):
            looks = region is fast.body and has_long_iterations(fast)
            region[:] = [Guard(x.condition, x.at) if type(x) is Check else x for x in region if type(x) is not Poll or looks]
        drop_unused(self.program, [fast])
        if not self.loop.errors and not has_long_iterations(fast):  # nothing to look at, so nothing is undone
            made.emit(fast)
            return list(fast.results)
        kept = list(zip(self.loop.stores, self.buffers))
        made.ops += [self.moving(block, place, buffer, keeps=True) for place, buffer in kept]
        undo = [self.moving(block, place, buffer, keeps=False) for place, buffer in kept]
        slow = For(*bounds, self.copies(), op.at)
        ends = [Yield(list(each.results), op.at) for each in (fast, slow)]
        out = self.copies()
        made.emit(Speculate(self.loop.errors, [fast, ends[0]], [*undo, Yield([], op.at)], [slow, ends[1]], out, op.at))
        return list(out)

    def copies(self) -> list[int]:
        return [self.program.copy(value) for value in self.loop.op.results]

    def moving(self, block: Block, place: Stored, buffer: int, keeps: bool) -> For:
        """Keep the numbers at a store's places aside, or put them back."""
        op, made = self.loop.op, Emitter(self.program, self.loop.op.at)
        index = self.program.new(INT)
        cloner = Cloner(self.program, self.program, {op.index: made.let("add", block.low, index)})
        made.ops += cloner.region(place.needs)
        there = [cloner.values.get(value, value) for value in place.index]
        number = self.program.new(Scalar(place.element))
        if keeps:
            made.ops += [Load(number, place.array, there, op.at), Store(buffer, [index], number, op.at)]
        else:
            made.ops += [Load(number, buffer, [index], op.at), Store(place.array, there, number, op.at)]
        made.emit(Yield([], op.at))
        return For(LoopKind.SERIAL, index, block.zero, block.count, [], [], made.ops, [], NOWHERE)  # no loop of the user's
