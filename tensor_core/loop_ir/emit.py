"""Ops that a pass adds: each call appends one and gives its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.ops import Constant, Disjoint, Let, Op, Place, Program, Region
from npcompile.tensor_core.loop_ir.rows import result_type
from npcompile.tensor_core.loop_ir.types import BOOL, INT


@dataclass(slots=True)
class Emitter:
    """Appends ops at one of the user's lines."""

    program: Program
    at: Place
    ops: Region = field(default_factory=list)

    def emit(self, op: Op) -> None:
        self.ops.append(op)

    def constant(self, value: int) -> int:
        result = self.program.new(INT)
        self.ops.append(Constant(result, value, self.at))
        return result

    def let(self, name: str, *args: int) -> int:
        kind = result_type(name, [self.program.types[arg] for arg in args])
        assert kind is not None, (name, args)
        result = self.program.new(kind)
        self.ops.append(Let(result, name, list(args), self.at))
        return result

    def disjoint(self, one: int, other: int) -> int:
        result = self.program.new(BOOL)
        self.ops.append(Disjoint(result, one, other, self.at))
        return result

    def all_of(self, conditions: list[int]) -> int:
        """Do they all hold? There is one at least."""
        found, *rest = conditions
        for each in rest:
            found = self.let("logical_and", found, each)
        return found
