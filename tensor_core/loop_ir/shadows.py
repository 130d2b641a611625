"""The first half of reverse mode: a program in which every array of numbers has a shadow, the array of its gradients, beside it.
All gradients are computed in float64.

Views, loop-carried arrays and swaps of arrays are mirrored, so where a value is an array its shadow is a value too. What matters
to Python's frame alone goes: leaving such a program is aborting it. Loops that are not counted are made to count iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.activity import Activity, activity_of
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.forms import COPY, walk
from npcompile.tensor_core.loop_ir.fp_status import look_once
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Append,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    If,
    Let,
    NewList,
    Param,
    Policy,
    Poll,
    Program,
    Region,
    Scope,
    Size,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.single_exits import with_single_exits
from npcompile.tensor_core.loop_ir.states import Slot, Use
from npcompile.tensor_core.loop_ir.types import F64, INT, Kind, List, Memref, Type


@dataclass(slots=True)
class Mirrored:
    """A program with shadows."""

    program: Program
    activity: Activity
    state: int  # at its beginning: where it is left
    wanted: dict[int, bool]  # by param
    shadow: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)  # label of a Scope around a While -> how often that has run
    place: dict[int, int] = field(default_factory=dict)  # id of an Append -> how long the list was

    def copy(self, value: int) -> int:
        """A value for the shadow of an array or list."""
        kind = seed_type(self.program.types[value])
        made = self.shadow[value] = self.program.new(kind, f"d_{self.program.names.get(value, '')}")
        return made

    def arrays(self, values: list[int]) -> list[int]:
        return [value for value in values if self.activity.has_shadow(value)]

    def shadows(self, values: list[int]) -> list[int]:
        """The shadows of those that are arrays."""
        return [self.shadow[value] for value in self.arrays(values)]

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            match op:
                case View() if self.activity.has_shadow(op.array):
                    made += [op, View(self.copy(op.result), self.shadow[op.array], op.starts, op.kept, op.sizes, op.at)]
                    continue
                case Alloc() if self.activity.has_shadow(op.result):
                    made += [op, Alloc(self.copy(op.result), op.sizes, True, at=op.at)]
                    continue
                case NewList() if self.activity.has_shadow(op.result):
                    made += [op, NewList(self.copy(op.result), op.at)]
                    continue
                case Append() if self.activity.has_shadow(op.items):
                    made += self.appended(op)
                    continue
                case For():
                    self.loop(op)
                case Scope():
                    self.counted(op)
                    self.region(op.body)
                    self.hides(op.results, op)
                case While():
                    self.hides(op.args, op)
                    self.region(op.body)
                case If():
                    self.hides(op.results, op)
                    self.region(op.then)
                    self.region(op.orelse)
            made.append(op)
        region[:] = made

    def hides(self, values: list[int], op: If | Scope | While) -> None:
        if self.arrays(values):
            raise NoDerivative("which array a variable holds depends on a condition", op.at.line)

    def appended(self, op: Append) -> Region:
        place, zero = self.program.new(INT, "place"), self.program.new(F64)
        self.place[id(op)] = place
        return [Size(place, op.items, 0), op, Constant(zero, 0.0), Append(self.shadow[op.items], zero, op.at)]

    def loop(self, op: For) -> None:
        arrays = self.arrays(op.args)
        op.initial = [*op.initial, *self.shadows(op.initial)]
        op.args = [*op.args, *(self.copy(arg) for arg in arrays)]
        self.region(op.body)
        end = op.body[-1]
        if not isinstance(end, Yield):
            raise NoDerivative("a counted loop that is left from inside", op.at.line)
        end.values = [*end.values, *self.shadows(end.values)]
        op.results = [*op.results, *(self.copy(result) for result in self.arrays(op.results))]

    def counted(self, op: Scope) -> None:
        """Let a Scope around a While have one more result: how many iterations ran."""
        loop = op.body[-1]
        if not isinstance(loop, While):
            return
        program = self.program
        zero, one, before, after = (program.new(INT) for _ in range(4))
        op.body.insert(len(op.body) - 1, Constant(zero, 0))
        loop.body[:0] = [Constant(one, 1), Let(after, "add", [before, one])]
        loop.args, loop.initial = [*loop.args, before], [*loop.initial, zero]
        for each in walk(loop.body):
            if isinstance(each, Again) and each.target == loop.label or isinstance(each, Break) and each.target == op.label:
                each.values = [*each.values, after]
        self.count[op.label] = program.new(INT, "iterations")
        op.results = [*op.results, self.count[op.label]]


class WithoutFrames(Cloner):
    """Copies of ops that leave for one state, which they get afterwards."""

    def region(self, region: Region) -> Region:
        return [COPY[type(op)](op, self) for op in region if type(op) is not FrameState]


def mirror(source: Program, wanted: Sequence[bool]) -> Mirrored:
    """A copy of a structured program, with shadows of what depends on the params that are `wanted`."""
    program = Program(source.name, source.file, policy=Policy.ABORT)
    cloner = WithoutFrames(program, source)
    program.params = [Param(cloner.define(param.value), param.slot) for param in source.params]
    program.body = cloner.region(source.body)
    with_single_exits(program)
    state = program.new_state()
    leave_at(program.body, state)
    look_once(program, state)
    slots = [Slot(param.slot, Use(param.value)) for param in program.params if param.slot is not None]
    asked = {param.value: is_wanted for param, is_wanted in zip(program.params, wanted, strict=True)}
    activity = activity_of(program, [value for value, is_wanted in asked.items() if is_wanted])
    made = Mirrored(program, activity, state, asked)
    begins: Region = [FrameState(state, 0, [], slots)]
    for value, is_wanted in asked.items():
        if activity.has_shadow(value):
            shadow = made.copy(value)
            if is_wanted:
                program.params.append(Param(shadow, None))
            else:
                begins += zeros_like(program, shadow, value)
    made.region(program.body)
    program.body[:0] = begins
    return made


def zeros_like(program: Program, result: int, array: int) -> Region:
    """The shadow of an array that is written, and whose gradient nobody asks for."""
    kind = program.types[array]
    assert isinstance(kind, Memref), kind
    program.types[result] = Memref(Kind.F64, kind.rank, contiguous=True, writeable=True, owned=True)
    sizes = [program.new(INT, "n") for _ in range(kind.rank)]
    return [*(Size(size, array, axis) for axis, size in enumerate(sizes)), Alloc(result, sizes, True)]


def leave_at(region: Region, state: int) -> None:
    """Let all that leaves abort: Python begins anew."""
    for op in walk(region):
        if isinstance(op, (Check, Poll, FpCheck)):
            op.state = state


def seed_type(kind: Type) -> Memref | List:
    if isinstance(kind, List):
        return List(Kind.F64)
    assert isinstance(kind, Memref), kind
    return Memref(Kind.F64, kind.rank, contiguous=kind.contiguous, writeable=True)
