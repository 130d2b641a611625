"""What a mask selects, `x[mask].sum()` and `x[mask] = -x[mask]`, computed of all elements, each where it is.

A pass over a graph whose sizes data decides, before it is cut at these. Where all that is made of the selected elements is
combined in the end, or put back to where they came from, nothing needs their places, and seldom how many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.kernels.operations import op_cost
from npcompile.tensor_core.dim import ShapeEnv, Size, hint_of, same
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Builder, Graph, Node, symbols_of
from npcompile.tensor_core.meta import TensorMeta, product
from npcompile.tensor_core.op import OPS, Cost

INT64 = np.dtype(np.int64)
# Of numbers that are no more than some ones combined by these they report no error.
QUICK = {"add", "subtract", "multiply", "square", "negative", "absolute", "positive", "maximum", "minimum", "where"}
QUICK |= {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not"}
WORK = {Cost.DIVISION: 4, Cost.FUNCTION: 16}  # beside 1 of the others
# More than this takes longer for all elements than to collect those that are selected, which may be few.
MOST_WORK, MOST_WORK_OF_ALL = 24, 24 * 1024
MOST_OF_ROW = 16  # elements


def without_compaction(graph: Graph, needed: Collection[str] | None = None) -> Graph:
    """The same graph, or one with such programs. `needed` are the sizes that its caller asks for, by default all.

    Sizes that decided something are found out in any case, as it was decided for those of at least 2. Sums of all elements are
    added up in another order than those of the selected ones: not where NumPy's bits are asked for.
    """
    if graph.accuracy == "bitwise":
        return graph
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    readers: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        for x in dict.fromkeys(node.inputs):
            readers.setdefault(x, []).append(node)
    new: dict[Node, Node] = {}
    counted = {name for name, _ in graph.measured} if needed is None else {*needed, *env.shown}
    for name, places in graph.measured:
        # Reductions of no elements raise.
        if places.op == "argwhere" and (mask := places.inputs[0]).dtype == np.bool_ and 0 not in mask.shape:
            selection = Selection(Builder(env=env), places, readers, set(graph.results))
            found = selection.replacements()
            if found:
                new |= found
                new[places] = Builder(env=env).apply("selected", mask, size=places.params["size"])
                counted |= {name} if selection.must_be_some else set()
        elif places.op != "selected":
            counted.add(name)
    env.guards = guards
    return without_counts(replaced(graph, new), counted) if new else graph


def without_counts(graph: Graph, counted: Collection[str]) -> Graph:
    """The graph without the sizes that nothing is made of."""
    alive = replace(graph, measured=())
    used = {*counted, *(s for node in alive.nodes for s in symbols_of(node))}
    return replace(graph, measured=tuple((name, node) for name, node in graph.measured if name in used))


def with_counts(graph: Graph, needed: Collection[str]) -> tuple[Graph, tuple[str, ...]]:
    """The same graph with sizes computed like other numbers, where numbers are all that is made of them; and these sizes.

    They are masks' counts. The graph's last output is the least of them, if there are any. `needed` are those that its caller
    asks for.
    """
    env = graph.env or ShapeEnv()
    nodes = {name: node for name, node in graph.measured if node.op == "selected" and name not in {*needed, *env.shown}}
    numbers: dict[str, list[Node]] = {name: [] for name in nodes}
    for node in graph.nodes:
        for name in {*symbols_of(node)} & numbers.keys() - {name for name, n in nodes.items() if n is node}:
            if node.op == "size" and str(node.params["value"]) == name:
                numbers[name].append(node)
            else:
                del numbers[name]
    for name in {s for meta in graph.metas for s in symbols_of((meta.shape, meta.strides))} & numbers.keys():
        del numbers[name]
    if graph.writes or not numbers:  # what is written cannot be taken back
        return graph, ()
    builder, counts = Builder(env=env), {}
    for name in numbers:
        mask = nodes[name].inputs[0]
        ones = builder.apply("cast", mask, dtype=INT64)
        counts[name] = builder.apply("reduce", ones, reducer="add", axes=tuple(range(mask.meta.ndim)))
    least, *others = counts.values()
    for count in others:
        least = builder.apply("minimum", least, count)
    left = tuple((name, node) for name, node in graph.measured if name not in counts)
    metas = (*graph.metas, TensorMeta((), INT64, boxed=False))
    graph = replace(graph, outputs=(*graph.outputs, least), metas=metas, measured=left)
    return replaced(graph, {node: counts[name] for name, same in numbers.items() for node in same}), tuple(counts)


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
    must_be_some: bool = False  # does NumPy raise where none is selected?
    work: int = 0
    columns: dict[Node, int] = field(default_factory=dict)  # places along one axis of the mask
    everywhere: dict[Node, Node] = field(default_factory=dict)  # of values of the selected elements: the same of all elements
    tame: set[Node] = field(default_factory=set)  # those that are made of ones where nothing is selected

    @property
    def mask(self) -> Node:
        return self.places.inputs[0]

    def replacements(self) -> dict[Node, Node] | None:
        """What comes in the place of each reduction and of each write. None where the elements or their places are needed."""
        made: dict[Node, Node] = {}
        waiting = [self.places]
        seen = set(waiting)
        pending: list[Node] = []
        while waiting:
            node = waiting.pop()
            if node in self.results:
                return None
            for reader in self.readers.get(node, []):
                if reader not in seen:
                    seen.add(reader)
                    pending.append(reader)
                    if reader.op not in ("reduce", "scatter"):
                        waiting.append(reader)
        while pending:
            later = [node for node in pending if not self.step(node, made)]
            if len(later) == len(pending):
                return None
            pending = later
        elements = hint_of(product(self.mask.shape))
        return made if self.work <= MOST_WORK or self.work * elements <= MOST_WORK_OF_ALL else None

    def step(self, node: Node, made: dict[Node, Node]) -> bool:
        """Take in one node, if what it is made of has been."""
        x = node.inputs[0]
        size, ndim = self.places.params["size"], self.mask.meta.ndim
        match node.op:
            case "slice" if x is self.places and same_shape(node.shape, (size, 1)) and all(s == 1 for s in node.params["step"]):
                self.columns[node] = node.params["start"][1]
            case "reshape" if x in self.columns and same_shape(node.shape, (size,)):
                self.columns[node] = self.columns[x]
            case "reshape" if x is self.places and self.mask.meta.ndim == 1 and same_shape(node.shape, (size,)):
                self.columns[node] = 0
            case "gather" if self.are_places(node.inputs[1:]) and same_shape(x.shape[:ndim], self.mask.shape):
                if not is_short(x.shape[ndim:]):
                    return False
                self.everywhere[node] = x
            case "reduce" if x in self.everywhere and 0 in node.params["axes"]:
                neutral = neutral_of(node.params["reducer"], x.dtype)
                if neutral is None:
                    return False
                self.must_be_some |= node.params["reducer"] in ("maximum", "minimum")
                chosen = self.chosen(self.everywhere[x], neutral)
                axes = (*range(ndim), *(ndim + axis - 1 for axis in sorted(node.params["axes"]) if axis))
                made[node] = self.builder.apply("reduce", chosen, reducer=node.params["reducer"], axes=axes)
                self.work += hint_of(product(x.shape[1:])) - 1
            case "scatter" if node.params["mode"] == "set" and self.are_places(node.inputs[2:]):
                value = self.operand(node.inputs[1])
                if value is None or not same_shape(x.shape, self.mask.shape):
                    return False
                made[node] = self.builder.apply("where", self.mask, value, x)
            case op if OPS[op].kind == "elementwise" and not OPS[op].raises and node.shape and same(node.shape[0], size):
                operands = [found for i in node.inputs if (found := self.operand(i)) is not None]
                if len(operands) < len(node.inputs):
                    return False
                if may_report(node):
                    operands = [self.harmless(o, op in QUICK) for o in operands]
                self.everywhere[node] = self.builder.apply(op, *operands, **node.params)
                if op in QUICK and self.tame.issuperset(operands):
                    self.tame.add(self.everywhere[node])
                self.work += WORK.get(op_cost(op), 1) * hint_of(product(node.shape[1:]))
            case _:
                return False
        return True

    def are_places(self, indices: Sequence[Node]) -> bool:
        return [self.columns.get(i) for i in indices] == list(range(self.mask.meta.ndim))

    def operand(self, x: Node) -> Node | None:
        if x in self.everywhere:
            return self.everywhere[x]
        if x.op == "broadcast_to" and all(isinstance(n, int) and n == 1 for n in x.inputs[0].shape):
            number = self.builder.apply("reshape", x.inputs[0], shape=()) if x.inputs[0].meta.ndim else x.inputs[0]
            made = self.builder.apply("broadcast_to", number, shape=(*self.mask.shape, *x.shape[1:]))
            self.tame.add(made)
            return made
        return None

    def harmless(self, x: Node, is_quick: bool) -> Node:
        """The value with 1 for the elements that are not selected: whatever they are, they shall report no error."""
        if x.dtype == np.bool_ or x.op == "broadcast_to" or (is_quick and (x in self.tame or x.dtype.kind in "iu")):
            return x
        made = self.chosen(x, 1)
        self.tame.add(made)
        return made

    def chosen(self, x: Node, other: Any) -> Node:
        """Its elements that are selected, or the rows, and a number for all others."""
        mask = self.mask
        if x.meta.ndim > mask.meta.ndim:
            mask = self.builder.apply("reshape", mask, shape=(*mask.shape, *(1 for _ in x.shape[mask.meta.ndim :])))
            mask = self.builder.apply("broadcast_to", mask, shape=x.shape)
        constant = self.builder.apply("constant", value=x.dtype.type(other), dtype=x.dtype)
        return self.builder.apply("where", mask, x, self.builder.apply("broadcast_to", constant, shape=x.shape))


def is_short(row: Sequence[Size]) -> bool:
    """Is such a row read as quickly as it is known whether it is selected?"""
    return hint_of(product(row)) <= MOST_OF_ROW


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
