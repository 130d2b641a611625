"""Graphs that nodes of control flow hold: made of nodes of any builder, with what these read from outside as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph, Node, topological
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.transforms.replay import replay


@dataclass(frozen=True, slots=True)
class Name:
    """A graph that a node names, but does not run."""

    graph: Graph

    def __repr__(self) -> str:
        return self.graph.name


def graph_of(
    env: ShapeEnv,
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    *,
    name: str,
    metas: Sequence[TensorMeta] | None = None,
    checks: frozenset[str] = frozenset(),
) -> Graph:
    """The graph that computes `outputs` from `inputs`: all that they need beside leaves and what is made of these."""
    builder = Builder(env=env)
    replaced = {n: builder.input(inside(n.meta)) for n in inputs}
    results = replay(builder, outputs, replaced)
    given_out = [m.with_(strides=()) for m in metas] if metas is not None else [inside(n.meta) for n in results]
    return replace(builder.finish(results, given_out, name=name), checks=checks)


def inside(meta: TensorMeta) -> TensorMeta:
    """As graphs in nodes get their inputs: C-contiguous arrays."""
    return TensorMeta(meta.shape, meta.dtype)


def outside(builder: Builder, outputs: Sequence[Node]) -> list[Node]:
    """What `outputs` read that neither is of `builder`, nor depends on its inputs, nor is made of leaves alone."""
    own = {*builder.made, *builder.inputs}
    order = topological(outputs)
    for node in order:  # operators on outer values make nodes of the builder that these are of
        if not own.isdisjoint(node.inputs):
            own.add(node)
    constant: dict[Node, bool] = {}
    read = [*outputs, *(i for n in order if n in own for i in n.inputs)]
    return [n for n in dict.fromkeys(read) if n not in own and not is_made_of_leaves(n, constant)]


def is_made_of_leaves(node: Node, known: dict[Node, bool]) -> bool:
    """Is it a constant, a size, or such a value moved and repeated, which costs nothing to make again?

    Not under another name: a transform may be about to replace it.
    """
    if node not in known:
        kind = OPS[node.op].kind
        is_moved = kind == "movement" and node.op != "alias" and all(is_made_of_leaves(i, known) for i in node.inputs)
        known[node] = is_moved or (kind == "leaf" and node.op != "input")
    return known[node]
