"""Which numbers of a program are sums of squares: a root of one, such as a norm, has the subgradient 0 where that is 0."""

from __future__ import annotations

from npcompile.tensor_core.loop_ir.activity import Activity, yielded
from npcompile.tensor_core.loop_ir.forms import results, walk
from npcompile.tensor_core.loop_ir.ops import Alloc, Call, Constant, For, If, Let, Load, Op, Store, View

OF_ALL = {"add": slice(None), "maximum": slice(None), "minimum": slice(None), "choose": slice(1, None)}
OF_FIRST = ("divide", "to_f64", "to_float")


def sums_of_squares(activity: Activity) -> set[int]:
    """Of values and roots of arrays. All are taken for such until an op shows that they are none."""
    ops = walk(activity.program.body)
    if not any(isinstance(op, Let) and op.op == "sqrt" for op in ops):
        return set()
    found = {value for op in ops for value in (*results(op), *(op.args if isinstance(op, For) else ()))}
    found |= {activity.root(op.result) for op in ops if isinstance(op, Alloc)}
    count = len(found) + 1
    while len(found) < count:
        count = len(found)
        for op in ops:
            found.difference_update(others(op, found, activity))
    return found


def others(op: Op, found: set[int], activity: Activity) -> list[int]:
    """The results that are none."""
    match op:
        case Let(result):
            return [] if is_square(op, found) else [result]
        case Constant(result, value):
            return [] if value == 0 else [result]
        case Call(result, "dot", [a, b]):
            return [] if a == b else [result]
        case Load(result, array):
            return [] if activity.root(array) in found else [result]
        case Store(array, _, value):
            return [] if value in found else [activity.root(array)]
        case If(_, then, orelse, made):
            return unlike(made, zip(yielded(then), yielded(orelse), strict=False), found)
        case For():
            ends = list(zip(op.initial, yielded(op.body), strict=False))
            return unlike(op.args, ends, found) + unlike(op.results, ends, found)
        case Alloc() | View():
            return []
    return results(op)


def unlike(made: list[int], parts: object, found: set[int]) -> list[int]:
    pairs = list(parts)  # type: ignore[call-overload]
    return [x for k, x in enumerate(made) if k >= len(pairs) or not found.issuperset(pairs[k])]


def is_square(op: Let, found: set[int]) -> bool:
    if op.op == "multiply":
        return op.args[0] == op.args[1] or not found.isdisjoint(op.args)
    if op.op in OF_ALL:
        return found.issuperset(op.args[OF_ALL[op.op]])
    return op.op == "square" or op.op in OF_FIRST and op.args[0] in found
