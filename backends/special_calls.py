"""Calls of scipy.special's ufuncs that kernels compute: nodes of a graph that become elementwise ones.

SciPy's ufunc is called where its bits are asked for. Underflow, of which SciPy says nothing, may be noted here: where NumPy is
asked to report that, SciPy's runs again and says none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npcompile.backends.mask_reductions import replaced
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.ops.special import has_form


def with_forms(graph: Graph, is_native: Callable[[Node], bool]) -> Graph:
    """The same graph, whose kernels compute what SciPy's ufuncs would be called for, where a row of theirs `is_native`."""
    if graph.accuracy == "bitwise":
        return graph
    made = {node: of_kernels(node) for node in graph.nodes if node.op == "ufunc" and is_replaced(node)}
    return replaced(graph, {node: row for node, row in made.items() if is_native(row)})


def is_replaced(node: Node) -> bool:
    return has_form(node) and all(x.meta.ndim == node.meta.ndim and all(map(same, x.shape, node.shape)) for x in node.inputs)


def of_kernels(node: Node) -> Node:
    return replace(node, op=node.params["function"].__name__, params={})
