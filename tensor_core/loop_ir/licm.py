"""The pass that computes before a loop what is the same in each of its iterations (loop-invariant code motion).

An op moves if computing it changes nothing where the loop does not run: not what reads memory, may trap, or may set a flag that
NumPy would report.
"""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.forms import inner, regions, results, uses
from npcompile.tensor_core.loop_ir.ops import Constant, For, If, Let, Op, Program, Region, Scope, Size, While
from npcompile.tensor_core.loop_ir.rows import sets_flags
from npcompile.tensor_core.loop_ir.types import List

# Where the divisor is 0, or a shift is by less than no bit or more than there are: a Check has excluded that inside.
TRAPS = ("divide", "floor_divide", "remainder", "left_shift", "right_shift")


def hoist_invariants(program: Program) -> int:
    """Move ops out of loops in place. How many moves."""
    pass_ = Hoisting(program)
    pass_.region(program.body)
    return pass_.moved


@dataclass(slots=True)
class Hoisting:
    program: Program
    moved: int = 0

    def region(self, region: Region) -> None:
        """Move what is invariant out of the loops in a region."""
        made: Region = []
        for op in region:
            for part in regions(op):
                self.region(part)
            if isinstance(op, For | While):
                made += self.taken_out(op)
            made.append(op)
        region[:] = made

    def taken_out(self, op: For | While) -> Region:
        """The invariant ops of a loop's body, which it loses. Of an arm, which may not run, what costs nothing."""
        inside = set(inner(op))
        hoisted: Region = []
        kept: Region = []
        for each in op.body:
            if isinstance(each, If | Scope):
                hoisted += self.taken_out_of_arms(each, inside)
            if self.is_movable(each) and not inside.intersection(uses(each)):
                hoisted.append(each)
            else:
                inside.update(results(each))
                kept.append(each)
        op.body[:] = kept
        self.moved += len(hoisted)
        return hoisted

    def taken_out_of_arms(self, op: If | Scope, inside: set[int]) -> Region:
        """Constants and sizes, which passes want to know where a loop begins, and of arms in arms too."""
        hoisted: Region = []
        for arm in regions(op):
            own, kept = set(inside), list[Op]()
            for each in arm:
                if isinstance(each, If | Scope):
                    hoisted += self.taken_out_of_arms(each, own)
                if isinstance(each, Constant | Size) and self.is_movable(each) and not own.intersection(uses(each)):
                    hoisted.append(each)
                else:
                    own.update(results(each))
                    kept.append(each)
            arm[:] = kept
        return hoisted

    def is_movable(self, op: Op) -> bool:
        match op:
            case Constant():
                return True
            case Size(_, array):
                return not isinstance(self.program.types[array], List)
            case Let(result, name):
                return name not in TRAPS and not sets_flags(name, self.program.types[result])
        return False
