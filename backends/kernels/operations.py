"""What every backend knows of single operations."""

from __future__ import annotations

from npcompile.tensor_core.dtypes import short as short
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.op import OPS, Cost


def op_cost(op: str) -> Cost:
    """How long an element of this operation of kernels takes."""
    return OPS[op].cost if op in OPS else Cost.QUICK


def is_costly(op: str) -> bool:
    """Does it take longer than reading its operands from memory?"""
    return op_cost(op) is Cost.FUNCTION


def constant_value(node: Node):  # type: ignore[no-untyped-def]
    """The number that a node is everywhere, if it is a broadcast constant."""
    while node.op in ("broadcast_to", "cast", "reshape"):
        (node,) = node.inputs
    return node.params["value"] if node.op == "constant" else None
