"""Graphs cut in pieces around the nodes that no kernel computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from npcompile.backends.kernels.layouts import dense_strides
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Graph, Node, symbols_of
from npcompile.tensor_core.meta import TensorMeta

LEAVES = ("constant", "size", "index", "literal")
VIEWS = ("permute", "reshape", "broadcast_to", "slice")
MOVES = (*VIEWS, "concatenate", "slice_update", "gather")


def laid_out(meta: TensorMeta, graph: Graph) -> tuple[Size, ...]:
    """Strides of a value between pieces: C-contiguous, or where NumPy's bits are asked for as NumPy's lies, which sums show."""
    return dense_strides(meta) if graph.accuracy == "bitwise" else ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Nodes of one stage that are compiled together: they need `inputs` and give `outputs`."""

    graph: Graph
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    symbols: tuple[int, ...]  # which of the whole graph's


def is_leaf(node: Node) -> bool:
    return node.op in LEAVES


def is_repeated_leaf(node: Node) -> bool:
    """A number that is repeated is in each piece what it is there: no array of it is made."""
    return is_leaf(node) or node.op == "broadcast_to" and is_leaf(node.inputs[0])


def is_view(node: Node) -> bool:
    """The same, and views: where they begin and end shows in the order of sums, so none is copied between pieces."""
    return is_repeated_leaf(node) or node.op in VIEWS


def stages_of(graph: Graph, is_native: Callable[[Node], bool]) -> dict[Node, int]:
    """Every node's stage: in each, nodes that are not native run first, one by one, then the others as one piece."""
    stage: dict[Node, int] = {}
    for node in graph.nodes:
        before = max((stage[i] for i in node.inputs), default=0)
        stage[node] = before if is_native(node) else before + 1
    return stage


def cut(
    graph: Graph,
    stage: dict[Node, int],
    number: int,
    is_native: Callable[[Node], bool],
    is_leaf: Callable[[Node], bool] = is_leaf,
) -> Piece | None:
    """The piece of one stage, or None when nobody outside needs anything of it. Each has leaves of its own."""

    def is_inside(n: Node) -> bool:
        return stage[n] == number and is_native(n) and n.op != "input"

    needed = set(graph.results)
    needed |= {i for n in graph.nodes if not is_inside(n) for i in n.inputs}
    for n in reversed(graph.nodes):  # what is made anew where it is read
        if n in needed and is_leaf(n):
            needed.update(n.inputs)
    outputs = [n for n in graph.nodes if is_inside(n) and n in needed and not is_leaf(n)]
    outputs += [n for n in graph.results if is_leaf(n) and stage[n] == number and n not in outputs]
    if not outputs:
        return None
    inputs: dict[Node, Node] = {}
    made: dict[Node, Node] = {}

    def rebuild(n: Node) -> Node:
        if n not in made:
            if is_inside(n) or is_leaf(n):
                made[n] = replace(n, inputs=tuple(rebuild(i) for i in n.inputs))
            else:
                meta = n.meta if n.op == "input" else n.meta.with_(strides=laid_out(n.meta, graph))
                inputs[n] = made[n] = Node("input", (), {"index": len(inputs)}, meta.with_(weak=False, strides=meta.strides))
        return made[n]

    for n in graph.nodes:  # in order, so that the recursion stays shallow
        if is_inside(n):
            rebuild(n)
    results = tuple(rebuild(n) for n in outputs)
    metas = tuple(n.meta.with_(boxed=True, strides=laid_out(n.meta, graph)) for n in outputs)
    sub = Graph(tuple(inputs.values()), results, metas, (), (), graph.env, graph.name, graph.checks, accuracy=graph.accuracy)
    found = dict.fromkeys(s for node in sub.nodes for s in symbols_of(node))
    symbols = tuple(k for k, s in enumerate(graph.symbols) if s in found)
    sub = replace(sub, symbols=tuple(graph.symbols[k] for k in symbols))
    return Piece(sub, tuple(inputs), tuple(outputs), symbols)
