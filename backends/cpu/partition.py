"""Nodes that have no C form run with NumPy: the graph is cut in pieces around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from npcompile.backends.cpu.host import Host
from npcompile.backends.cpu.primitives import PRIMITIVES, has_c_type, is_native, kind
from npcompile.backends.kernels.graph_partition import LEAVES, MOVES, VIEWS, cut, is_repeated_leaf, is_view, stages_of
from npcompile.backends.registry import CompiledGraph
from npcompile.backends.together import Steps, together
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Graph, Node, print_graph, subgraphs, users
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.reduction import is_ordered


def is_native_node(node: Node) -> bool:
    """Can generated code compute this node?"""
    if not all(has_c_type(n.dtype) for n in (node, *node.inputs)):
        return False
    if OPS[node.op].kind == "elementwise":
        return is_native(node)
    match node.op:
        case "reduce" if is_ordered(node) and len(node.params["axes"]) > 1:
            return False
        case "reduce" | "scan":
            return combines(node.params["reducer"], node.dtype)
        case "arg_reduce":
            return kind_of(node.inputs[0].dtype) in "biuf"
        case "scatter":
            return node.params["mode"] == "set" or combines(node.params["mode"], node.dtype)
        case "einsum":
            return bool(node.inputs)
    return node.op == "input" or node.op in LEAVES or node.op in MOVES


def combines(reducer: str, dtype: np.dtype) -> bool:
    if reducer.startswith("logical") and dtype.kind != "b":
        return False
    return kind(dtype) in PRIMITIVES.get(reducer, {})


def is_native_graph(graph: Graph) -> bool:
    return all(map(is_native_node, graph.nodes))


def running_in_pieces(
    graph: Graph,
    compiling_piece: Callable[[Graph], Steps[CompiledGraph]],
    compiling_graph: Callable[[Graph], Steps[CompiledGraph]],
) -> Steps[CompiledGraph]:
    """Compiled pieces and NumPy calls in alternation. Writes are made last, by NumPy.

    Control flow runs here, and calls what `compiling_graph` makes of the graphs in its nodes.
    """
    is_bitwise = graph.accuracy == "bitwise"
    seen = seen_by_numpy(graph) if is_bitwise else set()

    def is_native(node: Node) -> bool:
        return is_native_node(node) and node not in seen

    stage = stages_of(graph, is_native)
    stages = range(max(stage.values(), default=0) + 1)
    foreign = [n for n in graph.nodes if n.op != "input" and not is_native(n)]
    moved = {s: views_of([n for n in graph.nodes if stage[n] == s and is_native(n)]) for s in stages}
    is_leaf = is_view if is_bitwise else is_repeated_leaf
    found = {s: cut(graph, stage, s, is_native, is_leaf) for s in stages if moved[s] is None}
    pieces = {s: p for s, p in found.items() if p is not None}
    inner = dict.fromkeys(g for n in foreign for g in subgraphs(n).values())
    parts = yield from together(
        [
            *(compiling_piece(p.graph) for p in pieces.values()),
            *(compiling_graph(replace(g, checks=g.checks & graph.checks, accuracy=graph.accuracy)) for g in inner),
        ]
    )
    compiled, inside = dict(zip(pieces, parts)), dict(zip(inner, parts[len(pieces) :]))
    host = Host(graph, inside, {n for p in pieces.values() for n in p.inputs})
    for s in stages:
        host.call_numpy_reporting([n for n in foreign if stage[n] == s])
        host.call_numpy(moved[s] or [])
        if (piece := pieces.get(s)) is not None:
            host.call_piece(piece, compiled[s])
    call, text = host.finish()
    source = "\n".join([comment_of(graph, foreign, text), *(c.generated for c in parts)])
    kernels, passes = (tuple(chain.from_iterable(getattr(c, of) for c in parts)) for of in ("kernels", "passes"))
    return CompiledGraph(call, source, kernels, passes=passes)


def views_of(inside: Sequence[Node]) -> list[Node] | None:
    """The native nodes of a stage when NumPy has views of them all: no kernel is worth its call."""
    nodes = [n for n in inside if n.op != "input" and not is_repeated_leaf(n)]
    return nodes if all(n.op in VIEWS for n in nodes) else None


def seen_by_numpy(graph: Graph) -> set[Node]:
    """Views that nothing but NumPy reads: they are made between the pieces, as they lie."""
    readers, found, results = users(graph.nodes), set[Node](), set(graph.results)
    for node in reversed(graph.nodes):
        if node.op in VIEWS and readers[node] and node not in results:
            found |= {node} if all(r in found or not is_native_node(r) for r in readers[node]) else set()
    return found


def comment_of(graph: Graph, foreign: Sequence[Node], text: str) -> str:
    names = sorted({n.params.get("operation", n.op) for n in foreign})
    return f"/* With NumPy: {', '.join(names)}\n{print_graph(graph)}\n\n{text}\n*/"
