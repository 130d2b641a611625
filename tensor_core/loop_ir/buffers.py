"""Arrays that iterations make anew, in memory that is made once: reverse mode then reads what was there from tapes.

A loop that hands an array which an iteration has made to the next one copies it into a buffer instead. Nobody sees that, if no
one stores into what was handed on. An array that an iteration makes has the same memory in each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.activity import Activity, activity_of
from npcompile.tensor_core.loop_ir.forms import all_regions, final, inner, regions, results, substitute_final, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Break,
    Check,
    Constant,
    For,
    FrameState,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Place,
    Program,
    Region,
    Scope,
    Size,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.states import Literal
from npcompile.tensor_core.loop_ir.types import BOOL, INT, Memref, Scalar, Type, zero_of

Element: TypeAlias = Callable[[list[int]], Region]  # what is done with the element at an index


def use_buffers(program: Program) -> int:
    """Give arrays that loops make anew memory of their own, in place. How many. Of a structured program that aborts."""
    state = next((op.name for op in program.body if isinstance(op, FrameState)), None)
    if state is None or not any(isinstance(op, Alloc) for op in walk(program.body)):
        return 0
    made = Buffers(program, state, activity_of(program, []))
    made.note_all(program.body, 0)
    made.region(program.body, {param.value for param in program.params})
    substitute_final(program.body, made.new)
    return made.found


@dataclass(slots=True)
class Buffers:
    program: Program
    state: int
    activity: Activity
    allocs: dict[int, Alloc] = field(default_factory=dict)
    sizes: dict[int, Size] = field(default_factory=dict)
    constants: dict[int, Literal] = field(default_factory=dict)
    shape: dict[int, list[int]] = field(default_factory=dict)  # of views and new arrays
    base: dict[int, int] = field(default_factory=dict)  # of views
    stores: list[tuple[int, int]] = field(default_factory=list)  # where in the text, and into which array
    places: dict[int, int] = field(default_factory=dict)  # of Allocs in the text, by result
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)  # of ops with regions, by id
    new: dict[int, int] = field(default_factory=dict)
    found: int = 0

    def note_all(self, region: Region, place: int) -> int:
        """Number the ops in the order of the text."""
        for op in region:
            place += 1
            self.note(op)
            first = place
            for part in regions(op):
                place = self.note_all(part, place)
            self.spans[id(op)] = first, place + 1
            match op:
                case Store(array):
                    self.stores.append((first, array))
                case Alloc(result):
                    self.places[result] = first
        return place

    def note(self, op: Op) -> None:
        match op:
            case Alloc(result):
                self.allocs[result] = op
                self.shape[result] = op.sizes
            case Size(result, array, axis) if array in self.shape:
                self.new[result] = self.shape[array][axis]
            case Size(result):
                self.sizes[result] = op
            case Constant(result, value):
                self.constants[result] = value
            case View(result, array):
                self.base[result] = array
                self.shape[result] = op.sizes

    def whole(self, array: int) -> int:
        """What a view is part of."""
        array = final(array, self.new)
        while array in self.base:
            array = final(self.base[array], self.new)
        return array

    def is_array(self, value: int) -> bool:
        return isinstance(self.program.types[value], Memref)

    # --- regions

    def region(self, region: Region, outside: set[int]) -> None:
        """`outside`: the values that are seen where the region begins."""
        seen = set(outside)
        made: Region = []
        for op in region:
            match op:
                case For():
                    now = self.counted(op, seen)
                case Scope(label, [*first, While() as loop]) if not any(leaves(each, label) for each in first):
                    self.region(first, seen)
                    now = [*first, *self.uncounted(op, loop, seen | defined(first))]
                case If():
                    self.region(op.then, seen)
                    self.region(op.orelse, seen)
                    ends = [(arm, arm[-1]) for arm in (op.then, op.orelse) if isinstance(arm[-1], Yield)]
                    before = self.merged(op, ends, seen)
                    now = [*before, *self.taken_out([op], seen | defined(before), set()), op]
                case _:
                    for part in regions(op):
                        self.region(part, seen)
                    now = [*self.taken_out([op], set(seen), set()), op] if isinstance(op, Scope) else [op]
            made += now
            seen |= defined(now)
        region[:] = made

    def counted(self, op: For, seen: set[int]) -> Region:
        end = op.body[-1]
        assert isinstance(end, Yield), end
        before, places = self.handed(op, [(op.body, end.values)], seen)
        for k in sorted(places, reverse=True):
            self.new[op.results[k]] = self.new[op.args[k]]
            for values in (op.args, op.initial, op.results, end.values):
                del values[k]
        moved = self.body(op, seen, before, [end.values])
        return [*before, *moved, op]

    def uncounted(self, op: Scope, loop: While, seen: set[int]) -> Region:
        nexts = [
            (part, part[-1].values)
            for part in all_regions(loop.body)
            if isinstance(part[-1], Again) and part[-1].target == loop.label
        ]
        before, places = self.handed(loop, nexts, seen)
        sized = {given[k]: self.new[loop.args[k]] for _, given in nexts for k in places}
        for k in sorted(places, reverse=True):
            for values in (loop.args, loop.initial, *(given for _, given in nexts)):
                del values[k]
        moved = self.body(loop, seen, before, [given for _, given in nexts])
        op.body[:] = [loop]
        ends = [(part, part[-1]) for part in all_regions(op.body) if is_break(part[-1], op.label)]
        return [*before, *moved, *self.merged(op, ends, seen | defined(before) | defined(moved), sized), op]

    def body(self, op: For | While, seen: set[int], before: Region, ends: list[list[int]]) -> Region:
        """The loop's body, and what is taken out of it."""
        outside = seen | defined(before)
        self.region(op.body, outside | set(inner(op)))
        kept = {self.whole(value) for values in ends for value in values if self.is_array(value)}
        chosen = any(self.is_array(value) for each in walk(op.body) if isinstance(each, If | Scope) for value in each.results)
        return [] if chosen else self.taken_out(op.body, outside, kept)

    def merged(
        self, op: Scope | If, ends: Sequence[tuple[Region, Op]], seen: set[int], sized: Mapping[int, int] = MappingProxyType({})
    ) -> Region:
        """Results that are the same array whichever way `op` ends, or are copied into one before that. What stands before it.

        `sized`: arrays that an iteration makes, and others of their sizes that are there before.
        """
        inside = {value for each in walk([op]) for value in (*results(each), *inner(each))} - set(op.results)
        before: Region = []
        for k in reversed(range(len(op.results))):
            if not self.is_array(op.results[k]):
                continue
            given = {final(end.values[k], self.new) for _, end in ends}  # type: ignore[attr-defined]
            known = next((array for array in given if array in seen and array not in inside), None)
            known = next((sized[array] for array in given if array in sized), None) if known is None else known
            if len(given) == 1 and not given & inside:
                self.new[op.results[k]] = given.pop()
            elif known is not None and self.fits(op, op.results[k]):
                self.new[op.results[k]] = self.joined(k, known, ends, before)
            else:
                continue
            del op.results[k]
            for _, end in ends:
                del end.values[k]  # type: ignore[attr-defined]
        return before

    def joined(self, k: int, known: int, ends: Sequence[tuple[Region, Op]], before: Region) -> int:
        """One array of the sizes of `known`, which each end copies its own into."""
        at = ends[0][1].at  # type: ignore[attr-defined]
        kind = self.program.types[known]
        assert isinstance(kind, Memref), kind
        sizes = [self.program.new(INT, "n") for _ in range(kind.rank)]
        before += [Size(size, known, axis, at) for axis, size in enumerate(sizes)]
        buffer = self.buffer(kind, sizes, before)
        for each in before:
            self.note(each)
        for part, end in ends:
            array = final(end.values[k], self.new)  # type: ignore[attr-defined]
            part[-1:-1] = [*self.checked(array, sizes, at), *self.copied(array, buffer, at)]
        return buffer

    def fits(self, op: Op, array: int) -> bool:
        """Does nobody store into what this array may share memory with, but where it is made anew?"""
        first, last = self.spans[id(op)]
        root = self.activity.root(array)
        for place, stored in self.stores:
            made = self.places.get(stored)
            if self.activity.root(stored) != root:
                continue
            if made is None or first < place < last and not first < made < last or place > last > made and made < first:
                return False
        return True

    # --- arrays that are handed on

    def handed(self, op: For | While, ends: list[tuple[Region, list[int]]], seen: set[int]) -> tuple[Region, list[int]]:
        """Buffers for the arrays that a loop hands on, and which of its args they were for."""
        own = {value for each in walk(op.body) for value in results(each)}
        places = self.chosen(op, [values for _, values in ends], own)
        if not all(self.fits(op, op.args[k]) for k in places):
            return [], []
        before: Region = []
        buffers: dict[int, int] = {}
        sizes: dict[int, list[int]] = {}
        for k in places:
            kind = self.program.types[op.args[k]]
            assert isinstance(kind, Memref), kind
            sizes[k] = [self.program.new(INT, "n") for _ in range(kind.rank)]
            before += [Size(size, op.initial[k], axis, op.at) for axis, size in enumerate(sizes[k])]
            buffers[k] = self.buffer(kind, sizes[k], before)
            before += self.copied(op.initial[k], buffers[k], op.at)
            self.new[op.args[k]] = buffers[k]
            for each in walk(op.body):
                if isinstance(each, Size) and each.array == op.args[k]:
                    self.new[each.result] = sizes[k][each.axis]
        for each in before:
            self.note(each)
        for region, values in ends:
            first: Region = []
            then: Region = []
            for k in places:
                value = final(values[k], self.new)
                if value == buffers[k]:
                    continue
                first += self.checked(value, sizes[k], op.at)
                if value in buffers.values():  # which is overwritten, perhaps before it is copied
                    kept = self.buffer(self.program.types[value], sizes[k], before)
                    first += self.copied(value, kept, op.at)
                    value = kept
                then += self.copied(value, buffers[k], op.at)
            region[-1:-1] = [*first, *then]
        return before, places

    def chosen(self, op: For | While, ends: list[list[int]], own: set[int]) -> list[int]:
        """The args that an iteration makes anew, and those that may get such a one. None where an array of another kind is among
        them."""
        places: set[int] = set()
        more = {k for k, arg in enumerate(op.args) if self.is_array(arg) and any(self.is_new(values[k], own) for values in ends)}
        while more - places:
            places |= more
            taken = {op.args[k] for k in places}
            more = {k for k, arg in enumerate(op.args) if any(values[k] in taken for values in ends) and k not in places}
        fits = all(self.is_new(values[k], own) or values[k] in op.args for values in ends for k in places)
        return sorted(places) if fits else []

    def is_new(self, value: int, own: set[int]) -> bool:
        """Is it made there, or seen there as a part of another array?"""
        return (value in self.allocs or value in self.base) and value in own

    def buffer(self, kind: Type, sizes: list[int], before: Region) -> int:
        assert isinstance(kind, Memref), kind
        made = self.program.new(Memref(kind.element, kind.rank, contiguous=True, writeable=True), "buffer")
        before.append(Alloc(made, sizes, False))
        self.found += 1
        return made

    def checked(self, array: int, sizes: list[int], at: Place) -> Region:
        """Leave where an array has other sizes."""
        made: Region = []
        for axis, size in enumerate(sizes):
            now, is_same = self.program.new(INT), self.program.new(BOOL)
            made += [Size(now, array, axis, at), Let(is_same, "equal", [now, size], at), Check(is_same, self.state, at)]
        return made

    def copied(self, source: int, target: int, at: Place) -> Region:
        kind = self.program.types[target]
        assert isinstance(kind, Memref), kind

        def element(index: list[int]) -> Region:
            value = self.program.new(Scalar(kind.element))
            return [Load(value, source, index, at), Store(target, index, value, at)]

        return nest(self.program, target, kind.rank, element, at)

    # --- arrays that are made in each iteration

    def taken_out(self, body: Region, outside: set[int], kept: set[int]) -> Region:
        """The Allocs of a loop's body whose sizes are known before it, and what computes these. Not those that are `kept`."""
        moved: Region = []
        for part in parts_of(body):
            made: Region = []
            for op in part:
                if isinstance(op, Alloc) and op.result not in kept and all(self.is_seen(size, outside) for size in op.sizes):
                    sizes = [self.before(size, outside, moved) for size in op.sizes]
                    moved.append(Alloc(op.result, sizes, False, at=op.at))
                    outside |= {op.result, *sizes}
                    made += self.zeros(op.result, op.at) if op.zeroed else []
                    self.found += 1
                else:
                    made.append(op)
            part[:] = made
        return moved

    def is_seen(self, size: int, outside: set[int]) -> bool:
        size = final(size, self.new)
        op = self.sizes.get(size)
        return size in outside or size in self.constants or op is not None and final(op.array, self.new) in outside

    def before(self, size: int, outside: set[int], moved: Region) -> int:
        """The same size where the Alloc will be."""
        size = final(size, self.new)
        if size in outside:
            return size
        made = self.program.new(INT, "n")
        self.new[size] = made
        if size in self.constants:
            moved.append(Constant(made, self.constants[size]))
            self.constants[made] = self.constants[size]
        else:
            op = self.sizes[size]
            self.sizes[made] = Size(made, final(op.array, self.new), op.axis, op.at)
            moved.append(self.sizes[made])
        return made

    def zeros(self, array: int, at: Place) -> Region:
        kind = self.program.types[array]
        assert isinstance(kind, Memref), kind

        def element(index: list[int]) -> Region:
            value = self.program.new(Scalar(kind.element))
            return [Constant(value, zero_of(kind.element), at), Store(array, index, value, at)]

        return nest(self.program, array, kind.rank, element, at)


def nest(program: Program, array: int, rank: int, element: Element, at: Place) -> Region:
    """Loops over all elements of an array."""

    def inside(axis: int, index: list[int]) -> Region:
        if axis == rank:
            return element(index)
        size, zero, k = (program.new(INT) for _ in range(3))
        body = [*inside(axis + 1, [*index, k]), Yield([])]
        return [Size(size, array, axis, at), Constant(zero, 0), For(LoopKind.SERIAL, k, zero, size, [], [], body, [], at)]

    return inside(0, [])


def defined(region: Region) -> set[int]:
    """The values that its ops define for those after it."""
    return {value for op in region for value in results(op)}


def is_break(op: Op, label: int) -> bool:
    return isinstance(op, Break) and op.target == label


def leaves(op: Op, label: int) -> bool:
    return any(is_break(each, label) for each in walk([op]))


def parts_of(region: Region) -> list[Region]:
    """The region and those inside it, but for those of loops."""
    found = [region]
    for op in region:
        if isinstance(op, If | Scope):
            for part in regions(op):
                found += parts_of(part)
    return found
