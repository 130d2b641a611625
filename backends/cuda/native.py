"""What kernels compute, and what is left to libraries, to the host and to NumPy."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cuda.programs.combine import LOGIC
from npcompile.backends.cuda.programs.primitives import PRIMITIVES, has_triton_type, is_native
from npcompile.backends.cuda.programs.products import is_small
from npcompile.backends.kernels.graph_partition import LEAVES, MOVES
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.dtypes import is_bfloat16, kind_of
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.op import OPS


def is_native_node(node: Node) -> bool:
    """Can a kernel compute this node?"""
    if not all(has_triton_type(n.dtype) for n in (node, *node.inputs)):
        return False
    if OPS[node.op].kind == "elementwise":
        return is_native(node)
    match node.op:
        case "reduce" | "scan":
            return combines(node.params["reducer"], node.inputs[0].dtype)
        case "arg_reduce":
            return kind_of(node.inputs[0].dtype) in "biuf"
        case "scatter":
            mode = node.params["mode"]
            return mode == "set" or (mode in SCATTERED and combines("add" if mode == "subtract" else mode, node.dtype))
        case "einsum":
            return bool(node.inputs) and (not is_product(node) or is_small(node))
    return node.op == "input" or node.op in LEAVES or node.op in MOVES


SCATTERED = (*LOGIC, "subtract")


def combines(reducer: str, dtype: np.dtype) -> bool:
    if is_bfloat16(dtype):  # sums and products are rounded after each step, one after the other
        return reducer in ("maximum", "minimum", "fmax", "fmin")
    if dtype.kind == "b":
        return reducer in LOGIC
    if reducer.startswith("logical"):
        return False
    if dtype.kind == "c":  # of several numbers with NaN the first one is the largest: kernels keep no order
        return reducer in ("add", "multiply")
    return reducer in LOGIC and dtype.kind in PRIMITIVES[reducer]


def is_native_graph(graph: Graph) -> bool:
    return all(map(is_native_node, graph.nodes))


def is_listable(graph: Graph) -> bool:
    """Are kernels, products and views all there is, so that its launches may be the same in every run?"""
    return all(is_native_node(n) or is_product(n) for n in graph.nodes)
