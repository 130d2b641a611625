"""A compiled program as a function of Python objects, and what Python makes of its way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npcompile.backends.array_guards import as_array
from npcompile.backends.cpu.loader import load
from npcompile.backends.cpu.loop_ir.entry import entry_lines
from npcompile.backends.cpu.loop_ir.functions import definitions
from npcompile.backends.cpu.loop_ir.target import CPU, KINDS, PATIENCE
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.exits import GIVEN, OTHERS, UNFIT, UNUSUAL, how_to_run
from npcompile.backends.loop_ir.native import Resuming
from npcompile.backends.loop_ir.parallel import names_of
from npcompile.backends.loop_ir.statements import print_function
from npcompile.backends.native_profiling import profiled
from npcompile.backends.registry import _ERROR_STATE
from npcompile.tensor_core.loop_ir.activity import written_params
from npcompile.tensor_core.loop_ir.ops import ALL_ERRORS, Program
from npcompile.tensor_core.loop_ir.outcome import Exited, Outcome, Returned, ignored_errors, made
from npcompile.tensor_core.loop_ir.types import DTYPES

NO_NAMES = as_array(())


@dataclass(slots=True)
class Ended:
    """A run's outcome, and the exception that a handler of signals raised meanwhile."""

    outcome: Outcome
    raised: BaseException | None = None


@dataclass(slots=True)
class CompiledLoop:
    """A program in machine code. Any number of threads may call it."""

    program: Program
    native: Resuming
    call: Callable[..., Any]
    states: list[object] = field(default_factory=list)  # NumPy's state of errors, of which `reported` is known
    reported: int = 0  # bits of FP_ERRORS

    @property
    def source(self) -> str:
        return self.native.source

    def run(self, arguments: Sequence[object], fuel: int = PATIENCE, leaves: bool = False) -> Any:
        return self.call(NO_NAMES, self.states, *arguments, how_to_run(self.reported, fuel, leaves))

    def __call__(self, arguments: Sequence[object], leave_at: int = -1) -> Ended:
        """Run on arguments of the program's types. `leave_at`: the number of the Poll that leaves, counted from 0."""
        found = self.run(arguments, leave_at, True) if leave_at >= 0 else self.run(arguments)
        if type(found) is not list:
            return Ended(Returned(found))
        if found[0] == GIVEN:
            return Ended(Returned(found[1]))
        if found[0] == UNUSUAL:
            self.reported, self.states = ALL_ERRORS & ~ignored_errors(), [_ERROR_STATE.get()]
            return self(arguments, leave_at)
        if found[0] in (OTHERS, UNFIT):
            raise TypeError(f"{self.program.name} is compiled for arguments of other types")
        way, is_raised = found[0] % len(self.native.ways.found), found[0] >= len(self.native.ways.found)
        return Ended(self.outcome(way, found[1:]), found[-2] if is_raised else None)

    def outcome(self, number: int, handed: Sequence[Any]) -> Outcome:
        way = self.native.ways.found[number]
        values = {leaf.value: value for leaf, value in zip(way.leaves, handed)}
        stack = tuple(made(recipe, values) for recipe in way.stack)
        if way.point is None:
            return Returned(stack[0])
        return Exited(way.point, stack, {slot.index: made(slot.recipe, values) for slot in way.locals}, number)


def unit_of(program: Program) -> Resuming:
    """The C of a program. Raises Unsupported with the user's line."""
    lines, ways = print_function(program, CPU)
    entry = entry_lines(program, ways, written_params(program, len(program.params)))
    source = profiled(definitions(program) + unit([*lines, *entry]), program.name, *names_of(program))
    return Resuming(source, lambda: load(source, [DTYPES[kind] for kind in KINDS]), ways)


def compile_program(program: Program) -> CompiledLoop:
    """Machine code of a program. Raises Unsupported with the user's line, NoCompiler, or CompilerError."""
    made = unit_of(program)
    return CompiledLoop(program, made, made.unit().call)
