"""Arrays that each iteration of a loop makes anew, and that no other iteration has: they may have the same memory."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.activity import handed_on
from npcompile.tensor_core.loop_ir.forms import regions, uses, walk
from npcompile.tensor_core.loop_ir.ops import Alloc, For, Program, Region, Return, View, While


def take_again(program: Program) -> int:
    """Mark the Allocs in loops whose arrays nothing hands on. How many there are."""
    ops = walk(program.body)
    base = {op.result: op.array for op in ops if isinstance(op, View)}
    kept = {given for given, _ in handed_on(ops)} | {value for op in ops if isinstance(op, Return) for value in uses(op)}
    for value in list(kept):
        while value in base:
            value = base[value]
            kept.add(value)
    return marked(program.body, kept, is_inside=False)


def marked(region: Region, kept: set[int], is_inside: bool) -> int:
    found = 0
    for op in region:
        if isinstance(op, Alloc) and is_inside and op.result not in kept:
            op.again = True
            found += 1
        for part in regions(op):
            found += marked(part, kept, is_inside or isinstance(op, For | While))
    return found
