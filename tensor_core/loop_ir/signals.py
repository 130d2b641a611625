"""The pass that looks for signals once for a block of iterations of an innermost loop.

A look may call Python, so in a loop that has one no number can stay in a register of vectors from iteration to iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from npcompile.tensor_core.loop_ir.blocks import Block, has_long_iterations, in_blocks, prefix_of
from npcompile.tensor_core.loop_ir.forms import regions, walk
from npcompile.tensor_core.loop_ir.ops import Cfg, For, Poll, Program, Region, While
from npcompile.tensor_core.loop_ir.report import Declined, Report


def look_less_often(program: Program) -> Report:
    """Put loops over blocks around innermost loops, in place."""
    pass_ = Signals(program)
    pass_.region(program.body)
    return pass_.report


@dataclass(slots=True)
class Signals:
    program: Program
    report: Report = field(default_factory=Report)

    def region(self, region: Region) -> bool:
        """Is there a loop in the region?"""
        made: Region = []
        found = False
        for op in region:
            inner = [self.region(part) for part in regions(op)]  # all of them
            has_loop = any(inner)
            found |= has_loop or isinstance(op, For | While | Cfg)
            made += self.loop(op) if type(op) is For and not has_loop else [op]
        region[:] = made
        return found

    def loop(self, op: For) -> Region:
        looks = [each for each in walk(op.body) if type(each) is Poll]
        if not looks or has_long_iterations(op):
            return [op]
        try:
            prefix = prefix_of(op)
        except Declined as error:
            self.report.decline(op.at, error.reason)
            return [op]
        self.report.fire(op.at)

        def inside(block: Block) -> list[int]:
            results = [self.program.copy(value) for value in op.results]
            body = [each for each in op.body if type(each) is not Poll]
            block.made.emit(replace(op, start=block.low, stop=block.high, initial=block.args, body=body, results=results))
            return list(results)

        return in_blocks(self.program, op, prefix, inside)
