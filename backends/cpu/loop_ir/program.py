"""A compiled program as a function of Python objects, and what Python makes of its way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loop_ir.entry import UNUSUAL, WRONG_TYPES, entry_lines
from npcompile.backends.cpu.loop_ir.target import CPU, KINDS, PATIENCE
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.exits import Ways
from npcompile.backends.loop_ir.statements import print_function
from npcompile.backends.registry import _ERROR_STATE
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, Program
from npcompile.tensor_core.loop_ir.outcome import Exited, Outcome, Returned, ignored_errors, made
from npcompile.tensor_core.loop_ir.states import Use
from npcompile.tensor_core.loop_ir.types import DTYPES


@dataclass(slots=True)
class Ended:
    """A run's outcome, and the exception that a handler of signals raised meanwhile."""

    outcome: Outcome
    raised: BaseException | None = None


@dataclass(slots=True)
class CompiledLoop:
    """A program in machine code. Any number of threads may call it."""

    program: Program
    source: str
    ways: Ways
    run: Callable[..., Sequence[Any]]
    seconds: float  # to compile and load it
    states: list[object] = field(default_factory=list)  # NumPy's state of errors, of which `reported` is known
    reported: int = 0  # bits of FP_ERRORS

    def __call__(self, arguments: Sequence[object], leave_at: int = -1) -> Ended:
        """Run on arguments of the program's types. `leave_at`: the number of the Poll that leaves, counted from 0."""
        fuel = leave_at if leave_at >= 0 else PATIENCE
        found = self.run(self.states, self.reported, fuel, leave_at >= 0, *arguments)
        if found[0] == UNUSUAL:
            self.reported, self.states = ALL_ERRORS & ~ignored_errors(), [_ERROR_STATE.get()]
            return self(arguments, leave_at)
        if found[0] == WRONG_TYPES:
            raise TypeError(f"{self.program.name} is compiled for arguments of other types")
        handed = 1 + len(self.ways.found[found[0]].leaves)
        return Ended(self.outcome(found), found[handed] if len(found) > handed else None)

    def outcome(self, found: Sequence[Any]) -> Outcome:
        way = self.ways.found[found[0]]
        if way.point is None and type(way.stack[0]) is Use:
            return Returned(found[1])
        values = {leaf.value: value for leaf, value in zip(way.leaves, found[1:])}
        stack = tuple(made(recipe, values) for recipe in way.stack)
        if way.point is None:
            return Returned(stack[0])
        return Exited(way.point, stack, {slot.index: made(slot.recipe, values) for slot in way.locals}, found[0])


def compile_program(program: Program) -> CompiledLoop:
    """Machine code of a program. Raises Unsupported with the user's line, NoCompiler, or CompilerError."""
    lines, ways = print_function(program, CPU)
    source = unit([*lines, *entry_lines(program, ways)])
    loaded = load(source, [DTYPES[kind] for kind in KINDS])
    return CompiledLoop(program, source, ways, loaded.call, loaded.seconds)
