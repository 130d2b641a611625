"""In which operations NumPy may report a floating-point error."""

from __future__ import annotations

import numpy as np

from npcompile.tensor_core.graph import ARITHMETIC_KINDS, Node, may_note_errors, subgraphs
from npcompile.tensor_core.op import OPS

# Operations in which NumPy reports no floating-point error, whatever the data.
SILENT = frozenset(
    [
        "negative",
        "positive",
        "laid_out",
        "conjugate",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "isfinite",
        "isinf",
        "isnan",
    ]
    + ["signbit", "copysign", "where", "real", "imag", "complex", "bitcast", "item", "require_none", "argwhere"]
    + ["sort", "argsort", "partition", "argpartition", "lexsort", "searchsorted"]
)
SILENT_IF_REAL = frozenset(["absolute", "fabs", "sign", "less", "less_equal", "greater", "greater_equal", "maximum", "minimum"])


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
    return node.op not in SILENT and not (node.op in SILENT_IF_REAL and all(d.kind != "c" for d in dtypes))
