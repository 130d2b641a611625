"""Graphs with sizes that data decides: programs of known sizes, joined by the calls that find these out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from npcompile.backends.bincount import with_scatters
from npcompile.backends.cpu.host import Host
from npcompile.backends.kernels.graph_partition import cut, is_leaf, is_view
from npcompile.backends.kernels.schedule import readers_of
from npcompile.backends.mask_reductions import with_counts, without_compaction
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph
from npcompile.backends.together import Steps, finished, together
from npcompile.tensor_core.graph import Graph, Node, print_graph, symbols_of
from npcompile.tensor_core.op import OPS

QUICK = ("elementwise", "movement", "leaf", "gather")


def compile_measured(
    graph: Graph, compiling_piece: Callable[[Graph], Steps[CompiledGraph]], needed: Collection[str] | None = None
) -> CompiledGraph:
    """A program for a graph in which `measured` nodes have sizes that data decides, from programs for what lies between.

    It takes the graph's inputs and symbols, and returns the sizes after the outputs: those that are `needed`, by default all.
    Others may be its `counted`: the least of these comes after the outputs, and is less than LEAST where it is as if nothing had
    been computed. Writes are made last.
    """
    graph = without_compaction(graph)
    names = [name for name, _ in graph.measured]
    inner, counted = with_counts(graph, names if needed is None else needed)
    if not counted:
        return compile_pieces(graph, compiling_piece)
    made = compile_pieces(inner, compiling_piece) if inner.measured else finished(compiling_piece(inner))
    return replace(made, item=None, counted=frozenset(counted))


def compile_pieces(graph: Graph, compiling_piece: Callable[[Graph], Steps[CompiledGraph]]) -> CompiledGraph:
    """The same, all sizes found out between programs."""
    graph = with_scatters(graph)
    names = {node: name for name, node in graph.measured}
    whole = replace(graph, symbols=(*graph.symbols, *names.values()))
    stage = stages_of(graph)

    def is_inside(node: Node) -> bool:
        return node not in names and not (node.op == "item" and node.inputs[0] in names)

    order = graph.nodes
    stages = range(max(stage.values(), default=0) + 1)
    leaf = is_view if graph.accuracy == "bitwise" else is_leaf
    pieces = {s: p for s in stages if (p := cut(whole, stage, s, is_inside, leaf)) is not None}
    compiled = dict(zip(pieces, finished(together(compiling_piece(p.graph) for p in pieces.values()))))
    host = Host(whole, {}, {n for p in pieces.values() for n in p.inputs})
    for s in stages:
        for node in (n for n in order if stage[n] == s and not is_inside(n)):
            if node in names:
                host.measure(node, names[node])
            else:
                host.call_numpy([node])
        if (piece := pieces.get(s)) is not None:
            host.call_piece(piece, compiled[s])
    call, text = host.finish()
    source = f"/* {', '.join(names.values())} are found between\n{print_graph(graph)}\n\n{text}\n*/"
    kernels = tuple(k for c in compiled.values() for k in c.kernels)
    text = "\n".join([source, *(c.generated for c in compiled.values())])
    passes = (Pass("sizes from data", ", ".join(names.values())), *(p for c in compiled.values() for p in c.passes))
    return CompiledGraph(call, text, kernels, passes=passes)


def stages_of(graph: Graph) -> dict[Node, int]:
    """Every node's stage: after the calls whose results or sizes it needs. Those are made in the order of the symbols."""
    measures = dict(graph.measured)
    stage: dict[Node, int] = {}
    for node in graph.nodes:
        needed = [*node.inputs, *(measures[s] for s in symbols_of(node) if s in measures and measures[s] is not node)]
        before = max((stage[n] for n in needed), default=0)
        stage[node] = before + (node in measures.values())
    readers = readers_of(graph.nodes)
    for node in reversed(graph.nodes):  # what is computed quickly, where it is read: no array is made for it
        read = [stage[r] - (r in measures.values()) for r in readers.get(node, ())]
        if OPS[node.op].kind in QUICK and read and node not in graph.results:
            stage[node] = max(stage[node], min(read))
    return stage
