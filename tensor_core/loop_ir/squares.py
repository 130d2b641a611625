"""Which numbers of a program are sums of squares: a root of one, such as a norm, has the subgradient 0 where that is 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from npcompile.tensor_core.loop_ir.activity import Activity, handed_on
from npcompile.tensor_core.loop_ir.forms import inner, results, walk
from npcompile.tensor_core.loop_ir.ops import Alloc, Call, Constant, For, If, Let, Load, Op, Scope, Store, View, While

Element: TypeAlias = tuple[int, ...]  # an array, and where in it
OF_ALL = {"add": slice(None), "maximum": slice(None), "minimum": slice(None), "choose": slice(1, None)}
OF_FIRST = ("divide", "to_f64", "to_f32", "to_float")


def sums_of_squares(activity: Activity) -> set[int]:
    """Of values and roots of arrays. All are taken for such until an op shows that they are none."""
    body = activity.program.body
    ops = walk(body)
    if not any(isinstance(op, Let) and op.op == "sqrt" for op in ops):
        return set()
    found = {value for op in ops for value in (*results(op), *inner(op))}
    found |= {activity.root(op.result) for op in ops if isinstance(op, Alloc)}
    element = {
        op.result: (op.array, *op.index) for op in ops if isinstance(op, Load) and not activity.is_written(op.array)
    }  # what is read twice is the same number
    passed = list(handed_on(body))
    count = len(found) + 1
    while len(found) < count:
        count = len(found)
        for op in ops:
            found.difference_update(others(op, found, activity, element))
        found.difference_update([taken for given, taken in passed if given not in found])
    return found


def others(op: Op, found: set[int], activity: Activity, element: Mapping[int, Element]) -> list[int]:
    """The results that are none, of an op by itself."""
    match op:
        case Let(result):
            return [] if is_square(op, found, element) else [result]
        case Constant(result, value):
            return [] if value == 0 else [result]
        case Call(result, "dot", [a, b]):
            return [] if a == b else [result]
        case Load(result, array):
            return [] if activity.root(array) in found else [result]
        case Store(array, _, value):
            return [] if value in found else [activity.root(array)]
        case For(_, index):
            return [index]
        case If() | While() | Scope() | Alloc() | View():
            return []
    return results(op)


def is_square(op: Let, found: set[int], element: Mapping[int, Element]) -> bool:
    if op.op == "multiply":
        one, other = (element.get(arg, arg) for arg in op.args)
        return one == other or not found.isdisjoint(op.args)
    if op.op in OF_ALL:
        return found.issuperset(op.args[OF_ALL[op.op]])
    return op.op == "square" or op.op in OF_FIRST and op.args[0] in found
