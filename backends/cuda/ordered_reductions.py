"""Sums and products of bfloat16, rounded after each step: loops, in which the results go side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npcompile.tensor_core.array import full, permute
from npcompile.tensor_core.control import make_for_loop
from npcompile.tensor_core.dim import ShapeEnv, hint_of
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.ops.reduction import REDUCERS, is_ordered
from npcompile.tensor_core.transforms.replay import remake, replay

FEWEST = 256  # results, each of which waits for memory at every step: for fewer, NumPy on a copy is done sooner


def as_loops(graph: Graph) -> Graph:
    """The graph with such reductions as `for_loop`s, where these are worth it."""
    if not any(map(is_loop, graph.nodes)):
        return graph
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    builder = Builder(env=env)
    inputs = {n: builder.input(n.meta) for n in graph.inputs}
    made = replay(builder, [*graph.outputs, *(n for _, n in graph.writes)], inputs, in_steps)
    count = len(graph.outputs)
    writes = [(index, node) for (index, _), node in zip(graph.writes, made[count:], strict=True)]
    result = builder.finish(made[:count], graph.metas, writes, graph.name)
    env.guards = guards  # no answer depends on what was asked for new nodes
    kept = {name: getattr(graph, name) for name in ("symbols", "checks", "restored", "accuracy")}
    return replace(result, **kept)


def is_loop(node: Node) -> bool:
    if node.op != "reduce" or not is_ordered(node) or len(node.params["axes"]) != 1:
        return False
    return hint_of(product(node.shape)) >= FEWEST


def in_steps(builder: Builder, node: Node, inputs: Sequence[Node]) -> Node:
    if not is_loop(node):
        return remake(builder, node, inputs)
    (x,), (axis,), reducer = inputs, node.params["axes"], node.params["reducer"]
    lines = permute(builder, x, (axis, *(a for a in range(x.meta.ndim) if a != axis)))
    start = full(builder, node.shape, REDUCERS[reducer].identity, node.dtype)

    def step(inner: Builder, carries: list[Node], elements: list[Node]) -> tuple[list[Node], list[Node]]:
        return [inner.apply(reducer, carries[0], elements[0])], []

    (total,), _ = make_for_loop(builder, step, [start], [lines])
    return total
