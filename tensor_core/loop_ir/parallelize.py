"""The pass that runs the iterations of a loop on several threads.

It takes the outermost loops whose iterations do not see each other. Where one is worth it, by its cost when the program runs,
blocks of its iterations run in any order; each keeps aside what stands where its iterations store, and nobody looks at flags.
Where a flag is set, a check fails or a signal's handler raises, all blocks are undone. Then the loop runs as it was, in Python's
order, up to the iteration at which Python goes on: which that is, and what it finds, does not depend on threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir import cost
from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.blocks import prefix_of
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, along, fresh_of, pairs_apart, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.exactness import SPECULATED, write_only
from npcompile.tensor_core.loop_ir.forms import COPY, defined, regions, replace_loops, walk
from npcompile.tensor_core.loop_ir.kept import Kept, Slice
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    Guard,
    If,
    Let,
    LoopKind,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Scope,
    Size,
    Speculate,
    Store,
    Threads,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import CARRIED, Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.slices import definers_of, outside_loops, slice_of
from npcompile.tensor_core.loop_ir.speculation import errors_of
from npcompile.tensor_core.loop_ir.types import BOOL, FLOATING, INT, Scalar

RUN_ON_THREADS = frozenset((*SPECULATED, FrameState, FpCheck, Check))
WATCHING = frozenset((FrameState, FpCheck, Poll))
WORTH = 40_000 * cost.NANOSECOND  # from which a loop runs on threads
LANES_AT_ONCE = 4  # of eight: memory does not go faster
LANE_BY_LANE = {"add", "subtract", "multiply", "divide", "negative", "absolute", "sqrt", "choose", "to_f64", "to_f32"}
GRAIN = 10_000 * cost.NANOSECOND  # that a thread takes at once
KEEPING = 10 * cost.NANOSECOND  # what it must cost to compute a number for which an old one is kept


def parallelize(program: Program) -> Report:
    """Make parallel loops, in place."""
    if program.policy is Policy.ABORT:  # its callers undo what it did
        return Report()
    pass_ = Parallelizing(program, places_of(program), fresh_of(program), write_only(program))
    pass_.region(program.body, {param.value for param in program.params})
    return pass_.report


@dataclass(slots=True)
class Parallelizing:
    program: Program
    places: Ranges
    fresh: Fresh
    only_written: set[int]
    report: Report = field(default_factory=Report)

    def region(self, region: Region, known: set[int]) -> None:
        """`known`: the values that there are where the region begins."""
        replace_loops(region, known, self.loop, self.worthwhile)

    def worthwhile(self, op: Op) -> list[Region]:
        """The regions of an op, without the version of a loop that runs where checks before it fail, and what is undone."""
        if isinstance(op, Speculate):
            return [op.slow]
        if isinstance(op, If) and {x.at for x in op.then if type(x) is For} & {x.at for x in op.orelse if type(x) is For}:
            return [op.then]
        return regions(op)

    def loop(self, op: For, known: set[int]) -> Region | None:
        inside = walk(op.body)
        if not any(isinstance(each, Store) for each in inside) or any(isinstance(each, Speculate) for each in inside):
            return None  # of what is undone as a whole another pass has said what it does
        try:
            parallel = self.analyzed(op)
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return None
        self.report.fire(op.at)
        return Emitting(self.program, op, parallel, known).run()

    def analyzed(self, op: For) -> Parallel:
        """Raises Declined."""
        if op.args:
            raise Declined(CARRIED)
        inside = walk(op.body)
        own = {each.label for each in inside if isinstance(each, Scope | While)}
        for each in inside:
            if type(each) not in RUN_ON_THREADS:
                raise Declined.for_op(each)
            if isinstance(each, Break | Again) and each.target not in own:
                raise Declined("a way out of the loop")
        prefix = prefix_of(op)
        apart = pairs_apart(op, self.program, self.places, self.fresh)
        return Parallel(prefix, errors_of(inside), apart, self.slices(op, inside))

    def slices(self, op: For, inside: list[Op]) -> list[Slice]:
        """Where an iteration stores: at one index along an axis, in all of the other axes."""
        definers = definers_of(outside_loops(op.body))
        own = defined(inside)
        found: dict[tuple[object, ...], Slice] = {}
        for each in inside:
            if type(each) is not Store or each.array in self.only_written:
                continue
            axis = next((k for k, index in enumerate(each.index) if self.goes_along(index, op.index, own)), -1)
            if axis < 0:
                raise Declined("a store whose place is not known before")
            form = self.places.form(each.index[axis])
            needs = slice_of(definers, [each.index[axis]], op.args)
            found[each.array, axis, form.constant, *sorted(form.factors.items())] = Slice(
                each.array, axis, each.index[axis], needs
            )
        return list(found.values())

    def goes_along(self, value: int, index: int, own: set[int]) -> bool:
        """Does it grow by one from iteration to iteration, and is nothing else in it that the iteration makes?"""
        return along(self.places, value, index) == 1 and own.isdisjoint(self.places.form(value).factors)


@dataclass(frozen=True, slots=True)
class Parallel:
    """What is known of a loop whose iterations do not see each other."""

    prefix: Region
    errors: int
    apart: list[tuple[int, int]]  # arrays that may not share memory
    slices: list[Slice]


class Unwatched(Cloner):
    """Copies without looks at flags and for signals, whose Checks give up."""

    def region(self, region: Region) -> Region:
        kept = [op for op in region if type(op) not in WATCHING]
        guards = (Guard(op.condition, op.at) if type(op) is Check else op for op in kept)
        return [COPY[type(op)](op, self) for op in guards]


def speed_of(program: Program, loop: For) -> int:
    """How many iterations take the time of one: of what lanes of vectors compute."""
    kinds = [(op.op, program.types[op.result]) for op in walk(loop.body) if isinstance(op, Let)]
    is_plain = all(name in LANE_BY_LANE for name, kind in kinds if isinstance(kind, Scalar) and kind.kind in FLOATING)
    return LANES_AT_ONCE if is_plain else 1


@dataclass(slots=True)
class Emitting:
    """Makes the ops in the place of a loop."""

    program: Program
    op: For
    parallel: Parallel
    known: set[int]

    def run(self) -> Region:
        op = self.op
        made = Emitter(self.program, op.at)
        each = cost.cost_of(made, op.body, self.known)
        total = cost.product(made, made.let("span", op.start, op.stop), each)
        is_worth = made.let("greater_equal", total, made.constant(WORTH * speed_of(self.program, op)))
        done = self.choice(made, is_worth, lambda inside: self.where_safe(inside, each, total))
        made.emit(If(done, [Yield([], op.at)], [op, Yield([], op.at)], [], op.at))
        return made.ops

    def choice(self, made: Emitter, condition: int, then: object) -> int:
        """`then(emitter)` where the condition holds, else False."""
        arm, other = Emitter(self.program, self.op.at), Emitter(self.program, self.op.at)
        arm.emit(Yield([then(arm)], self.op.at))  # type: ignore[operator]
        other.emit(Yield([self.truth(other, False)], self.op.at))
        made.emit(If(condition, arm.ops, other.ops, [result := self.program.new(BOOL, "done")], self.op.at))
        return result

    def truth(self, made: Emitter, value: bool) -> int:
        made.emit(Constant(result := self.program.new(BOOL), value, self.op.at))
        return result

    def where_safe(self, made: Emitter, each: int, total: int) -> int:
        """Ask what must hold: places inside arrays, arrays apart, several threads, and that it is worth what is kept."""
        op, program = self.op, self.program
        made.emit(Threads(threads := program.new(INT), op.at))
        one = made.constant(1)
        holds = [made.let("less", one, threads)]
        last = made.let("subtract", op.stop, one)
        kept = Kept(program, op, self.parallel.slices)
        for place in self.parallel.slices:
            made.emit(Size(size := program.new(INT), place.array, place.axis, op.at))
            holds += [made.let("is_index", kept.index_at(made, place, k), size) for k in (op.start, last)]
        elements = [kept.elements(made, place) for place in self.parallel.slices]
        most = made.constant(cost.MOST)
        for count in elements:
            price = made.let("multiply", count, made.constant(KEEPING))
            holds += [made.let("less", count, most), made.let("less_equal", price, total)]
        holds += [made.disjoint(*pair) for pair in self.parallel.apart]
        return self.choice(made, made.all_of(holds), lambda inside: self.where_there_is_room(inside, each, kept, elements))

    def where_there_is_room(self, made: Emitter, each: int, kept: Kept, elements: list[int]) -> int:
        """So many iterations in a block as a thread takes at once, and memory for what they store over."""
        op = self.op
        one = made.constant(1)
        count = made.let("span", op.start, op.stop)
        size = made.let("add", made.let("floor_divide", made.constant(GRAIN * speed_of(self.program, op)), each), one)
        blocks = made.let("add", made.let("floor_divide", made.let("subtract", count, one), size), one)
        rooms = kept.rooms(made, elements, blocks)
        if rooms is None:
            return self.speculated(made, size, blocks, kept)
        return self.choice(made, rooms, lambda inside: self.speculated(inside, size, blocks, kept))

    def speculated(self, made: Emitter, size: int, blocks: int, kept: Kept) -> int:
        op, program = self.op, self.program
        before = Cloner(program, program, {op.index: op.start}).region(self.parallel.prefix)
        poll = before[-1]
        assert isinstance(poll, Poll), poll
        made.ops += before
        body, undo, slow = (Emitter(program, op.at) for _ in range(3))
        kept.forget(body, blocks)
        body.emit(self.blocks(poll.state, size, blocks, kept))
        body.emit(Yield([self.truth(body, True)], op.at))
        kept.put_back(undo, size, blocks)
        undo.emit(Yield([], op.at))
        slow.emit(Yield([self.truth(slow, False)], op.at))
        done = program.new(BOOL, "done")
        made.emit(Speculate(self.parallel.errors, body.ops, undo.ops, slow.ops, [done], op.at))
        return done

    def blocks(self, state: int, size: int, blocks: int, kept: Kept) -> For:
        op, program = self.op, self.program
        body = Emitter(program, op.at)
        number = program.new(INT, "block")
        body.emit(Poll(state, op.at))
        low, high = kept.bounds(body, number, size)
        kept.keep(body, number, low, high)
        fast = Unwatched(program, program).op(op)
        assert isinstance(fast, For), fast
        fast.start, fast.stop = low, high
        drop_unused(program, [fast])
        body.emit(fast)
        body.emit(Yield([], op.at))
        zero = kept.zero
        return For(LoopKind.PARALLEL, number, zero, blocks, [], [], body.ops, [], op.at)
