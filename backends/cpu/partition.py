"""Nodes that have no C form run with NumPy: the graph is cut in pieces around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from npcompile.backends.cpu.host import Host
from npcompile.backends.cpu.primitives import PRIMITIVES, has_c_type, is_native, kind
from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.graph import Graph, Node, print_graph, subgraphs, symbols_of
from npcompile.tensor_core.op import OPS

LEAVES = ("constant", "size", "index", "literal")
VIEWS = ("permute", "reshape", "broadcast_to", "slice")
MOVES = (*VIEWS, "concatenate", "slice_update", "gather")


def is_native_node(node: Node) -> bool:
    """Can generated code compute this node?"""
    if not all(has_c_type(n.dtype) for n in (node, *node.inputs)):
        return False
    if OPS[node.op].kind == "elementwise":
        return is_native(node)
    match node.op:
        case "reduce" | "scan":
            return combines(node.params["reducer"], node.dtype)
        case "arg_reduce":
            return node.inputs[0].dtype.kind in "biuf"
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


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes of one stage that are compiled together: they need `inputs` and give `outputs`."""

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    symbols: tuple[int, ...]  # which of the whole graph's
    compiled: CompiledGraph


def stages_of(graph: Graph) -> dict[Node, int]:
    """Every node's stage: in each, nodes without a C form run first, one by one, then the others as one piece."""
    stage: dict[Node, int] = {}
    for node in graph.nodes:
        before = max((stage[i] for i in node.inputs), default=0)
        stage[node] = before if is_native_node(node) else before + 1
    return stage


def run_in_pieces(
    graph: Graph, compile_piece: Callable[..., CompiledGraph], compile_graph: Callable[..., CompiledGraph]
) -> CompiledGraph:
    """Compiled pieces and NumPy calls in alternation. Writes are made last, by NumPy.

    Control flow runs here, and calls what `compile_graph` makes of the graphs in its nodes.
    """
    stage = stages_of(graph)
    stages = range(max(stage.values(), default=0) + 1)
    foreign = [n for n in graph.nodes if n.op != "input" and not is_native_node(n)]
    moved = {s: views_of(graph, stage, s) for s in stages}
    pieces = {s: cut(graph, stage, s, compile_piece) for s in stages if moved[s] is None}
    inside = {
        g: compile_graph(replace(g, checks=g.checks & graph.checks))
        for g in dict.fromkeys(g for n in foreign for g in subgraphs(n).values())
    }
    compiled = [*(p.compiled for p in pieces.values() if p is not None), *inside.values()]
    host = Host(graph, inside, {n for p in pieces.values() if p is not None for n in p.inputs})
    for s in stages:
        host.call_numpy_reporting([n for n in foreign if stage[n] == s])
        host.call_numpy(moved[s] or [])
        if (piece := pieces.get(s)) is not None:
            host.call_piece(piece.inputs, piece.outputs, piece.symbols, piece.compiled)
    call, text = host.finish()
    source = "\n".join([comment_of(graph, stage, text), *(c.source for c in compiled)])
    return CompiledGraph(call, source, tuple(k for c in compiled for k in c.kernels))


def views_of(graph: Graph, stage: dict[Node, int], number: int) -> list[Node] | None:
    """The nodes of a stage when NumPy has views of them all: no kernel is worth its call."""
    nodes = [n for n in graph.nodes if stage[n] == number and is_native_node(n) and n.op not in ("input", *LEAVES)]
    return nodes if all(n.op in VIEWS for n in nodes) else None


def comment_of(graph: Graph, stage: dict[Node, int], text: str) -> str:
    names = sorted({n.op for n in stage if not is_native_node(n)})
    return f"/* With NumPy: {', '.join(names)}\n{print_graph(graph)}\n\n{text}\n*/"


def cut(graph: Graph, stage: dict[Node, int], number: int, compile_piece: Callable[..., CompiledGraph]) -> Piece | None:
    """The compiled piece of one stage, or None when nobody outside needs anything of it."""

    def is_inside(n: Node) -> bool:
        return stage[n] == number and is_native_node(n) and n.op != "input"

    needed = set(graph.results)
    needed |= {i for n in graph.nodes for i in n.inputs if not is_inside(n)}
    outputs = [n for n in graph.nodes if is_inside(n) and n in needed and n.op not in LEAVES]
    outputs += [n for n in graph.results if n.op in LEAVES and number == 0 and n not in outputs]
    if not outputs:
        return None
    inputs: dict[Node, Node] = {}
    made: dict[Node, Node] = {}

    def rebuild(n: Node) -> Node:
        if n not in made:
            if is_inside(n) or n.op in LEAVES:
                made[n] = replace(n, inputs=tuple(rebuild(i) for i in n.inputs))
            else:
                meta = n.meta if n.op == "input" else n.meta.with_(strides=())
                inputs[n] = made[n] = Node("input", (), {"index": len(inputs)}, meta.with_(weak=False, strides=meta.strides))
        return made[n]

    for n in graph.nodes:  # in order, so that the recursion stays shallow
        if is_inside(n):
            rebuild(n)
    results = tuple(rebuild(n) for n in outputs)
    metas = tuple(n.meta.with_(boxed=True, strides=()) for n in outputs)
    sub = Graph(tuple(inputs.values()), results, metas, (), (), graph.env, graph.name, graph.checks)
    found = dict.fromkeys(s for node in sub.nodes for s in symbols_of(node))
    symbols = tuple(k for k, s in enumerate(graph.symbols) if s in found)
    sub = replace(sub, symbols=tuple(graph.symbols[k] for k in symbols))
    return Piece(tuple(inputs), tuple(outputs), symbols, compile_piece(sub, ()))
