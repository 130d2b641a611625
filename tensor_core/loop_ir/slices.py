"""The ops that compute an index: those of an iteration, which may run once more elsewhere."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.forms import regions, results, uses
from npcompile.tensor_core.loop_ir.licm import TRAPS
from npcompile.tensor_core.loop_ir.ops import Constant, If, Let, Op, Region, Size
from npcompile.tensor_core.loop_ir.report import Declined


def outside_loops(region: Region) -> list[Op]:
    """What runs once in an iteration, or not at all."""
    found: list[Op] = []
    for op in region:
        found.append(op)
        if type(op) is If:
            found += [each for part in regions(op) for each in outside_loops(part)]
    return found


def definers_of(ops: list[Op]) -> dict[int, tuple[int, Op]]:
    """Values -> the ops that define them, and where these stand."""
    return {value: (k, op) for k, op in enumerate(ops) for value in results(op)}


def slice_of(definers: dict[int, tuple[int, Op]], values: list[int], handed_on: list[int]) -> Region:
    """The ops that compute these values. They may run where a branch would not be taken: places are inside arrays whether it is
    or not, as no Check asks."""
    pending, found = list(values), dict[int, Op]()
    while pending:
        value = pending.pop()
        if value in handed_on:
            raise Declined("a store at an index that is handed on")
        where, each = definers.get(value, (-1, None))
        if each is None or where in found:
            continue
        if not isinstance(each, Let | Constant | Size) or type(each) is Let and each.op in TRAPS:
            raise Declined("a store at an index that is read from memory, or divided for")
        found[where] = each
        pending += uses(each)
    return [found[where] for where in sorted(found)]
