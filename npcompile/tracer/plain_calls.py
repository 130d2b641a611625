"""Functions that do little beside calling NumPy's: they run as they are, where a program of kernels and these calls takes longer.

A program enters each of its kernels' pieces, and NumPy's functions from outside; Python and NumPy do the same work for small
arrays before that. How long they take is told by what was captured: instructions, and operations on arrays. Where sizes are not
fixed, one program is for all of them, so only what calls nothing but NumPy's functions runs as it is.
"""

from __future__ import annotations

import math

from npcompile.backends.kernels.operations import EXPENSIVE
from npcompile.backends.registry import Calls
from npcompile.tensor_core.dim import Dim, Size, hint_of
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.op import OPS

MOST_CALLS = 4  # of NumPy's functions: among more may be such as are the same, and made once
INSTRUCTION, OPERATION = 0.03, 0.25  # microseconds that Python and NumPy take at least, whatever the size
ELEMENT, COSTLY_ELEMENT = 0.0004, 0.005
FREE = ("slice", "reshape", "broadcast_to", "permute")  # views


def is_best_plain(graph: Graph, calls: Calls | None, instructions: int) -> bool:
    """Does NumPy do the whole of a graph as fast as its program does?"""
    if calls is None or calls.numpy > MOST_CALLS or not (calls.numpy or graph.measured):
        return False
    if not calls.pieces:
        return True

    def is_less(largest: int) -> bool:
        return INSTRUCTION * instructions + sum(time_of(n, largest) for n in graph.nodes) < calls.around

    return not graph.symbols and is_less(max((hint_of(product(n.shape)) for n in graph.inputs), default=1))


def time_of(node: Node, limit: int) -> float:
    """Microseconds that NumPy takes for a node that code of ours computes, with `limit` for each size that is not fixed."""
    if node.op != "argwhere" and OPS[node.op].kind in ("extern", "control", "leaf") or node.op in FREE or node.op == "input":
        return 0.0
    element = COSTLY_ELEMENT if node.op in EXPENSIVE else ELEMENT
    elements = max(math.prod(size_at(n, limit) for n in x.shape) for x in (node, *node.inputs))
    return OPERATION + element * elements


def size_at(size: Size, limit: int) -> int:
    """About the size where each symbol is `limit`."""
    if not isinstance(size, Dim):
        return size
    return max(1, sum(factor * limit ** len(monomial) for monomial, factor in size.terms))
