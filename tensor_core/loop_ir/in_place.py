"""Statements about arrays without the memory between them: what one loop nest computes and the next one moves is stored at once.

A statement that Python may have to do again is computed in memory of its own, then flags are looked at, and then it is moved to
where it goes. Where nobody looks in between, the numbers go there at once, if no iteration of the nest reads what another one
stores. Otherwise their memory is the program's own, and is the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npcompile.tensor_core.loop_ir import cost
from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.dependence import Fresh, learn, pairs_apart
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import all_regions, regions, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    Alloc,
    Constant,
    For,
    Guard,
    Let,
    Load,
    Op,
    Program,
    Region,
    Room,
    Size,
    Store,
    Yield,
)
from npcompile.tensor_core.loop_ir.report import Declined
from npcompile.tensor_core.loop_ir.types import INT, Memref

COMPUTED = (Constant, Let, Size)


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops in each other, with nothing but scalar ops beside the next one."""

    loops: list[For]

    @property
    def body(self) -> Region:
        return self.loops[-1].body

    @property
    def index(self) -> list[int]:
        return [each.index for each in self.loops]

    def has_bounds_of(self, other: Nest) -> bool:
        return [(x.start, x.stop) for x in self.loops] == [(x.start, x.stop) for x in other.loops]


def nest_of(op: Op, rank: int) -> Nest | None:
    """The `rank` outermost loops of an op that is a loop."""
    loops: list[For] = []
    while isinstance(op, For) and not op.args:
        loops.append(op)
        if len(loops) == rank:
            return Nest(loops)
        *before, last, _ = [Yield([]), *op.body]
        if not all(isinstance(each, (*COMPUTED, Yield)) for each in before):
            return None
        op = last
    return None


@dataclass(frozen=True, slots=True)
class Moved:
    """An array that one nest of a region fills, and that the next one only moves."""

    alloc: Alloc
    filling: Nest
    store: Store
    moving: Nest


@dataclass(slots=True)
class InPlace:
    """Takes arrays away from a part of a program in which nothing is left or looked at."""

    program: Program
    places: Ranges
    fresh: Fresh
    taken: int = 0  # so many stores go where they belong at once

    def region(self, region: Region) -> None:
        for op in region:
            for part in regions(op):
                self.region(part)
        for found in list(moved_arrays(region)):
            nest = self.joined(found)
            if nest is not None:
                self.replace(region, found, nest)

    def joined(self, found: Moved) -> Region | None:
        """The nest that stores where numbers go, if none of its iterations sees another, after questions that must hold."""
        program, made = self.program, Emitter(self.program, found.alloc.at)
        cloner = Cloner(program, program)
        outermost = cloner.op(found.filling.loops[0])
        assert isinstance(outermost, For), outermost
        nest = nest_of(outermost, len(found.filling.loops))
        assert nest is not None, outermost
        array = found.alloc.result
        (k,) = (k for k, op in enumerate(nest.body) if isinstance(op, Store) and op.array == array)
        stored = nest.body[k]
        assert isinstance(stored, Store), stored
        moves = Cloner(program, program, dict(zip(found.moving.index, nest.index)))
        ops: Region = []
        for loop in found.moving.loops:
            for op in loop.body:
                if isinstance(op, Load) and op.array == array:
                    moves.values[op.result] = stored.value
                elif not isinstance(op, For | Yield):
                    ops.append(moves.op(op))
        nest.body[k : k + 1] = ops
        learn(self.places, program, [outermost])
        try:
            pairs = {pair: None for loop in nest.loops for pair in pairs_apart(loop, program, self.places, self.fresh)}
        except Declined:
            return None
        for pair in pairs:
            made.emit(Guard(made.disjoint(*pair), found.alloc.at))
        return [*made.ops, outermost]

    def replace(self, region: Region, found: Moved, nest: Region) -> None:
        made: Region = []
        for op in region:
            if op is found.filling.loops[0]:
                made += nest
            elif op is not found.alloc and op is not found.moving.loops[0]:
                made.append(op)
        region[:] = made
        self.taken += 1


def moved_arrays(region: Region) -> Iterator[Moved]:
    """Arrays that are made, filled and moved in a region, and used for nothing else."""
    read = [(op, {value for each in walk([op]) for value in uses(each)}) for op in region]
    for op in region:
        if not isinstance(op, Alloc):
            continue
        users = [each for each, values in read if op.result in values]
        if len(users) != 2:
            continue
        filling, moving = (nest_of(each, len(op.sizes)) for each in users)
        if filling is None or moving is None or not filling.has_bounds_of(moving):
            continue
        stores = [each for each in walk([users[0]]) if op.result in uses(each)]
        loads = [each for each in walk([users[1]]) if op.result in uses(each)]
        if len(stores) != 1 or len(loads) != 1 or not is_at(stores[0], Store, filling) or not is_at(loads[0], Load, moving):
            continue
        between = region[region.index(users[0]) + 1 : region.index(users[1])]
        is_plain = all(isinstance(each, (*COMPUTED, Load, Store, Yield)) for each in moving.body)
        if is_plain and all(isinstance(each, COMPUTED) for each in between):
            store = stores[0]
            assert isinstance(store, Store), store
            yield Moved(op, filling, store, moving)


def is_at(op: Op, kind: type[Load | Store], nest: Nest) -> bool:
    """Is it an access of the nest's innermost loop, at the indices of the nest?"""
    return isinstance(op, kind) and op.index == nest.index and any(each is op for each in nest.body)


# --- memory that stays


def in_rooms(program: Program, region: Region) -> None:
    """Let arrays that a region makes, and that nothing else has, be memory of the program's own. Raises Declined where something
    has one."""
    for part in list(all_regions(region)):
        for op in list(part):
            if isinstance(op, Alloc):
                in_room(program, op, region, part)


def in_room(program: Program, op: Alloc, region: Region, part: Region) -> None:
    """The same of one array, which is made in a part of the region."""
    users = [each for each in walk(region) if op.result in uses(each)]
    if op.zeroed or not all(isinstance(each, Load | Store) and each.array == op.result for each in users):
        raise Declined("an array that an iteration makes and keeps")
    made = Emitter(program, op.at)
    count = made.constant(1)
    for each in op.sizes:
        count = cost.product(made, each, count)
    room = in_memory(program, op, count, made)
    k = next(k for k, each in enumerate(part) if each is op)
    part[k : k + 1] = made.ops
    index_once(program, op, region, room)


def in_memory(program: Program, op: Alloc, count: int, made: Emitter) -> int:
    """A room for so many elements, in the place of an array, if there is one."""
    kind = program.types[op.result]
    assert isinstance(kind, Memref), kind
    room = program.new(Memref(kind.element, 1, True, True, True), program.names.get(op.result, ""))
    made.emit(Room(room, count, op.at))
    made.emit(Size(size := program.new(INT), room, 0, op.at))
    holds = [made.let("less_equal", count, size), made.let("less", count, made.constant(cost.MOST))]
    made.emit(Guard(made.all_of(holds), op.at))
    return room


def index_once(program: Program, op: Alloc, region: Region, room: int) -> None:
    """Let accesses of an array be accesses of a room, at one index instead of one for each axis."""
    for part in all_regions(region):
        made: Region = []
        for each in part:
            if isinstance(each, Load | Store) and each.array == op.result:
                emitter = Emitter(program, op.at)
                place = each.index[0]
                for index, size in zip(each.index[1:], op.sizes[1:], strict=True):
                    place = emitter.let("add", emitter.let("multiply", place, size), index)
                each.array, each.index = room, [place]
                made += emitter.ops
            made.append(each)
        part[:] = made
