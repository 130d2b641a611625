"""Nodes that have no C form run with NumPy: the graph is cut in pieces around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import numpy as np

from npcompile.backends.cpu.host import Host
from npcompile.backends.cpu.primitives import PRIMITIVES, has_c_type, is_native, kind
from npcompile.backends.kernels.pieces import LEAVES, MOVES, VIEWS, cut, is_repeated_leaf, stages_of
from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Graph, Node, print_graph, subgraphs
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


def run_in_pieces(
    graph: Graph, compile_piece: Callable[..., CompiledGraph], compile_graph: Callable[..., CompiledGraph]
) -> CompiledGraph:
    """Compiled pieces and NumPy calls in alternation. Writes are made last, by NumPy.

    Control flow runs here, and calls what `compile_graph` makes of the graphs in its nodes.
    """
    stage = stages_of(graph, is_native_node)
    stages = range(max(stage.values(), default=0) + 1)
    foreign = [n for n in graph.nodes if n.op != "input" and not is_native_node(n)]
    moved = {s: views_of(graph, stage, s) for s in stages}
    found = {s: cut(graph, stage, s, is_native_node, is_repeated_leaf) for s in stages if moved[s] is None}
    pieces = {s: p for s, p in found.items() if p is not None}
    compiled = {s: compile_piece(p.graph, ()) for s, p in pieces.items()}
    inside = {
        g: compile_graph(replace(g, checks=g.checks & graph.checks))
        for g in dict.fromkeys(g for n in foreign for g in subgraphs(n).values())
    }
    host = Host(graph, inside, {n for p in pieces.values() for n in p.inputs})
    for s in stages:
        host.call_numpy_reporting([n for n in foreign if stage[n] == s])
        host.call_numpy(moved[s] or [])
        if (piece := pieces.get(s)) is not None:
            host.call_piece(piece.inputs, piece.outputs, piece.symbols, compiled[s])
    call, text = host.finish()
    parts = [*compiled.values(), *inside.values()]
    source = "\n".join([comment_of(graph, stage, text), *(c.source for c in parts)])
    kernels, passes = (tuple(chain.from_iterable(getattr(c, of) for c in parts)) for of in ("kernels", "passes"))
    return CompiledGraph(call, source, kernels, passes=passes)


def views_of(graph: Graph, stage: dict[Node, int], number: int) -> list[Node] | None:
    """The nodes of a stage when NumPy has views of them all: no kernel is worth its call."""
    nodes = [n for n in graph.nodes if stage[n] == number and is_native_node(n) and n.op != "input" and not is_repeated_leaf(n)]
    return nodes if all(n.op in VIEWS for n in nodes) else None


def comment_of(graph: Graph, stage: dict[Node, int], text: str) -> str:
    names = sorted({n.op for n in stage if not is_native_node(n)})
    return f"/* With NumPy: {', '.join(names)}\n{print_graph(graph)}\n\n{text}\n*/"
