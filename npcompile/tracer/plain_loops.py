"""Loops whose iterations do less than it takes to enter their graphs: after some hops they run as they are, to their end.

Where a loop has no native program, each iteration enters at least one graph. If those do a few operations on numbers, or on
small arrays, NumPy and Python have done them before. The loop is looked at when it has shown to be a long one; arrays that
are not small are compiled for, whatever an earlier call had.
"""

from __future__ import annotations

import contextlib
import math
import types
import weakref
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.devices import has_loops
from npcompile.tensor_core.dim import hint_of
from npcompile.tensor_core.graph import Graph, Node, symbols_of
from npcompile.tensor_core.meta import TupleMeta, product
from npcompile.tracer.bytecode.analysis import loop_region
from npcompile.tracer.profitability import ARRAY, ITERATION, LOOKED_AT_HOPS, NUMBER, SMALL, pays

NEVER = 1 << 62
NUMBERS = frozenset((int, float, bool, str, types.NoneType, type(iter(range(0))), np.float64, np.int64))
FREE = ("input", "constant", "size", "reshape", "broadcast_to", "permute")  # or they belong to another operation
UPDATES = ("slice_update", "scatter")  # whose size is that of what they write into
MOST_ITEMS = 16  # of a list that are looked at
MOST_LEVELS = 3  # of objects in attributes of objects


@dataclass(frozen=True, slots=True)
class PlainLoop:
    """A loop that may run as it is."""

    region: frozenset[int]  # its instructions
    is_of_numbers: bool  # does it use elements of arrays only, however large they are?
    largest: int  # elements of an array that it was looked at with
    rebound: frozenset[str]  # variables that it binds anew: others keep their objects anyway


def rest_of_loop(point: Any, state: tuple[Any, ...]) -> Callable[..., Any] | None:
    """What runs the loop that a Point is in, from there to its end; None where its graphs are worth their time."""
    if point.plain is None:
        with point.function.lock:
            region = plain_region(point)
            if region is None:
                point.patience = NEVER
                return None
            largest = max((v.size for v in state if isinstance(v, np.ndarray)), default=0)
            loop = PlainLoop(
                region, is_of_numbers(point.function, region), max(SMALL, largest), rebound_in(point.function, region)
            )
            for other in point.function.points.values():
                if other.layout.index in region and other.place is None:
                    other.patience, other.plain = 0, loop
    loop = point.plain
    largest = NEVER if loop.is_of_numbers else loop.largest
    for k, value in enumerate(state):
        kind = type(value)
        if kind is np.ndarray:  # the usual ones are told first: calls of short loops wait for this
            if value.size > largest:
                return None
        elif kind not in NUMBERS and not (
            (is_simple(value) or is_kept(point, k, loop.rebound)) and (loop.is_of_numbers or is_small(value, largest))
        ):
            point.patience = 2 * max(point.patience, LOOKED_AT_HOPS)  # it takes long to look at objects
            return None
    if point.beyond is None:
        point.beyond = point.function.segment(point.layout, None, inside=point.plain.region)
    return point.beyond


def rebound_in(function: Any, region: frozenset[int]) -> frozenset[str]:
    instructions = (function.program.instructions[k] for k in region)
    return frozenset(i.argval for i in instructions if i.traits.place == "local" and i.traits.access in ("write", "delete"))


def is_kept(point: Any, k: int, rebound: Set[str]) -> bool:
    """Is what has this place in the state of a variable that keeps it until the loop ends?"""
    names = point.layout.local_names
    first = len(point.parameters) - bool(point.layout.kept_names) - len(names)
    return 0 <= k - first < len(names) and names[k - first] not in rebound


def plain_region(point: Any) -> frozenset[int] | None:
    """The instructions of the outermost loop around the Point that is better left to Python."""
    function, options = point.function, point.function.options
    if point.place is not None or options.fullgraph or options.has_own_backend or not has_loops(options.backend):
        return None
    if function.callees:  # compiled, which they would not be
        return None
    regions = [loop_region(function.facts, header) for header in function.facts.loop_headers]
    around = sorted((r for r in regions if point.layout.index in r), key=len, reverse=True)
    return next((region for region in around if is_cheap(function, region)), None)


def is_cheap(function: Any, region: frozenset[int]) -> bool:
    """Would NumPy and Python do what the graphs of a loop do before they are entered?"""
    hops, work = 0, 0.0
    for point in function.points.values():
        if point.layout.index in region and point.variants:
            hops += 1
            work += max(cost(v.graph) for v in point.variants)
            if any(v.compiled is not None and v.graph is None for v in point.variants):  # a native program
                is_usual = point.entered > function.calls  # else it goes to the end of the function, or has much to do
                work += ITERATION * point.iterations / point.entered if is_usual else math.inf
    return not pays(work, hops)


def is_of_numbers(function: Any, region: frozenset[int]) -> bool:
    """Are all arrays used by their elements only, however large they are?"""
    graphs = [v.graph for p in function.points.values() if p.layout.index in region for v in p.variants if v.graph is not None]
    return all(product(made_by(node).shape) == 1 for graph in graphs for node in graph.nodes if node.op not in FREE)


def made_by(node: Node) -> Node:
    return node.inputs[1] if node.op in UPDATES else node


def cost(graph: Graph | None) -> float:
    """Microseconds that NumPy takes, if nothing is large."""
    if graph is None:
        return 0.0
    found = {name for name, _ in graph.measured}
    return sum(cost_of(node, found) for node in graph.nodes if node.op not in FREE)


def cost_of(node: Node, found: Set[str]) -> float:
    """`found`: sizes that data decides, which are those of something in an array whose size is known."""
    sizes = [product(n.shape) for n in (made_by(node), *node.inputs) if not isinstance(n.meta, TupleMeta)]
    size = next((hint_of(n) for n in sizes if found.isdisjoint(symbols_of(n))), SMALL)
    return math.inf if size > SMALL else ARRAY if size > 1 else NUMBER


def is_simple(value: Any) -> bool:
    """May it be kept until the loop ends? An object of somebody's class may if nobody sees when it goes."""
    if is_builtin(value):
        return True
    kind = type(value)
    is_unseen = not isinstance(value, type) and not hasattr(kind, "__del__") and not weakref.getweakrefcount(value)
    return is_unseen and all(map(is_builtin, attributes_of(value)))


def is_builtin(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("builtins", "numpy")


def attributes_of(value: Any) -> list[Any]:
    """What an object has of its own."""
    found = [*getattr(value, "__dict__", {}).values()]
    for kind in type(value).__mro__:
        for slot in vars(kind).values():
            if type(slot) is types.MemberDescriptorType:
                with contextlib.suppress(AttributeError):  # it has no value
                    found.append(slot.__get__(value))
    return found


def is_small(value: Any, largest: int, levels: int = MOST_LEVELS) -> bool:
    if isinstance(value, list | tuple):
        return all(is_small(item, SMALL, levels) for item in value[:MOST_ITEMS])
    if not is_builtin(value):
        return all(is_small(item, largest, levels - 1) for item in attributes_of(value)) if levels else True
    return not isinstance(value, np.ndarray) or value.size <= largest
