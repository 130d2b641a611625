"""A captured program run once more on the tape, node by node, so that its gradients have gradients.

Control flow is run as Python would: the tape then knows the operations of every iteration, and loops whose length is data
have derivatives of every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core.graph import Builder, Graph, Node, bind, subgraphs
from npcompile.tensor_core.tensors.devices import is_on_device
from npcompile.tensor_core.tensors.tape import Memory, data_node
from npcompile.tensor_core.transforms.replay import replay


def constant_node(value: Any, node: Node) -> Node:
    data: Node = data_node(value if is_on_device(value) else np.asarray(value, node.dtype), Memory())
    return data


@dataclass(slots=True)
class Unrolled:
    """A handler for `replay` into a tape."""

    sizes: dict[str, int]
    results: dict[Node, list[Node]] = field(default_factory=dict)  # of nodes of control flow

    def remake(self, builder: Builder, node: Node, inputs: Sequence[Node]) -> Node:
        if subgraphs(node):
            params = {k: v if isinstance(v, Graph) else bind(v, self.sizes) for k, v in node.params.items()}
            self.results[node] = UNROLLED[node.op](Tape(builder, self.sizes), inputs, **params)
            return inputs[0]  # nothing but its items is read
        if node.op == "item" and node.inputs[0] in self.results:
            return self.results[node.inputs[0]][node.params["index"]]
        return builder.apply(node.op, *inputs, **bind(node.params, self.sizes))


@dataclass(frozen=True, slots=True)
class Tape:
    builder: Builder
    sizes: dict[str, int]

    def run(self, graph: Graph, inputs: Sequence[Node]) -> list[Node]:
        return replay(self.builder, graph.outputs, dict(zip(graph.inputs, inputs)), Unrolled(self.sizes).remake)

    def is_true(self, node: Node) -> bool:
        return bool(node.value)  # type: ignore[attr-defined]

    def zeros(self, shape: Sequence[Any], dtype: np.dtype) -> Node:
        return data_node(np.zeros(bind(tuple(shape), self.sizes), dtype), Memory())

    def element(self, x: Node, k: int) -> Node:
        rest = x.shape[1:]
        start, step = (k, *(0 for _ in rest)), (1,) * (1 + len(rest))
        row = self.builder.apply("slice", x, start=start, step=step, shape=(1, *rest))
        return self.builder.apply("reshape", row, shape=tuple(rest))

    def stacked(self, rows: Sequence[Node]) -> Node:
        parts = [self.builder.apply("reshape", x, shape=(1, *x.shape)) for x in rows]
        return self.builder.apply("concatenate", *parts, axis=0)


def unroll_cond(tape: Tape, inputs: Sequence[Node], true_graph: Graph, false_graph: Graph) -> list[Node]:
    predicate, *operands = inputs
    return tape.run(true_graph if tape.is_true(predicate) else false_graph, operands)


def unroll_checkpoint(tape: Tape, inputs: Sequence[Node], body_graph: Graph, again: Any = None) -> list[Node]:
    return tape.run(body_graph, inputs)


def unroll_for_loop(
    tape: Tape,
    inputs: Sequence[Node],
    body_graph: Graph,
    carried: int,
    scanned: int,
    length: int,
    reverse: bool = False,
    extends: Any = None,
) -> list[Node]:
    carries, arrays, constants = list(inputs[:carried]), inputs[carried : carried + scanned], inputs[carried + scanned :]
    stacks: list[list[Node]] = [[] for _ in body_graph.outputs[carried:]]
    for k in range(length - 1, -1, -1) if reverse else range(length):
        results = tape.run(body_graph, [*carries, *(tape.element(x, k) for x in arrays), *constants])
        carries = results[:carried]
        for stack, x in zip(stacks, results[carried:]):
            stack.append(x)
    metas = body_graph.metas[carried:]
    return [*carries, *(tape.stacked(s[::-1] if reverse else s) if s else tape.zeros((0, *m.shape), m.dtype)
                        for s, m in zip(stacks, metas))]  # fmt: skip


def unroll_while_loop(tape: Tape, inputs: Sequence[Node], cond_graph: Graph, body_graph: Graph, carried: int) -> list[Node]:
    return carries_of(tape, inputs, cond_graph, body_graph, carried)[-1]


def carries_of(tape: Tape, inputs: Sequence[Node], cond_graph: Graph, body_graph: Graph, carried: int) -> list[list[Node]]:
    """The first carries, and those after each iteration."""
    carries, constants = [list(inputs[:carried])], inputs[carried:]
    while tape.is_true(tape.run(cond_graph, [*carries[-1], *constants])[0]):
        carries.append(tape.run(body_graph, [*carries[-1], *constants]))
    return carries


def unroll_while_vjp(
    tape: Tape,
    operands: Sequence[Node],
    cond_graph: Graph,
    body_graph: Graph,
    vjp_graph: Graph,
    carried: int,
    moving: Sequence[int],
    inputs: int,
) -> list[Node]:
    program, cotangents = operands[:inputs], operands[inputs:]
    *before, _ = carries_of(tape, program, cond_graph, body_graph, carried)
    gradients = [*cotangents, *(tape.zeros(program[k].shape, program[k].dtype) for k in moving if k >= carried)]
    while before:
        gradients = tape.run(vjp_graph, [*gradients, *before.pop(), *program[carried:]])
    return gradients


UNROLLED: dict[str, Callable[..., list[Node]]] = {
    "cond": unroll_cond,
    "checkpoint": unroll_checkpoint,
    "for_loop": unroll_for_loop,
    "while_loop": unroll_while_loop,
    "while_vjp": unroll_while_vjp,
}
