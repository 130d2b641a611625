"""Which operations of a program may differ from NumPy's in the last bits, by the op table's column `inexact`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from npcompile.tensor_core.dtypes import short
from npcompile.tensor_core.graph import Graph, Node, subgraphs
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.special import has_form
from npcompile.tensor_core.transforms.decompose import is_composite, parts_of

# Versions of NumPy whose order of sums over several axes, and whose ways of powers to single numbers, are those that graphs have.
# Where NumPy's bits are asked for and it is an older one, it does these itself.
KNOWS_SUMS = np.lib.NumpyVersion(np.__version__) >= "2.3.0"
KNOWS_POWERS = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


def may_differ(node: Node) -> bool:
    """May what a backend makes of this node differ from what NumPy gives for the same inputs, in the last bits?"""
    if is_composite(node.op):
        return any(map(may_differ, parts_of(node)))
    if node.op == "ufunc":
        return has_form(node)
    inexact = OPS[node.op].inexact
    if not inexact or not node.inputs:
        return False
    first = node.inputs[0].meta
    return inexact(first, **node.params) if callable(inexact) else first.dtype.char in inexact


def rounded_otherwise(graphs: Iterable[Graph]) -> tuple[str, ...]:
    """Such operations of these programs, each with its dtype, in the order in which they are met: "exp f8"."""
    return tuple(dict.fromkeys(name_of(node) for graph in graphs for node in nodes_of(graph) if may_differ(node)))


def nodes_of(graph: Graph) -> Iterator[Node]:
    """Those of graphs inside too."""
    for node in graph.nodes:
        yield node
        for inside in subgraphs(node).values():
            yield from nodes_of(inside)


def name_of(node: Node) -> str:
    reducer, name = node.params.get("reducer"), node.params["function"].__name__ if node.op == "ufunc" else node.op
    return f"{f'{name} by {reducer}' if reducer else name} {short(node.inputs[0].dtype)}"
