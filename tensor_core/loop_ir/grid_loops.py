"""The pass that runs the iterations of loops on the threads of a device, in programs that abort.

It takes the outermost loops whose iterations do not see each other. Where such a loop holds one such loop and nothing else that
stores, both become one loop over all pairs of their indices. A device has no floating-point flags and no signals: nobody looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.activity import Activity, activity_of
from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.dependence import Fresh, fresh_of, pairs_apart, places_of
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import all_regions, inner, regions, results, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Let,
    Load,
    LoopKind,
    Place,
    Poll,
    Program,
    Region,
    Scope,
    Size,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined, Report
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.types import INT, Memref
from npcompile.tensor_core.loop_ir.verifier import ABORTING

PREFIX = (Let, Constant, Size, Load, Check, View)  # what several iterations may compute again


def use_grid(program: Program) -> Report:
    """Make loops parallel, in place. The program is structured, aborts, and begins with its one frame state."""
    for region in all_regions(program.body):
        region[:] = [op for op in region if not isinstance(op, FpCheck | FpClear | Poll)]
    read_through_views(program)
    drop_unused(program, program.body, is_reported=False)
    state = next(op.name for op in walk(program.body) if type(op) is FrameState)
    pass_ = GridLoops(program, state, places_of(program), fresh_of(program), activity_of(program, []))
    pass_.region(program.body)
    return pass_.report


# --- views


@dataclass(frozen=True, slots=True)
class Seen:
    """What a view's elements are of another array: the index of each of that one's axes, and which of the view's is added."""

    array: int
    starts: tuple[int, ...]
    axes: tuple[int | None, ...]


def read_through_views(program: Program) -> None:
    """Let accesses of views be of the arrays that these are views of."""
    seen: dict[int, Seen] = {}
    for op in walk(program.body):
        if type(op) is View:
            kept = iter(range(len(op.kept)))
            seen[op.result] = Seen(op.array, tuple(op.starts), tuple(next(kept) if k else None for k in op.kept))
    if not seen:
        return
    for region in all_regions(program.body):
        made: Region = []
        for op in region:
            while isinstance(op, Load | Store) and op.array in seen:
                made += looked_up(program, op, seen[op.array])
            made.append(op)
        region[:] = made


def looked_up(program: Program, op: Load | Store, seen: Seen) -> Region:
    """The ops before an access that is of the array below from now on."""
    emitter = Emitter(program, op.at)
    op.index = [
        start if axis is None else emitter.let("add", start, op.index[axis]) for start, axis in zip(seen.starts, seen.axes)
    ]
    op.array = seen.array
    return emitter.ops


# --- loops


@dataclass(slots=True)
class GridLoops:
    program: Program
    state: int
    places: Ranges
    fresh: Fresh
    activity: Activity
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            found = self.loop(op) if type(op) is For else None
            if found is None:
                for part in regions(op):
                    self.region(part)
            made += [op] if found is None else found
        region[:] = made

    def loop(self, op: For) -> Region | None:
        try:
            apart = self.independent(op)
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return None
        chain = [op]
        while (deeper := self.only_loop(chain)) is not None:
            chain.append(deeper)
        self.report.fire(op.at)
        emitter = Emitter(self.program, op.at)
        for pair in apart:
            emitter.emit(Check(emitter.disjoint(*pair), self.state, op.at))
        emitter.emit(flattened(self.program, chain, emitter) if len(chain) > 1 else parallel(op))
        return emitter.ops

    def independent(self, op: For) -> list[tuple[int, int]]:
        """Arrays that must be apart, so that no iteration sees another. Raises Declined."""
        if op.args:
            raise Declined("iterations that need what others computed")
        ops = walk(op.body)
        own = {each.label for each in ops if isinstance(each, Scope | While)}
        for each in ops:
            if not isinstance(each, ABORTING):
                raise Declined.for_op(each)
            if isinstance(each, Break | Again) and each.target not in own:
                raise Declined("a way out of the loop")
        if not any(isinstance(each, Store) for each in ops):
            raise Declined("nothing is stored")
        pairs = pairs_apart(op, self.program, self.places, self.fresh, own_arrays(self.program, self.activity, op))
        return [pair for pair in pairs if not self.fresh.params.issuperset(pair)]  # whoever calls asks of arguments

    def only_loop(self, chain: list[For]) -> For | None:
        """The loop inside the innermost, where the iterations of both together do not see each other."""
        *prefix, last, end = [None, *chain[-1].body] if len(chain[-1].body) < 2 else chain[-1].body
        if type(last) is not For or type(end) is not Yield or not all(isinstance(op, PREFIX) for op in prefix):
            return None
        own = {value for each in walk(chain[0].body) for value in (*results(each), *inner(each))} | {chain[0].index}
        stored = {op.array for op in walk(chain[0].body) if type(op) is Store}
        if last.start in own or last.stop in own or any(type(op) is Load and op.array in stored for op in prefix):
            return None
        try:
            self.independent(last)
        except Declined:
            return None
        return last


def own_arrays(program: Program, activity: Activity, loop: For) -> set[int]:
    """Arrays that an iteration makes for itself: none of their memory is seen outside."""
    inside = {value for op in walk(loop.body) for value in (*results(op), *inner(op))}
    arrays = [value for value, kind in enumerate(program.types) if isinstance(kind, Memref)]
    outside = {activity.root(value) for value in arrays if value not in inside}
    return {value for value in arrays if value in inside and activity.root(value) not in outside}


def parallel(op: For) -> For:
    op.kind = LoopKind.PARALLEL
    return op


def flattened(program: Program, chain: list[For], before: Emitter) -> For:
    """One loop over all combinations of the indices of loops that hold each other."""
    at: Place = chain[0].at
    counts = [before.let("span", loop.start, loop.stop) for loop in chain]
    total = counts[0]
    for count in counts[1:]:
        total = before.let("multiply", total, count)
    index = rest = program.new(INT, "iteration")
    body = Emitter(program, at)
    for loop, count in reversed([*zip(chain[1:], counts[1:])]):
        body.emit(Let(loop.index, "add", [loop.start, body.let("remainder", rest, count)], loop.at))
        rest = body.let("floor_divide", rest, count)
    body.emit(Let(chain[0].index, "add", [chain[0].start, rest], at))
    for loop in chain[:-1]:
        body.ops += loop.body[:-2]
    return For(LoopKind.PARALLEL, index, before.constant(0), total, [], [], body.ops + chain[-1].body, [], at)
