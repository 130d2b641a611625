"""Which numbers of a program may be infinite or NaN and yet not be used: factors with which a gradient of 0 stays 0.

Only a program that chooses between numbers that it has computed leaves one out. Branches compute what they use.
"""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.activity import Activity
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Let, Load, Store

EXTREMES = frozenset(("maximum", "minimum", "running_maximum", "running_minimum"))
QUOTIENTS = ("divide", "reciprocal", "power", "tan", "arctanh")
LOGARITHMS = ("log", "log2", "log10", "log1p", "sqrt", "arcsin", "arccos", "arccosh")  # NaN beside where they are real
OVERFLOWING = frozenset(("exp", "exp2", "expm1", "sinh", "cosh"))
INFINITE = frozenset((*QUOTIENTS, *LOGARITHMS))


def infinite_values(activity: Activity) -> set[int]:
    """The values that come from such an op, also by way of an array. None where nothing is left out."""
    ops = walk(activity.program.body)
    names = {op.op for op in ops if isinstance(op, Let)}
    if "choose" not in names and names.isdisjoint(EXTREMES):
        return set()
    infinite = INFINITE | (
        OVERFLOWING if "choose" in names else frozenset()
    )  # an overflow is unlikely to be what an extreme leaves out
    found: set[int] = set()
    count = -1
    while len(found) > count:
        count = len(found)
        for op in ops:
            match op:
                case Let(result, name, args) if name in infinite or not found.isdisjoint(args):
                    found.add(result)
                case Store(array, _, value) if value in found:
                    found.add(activity.root(array))
                case Load(result, array, _) if activity.root(array) in found:
                    found.add(result)
    return found
