"""A function that runs as loop IR: a program for each combination of argument types, guards on names, Python for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Protocol, TypeAlias

from npcompile.backends.loop_ir import target
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.outcome import Outcome
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.types import Type, type_of
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from npcompile.tracer.loop_ir.resume import finish
from npcompile.tracer.loop_ir.sources import Same


class Ended(Protocol):
    """How a run ended."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def raised(self) -> BaseException | None: ...


class Run(Protocol):
    """A compiled program."""

    def __call__(self, arguments: Sequence[object], /) -> Ended: ...


class Compile(Protocol):
    """A backend: it raises its Unsupported where it has no text for an op."""

    def __call__(self, program: Program, /) -> Run: ...


@dataclass(frozen=True, slots=True)
class Version:
    """What runs for arguments of some types, while these names stand for these objects."""

    run: Run
    guards: tuple[Same, ...]


Key: TypeAlias = tuple["Type | None", ...]


@dataclass(slots=True)
class LoopFunction:
    """`LoopFunction(f, compile_program)(*arguments)` gives what `f(*arguments)` gives."""

    function: FunctionType
    compile: Compile
    versions: dict[Key, Version | None] = field(default_factory=dict)  # None: Python runs these
    reasons: dict[Key, str] = field(default_factory=dict)  # why

    def __call__(self, *arguments: object) -> object:
        key = tuple(map(type_of, arguments))
        if key not in self.versions:
            self.versions[key] = self.make(key, arguments)
        version = self.versions[key]
        if version is None or not all(guard.holds() for guard in version.guards):
            return self.function(*arguments)
        ended = version.run(arguments)
        return finish(self.function, ended.outcome, ended.raised)

    def make(self, key: Key, arguments: Sequence[object]) -> Version | None:
        try:
            traced = trace(self.function, arguments)
            run_passes(traced.program)
            return Version(self.compile(traced.program), traced.guards)
        except (Unsupported, target.Unsupported) as error:
            self.reasons[key] = str(error)
            return None
