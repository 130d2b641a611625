"""Ops that a pass adds: each call appends one and gives its result."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.ops import Constant, Disjoint, Let, Op, Place, Program, Region
from npcompile.tensor_core.loop_ir.types import BOOL, INT, Type

INTEGERS = ("add", "subtract", "multiply", "floor_divide", "remainder", "span", "clip_bound", "least")
KINDS: dict[str, Type] = {
    **dict.fromkeys(INTEGERS, INT),
    **dict.fromkeys(("less", "greater_equal", "less_equal", "logical_and", "logical_not", "is_index"), BOOL),
    **dict.fromkeys(("add_overflows", "subtract_overflows"), BOOL),
}


@dataclass(slots=True)
class Emitter:
    """Appends ops at one of the user's lines."""

    program: Program
    at: Place
    ops: Region = field(default_factory=list)
    constants: dict[int, int] = field(default_factory=dict)  # number -> value

    def emit(self, op: Op) -> None:
        self.ops.append(op)

    def constant(self, value: int) -> int:
        found = self.constants.get(value)
        if found is None:
            found = self.constants[value] = self.program.new(INT)
            self.ops.append(Constant(found, value, self.at))
        return found

    def let(self, name: str, *args: int) -> int:
        """An op on integers and truth values of the program's own."""
        result = self.program.new(KINDS[name])
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
