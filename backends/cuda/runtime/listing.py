"""What a program of several pieces gives the device, noted while it runs, then given again by one call of C.

A step refers to memory by the input, the result or the temporary that it lies in, so programs whose steps are known run with
other inputs and in fresh memory. A program that does anything else, or meets memory that it has not noted, is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np

from npcompile.backends.cuda.runtime.graphs import CAPTURING, LISTING
from npcompile.backends.cuda.runtime.interface import Device, Runner
from npcompile.backends.cuda.runtime.launch import Argument, Step
from npcompile.backends.cuda.runtime.memory import Lifetime, plan_memory
from npcompile.backends.cuda.runtime.recipe import MOST_RECIPES, Phase, Recipe, key_of_call

MOST_BYTES = 1 << 30  # of a program's own memory, which is all kept while its steps are noted
Launcher = Callable[..., None]


class Unlisted(Exception):
    """The program does what no list holds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of an input, or of a room."""

    kind: str  # "input", "room" or "flag"
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A 0-D input by value, or its "r" or "i" part."""

    input: int
    part: str


@dataclass(frozen=True, slots=True)
class Handle:
    """That of cuBLAS, which each thread has one of."""


Reference = Place | Scalar | Handle | int  # an argument of a step; the last is the same in every run


@dataclass(slots=True, eq=False)
class Room:
    """Memory that the program took."""

    array: Any
    start: int
    size: int
    first: int  # the steps that use it
    last: int


@dataclass(slots=True, eq=False)
class Lister:
    """The steps of a run so far."""

    device: Device
    inputs: Sequence[Any]
    spans: list[tuple[int, int, int]]  # of inputs: addresses from and to, which input
    rooms: list[Room] = field(default_factory=list)
    steps: list[tuple[Launcher, int, tuple[Reference, ...]]] = field(default_factory=list)
    refused: bool = False
    flags: list[int] = field(default_factory=list)  # their addresses: one serves all
    held: list[Any] = field(default_factory=list)  # the flags themselves, so that their addresses are nobody else's
    written_from: int | None = None  # the first step that writes to an input

    @classmethod
    def of(cls, device: Device, inputs: Sequence[Any]) -> Lister:
        spans = []
        for k, (x, address) in enumerate(zip(inputs, device.addresses(inputs))):
            if address is not None and x.size:
                low = address + sum(min(s, 0) * (n - 1) for n, s in zip(x.shape, x.strides))
                high = address + sum(max(s, 0) * (n - 1) for n, s in zip(x.shape, x.strides)) + x.itemsize
                spans.append((low, high, k))
        spans.sort()
        meets = any(high > low for (_, high, _), (low, _, _) in pairwise(spans))
        return cls(device, inputs, spans, refused=meets)  # of inputs that share memory nobody knows which one was meant

    def take(self, arrays: Sequence[Any]) -> None:
        """The program has memory of its own."""
        if self.refused:  # then nothing is to be kept
            return
        for array, start in zip(arrays, self.device.addresses(arrays)):
            assert start is not None
            self.rooms.append(Room(array, start, array.nbytes, len(self.steps), len(self.steps)))
        if sum(r.size for r in self.rooms) > MOST_BYTES:
            self.refuse()

    def refuse(self) -> None:
        self.refused = True
        self.rooms.clear()
        self.steps.clear()

    def add(self, launcher: Launcher, grid: int, arguments: Iterable[Reference]) -> None:
        """A step. Arguments that raise Unlisted end the list."""
        if self.refused:
            return
        try:
            self.steps.append((launcher, grid, tuple(arguments)))
        except Unlisted:
            self.refuse()

    def add_memory(self, recipe: Recipe, outputs: Sequence[Any], held: Sequence[Any]) -> None:
        """What a piece takes: results, and what it holds until all is launched."""
        if recipe.phases and recipe.phases[0].is_checked:
            *held, flag = held
            self.held.append(flag)
            self.flags += addresses_of(self.device, [flag])
        if recipe.writes:  # by itself: nobody knows when
            self.refuse()
        self.take([*outputs, *held])

    def add_phase(self, recipe: Recipe, phase: Phase, inputs: Sequence[Any], values: Sequence[Any]) -> None:
        """The launches of a piece with these inputs, by the values that its arguments refer to."""
        first = len(inputs)
        scalars = range(first, first + len(recipe.scalars))

        def references(step: Step) -> Iterator[Reference]:
            for a in step.arguments:
                if a.index is None:
                    yield a.number
                elif a.index in scalars:
                    k, part = recipe.scalars[a.index - first]
                    yield Scalar(self.source_of(inputs[k]), part)
                else:
                    yield self.place(values[a.index] + a.number)

        for step in phase.steps:
            self.add(step.launcher, step.grid, references(step))

    def add_copy(self, target: Any, source: Any) -> None:
        """An input gets its new contents."""
        if self.written_from is None:
            self.written_from = len(self.steps)
        self.add(self.device.copier(target.nbytes), 0, map(self.place, addresses_of(self.device, [target, source])))

    def add_product(self, launcher: Launcher, operands: Sequence[Any], result: Any) -> None:
        self.take([result])
        places = map(self.place, addresses_of(self.device, [*operands, result]))
        self.add(launcher, 0, chain((Handle(),), places))

    def place(self, address: int) -> Place:
        """Whose memory an address is in. Raises Unlisted."""
        if address in self.flags:
            return Place("flag", 0, 0)
        for k in reversed(range(len(self.rooms))):
            room = self.rooms[k]
            if room.start <= address < room.start + room.size:
                room.last = len(self.steps)
                return Place("room", k, address - room.start)
        for low, high, k in self.spans:
            if low <= address < high:
                return Place("input", k, address - (self.device.addresses([self.inputs[k]])[0] or 0))
        raise Unlisted

    def source_of(self, value: Any) -> int:
        """Which input this is. Raises Unlisted."""
        for k, x in enumerate(self.inputs):
            if x is value:
                return k
        raise Unlisted


@contextmanager
def listing(device: Device, inputs: Sequence[Any]) -> Iterator[Lister]:
    LISTING.lister = made = Lister.of(device, inputs)
    try:
        yield made
    finally:
        LISTING.lister = None


def addresses_of(device: Device, arrays: Sequence[Any]) -> list[int]:
    return [a or 0 for a in device.addresses(arrays)]


def listed(lister: Lister, outputs: Sequence[Any]) -> Recipe:
    """What gives these results of the run that was noted again. Raises Unlisted."""
    device = lister.device
    if lister.refused:
        raise Unlisted
    given: list[int] = []  # the room that each result is
    for x, address in zip(outputs, device.addresses(outputs)):
        rooms = [k for k, r in enumerate(lister.rooms) if r.start == address and r.size == x.nbytes]
        if len(rooms) != 1 or rooms[0] in given:
            raise Unlisted
        given += rooms
    used = list(dict.fromkeys(a for _, _, arguments in lister.steps for a in arguments if isinstance(a, (Scalar, Handle))))
    scalars = [a for a in used if isinstance(a, Scalar)]
    first = len(lister.inputs) + len(scalars)
    inside = [k for k in range(len(lister.rooms)) if k not in given]
    offsets, size = plan_memory([Lifetime(r.size, r.first, r.last) for r in (lister.rooms[k] for k in inside)])
    arena = first + len(outputs)
    rooms_at = {k: Argument(arena, offset) for k, offset in zip(inside, offsets)}
    rooms_at |= {k: Argument(first + j) for j, k in enumerate(given)}

    def argument(reference: Reference) -> Argument:
        match reference:
            case Place("input", number, offset):
                return Argument(number, offset)
            case Place("flag"):
                return Argument(arena + bool(inside))
            case Place(_, number, offset):
                room = rooms_at[number]
                return Argument(room.index, room.number + offset)
            case Scalar():
                return Argument(len(lister.inputs) + scalars.index(reference))
            case Handle():
                return Argument(arena + bool(inside) + bool(lister.flags))
            case number:
                return Argument(None, number)

    steps = [Step(launcher, grid, tuple(map(argument, arguments))) for launcher, grid, arguments in lister.steps]
    makers = [device.maker(x.shape, x.dtype, x.strides) for x in outputs]
    room = device.maker((size,), np.dtype(np.uint8), (1,)) if inside else None
    phases = [Phase.of(steps)]
    if lister.flags:
        written_from = len(steps) if lister.written_from is None else lister.written_from
        phases = [Phase.of(steps[:written_from], is_checked=True)]
        phases += [Phase.of(steps[written_from:])] if written_from < len(steps) else []
    return Recipe(
        [(s.input, s.part) for s in scalars], makers, room, phases, writes=bool(lister.flags), uses_blas=Handle() in used
    )


@dataclass(slots=True, eq=False)
class ListedProgram:
    """A program of several pieces, whose steps are noted at its second run with given sizes: the first one compiles them."""

    runner: Runner
    recipes: dict[tuple, Recipe | None] = field(default_factory=dict)  # None: not yet
    refused: bool = False

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        if self.refused or CAPTURING.flags is not None:
            return self.runner(device, inputs, symbols)
        addresses = device.addresses(inputs)
        key = key_of_call(inputs, addresses, symbols)
        recipe = self.recipes.get(key)
        if recipe is not None:
            return recipe.run(device, inputs, addresses)
        if key not in self.recipes:
            if len(self.recipes) >= MOST_RECIPES:
                self.recipes.clear()
            self.recipes[key] = None
            return self.runner(device, inputs, symbols)
        with listing(device, inputs) as lister:
            results = self.runner(device, inputs, symbols)
        try:
            self.recipes[key] = listed(lister, results)
        except Unlisted:
            self.refused = True
        return results
