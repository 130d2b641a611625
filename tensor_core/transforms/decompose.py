"""Ops that are written with other ops, made of these: before a backend schedules a graph, once, so that no backend knows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.tensor_core.graph import Builder, Graph, Node, subgraphs
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.transforms.value import Value


def is_composite(op: str) -> bool:
    """Is it written with other ops?"""
    return OPS[op].decomposition is not None


def decomposed(builder: Builder, op: str, inputs: Sequence[Node], params: dict[str, Any]) -> Node:
    """`op(*inputs, **params)` of the ops that the row says, which may be composite in their turn."""
    decomposition = OPS[op].decomposition
    assert decomposition is not None, op
    made = decomposition(*(Value(builder, x) for x in inputs), **params).node
    meta = OPS[op].meta(*(x.meta for x in inputs), **params)
    assert made.dtype == meta.dtype, f"the decomposition of {op} gives {made.dtype}, the row {meta.dtype}"
    return made


def needs_parts(node: Node) -> bool:
    return is_composite(node.op)


def expanded(graph: Graph, is_made: Callable[[Node], bool] = needs_parts) -> Graph:
    """The graph without the composite ops of which `is_made` is true, also in graphs inside; itself, if it has none."""
    while any(has_composite(node, is_made) for node in graph.nodes):
        nodes = graph.nodes
        builder = Builder() if graph.env is None else Builder(env=graph.env)
        made = {x: x for x in graph.inputs}
        with builder.env.unguarded():  # no answer depends on the strides of what is between
            for node in nodes[len(made) :]:
                builder.location = node.location
                made[node] = without_composite(builder, node, [made[x] for x in node.inputs], is_made)
        outputs, writes = tuple(made[x] for x in graph.outputs), tuple((k, made[x]) for k, x in graph.writes)
        graph = replace(graph, outputs=outputs, writes=writes, measured=tuple((name, made[x]) for name, x in graph.measured))
    return graph


def has_composite(node: Node, is_made: Callable[[Node], bool]) -> bool:
    return is_made(node) or any(has_composite(inside, is_made) for graph in subgraphs(node).values() for inside in graph.nodes)


def without_composite(builder: Builder, node: Node, inputs: Sequence[Node], is_made: Callable[[Node], bool]) -> Node:
    """The node with these inputs, and with one composite op less."""
    if is_made(node):
        return decomposed(builder, node.op, inputs, node.params)
    inner = {name: expanded(graph, is_made) for name, graph in subgraphs(node).items()}
    return builder.apply(node.op, *inputs, **node.params | inner)


def parts_of(node: Node) -> list[Node]:
    """What a composite node is made of, of inputs like its own: primitives, each after what it uses."""
    builder = Builder()
    graph = builder.finish([decomposed(builder, node.op, [builder.input(x.meta) for x in node.inputs], node.params)])
    return [n for n in expanded(graph).nodes if n.op != "input"]


@lru_cache(maxsize=1024)
def composition(op: str, dtypes: tuple[np.dtype, ...]) -> Graph:
    """What an elementwise op makes of single numbers, in primitives: a graph with an input for each operand."""
    builder = Builder()
    made = builder.apply(op, *(builder.input(TensorMeta((), dtype)) for dtype in dtypes))
    return expanded(builder.finish([made]))
