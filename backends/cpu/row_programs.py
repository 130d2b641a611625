"""Programs over the rows of an array, as normalization is, written so that one kernel holds more of them.

A pass over the graph, before it is scheduled. Functions of the rows' sums have the shape of these, without the axes of
size 1 that `keepdims` leaves. A reduction of all elements of what depends on the rows' sums is one of every row, which is
made while the row is at hand, and then one of these results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npcompile.backends.kernels.index import is_one
from npcompile.tensor_core.dim import ShapeEnv, Size, same
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.op import OPS

Rows = tuple[tuple[Size, ...], tuple[int, ...]]  # the shape of an array, and which axes are a row


def by_rows(graph: Graph) -> Graph:
    """The same graph in that form. Asks nothing about symbolic sizes."""
    if not any(n.op == "reduce" for n in graph.nodes):
        return graph
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    rewriting = Rewriting(Builder(env=env))
    new = rewriting.builder.take(graph)
    for node in graph.nodes:
        if node.op != "input":
            rewriting.builder.location = node.location
            new[node] = rewriting.rebuild(node, tuple(new[i] for i in node.inputs))
    writes = [(index, new[node]) for index, node in graph.writes]
    made = rewriting.builder.finish([new[n] for n in graph.outputs], graph.metas, writes, graph.name)
    env.guards = guards
    return made.with_(symbols=graph.symbols, checks=graph.checks, restored=graph.restored)


@dataclass(slots=True)
class Rewriting:
    builder: Builder
    rows: dict[Node, tuple[Rows, ...]] = field(default_factory=dict)  # on whose reductions a value depends

    def rebuild(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        kind = OPS[node.op].kind
        if node.op == "reduce":
            return self.reduction(node, inputs[0])
        made = self.without_ones(node, inputs) if kind == "elementwise" else None
        made = made or self.builder.again(node, *inputs)
        if kind == "elementwise" or node.op in ("reshape", "broadcast_to"):
            self.note(made, inputs)
        return made

    def note(self, node: Node, inputs: Sequence[Node]) -> None:
        found = dict.fromkeys(r for i in inputs for r in self.rows.get(i, ()))
        if found:
            self.rows[node] = tuple(found)

    def reduction(self, node: Node, x: Node) -> Node:
        axes = node.params["axes"]
        rows = {of for shape, of in self.rows.get(x, ()) if same_shape(shape, x.shape)}
        rounds = node.params["reducer"] in ("add", "multiply") and kind_of(x.dtype) in "fc"  # so that its order shows
        if len(axes) == x.meta.ndim and len(rows) == 1 and not rounds:
            (inner,) = rows
            x = self.builder.apply("reduce", x, reducer=node.params["reducer"], axes=inner)
            axes = tuple(range(x.meta.ndim))
        made = self.builder.apply("reduce", x, **node.params | {"axes": axes})
        if 0 < len(axes) < x.meta.ndim:
            self.rows[made] = ((x.shape, axes),)
        return made

    def without_ones(self, node: Node, inputs: Sequence[Node]) -> Node | None:
        """None where no operand is the reshaped result of something without these axes."""
        shape = tuple(n for n in node.shape if not is_one(n))
        if not shape or len(shape) == len(node.shape) or not any(is_reshaped(i, shape) for i in inputs):
            return None
        made = self.builder.apply(node.op, *(self.squeezed(i, shape) for i in inputs), **node.params)
        self.note(made, inputs)
        return self.builder.apply("reshape", made, shape=node.shape)

    def squeezed(self, node: Node, shape: tuple[Size, ...]) -> Node:
        if is_reshaped(node, shape):
            return node.inputs[0]
        if node.op == "broadcast_to" and not node.inputs[0].meta.ndim:
            return self.builder.apply("broadcast_to", *node.inputs, shape=shape)
        return self.builder.apply("reshape", node, shape=shape)


def is_reshaped(node: Node, shape: Sequence[Size]) -> bool:
    return node.op == "reshape" and same_shape(node.inputs[0].shape, shape)


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))
