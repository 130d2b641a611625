"""`np.bincount` as what kernels do: the least and greatest place decide how many bins there are, then a scatter counts.

A pass over a graph whose sizes data decides, before it is cut at these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.backends.mask_reductions import replaced, same_shape
from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.ops.numpy_calls import Keywords

INTP, DOUBLE = np.dtype(np.intp), np.dtype(np.float64)
FEWEST = 1024  # places: NumPy counts fewer as fast


def with_scatters(graph: Graph) -> Graph:
    """The same graph, or one with such counts."""
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    builder = Builder(env=env)
    new: dict[Node, Node] = {}
    for _, node in graph.measured:
        if (minlength := least_bins(node)) is not None:
            env.learn(node.params["size"] - minlength)
            new[node] = bins = measured_bins(builder, node.inputs[0], minlength, node.params["size"])
            counts = counted(builder, bins, *node.inputs)
            new |= {n: counts for n in graph.nodes if n.op == "item" and n.inputs[0] is node}
    env.guards = guards
    return replaced(graph, new) if new else graph


def least_bins(node: Node) -> int | None:
    """The `minlength` of a bincount that has this form; None for others, and for what NumPy refuses."""
    function = node.params.get("function")
    if node.op != "whole_sized" or not isinstance(function, Keywords) or function.function is not np.bincount:
        return None
    places, *weights = node.inputs
    is_safe = np.can_cast(places.dtype, INTP) and all(np.can_cast(w.dtype, DOUBLE) for w in weights)
    is_many = not isinstance(places.shape[0], int) or places.shape[0] >= FEWEST
    if not is_safe or not is_many or not all(same_shape(w.shape, places.shape) for w in weights):
        return None
    keywords: dict[str, Any] = dict(function.values)
    return int(keywords["minlength"]) if keywords["minlength"] >= 0 else None


def measured_bins(builder: Builder, places: Node, minlength: int, size: Any) -> Node:
    """The node of no data that has as many rows as there are bins."""
    limits = [builder.apply("reduce", places, reducer=r, axes=(0,)) for r in ("minimum", "maximum")]
    return builder.apply("bins", *limits, minlength=minlength, size=size)


def counted(builder: Builder, bins: Node, places: Node, *weights: Node) -> Node:
    dtype = DOUBLE if weights else INTP
    zeros = builder.apply("broadcast_to", builder.constant(0, dtype), shape=bins.shape[:1])
    (added,) = weights or (builder.apply("broadcast_to", builder.constant(1, dtype), shape=places.shape),)
    added, places = (n if n.dtype == d else builder.apply("cast", n, dtype=d) for n, d in ((added, dtype), (places, INTP)))
    return builder.apply("scatter", zeros, added, places, mode="add")
