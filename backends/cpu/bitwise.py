"""Graphs that are to have NumPy's bits: what may differ from them is computed by NumPy's own code.

A pass over the graph, before it is cut in pieces. An elementwise operation becomes `by_numpy` where a kernel may call NumPy's
inner loop and get what NumPy gets; all else that may differ becomes `as_numpy`, a call between the pieces. Some loops of NumPy's
take other instructions for operands that lie in another way: those of negative strides and, in float16, all that have gaps go one
by one through the C library (numpy/_core/src/umath/loops_umath_fp.dispatch.c.src). So NumPy is given such operands as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from npcompile.backends.cpu.numpy_loops import loop_of
from npcompile.backends.cpu.partition import is_native_node
from npcompile.backends.kernels.graph_partition import VIEWS
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.exactness import may_differ
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.meta import is_packed, lies_forward
from npcompile.tensor_core.op import OPS

PLACES_DECIDE = (np.fmax, np.fmin)  # which of two zeros, in NumPy's vectors: no loop over a part does the same
BY_EXPONENT = (np.power, np.float_power)  # another function of numbers with one exponent, which the loop sees by a stride of 0


def with_numpys_bits(graph: Graph) -> Graph:
    """The same graph, in which nothing differs from NumPy."""
    rewriting = Rewriting()
    for node in graph.nodes:
        rewriting.new[node] = node if node.op == "input" else rewriting.rebuilt(node)
    new = rewriting.new
    writes = tuple((index, new[node]) for index, node in graph.writes)
    measured = tuple((name, new[node]) for name, node in graph.measured)
    return replace(graph, outputs=tuple(new[n] for n in graph.outputs), writes=writes, measured=measured)


@dataclass(slots=True)
class Rewriting:
    new: dict[Node, Node] = field(default_factory=dict)
    views: dict[Node, Node] = field(default_factory=dict)  # those that NumPy makes, for itself

    def rebuilt(self, node: Node) -> Node:
        if is_native_node(node):
            if not may_differ(node):
                return replace(node, inputs=tuple(self.new[i] for i in node.inputs))
            if is_by_loop(node):
                inputs = tuple(self.new[i] for i in node.inputs)
                way = "one" if not node.meta.ndim else "last" if is_one_for_all(node.inputs[-1]) else "each"
                return replace(node, op="by_numpy", inputs=inputs, params={"operation": node.op, "way": way})
            given = tuple(map(self.as_it_lies, node.inputs))
            return replace(node, op="as_numpy", inputs=given, params={"operation": node.op, **node.params})
        return replace(node, inputs=tuple(map(self.as_it_lies, node.inputs)))

    def as_it_lies(self, node: Node) -> Node:
        """An operand of NumPy's: a view is a view, not a copy that a kernel makes."""
        if node.op not in VIEWS:
            return self.new[node]
        if node not in self.views:
            self.views[node] = replace(node, inputs=tuple(map(self.as_it_lies, node.inputs)))
        return self.views[node]


def is_by_loop(node: Node) -> bool:
    """Does NumPy's inner loop, called on parts of dense or strided operands, give what NumPy gives?"""
    ufunc = OPS[node.op].numpy
    if not isinstance(ufunc, np.ufunc) or ufunc in PLACES_DECIDE or loop_of(ufunc, [x.dtype for x in node.inputs]) is None:
        return False
    if ufunc in BY_EXPONENT and not is_alike(node.inputs[1]):
        return False
    return all(is_packed(x.meta) if x.dtype == np.float16 else lies_forward(x.meta) for x in node.inputs)


def is_one_for_all(node: Node) -> bool:
    return node.op == "broadcast_to" and all(same(n, 1) for n in node.inputs[0].shape)


def is_alike(exponent: Node) -> bool:
    """Is it one number for all, or one for each, wherever NumPy's loop begins?"""
    is_single = exponent.meta.ndim > 0 and all(same(n, 1) for n in exponent.shape)
    return not is_single and (exponent.op != "broadcast_to" or is_one_for_all(exponent))
