"""What stands where the iterations of a parallel loop store, kept aside block by block: ops that keep it, and put it back.

An iteration's stores are at one index along an axis of an array, so all elements there are kept, whichever are stored to. Each
block marks that it has kept its own: others have not been run, and nothing of theirs is put back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir import cost
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.ops import (
    Constant,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Program,
    Region,
    Room,
    Size,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.types import F64, INT, Kind, Memref, Scalar


@dataclass(frozen=True, slots=True)
class Slice:
    """Where an iteration stores: at `index` along `axis`, which these ops compute of the loop's index."""

    array: int
    axis: int
    index: int
    needs: Region


@dataclass(slots=True)
class Kept:
    """Emits what a loop does with its slices."""

    program: Program
    op: For
    slices: list[Slice]
    memory: list[int] = field(default_factory=list)  # a Room for each slice
    marks: int = -1  # one more: a 1.0 for each block that has kept its numbers
    zero: int = -1

    def index_at(self, made: Emitter, place: Slice, iteration: int) -> int:
        """The index along the slice's axis in an iteration."""
        cloner = Cloner(self.program, self.program, {self.op.index: iteration})
        made.ops += cloner.region(place.needs)
        return cloner.values.get(place.index, place.index)

    def others(self, made: Emitter, place: Slice) -> list[int]:
        """The sizes of the other axes."""
        kind = self.program.types[place.array]
        assert isinstance(kind, Memref), kind
        sizes = []
        for axis in range(kind.rank):
            if axis != place.axis:
                made.emit(Size(size := self.program.new(INT), place.array, axis, made.at))
                sizes.append(size)
        return sizes

    def elements(self, made: Emitter, place: Slice) -> int:
        """How many numbers there are in the slices of all iterations, at most cost.MOST."""
        count = cost.least(made, made.let("span", self.op.start, self.op.stop))
        for size in self.others(made, place):
            count = cost.product(made, size, count)
        return count

    def rooms(self, made: Emitter, elements: list[int], blocks: int) -> int | None:
        """Memory for the slices and the marks. The truth value that there is; None where there are no slices."""
        self.zero = made.constant(0)
        holds = []
        for place, count in zip(self.slices, elements, strict=True):
            kind = self.program.types[place.array]
            assert isinstance(kind, Memref), kind
            room, found = self.room(made, kind.element, count)
            self.memory.append(room)
            holds.append(found)
        if holds:
            self.marks, found = self.room(made, Kind.F64, blocks)
            holds.append(found)
        return made.all_of(holds) if holds else None

    def room(self, made: Emitter, element: Kind, count: int) -> tuple[int, int]:
        room = self.program.new(Memref(element, 1, True, True, True), "kept")
        made.emit(Room(room, count, made.at))
        made.emit(Size(size := self.program.new(INT), room, 0, made.at))
        return room, made.let("less_equal", count, size)

    def bounds(self, made: Emitter, number: int, size: int) -> tuple[int, int]:
        """The iterations of a block."""
        low = made.let("add", self.op.start, made.let("multiply", number, size))
        return low, made.let("least", made.let("add", low, size), self.op.stop)

    # --- loops

    def loop(self, made: Emitter, start: int, stop: int, body: Emitter, index: int) -> None:
        """One that moves numbers: compilers make what is best of it."""
        body.emit(Yield([], made.at))
        made.emit(For(LoopKind.SIMD, index, start, stop, [], [], body.ops, [], made.at))

    def mark(self, made: Emitter, number: int, value: float) -> None:
        made.emit(Constant(mark := self.program.new(F64), value, made.at))
        made.emit(Store(self.marks, [number], mark, made.at))

    def forget(self, made: Emitter, blocks: int) -> None:
        """No block has kept anything."""
        if self.slices:
            number, body = self.program.new(INT), Emitter(self.program, made.at)
            self.mark(body, number, 0.0)
            self.loop(made, self.zero, blocks, body, number)

    def keep(self, made: Emitter, number: int, low: int, high: int) -> None:
        """What a block does before its iterations."""
        for place, room in zip(self.slices, self.memory, strict=True):
            self.moved(made, place, room, low, high, keeps=True)
        if self.slices:
            self.mark(made, number, 1.0)

    def put_back(self, made: Emitter, size: int, blocks: int) -> None:
        """What all blocks that have kept anything have stored over."""
        if not self.slices:
            return
        number, body, arm = self.program.new(INT), Emitter(self.program, made.at), Emitter(self.program, made.at)
        body.emit(Load(mark := self.program.new(F64), self.marks, [number], made.at))
        body.emit(Constant(nothing := self.program.new(F64), 0.0, made.at))
        body.emit(Let(has_kept := self.program.new(Scalar(Kind.B1)), "greater", [mark, nothing], made.at))
        low, high = self.bounds(arm, number, size)
        for place, room in zip(self.slices, self.memory, strict=True):
            self.moved(arm, place, room, low, high, keeps=False)
        arm.emit(Yield([], made.at))
        body.emit(If(has_kept, arm.ops, [Yield([], made.at)], [], made.at))
        self.loop(made, self.zero, blocks, body, number)

    def moved(self, made: Emitter, place: Slice, room: int, low: int, high: int, keeps: bool) -> None:
        """To the room, or back: the slices of iterations from `low` to before `high`."""
        iteration, body = self.program.new(INT), Emitter(self.program, made.at)
        at = self.index_at(body, place, iteration)
        counted = body.let("subtract", iteration, self.op.start)
        self.elements_of(body, place, room, counted, [], self.others(body, place), at, keeps)
        self.loop(made, low, high, body, iteration)

    def elements_of(
        self, made: Emitter, place: Slice, room: int, number: int, index: list[int], sizes: list[int], at: int, keeps: bool
    ) -> None:
        """Loops over the other axes. `number`: of the element in the room, as far as axes have been gone into."""
        if sizes:
            size, *rest = sizes
            next_, body = self.program.new(INT), Emitter(self.program, made.at)
            inside = body.let("add", body.let("multiply", number, size), next_)
            self.elements_of(body, place, room, inside, [*index, next_], rest, at, keeps)
            self.loop(made, self.zero, size, body, next_)
            return
        there = [*index[: place.axis], at, *index[place.axis :]]
        kind = self.program.types[place.array]
        assert isinstance(kind, Memref), kind
        value = self.program.new(Scalar(kind.element))
        source, target = ((place.array, there), (room, [number])) if keeps else ((room, [number]), (place.array, there))
        ops: list[Op] = [Load(value, *source, made.at), Store(*target, value, made.at)]
        made.ops += ops
