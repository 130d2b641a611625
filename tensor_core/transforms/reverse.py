"""Reverse-mode derivatives: the op table's `vjp` rules applied from the results back to the arguments.

The gradient of a real loss with respect to complex z = x + iy is dL/dx - i dL/dy (JAX's convention), so that rules are
transposed Jacobians without conjugation: the rule of a holomorphic f is g * f'(x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.graph import Builder, Node, topological
from npcompile.tensor_core.meta import TensorMeta, TupleMeta
from npcompile.tensor_core.op import OPS, Reads
from npcompile.tensor_core.transforms.cotangent import Chosen
from npcompile.tensor_core.transforms.decompose import decomposed, is_composite
from npcompile.tensor_core.transforms.value import Value


def is_differentiable(meta: TensorMeta) -> bool:
    """Have arrays of this dtype a derivative? Floating point and complex have; integers and booleans have none."""
    if isinstance(meta, TupleMeta):
        return any(map(is_differentiable, meta.items))
    return kind_of(meta.dtype) in "fc"


def is_constant(node: Node) -> bool:
    """Is it an alias through which no derivative passes?"""
    return node.op == "alias" and node.params["name"] is None


def keep_cotangent(node: Node, cotangent: Node) -> Node:
    return cotangent


def gradients(
    builder: Builder,
    outputs: Sequence[Node],
    cotangents: Sequence[Node | None],
    wrt: Sequence[Node],
    visit: Callable[[Node, Node], Node] = keep_cotangent,
) -> list[Node | None]:
    """The vector-Jacobian product: for each node of `wrt`, the sum of d output / d node times the output's cotangent.

    A cotangent has its output's shape and dtype. None, given or returned, is zero: a node that no output depends on
    has none. `builder` makes the new nodes; gradients of gradients are taken by calling this again. `visit` is called
    with each node and its cotangent when that is complete, and gives the one to go on with.

    Declines at an op that has no derivative.
    """
    order = topological(outputs)
    needed = depending(order, wrt)
    sums = Sums(builder, Chosen.among(order))
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in needed:
            sums.add(output, cotangent)
            sums.chosen.begin(output, cotangent)
    for node in reversed(order):
        if node in sums.of:
            sums.of[node] = visit(node, sums.of[node])
        if not sums.has(node) or not any(i in needed for i in node.inputs):
            continue
        sums.chosen.hand_on(node)
        if node.op == "item":
            sums.add_item(node.inputs[0], node.params["index"], sums.of[node])
            continue
        for i, part in zip(node.inputs, contributions(sums, node, needed), strict=True):
            if part is not None:
                sums.add(i, part)
    return [sums.of.get(node) for node in wrt]


def depending(order: Sequence[Node], wrt: Iterable[Node]) -> set[Node]:
    """`wrt`, and what of `order`, a topological one, a derivative with respect to it passes through."""
    needed = set(wrt)
    for node in order:
        if not is_constant(node) and is_differentiable(node.meta) and any(i in needed for i in node.inputs):
            needed.add(node)
    return needed


@dataclass(slots=True)
class Sums:
    """The cotangent of each node so far."""

    builder: Builder
    chosen: Chosen
    of: dict[Node, Node] = field(default_factory=dict)
    items: dict[Node, dict[int, Node]] = field(default_factory=dict)  # of ops with several results: by result

    def add(self, node: Node, cotangent: Node) -> None:
        self.of[node] = self._sum(self.of.get(node), cotangent)

    def add_item(self, node: Node, index: int, cotangent: Node) -> None:
        known = self.items.setdefault(node, {})
        known[index] = self._sum(known.get(index), cotangent)

    def _sum(self, known: Node | None, cotangent: Node) -> Node:
        return cotangent if known is None else self.builder.apply("add", known, cotangent)

    def has(self, node: Node) -> bool:
        return node in self.of or node in self.items


def rule_of(node: Node) -> Callable | None:
    """The op's rule; a node that computes what no op does has its own, and one that is written with other ops has theirs."""
    own = getattr(node, "vjp", None) or OPS[node.op].vjp
    return partial(derived, node.op) if own is None and is_composite(node.op) else own


def reads_of(op: str, params: dict[str, Any]) -> Reads:
    """What the derivative of `op` reads beside the cotangent."""
    if op not in OPS:  # a program's node, which has a rule of its own
        return Reads.BOTH
    reads = OPS[op].reads
    if reads is None:
        return read_by_rule(op)
    return reads(**params) if callable(reads) else reads


@cache
def read_by_rule(op: str) -> Reads:
    """What the rule of an elementwise op of float64 and of complex128 makes its parts of."""
    loops, found = OPS[op].loops, Reads.NOTHING
    if OPS[op].kind != "elementwise" or loops is None or OPS[op].vjp is None and not is_composite(op):
        return Reads.BOTH
    letters = [c for c in "dD" if any(types.startswith(c * loops.nin + "->") for types in loops.types)]
    for letter in letters:
        builder = Builder()
        operands = [builder.input(TensorMeta((2,), np.dtype(letter))) for _ in range(loops.nin)]
        result = builder.apply(op, *operands)
        g = builder.input(result.meta)
        parts = [x for x in contributions(Sums(builder, Chosen.among([]), {result: g}), result, {*operands}) if x is not None]
        read = {x for node in topological(parts, [*operands, result])[len(operands) + 1 :] for x in node.inputs}.union(parts)
        found |= Reads.OPERANDS * (not read.isdisjoint(operands)) | Reads.RESULT * (result in read)
    return found if letters else Reads.BOTH


def derived(op: str, g: Value, out: Value, *inputs: Value, **params: Any) -> list[Value | None]:
    """The derivative of the decomposition. Aliases of the operands: what is below them is the caller's."""
    builder = g.builder
    operands = [builder.apply("alias", x.node, name=("operand", k)) for k, x in enumerate(inputs)]
    found = gradients(builder, [decomposed(builder, op, operands, params)], [g.node], operands)
    return [None if part is None else Value(builder, part) for part in found]


def contributions(sums: Sums, node: Node, needed: set[Node]) -> list[Node | None]:
    """What one node hands to each of its inputs, by its rule; None for inputs that need nothing.

    The rule is `vjp(g, out, *inputs, **params)`, and gives for each input a Value of the input's shape and dtype, None
    for zero, or a function that gives one of these: it is called when the input needs it. Of an op with several results
    `g` is a tuple, with None for results that nothing depends on, and `out` is a tuple as well.
    """
    builder, rule = sums.builder, rule_of(node)
    if rule is None:
        at = f" ({node.location})" if node.location else ""
        raise Decline(f"{node.op}{at} has no derivative", "docs/gradients.md lists the ops without one, and why.")
    location, builder.location = builder.location, node.location or builder.location
    g: Any
    out: Any
    if isinstance(node.meta, TupleMeta):
        known = sums.items[node]
        g = tuple(Value(builder, known[k]) if k in known else None for k in range(len(node.meta.items)))
        out = tuple(Value(builder, builder.apply("item", node, index=k)) for k in range(len(node.meta.items)))
    else:
        g, out = sums.chosen.cotangent(node, sums.of[node], builder), Value(builder, node)
    params = node.params
    if node.op in OPS and OPS[node.op].kind == "control":
        params = params | {"wanted": [i in needed for i in node.inputs]}  # its gradients are made together
    parts = rule(g, out, *(Value(builder, i) for i in node.inputs), **params)
    parts = parts if isinstance(parts, (tuple, list)) else (parts,)
    found: list[Node | None] = []
    for i, part in zip(node.inputs, parts, strict=True):
        value = part() if i in needed and callable(part) else part
        if i not in needed or value is None:
            found.append(None)
            continue
        assert value.dtype == i.dtype, f"the rule of {node.op} gives {value.dtype} for a {i.dtype}"
        found.append(value.reshape(i.meta.shape).node)
    builder.location = location
    return found
