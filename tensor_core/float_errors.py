"""In which operations NumPy may report a floating-point error."""

from __future__ import annotations

import numpy as np

from npcompile.tensor_core.graph import ARITHMETIC_KINDS, Node, may_note_errors, subgraphs
from npcompile.tensor_core.op import OPS


def may_report(node: Node) -> bool:
    """Does NumPy report floating-point errors in it?"""
    if any(graph.checks for graph in subgraphs(node).values()):
        return True
    dtypes = [n.dtype for n in (node, *node.inputs)]
    if OPS[node.op].kind not in ARITHMETIC_KINDS or not may_note_errors(node):
        return False
    match node.op:
        case "cast":
            return dtypes[1].kind not in "biu" or not np.can_cast(dtypes[1], dtypes[0])
        case "scatter":
            return node.params["mode"] != "set"
        case "reduce" | "scan" if node.params["reducer"] in OPS:
            return OPS[node.params["reducer"]].may_report(dtypes)
    return OPS[node.op].may_report(dtypes)
