"""The pass that tests before a loop what its Checks need: where it holds, a version of the loop without them runs.

A Check on an index needs sums of sizes that are not negative, at the least and greatest index; one that asks the same in each
iteration is asked before. The conditions stand in the
program, before the outermost loop outside of which everything in them is known, and its first form stays for where they fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from npcompile.tensor_core.loop_ir.affine import Affine, Ranges
from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import defined, substitute_all, walk
from npcompile.tensor_core.loop_ir.ops import Check, For, If, Op, Program, Region, Yield
from npcompile.tensor_core.loop_ir.simplify import drop_unused
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
        inside = walk(op.body)
        if not any(type(each) is Check for each in inside):
            return None
        fast = Cloner(self.program, self.program).op(op)
        assert isinstance(fast, For), fast
        ranges = Ranges(dict(self.ranges.forms), dict(self.ranges.bounds))
        trial = ValueRanges(self.program, ranges, set(self.true), set(self.false), {}, dict(self.sizes), dict(self.spans))
        trial.outside = len(ranges.bounds)
        known = sorted(invariant_conditions(op, inside) - self.true)
        trial.true.update(known)
        trial.op(fast)
        if not trial.removed or not 0 < len(trial.assumed) + len(known) <= MOST_CONDITIONS:
            return None
        substitute_all([fast], trial.new)
        drop_unused(self.program, [fast])
        self.hoisted += trial.removed
        for value in op.results:
            self.opaque(value)
        slow_results = [self.program.copy(value) for value in op.results]
        arms = ([fast, Yield(list(fast.results), op.at)], [replace(op, results=slow_results), Yield(slow_results, op.at)])
        made = Emitter(self.program, op.at)
        zero = made.constant(0)
        holds = [made.let("greater_equal", sum_of(made, form), zero) for form in trial.assumed]
        condition = made.all_of([*holds, *known])
        return [*made.ops, If(condition, *arms, op.results, op.at)]


def invariant_conditions(op: For, inside: list[Op]) -> set[int]:
    """What the Checks of a loop, whose body has these ops, ask that does not change in it."""
    return {each.condition for each in inside if type(each) is Check}.difference(op.args, defined(inside))


def sum_of(made: Emitter, form: Affine) -> int:
    """A sum as ops. Its atoms are sizes, so no step leaves a word."""
    terms = sorted(form.factors.items(), key=lambda term: -term[1])  # what is added first
    starts = terms.pop(0)[0] if terms and terms[0][1] > 0 and not form.constant else None
    total = made.constant(form.constant) if starts is None else starts
    for atom, factor in terms:
        total = made.let("add" if factor > 0 else "subtract", total, atom)
    return total
