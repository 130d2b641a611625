"""About how long loops take, in quarters of a nanosecond: numbers that a program computes before them."""

from __future__ import annotations

from functools import cache

from npcompile.tensor_core.loop_ir.emit import Emitter
from npcompile.tensor_core.loop_ir.forms import REGIONS, regions
from npcompile.tensor_core.loop_ir.ops import Call, For, Let, Load, Op, Region, Routine, Store, While
from npcompile.tensor_core.loop_ir.rows import ROWS, Rule

NANOSECOND = 4
MEMORY, ARITHMETIC, DIVISION, FUNCTION, ROUTINE = 2, 1, 6, 40, 200
ITERATIONS = 16  # that a loop is thought to take where nobody can say before it
MOST = 1 << 28  # where counting stops: products of two such numbers, and a few of these, are words
DIVISIONS = {"divide", "sqrt", "floor_divide", "remainder"}
COSTS: dict[type[Op], int] = {Load: MEMORY, Store: MEMORY, Call: ROUTINE, Routine: 50 * ROUTINE}
SIMPLE = {"maximum", "minimum", "sign", "floor", "ceil", "trunc", "rint", "zero_or_divide"}


def own_cost(op: Op) -> int:
    """Of one op, without what its regions hold."""
    return cost_of_row(op.op) if type(op) is Let else COSTS.get(type(op), 0)


@cache
def cost_of_row(name: str) -> int:
    if name in DIVISIONS:
        return DIVISION
    return FUNCTION if ROWS[name].rule is Rule.FLOATING and name not in SIMPLE else ARITHMETIC


def cost_of(made: Emitter, region: Region, known: set[int]) -> int:
    """A value: the cost of running a region once, at most MOST. `known`: values that there are where it is computed.

    Trip counts that nobody knows yet are guessed.
    """
    fixed, total = fixed_cost(region, known), -1
    for op, times in counted_loops(region, known):
        inside = cost_of(made, op.body, known)
        each = product(made, made.let("span", op.start, op.stop), inside)
        for _ in range(times):  # arms and loops around it run it as often as any
            each = product(made, made.constant(ITERATIONS), each)
        total = each if total < 0 else made.let("add", total, each)
    own = made.constant(fixed + 1)
    return own if total < 0 else least(made, made.let("add", total, own))


def product(made: Emitter, a: int, b: int) -> int:
    """Of two numbers that are not negative, at most MOST."""
    return least(made, made.let("multiply", least(made, a), b))


def least(made: Emitter, value: int) -> int:
    return made.let("least", value, made.constant(MOST))


def is_counted(op: Op, known: set[int]) -> bool:
    return isinstance(op, For) and op.start in known and op.stop in known


def fixed_cost(region: Region, known: set[int]) -> int:
    """What is known of a region's cost when it is compiled."""
    total = 0
    for op in region:
        if type(op) not in REGIONS:
            total += own_cost(op)
        elif not is_counted(op, known):
            times = ITERATIONS if isinstance(op, For | While) else 1
            total += own_cost(op) + times * sum(fixed_cost(part, known) for part in regions(op))
    return min(total, MOST >> 8)


def counted_loops(region: Region, known: set[int], times: int = 0) -> list[tuple[For, int]]:
    """The loops whose trip counts are known, each with the number of loops around it whose are not."""
    found: list[tuple[For, int]] = []
    for op in region:
        if isinstance(op, For) and is_counted(op, known):
            found.append((op, times))
        elif type(op) in REGIONS:
            for part in regions(op):
                found += counted_loops(part, known, times + isinstance(op, For | While))
    return found
