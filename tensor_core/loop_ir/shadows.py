"""The first half of reverse mode: a program in which every array of numbers has a shadow, the array of its gradients, beside it.

Views, loop-carried arrays and swaps of arrays are mirrored, so where a value is an array its shadow is a value too. What matters
to Python's frame alone goes: leaving such a program is aborting it. Loops that are not counted are made to count iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.forms import all_regions, regions, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    FrameState,
    If,
    Let,
    Param,
    Policy,
    Poll,
    Program,
    Region,
    Return,
    Scope,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.states import Slot, Use
from npcompile.tensor_core.loop_ir.types import F64, FLOAT, INT, Kind, Memref


class NoDerivative(Exception):
    """Reverse mode has no rule for an op: why, and the user's line."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


@dataclass(slots=True)
class Mirrored:
    """A program with shadows."""

    program: Program
    shadow: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)  # label of a Scope around a While -> how often that has run

    def seed(self, value: int) -> int:
        """A param for the shadow of an array from outside."""
        kind = self.program.types[value]
        assert isinstance(kind, Memref), kind
        made = self.program.new(seed_type(kind), f"d_{self.program.names.get(value, '')}")
        self.program.params.append(Param(made, None))
        return made

    def copy(self, value: int) -> int:
        """A value for the shadow of an array inside."""
        kind = self.program.types[value]
        assert isinstance(kind, Memref), kind
        made = self.shadow[value] = self.program.new(seed_type(kind), f"d_{self.program.names.get(value, '')}")
        return made

    def arrays(self, values: list[int]) -> list[int]:
        return [value for value in values if has_shadow(self.program, value)]

    def shadows(self, values: list[int]) -> list[int]:
        """The shadows of those that are arrays."""
        return [self.shadow[value] for value in self.arrays(values)]

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            match op:
                case View() if has_shadow(self.program, op.array):
                    made += [op, View(self.copy(op.result), self.shadow[op.array], op.starts, op.kept, op.sizes, op.at)]
                    continue
                case Alloc() if has_shadow(self.program, op.result):
                    made += [op, Alloc(self.copy(op.result), op.sizes, True, op.at)]
                    continue
                case For():
                    self.loop(op)
                case Scope():
                    self.counted(op)
                    self.region(op.body)
                case While() if self.arrays(op.args):
                    raise NoDerivative("a loop that is not counted carries arrays", op.at.line)
                case If() if self.arrays(op.results):
                    raise NoDerivative("an array that depends on a condition", op.at.line)
                case _:
                    for part in regions(op):
                        self.region(part)
            made.append(op)
        region[:] = made

    def loop(self, op: For) -> None:
        arrays = [arg for arg in op.args if has_shadow(self.program, arg)]
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
        line = loop.at.line  # type: ignore[attr-defined]
        if not isinstance(loop, While):
            raise NoDerivative("a loop that is left in several places", line)
        for part in (op.body[:-1], loop.body):
            if any(isinstance(each, Break) and each.target != op.label or isinstance(each, Return) for each in walk(part)):
                raise NoDerivative("a loop that is left in several places", line)
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


def mirror(source: Program) -> Mirrored:
    """A copy of a structured program, with shadows."""
    program = Program(source.name, source.file, policy=Policy.ABORT)
    cloner = Cloner(program, source)
    program.params = [Param(cloner.define(param.value), param.slot) for param in source.params]
    program.body = without_frames(cloner.region(source.body), program)
    with_one_end(program, program.body)
    made = Mirrored(program)
    for param in list(program.params):
        if has_shadow(program, param.value):
            made.shadow[param.value] = made.seed(param.value)
    made.region(program.body)
    return made


def has_shadow(program: Program, value: int) -> bool:
    kind = program.types[value]
    return isinstance(kind, Memref) and kind.element is Kind.F64


def without_frames(region: Region, program: Program) -> Region:
    """Without what leaving exactly needs. Checks abort: Python begins anew."""
    state = program.new_state()
    slots = [Slot(param.slot, Use(param.value)) for param in program.params if param.slot is not None]
    for part in all_regions(region):
        part[:] = [op for op in part if not isinstance(op, FrameState | Poll | FpCheck | FpClear)]
    for op in walk(region):
        if isinstance(op, Check):
            op.state = state
    return [FrameState(state, 0, [], slots), *region]


def with_one_end(program: Program, region: Region) -> None:
    """Let a region whose arms return numbers of several kinds return one f64."""
    end = region[-1]
    if not isinstance(end, If) or end.results:
        return
    for arm in (end.then, end.orelse):
        with_one_end(program, arm)
    last = [arm[-1] for arm in (end.then, end.orelse)]
    values = [op.value.value if isinstance(op, Return) and isinstance(op.value, Use) else -1 for op in last]
    if any(value < 0 or program.types[value] not in (F64, FLOAT) for value in values):
        raise NoDerivative("a function that ends in several places", end.at.line)
    end.results = [program.new(F64, "result")]
    for arm, value in zip((end.then, end.orelse), values):
        converted = program.new(F64)
        arm[-1:] = [Let(converted, "to_f64", [value], end.at), Yield([converted], end.at)]
    region.append(Return(Use(end.results[0]), end.at))


def seed_type(kind: Memref) -> Memref:
    return Memref(kind.element, kind.rank, contiguous=kind.contiguous, writeable=True)
