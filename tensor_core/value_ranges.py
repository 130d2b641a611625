"""Between which integers the elements of an array lie, whatever the data is: what needs no check, and no count."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import Call, Dim, Size, evaluate
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.guards import compared
from npcompile.tensor_core.source import Bound, Literal

Interval = tuple[int, int]  # least and greatest
SAME_ELEMENTS = ("broadcast_to", "reshape", "permute", "slice", "gather")  # all are some of the first input's
LIMITS = (-(2**63), 2**64 - 1)
LARGEST_SYMBOL = 2**31  # a Python integer that is a symbol is guarded to be smaller than this, in absolute value


def magnitude(size: Any) -> int:
    """The largest absolute value while every symbol is below LARGEST_SYMBOL."""
    if isinstance(size, Dim):
        return sum(abs(c) * math.prod(map(magnitude, atoms)) for atoms, c in size.terms)
    if isinstance(size, str):
        return LARGEST_SYMBOL
    return max(map(magnitude, size.args)) if isinstance(size, Call) else abs(size)


def fits_int64(size: Size) -> bool:
    """Does the integer stay in int64? Asks where it may leave it."""
    return magnitude(size) < 2**63 or bool(size >= -(2**63) and size < 2**63)


def interval_of_size(size: Size) -> Interval:
    """Of an integer of the program: what its symbols are known to be at least, or guarded to be."""
    if not isinstance(size, Dim):
        return size, size
    env = size.env
    if all(compared(Bound(name), "==", Literal(env.hints.get(name))) in env.guards for name in size.symbols()):
        return (value := evaluate(size, env.hints)), value
    least, opposite = env.bound(size), env.bound(-size)
    return LIMITS[0] if least is None else least, LIMITS[1] if opposite is None else -opposite


def is_inside(interval: Interval, size: Size) -> bool:
    """Are all these indices counted from the start of an axis of `size`, and none beyond its end?"""
    return interval[0] >= 0 and interval[1] < interval_of_size(size)[0]


def limits_of(dtype: np.dtype) -> Interval:
    if dtype.kind not in "iu":
        return (0, 1) if dtype.kind == "b" else LIMITS
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


@dataclass(slots=True)
class Intervals:
    """Those of nodes of a graph. Asks nothing about symbolic sizes."""

    found: dict[Node, Interval] = field(default_factory=dict)

    def of(self, node: Node) -> Interval:
        """The limits of the dtype where nothing is known. The node is one of integers or booleans."""
        stack = [node]
        while stack:
            current = stack[-1]
            missing = [x for x in needed(current) if x not in self.found]
            stack += missing
            if not missing:
                self.found[stack.pop()] = self.within_limits(current)
        return self.found[node]

    def within_limits(self, node: Node) -> Interval:
        """What passes the limits wraps around, so that nothing is known."""
        least, most = limits_of(node.dtype)
        low, high = self.of_op(node) if node.dtype.kind in "biu" else LIMITS
        return (low, high) if least <= low and high <= most else (least, most)

    def of_op(self, node: Node) -> Interval:
        parts = [self.found[x] for x in needed(node)]
        lows, highs = [low for low, _ in parts], [high for _, high in parts]
        match node.op:
            case "constant":
                return int(node.params["value"]), int(node.params["value"])
            case "size":
                return interval_of_size(node.params["value"])
            case "index":
                return 0, interval_of_size(node.params["shape"][node.params["axis"]])[1] - 1
            case "arg_reduce":
                return 0, max(0, interval_of_size(node.inputs[0].shape[node.params["axis"]])[1] - 1)
            case "where":
                return min(lows), max(highs)
            case "maximum":
                return max(lows), max(highs)
            case "minimum":
                return min(lows), min(highs)
            case "remainder" if lows[1] > 0:
                return 0, highs[1] - 1
            case "bitwise_and" if max(lows) >= 0:
                return 0, min(high for low, high in parts if low >= 0)
            case op if op in SAME_ELEMENTS or op == "cast":
                return parts[0]
        return LIMITS


def needed(node: Node) -> tuple[Node, ...]:
    """The inputs that the interval depends on."""
    match node.op:
        case "where":
            return node.inputs[1:]
        case op if op in SAME_ELEMENTS or op == "cast":
            return node.inputs[:1]
        case "maximum" | "minimum" | "remainder" | "bitwise_and":
            return node.inputs
    return ()
