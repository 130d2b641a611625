"""The pass that looks at floating-point flags once for several steps of a loop around statements about arrays.

Such a loop stores in each step what Python can see, at many places: to keep all of them aside is as much work as a step. So
whole arrays are kept, once for so many steps that this takes little of their time; these run without a look, and store at once
what they compute (`in_place`). Where a flag is set after all, the arrays are put back, and the loop as it was runs these steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from npcompile.tensor_core.loop_ir import cost
from npcompile.tensor_core.loop_ir.blocks import Block, in_blocks, prefix_of
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, fresh_of, learn, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.exactness import SPECULATED, write_only
from npcompile.tensor_core.loop_ir.forms import all_regions, defined, regions, replace_loops, results, uses, walk
from npcompile.tensor_core.loop_ir.fp_status import strip
from npcompile.tensor_core.loop_ir.in_place import InPlace, in_rooms
from npcompile.tensor_core.loop_ir.licm import TRAPS, Hoisting
from npcompile.tensor_core.loop_ir.nest_threads import NestThreads
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    Guard,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Room,
    Scope,
    Size,
    Speculate,
    Store,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.origins import Origins
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.speculation import errors_of
from npcompile.tensor_core.loop_ir.types import INT, Memref, Scalar

SHARE = 24  # of what steps take, at most this part goes to what is kept
LONGEST = 20_000_000 * cost.NANOSECOND  # that steps run without a look for signals


def speculate_steps(program: Program) -> Report:
    """Make blocks of steps, in place."""
    pass_ = Steps(program, write_only(program))
    if program.policy is Policy.RESUME and any(isinstance(op, Alloc) for op in walk(program.body)):
        pass_.region(program.body, {param.value for param in program.params})
    return pass_.report


@dataclass(slots=True)
class Steps:
    program: Program
    only_written: set[int]
    report: Report = field(default_factory=Report)

    def region(self, region: Region, known: set[int]) -> None:
        """`known`: the values that there are where the region begins."""
        replace_loops(region, known, self.loop, regions)

    def loop(self, op: For, known: set[int]) -> Region | None:
        inside = walk(op.body)
        if not any(isinstance(each, Alloc) for each in inside):
            return None
        try:
            steps = self.analyzed(op, inside, known)
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return None
        self.report.fire(op.at)
        return Emitting(self.program, op, steps, known).run()

    def analyzed(self, op: For, inside: list[Op], known: set[int]) -> StepBlock:
        """Raises Declined."""
        program = self.program
        prefix = prefix_of(op)
        if unknown := [each for each in inside if not isinstance(each, (*SPECULATED, FrameState, FpCheck, Check, Alloc))]:
            raise Declined.for_op(unknown[0])
        own = {each.label for each in inside if isinstance(each, Scope | While)}
        if any(isinstance(each, Break | Again) and each.target not in own for each in inside):
            raise Declined("a way out of the loop")
        if not (errors := errors_of(inside)):
            raise Declined("no flags to look at")
        fast = Cloner(program, program).op(op)
        assert isinstance(fast, For), fast
        strip(fast.body, state_of(prefix))
        for region in all_regions(fast.body):
            is_inner = region is not fast.body and any(isinstance(each, For | While) for each in region)
            region[:] = [Guard(x.condition, x.at) if type(x) is Check else x for x in region if is_inner or type(x) is not Poll]
        places = places_of(program)
        learn(places, program, [fast])
        pass_ = InPlace(program, places, fresh_of(program))
        pass_.region(fast.body)
        if not pass_.taken:
            raise Declined("no statement whose numbers could be stored at once")
        in_rooms(program, fast.body)
        Hoisting(program).region(fast.body)
        places = places_of(program)
        learn(places, program, [fast])
        own = known | {fast.index, *fast.args}
        NestThreads(program, places, fresh_with(program, fast), state_of(prefix)).region(fast.body, own)
        drop_unused(program, [fast])
        return StepBlock(prefix, errors, fast, self.arrays(fast))

    def arrays(self, fast: For) -> list[int]:
        """Those that are stored to, as they are before a step: of the loop's, or around it."""
        origins = Origins.of([fast])
        found: dict[int, None] = {}
        outside = {value: k for k, value in enumerate(fast.initial)}
        for each in walk(fast.body):
            if isinstance(each, Store) and each.array not in self.only_written:
                for array in origins.origins(each.array):
                    if not isinstance(self.program.types[array], Memref):
                        raise Declined("a store to what no array is")
                    if array not in outside and array in defined(walk(fast.body)):
                        if array not in rooms_of(fast):
                            raise Declined("a store into an array that an iteration makes")
                        continue
                    found[array] = None
        return list(found)


def state_of(prefix: Region) -> int:
    """Where an iteration is left for a signal."""
    poll = prefix[-1]
    assert isinstance(poll, Poll), poll
    return poll.state


def fresh_with(program: Program, fast: For) -> Fresh:
    """What is known of the program's arrays and of those that a loop makes which is no part of it yet."""
    found = fresh_of(program)
    return replace(found, scratch=found.scratch | rooms_of(fast))


def rooms_of(fast: For) -> set[int]:
    return {each.result for each in walk(fast.body) if isinstance(each, Room)}


@dataclass(frozen=True, slots=True)
class StepBlock:
    """What is known of a loop, and how its steps run where nobody looks."""

    prefix: Region
    errors: int
    fast: For
    arrays: list[int]  # that are stored to: those that the loop begins with, and others


@dataclass(slots=True)
class Emitting:
    """Makes the ops in the place of a loop."""

    program: Program
    op: For
    steps: StepBlock
    known: set[int]
    is_worth: int = -1

    def run(self) -> Region:
        op, made = self.op, Emitter(self.program, self.op.at)
        each = self.cost_of_step(made)
        count = cost.least(made, made.let("span", op.start, op.stop))
        kept = made.constant(0)
        for array in self.steps.arrays:
            kept = cost.least(made, made.let("add", kept, self.elements(made, array)))
        price = cost.product(made, made.constant(2 * cost.MEMORY), kept)
        self.is_worth = made.let("less_equal", price, cost.product(made, count, each))
        wanted = made.let("floor_divide", cost.product(made, made.constant(SHARE), price), each)
        most = made.let("floor_divide", made.constant(LONGEST), each)
        one = made.constant(1)
        size = made.let("add", made.let("least", wanted, most), one)
        made.ops += in_blocks(self.program, op, self.steps.prefix, self.block, size)
        drop_unused(self.program, made.ops)
        return made.ops

    def cost_of_step(self, made: Emitter) -> int:
        """Of one in the middle, as far as it is known before the loop."""
        op, program = self.op, self.program
        half = made.let("floor_divide", made.let("span", op.start, op.stop), made.constant(2))
        middle = made.let("add", op.start, half)
        cloner = Cloner(program, program, {op.index: middle, **dict(zip(op.args, op.initial))})
        step, known = cloner.region(op.body), self.known | set(results_of(made.ops)) | {middle}
        for each in step:
            is_safe = isinstance(each, Constant | Size) or isinstance(each, Let) and each.op not in TRAPS
            if is_safe and known.issuperset(uses(each)):
                made.emit(each)
                known.update(results(each))
        return made.let("add", cost.cost_of(made, step, known), made.constant(1))

    def elements(self, made: Emitter, array: int) -> int:
        """How many an array has, at most cost.MOST."""
        kind = self.program.types[array]
        assert isinstance(kind, Memref), kind
        count = made.constant(1)
        for size in self.sizes(made, array):
            count = cost.product(made, size, count)
        return count

    def sizes(self, made: Emitter, array: int) -> list[int]:
        kind = self.program.types[array]
        assert isinstance(kind, Memref), kind
        found = []
        for axis in range(kind.rank):
            made.emit(Size(size := self.program.new(INT), array, axis, made.at))
            found.append(size)
        return found

    # --- a block

    def block(self, block: Block) -> list[int]:
        op, made, program = self.op, block.made, self.program
        now = dict(zip(op.initial, block.args))
        arrays = [now.get(array, array) for array in self.steps.arrays]
        rooms, holds = [], [self.is_worth]
        for array in arrays:
            kind = program.types[array]
            assert isinstance(kind, Memref), kind
            room = program.new(Memref(kind.element, 1, True, True, True), "kept")
            made.emit(Room(room, count := self.elements(made, array), op.at))
            made.emit(Size(size := program.new(INT), room, 0, op.at))
            holds += [made.let("less_equal", count, size), made.let("less", count, made.constant(cost.MOST))]
            rooms.append(room)
        is_fast = made.all_of(holds)
        made.emit(self.moving(is_fast, arrays, rooms, keeps=True))
        fast = self.steps.fast
        strip(fast.body, block.state)
        fast.start, fast.stop, fast.initial = block.low, block.high, list(block.args)
        slow = For(op.kind, op.index, block.low, block.high, op.args, block.args, op.body, self.copies(), op.at)
        ends = [Yield(list(each.results), op.at) for each in (fast, slow)]
        out = self.copies()
        undo = [self.moving(is_fast, arrays, rooms, keeps=False), Yield([], op.at)]
        made.emit(Speculate(self.steps.errors, [Guard(is_fast, op.at), fast, ends[0]], undo, [slow, ends[1]], out, op.at))
        return list(out)

    def copies(self) -> list[int]:
        return [self.program.copy(value) for value in self.op.results]

    def moving(self, condition: int, arrays: list[int], rooms: list[int], keeps: bool) -> If:
        """Keep arrays aside, or put them back, where the condition holds."""
        made = Emitter(self.program, self.op.at)
        zero = made.constant(0)
        for array, room in zip(arrays, rooms, strict=True):
            self.elements_moved(made, array, room, zero, [], self.sizes(made, array), keeps, zero)
        made.emit(Yield([], self.op.at))
        return If(condition, made.ops, [Yield([], self.op.at)], [], self.op.at)

    def elements_moved(
        self, made: Emitter, array: int, room: int, number: int, index: list[int], sizes: list[int], keeps: bool, zero: int
    ) -> None:
        """Loops over the axes that are left. `number`: of the element in the room, as far as axes have been gone into."""
        program, at = self.program, self.op.at
        if not sizes:
            kind = program.types[array]
            assert isinstance(kind, Memref), kind
            value = program.new(Scalar(kind.element))
            source, target = ((array, index), (room, [number])) if keeps else ((room, [number]), (array, index))
            made.emit(Load(value, *source, at))
            made.emit(Store(*target, value, at))
            return
        size, *rest = sizes
        inside, body = program.new(INT), Emitter(program, at)
        place = inside if not index else body.let("add", body.let("multiply", number, size), inside)
        self.elements_moved(body, array, room, place, [*index, inside], rest, keeps, zero)
        body.emit(Yield([], at))
        made.emit(For(LoopKind.SERIAL if rest else LoopKind.SIMD, inside, zero, size, [], [], body.ops, [], at))


def results_of(region: Region) -> set[int]:
    return {value for op in region for value in results(op)}
