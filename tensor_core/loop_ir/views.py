"""The pass that reads and writes what a view shows where it lies: in the array that it is part of.

So two parts of one array are accesses of that array, whose places can be compared, and its last axis is side by side in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.forms import regions, walk
from npcompile.tensor_core.loop_ir.ops import Constant, Let, Load, Op, Program, Region, Store, View
from npcompile.tensor_core.loop_ir.types import INT


def see_through_views(program: Program) -> int:
    """Let accesses of views be those of the arrays that they are parts of, in place. How many."""
    ops = walk(program.body)
    pass_ = SeeingThrough(
        program, {op.result for op in ops if isinstance(op, Constant) and op.value == 0 and op.value is not False}
    )
    pass_.region(program.body)
    return pass_.changed


@dataclass(slots=True)
class SeeingThrough:
    program: Program
    zeros: set[int]
    views: dict[int, View] = field(default_factory=dict)
    changed: int = 0

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            if isinstance(op, View):
                self.views[op.result] = op
            for part in regions(op):
                self.region(part)
            if isinstance(op, Load | Store):
                while op.array in self.views:
                    self.through(op, self.views[op.array], made)
            made.append(op)
        region[:] = made

    def through(self, op: Load | Store, view: View, made: list[Op]) -> None:
        along = iter(op.index)
        op.index = [
            self.sum_of(start, next(along), made, op) if is_kept else start for start, is_kept in zip(view.starts, view.kept)
        ]
        op.array = view.array
        self.changed += 1

    def sum_of(self, start: int, index: int, made: list[Op], op: Load | Store) -> int:
        if start in self.zeros:
            return index
        result = self.program.new(INT)
        made.append(Let(result, "add", [start, index], op.at))
        return result
