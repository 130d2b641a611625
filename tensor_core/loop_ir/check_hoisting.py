"""The pass that tests before a loop what its Checks need: where it holds, a version of the loop without them runs.

A Check on an index needs sums of sizes that are not negative, at the least and greatest index. The conditions stand in the
program, before the outermost loop outside of which everything in them is known, and its first form stays for where they fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npcompile.tensor_core.loop_ir.affine import Affine, Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.forms import substitute_all, walk
from npcompile.tensor_core.loop_ir.ops import Check, Constant, For, If, Let, Place, Program, Region, Yield
from npcompile.tensor_core.loop_ir.simplify import drop_unused
from npcompile.tensor_core.loop_ir.types import BOOL, INT
from npcompile.tensor_core.loop_ir.value_ranges import ValueRanges

MOST_CONDITIONS = 12


def hoist_checks(program: Program) -> int:
    """Make versions of loops in place, after value_ranges. How many Checks the fast versions do without."""
    pass_ = Hoisting(program)
    pass_.region(program.body)
    return pass_.hoisted


@dataclass(slots=True)
class Hoisting(ValueRanges):
    hoisted: int = 0

    def region(self, region: Region) -> None:
        made: Region = []
        for op in region:
            versions = self.versions(op) if isinstance(op, For) else None
            if versions is None:
                self.op(op)
            made += [op] if versions is None else versions
        region[:] = made

    def versions(self, op: For) -> Region | None:
        """The conditions, and both versions of a loop. None where no Check would go."""
        if not any(isinstance(each, Check) for each in walk(op.body)):
            return None
        fast = Cloner(self.program, self.program).op(op)
        assert isinstance(fast, For), fast
        ranges = Ranges(dict(self.ranges.forms), dict(self.ranges.bounds))
        trial = ValueRanges(self.program, ranges, set(self.true), set(self.false), {}, dict(self.sizes), dict(self.spans))
        trial.outside = len(ranges.bounds)
        trial.op(fast)
        if not trial.removed or not 0 < len(trial.assumed) <= MOST_CONDITIONS:
            return None
        substitute_all([fast], trial.new)
        drop_unused(self.program, [fast])
        self.hoisted += trial.removed
        for value in op.results:
            self.opaque(value)
        slow_results = [self.program.copy(value) for value in op.results]
        arms = ([fast, Yield(list(fast.results), op.at)], [replace(op, results=slow_results), Yield(slow_results, op.at)])
        conditions, condition = Emitting(self.program, op.at).conditions(trial.assumed)
        return [*conditions, If(condition, *arms, op.results, op.at)]


@dataclass(slots=True)
class Emitting:
    """Sums as ops. Their atoms are sizes, so no step leaves a word."""

    program: Program
    at: Place

    def conditions(self, forms: list[Affine]) -> tuple[Region, int]:
        """Ops for: none of these is negative."""
        ops: Region = []
        zero = self.constant(ops, 0)
        found = -1
        for form in forms:
            holds = self.let(ops, "greater_equal", [self.sum(ops, form), zero])
            found = holds if found < 0 else self.let(ops, "logical_and", [found, holds])
        return ops, found

    def sum(self, ops: Region, form: Affine) -> int:
        total = self.constant(ops, form.constant)
        for atom, factor in form.factors.items():
            total = self.let(ops, "add" if factor > 0 else "subtract", [total, atom])
        return total

    def constant(self, ops: Region, value: int) -> int:
        result = self.program.new(INT)
        ops.append(Constant(result, value, self.at))
        return result

    def let(self, ops: Region, name: str, args: list[int]) -> int:
        result = self.program.new(INT if name in ("add", "subtract") else BOOL)
        ops.append(Let(result, name, args, self.at))
        return result
