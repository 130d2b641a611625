"""np.fmin and np.fmax of two single numbers: of zeros of both signs they give the one that NumPy gives, which is asked once.

How NumPy was built decides that: the C compiler chose the instruction. Of arrays the places of the elements decide, too.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from npcompile.backends.cpu.primitives import primitive_text
from npcompile.backends.masked import replaced
from npcompile.tensor_core.graph import Graph, Node


@functools.cache
def keeps_first(op: str, dtype: np.dtype) -> bool:
    """Does NumPy give the first of two zeros? C texts give the second. No other operands are told apart by their order."""
    if op not in ("fmin", "fmax") or dtype not in (np.dtype("f8"), np.dtype("f4")):
        return False
    return not np.signbit(getattr(np, op)(dtype.type(0.0), dtype.type(-0.0)))


def text_of_numbers(op: str, numbers: list[str], dtypes: list[np.dtype], result: np.dtype) -> str:
    """The C expression of a primitive of single numbers."""
    return primitive_text(op, numbers[::-1] if keeps_first(op, dtypes[0]) else numbers, dtypes, result)


def in_numpys_order(graph: Graph) -> Graph:
    """The same graph, with the operands of such nodes in the order in which C text gives NumPy's zero."""
    swapped = {node: replace(node, inputs=node.inputs[::-1]) for node in graph.nodes if is_of_singles(node)}
    return replaced(graph, swapped) if swapped else graph


def is_of_singles(node: Node) -> bool:
    return not node.meta.ndim and len(node.inputs) == 2 and keeps_first(node.op, node.dtype)
