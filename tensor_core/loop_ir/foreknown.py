"""What is known of a program's numbers before it runs, by the sizes and numbers of its arguments; and about how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from npcompile.tensor_core.loop_ir.cost import ITERATIONS, NANOSECOND, own_cost
from npcompile.tensor_core.loop_ir.forms import regions, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Break,
    Call,
    Constant,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Op,
    Program,
    Region,
    Scope,
    Size,
    Store,
    View,
    While,
)
from npcompile.tensor_core.loop_ir.rows import MEANINGS, Number
from npcompile.tensor_core.loop_ir.types import BOOL, INT

Shape = tuple[int | None, ...]


@dataclass(slots=True)
class Foreknown:
    """Numbers and shapes by value. Those of one place of the program, for a walk that goes on to the next."""

    numbers: dict[int, Number] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)

    def take(self, program: Program, op: Op) -> None:
        """What an op without regions gives."""
        match op:
            case Constant(result, value):
                self.numbers[result] = value
            case Size(result, array, axis) if array in self.shapes:
                if (size := self.shapes[array][axis]) is not None:
                    self.numbers[result] = size
            case Let(result, name, args) if program.types[result] in (INT, BOOL) and self.numbers.keys() >= set(args):
                with suppress(ZeroDivisionError):  # after a Check, which leaves there
                    self.numbers[result] = MEANINGS[name](*(self.numbers[arg] for arg in args))
            case Alloc(result, sizes):
                self.shapes[result] = self.sizes(sizes)
            case View(result, _, _, _, sizes):
                self.shapes[result] = self.sizes(sizes)

    def integer(self, value: int) -> int | None:
        found = self.numbers.get(value)
        return int(found) if isinstance(found, int | np.integer) else None

    def sizes(self, values: Sequence[int]) -> Shape:
        return tuple(map(self.integer, values))

    def count(self, loop: For) -> int | None:
        """How many iterations a loop has."""
        start, stop = self.integer(loop.start), self.integer(loop.stop)
        return None if start is None or stop is None else max(stop - start, 0)


def given(program: Program, arguments: Sequence[Number | Shape]) -> Foreknown:
    """What the arguments say: integers, and shapes in the place of arrays. Sizes that other numbers decide are not known."""
    made = Foreknown()
    for param, argument in zip(program.params, arguments):
        if isinstance(argument, tuple):
            made.shapes[param.value] = argument
        elif isinstance(argument, int | np.integer):
            made.numbers[param.value] = argument
    return made


def before_loops(program: Program, known: Foreknown) -> Foreknown:
    """Add what is computed outside of loops and of arms: it is what it is in any run."""
    pending = [program.body]
    while pending:
        for op in pending.pop():
            known.take(program, op)
            if isinstance(op, Scope):
                pending.append(op.body)
    return known


# --- time


@dataclass(frozen=True, slots=True)
class Machine:
    """A device beside a core of the host, whose unit of time cost.py's numbers are."""

    slower: float = 12.0  # one thread than that core
    cores: float = 1500.0  # so many such cores do what all threads do
    meeting: float = 3000.0  # ns, for all threads to wait for each other
    load: float = 600.0  # ns, which a thread waits for memory
    launch: float = 25000.0  # ns, for a kernel and what it says at its end
    bytes_a_ns: float = 20.0  # between host and device
    transfer: float = 15000.0  # ns, for a copy of nothing


@dataclass(frozen=True, slots=True)
class Seconds:
    """About how long a program takes, in nanoseconds."""

    host: float
    device: float

    def times(self, count: float) -> Seconds:
        return Seconds(self.host * count, self.device * count)

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.host + other.host, self.device + other.device)


NOTHING = Seconds(0.0, 0.0)


@dataclass(slots=True)
class Estimate:
    """Of a program after `use_grid`. What nobody knows is guessed: an inner loop is looked at in the middle of the outer one."""

    program: Program
    known: Foreknown
    machine: Machine
    threads: int  # of the host

    def region(self, region: Region) -> Seconds:
        total = NOTHING
        for op in region:
            total += self.op(op)
        return total

    def op(self, op: Op) -> Seconds:
        self.known.take(self.program, op)
        match op:
            case For():
                return self.loop(op)
            case While(_, args, initial):
                self.pass_on(zip(initial, args))
                return self.region(op.body).times(ITERATIONS)
            case If():
                arms = [self.region(arm) for arm in (op.then, op.orelse)]
                return Seconds(max(arm.host for arm in arms), max(arm.device for arm in arms))
            case Again() | Break():
                return NOTHING
        inside = [self.region(part) for part in regions(op)]
        host = own_cost(op) / NANOSECOND
        device = host * self.machine.slower
        if isinstance(op, Load | Call):
            device += self.machine.load
        if isinstance(op, Store):
            device += 2 * self.machine.meeting
        return sum(inside, Seconds(host, device))

    def pass_on(self, pairs: Iterable[tuple[int, int]]) -> None:
        for value, taker in pairs:
            if value in self.known.shapes:
                self.known.shapes[taker] = self.known.shapes[value]

    def loop(self, op: For) -> Seconds:
        count = self.known.count(op)
        if count is not None and (start := self.known.integer(op.start)) is not None:
            self.known.numbers[op.index] = start + count // 2
        count = ITERATIONS if count is None else count
        self.pass_on(zip(op.initial, op.args))
        each = self.region(op.body)
        self.pass_on(zip(op.args, op.results))
        if op.kind is not LoopKind.PARALLEL:
            return each.times(count)
        host, machine = each.host * count, self.machine
        device = max(each.host * machine.slower, host / machine.cores) + machine.meeting if count else 0.0
        return Seconds(host / self.threads if host > 40_000 else host, device)


def estimated(program: Program, arguments: Sequence[Number | Shape], moved: int, machine: Machine, threads: int) -> Seconds:
    """About how long it takes on the host, with so many bytes to move there and back, and on the device."""
    estimate = Estimate(program, given(program, arguments), machine, threads)
    found = estimate.region(program.body)
    host = found.host + moved / machine.bytes_a_ns + 2 * machine.transfer * bool(moved)
    return Seconds(host, found.device + machine.launch)


def is_parallel(program: Program) -> bool:
    """Is there a loop that runs on many threads?"""
    return any(isinstance(op, For) and op.kind is LoopKind.PARALLEL for op in walk(program.body))
