"""Which values a derivative goes through, and which arrays may be stored to: facts that flow through a structured program.

A value is varied if it depends on a number that gradients are asked for. Arrays that may share memory are one: their root. As in
Tapenade's activity analysis, forward alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import results, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Append,
    Break,
    Check,
    Constant,
    For,
    FpCheck,
    FpClear,
    FrameState,
    If,
    Load,
    NewList,
    Op,
    Poll,
    Program,
    Region,
    Scope,
    Size,
    Speculate,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.types import FLOATING, List, Memref, Scalar

PASSIVE = frozenset((Constant, Size, View, NewList, If, For, While, Scope, FrameState, Check, Poll, FpCheck, FpClear))


@dataclass(slots=True)
class Activity:
    program: Program
    above: dict[int, int] = field(default_factory=dict)  # of two values that may share memory, one
    varied: set[int] = field(default_factory=set)  # numbers
    varied_roots: set[int] = field(default_factory=set)
    written_roots: set[int] = field(default_factory=set)

    def root(self, value: int) -> int:
        while (found := self.above.get(value, value)) != value:
            value = found
        return value

    def has_shadow(self, value: int) -> bool:
        """Is it an array, or a list, of numbers that a derivative goes through?"""
        kind = self.program.types[value]
        return isinstance(kind, Memref | List) and kind.element in FLOATING and self.root(value) in self.varied_roots

    def is_written(self, value: int) -> bool:
        return self.root(value) in self.written_roots


def activity_of(program: Program, wanted: Iterable[int]) -> Activity:
    """Of a structured program, where gradients of the values `wanted` are asked for."""
    made = Activity(program)
    ops = walk(program.body)
    passed = list(handed_on(ops))
    for given, taken in passed:
        if isinstance(program.types[taken], Memref | List):
            made.above[made.root(given)] = made.root(taken)
    for op in ops:
        if isinstance(op, View):
            made.above[made.root(op.result)] = made.root(op.array)
    made.written_roots = {made.root(op.array) for op in ops if isinstance(op, Store)}
    made.written_roots |= {made.root(op.items) for op in ops if isinstance(op, Append)}
    for value in wanted:
        kind = program.types[value]
        (made.varied_roots if isinstance(kind, Memref) else made.varied).add(made.root(value))
    ops = [op for op in ops if type(op) not in PASSIVE]
    while spread(made, ops, passed):
        pass
    return made


def spread(made: Activity, ops: list[Op], passed: list[tuple[int, int]]) -> bool:
    """One step to what depends on what is varied. Was there any?"""
    before = len(made.varied) + len(made.varied_roots)
    for op in ops:
        match op:
            case Load(result, array) if made.root(array) in made.varied_roots:
                note(made, result)
            case Store(array, _, value) | Append(array, value) if value in made.varied:
                made.varied_roots.add(made.root(array))
            case Load():
                pass
            case _:
                if any(value in made.varied or made.has_shadow(value) for value in uses(op)):
                    for result in results(op):
                        note(made, result)
    for given, taken in passed:
        if given in made.varied:
            note(made, taken)
    return len(made.varied) + len(made.varied_roots) > before


def note(made: Activity, value: int) -> None:
    kind = made.program.types[value]
    if isinstance(kind, Scalar) and kind.kind in FLOATING:
        made.varied.add(value)


def handed_on(ops: list[Op]) -> Iterator[tuple[int, int]]:
    """(value, value that takes it) on each way from a region to another."""
    takers: dict[int, list[int]] = {}
    for op in ops:
        match op:
            case Scope(label, _, taken) | While(label, taken):
                takers[label] = taken
            case For():
                yield from zip(op.initial, op.args)
                yield from zip(op.args, op.results)
                yield from zip(yielded(op.body), op.args)
            case If():
                yield from zip(yielded(op.then), op.results)
                yield from zip(yielded(op.orelse), op.results)
            case Speculate():
                yield from zip(yielded(op.body), op.results)
                yield from zip(yielded(op.slow), op.results)
        if isinstance(op, While):
            yield from zip(op.initial, op.args)
        elif isinstance(op, Break | Again):
            yield from zip(op.values, takers[op.target])


def written_params(program: Program, count: int) -> list[bool]:
    """Which of the first params are arrays that the program may store to."""
    activity = activity_of(program, [])
    values = [param.value for param in program.params[:count]]
    return [isinstance(program.types[value], Memref) and activity.is_written(value) for value in values]


def yielded(region: Region) -> list[int]:
    end = region[-1]
    return end.values if isinstance(end, Yield) else []
