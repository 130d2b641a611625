"""Reductions of what a mask selects, `x[mask].sum()`: of all elements, with those that are not selected left out in place.

A pass over a graph whose sizes data decides, before it is cut at these. Where all that is made of the selected elements is
combined in the end, nothing needs their places, only how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import ShapeEnv, Size, same
from npcompile.tensor_core.graph import Builder, Graph, Node

# What elements that are not selected go through as well: quick, and seldom a reason to report an error.
QUICK = {"add", "subtract", "multiply", "square", "negative", "absolute", "positive", "maximum", "minimum", "where"}
QUICK |= {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not"}


def without_compaction(graph: Graph) -> Graph:
    """The same graph, or one with such reductions."""
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    readers: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for x in dict.fromkeys(node.inputs):
            readers.setdefault(x, []).append(node)
    new: dict[Node, Node] = {}
    for _, places in graph.measured:
        if places.op == "argwhere" and places.inputs[0].dtype == np.bool_:
            found = Selection(Builder(env=env), places, readers, set(graph.results)).reductions()
            if found:
                new |= found
                new[places] = Builder(env=env).apply("selected", places.inputs[0], size=places.params["size"])
    env.guards = guards
    return replaced(graph, new) if new else graph


def replaced(graph: Graph, new: dict[Node, Node]) -> Graph:
    """The graph with some nodes in the place of others."""
    made: dict[Node, Node] = {}
    stack = [*graph.results, *(node for _, node in graph.measured)]
    while stack:
        node = stack[-1]
        now = new.get(node, node)
        missing = [x for x in now.inputs if x not in made]
        stack += missing
        if not missing:
            inputs = tuple(made[x] for x in now.inputs)
            made[stack.pop()] = now if inputs == now.inputs else replace(now, inputs=inputs)
    outputs = tuple(made[n] for n in graph.outputs)
    writes = tuple((k, made[n]) for k, n in graph.writes)
    return replace(graph, outputs=outputs, writes=writes, measured=tuple((name, made[n]) for name, n in graph.measured))


@dataclass(slots=True)
class Selection:
    """What is made of the elements at `places`, where a mask holds."""

    builder: Builder
    places: Node
    readers: dict[Node, list[Node]]
    results: set[Node]
    everywhere: dict[Node, Node] = field(default_factory=dict)  # of values of the selected elements: the same of all elements

    @property
    def mask(self) -> Node:
        return self.places.inputs[0]

    def reductions(self) -> dict[Node, Node] | None:
        """Each reduction of them as one of all elements. None where anything else is made of them, or of their places."""
        made: dict[Node, Node] = {}
        columns: dict[Node, int] = {}
        waiting = [self.places]
        seen = set(waiting)
        order = []
        while waiting:
            node = waiting.pop()
            if node in self.results:
                return None
            for reader in self.readers.get(node, []):
                if reader not in seen:
                    seen.add(reader)
                    order.append(reader)
                    if reader.op != "reduce":
                        waiting.append(reader)
        pending = order
        while pending:
            later = []
            for node in pending:
                if not self.step(node, columns, made):
                    later.append(node)
            if len(later) == len(pending):
                return None
            pending = later
        return made

    def step(self, node: Node, columns: dict[Node, int], made: dict[Node, Node]) -> bool:
        """Take in one node, if what it is made of has been."""
        x = node.inputs[0]
        size = self.places.params["size"]
        match node.op:
            case "slice" if x is self.places and same_shape(node.shape, (size, 1)) and all(s == 1 for s in node.params["step"]):
                columns[node] = node.params["start"][1]
            case "reshape" if x in columns and same_shape(node.shape, (size,)):
                columns[node] = columns[x]
            case "reshape" if x is self.places and self.mask.meta.ndim == 1 and same_shape(node.shape, (size,)):
                columns[node] = 0
            case "gather":
                of, *indices = node.inputs
                if [columns.get(i) for i in indices] != list(range(self.mask.meta.ndim)) or not same_shape(
                    of.shape, self.mask.shape
                ):
                    return False
                self.everywhere[node] = of
            case "reduce" if x in self.everywhere and node.params["axes"] == (0,):
                neutral = neutral_of(node.params["reducer"], x.dtype)
                if neutral is None:
                    return False
                chosen = self.builder.apply("where", self.mask, self.everywhere[x], self.spread(neutral, x.dtype))
                made[node] = self.builder.apply(
                    "reduce", chosen, reducer=node.params["reducer"], axes=(*range(chosen.meta.ndim),)
                )
            case "cast" if x in self.everywhere and x.dtype.kind in "biu":
                self.everywhere[node] = self.builder.apply("cast", self.everywhere[x], **node.params)
            case op if op in QUICK and same_shape(node.shape, (size,)):
                operands = [found for i in node.inputs if (found := self.operand(i)) is not None]
                if len(operands) < len(node.inputs):
                    return False
                self.everywhere[node] = self.builder.apply(op, *operands, **node.params)
            case _:
                return False
        return True

    def operand(self, x: Node) -> Node | None:
        if x in self.everywhere:
            return self.everywhere[x]
        if x.op == "broadcast_to" and all(isinstance(n, int) and n == 1 for n in x.inputs[0].shape):
            number = self.builder.apply("reshape", x.inputs[0], shape=()) if x.inputs[0].meta.ndim else x.inputs[0]
            return self.builder.apply("broadcast_to", number, shape=self.mask.shape)
        return None

    def spread(self, value: Any, dtype: np.dtype) -> Node:
        constant = self.builder.apply("constant", value=dtype.type(value), dtype=dtype)
        return self.builder.apply("broadcast_to", constant, shape=self.mask.shape)


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def neutral_of(reducer: str, dtype: np.dtype) -> Any:
    """What changes no result that it is combined with, or None."""
    if dtype.kind not in "fiub" or dtype == np.float16:
        return None
    match reducer:
        case "add":
            return -0.0 if dtype.kind == "f" else 0
        case "multiply":
            return 1
        case "maximum" | "minimum" if dtype.kind == "f":
            return -np.inf if reducer == "maximum" else np.inf
        case "maximum" | "minimum" if dtype.kind in "iu":
            return np.iinfo(dtype).min if reducer == "maximum" else np.iinfo(dtype).max
        case "logical_or" | "logical_and":
            return reducer == "logical_and"
    return None
