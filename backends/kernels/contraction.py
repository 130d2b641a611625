"""Sums of products taken apart: what does not depend on a summed axis is not multiplied along it.

A pass over the graph, before it is scheduled. What is a product of matrices gets the form that BLAS takes. Else a sum
over axes of a product of broadcast arrays is a product of smaller sums when groups of factors share no summed axis, and
an einsum of many operands takes two at a time. That is the same number but for rounding, unless a product overflows or
is not a number: an output more tells, and then the program has to run as it was written. Integers wrap around in any
order, so they need no guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations, count
from typing import Any

import numpy as np

from npcompile.backends.kernels.index import is_one
from npcompile.backends.kernels.operations import short
from npcompile.backends.kernels.product import DTYPES, is_narrow, is_tiny
from npcompile.backends.kernels.schedule import MOVEMENT, in_memory, readers_of
from npcompile.backends.registry import IGNORES_UNDERFLOW, CompiledGraph
from npcompile.tensor_core.dim import ShapeEnv, Size, hint_of, same
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.meta import TensorMeta, product

WORTH = 4  # times fewer products, at least
BLOCK = 32  # products added one after another where NumPy sums pairwise
MANY = 4096  # products: fewer are not worth a call of BLAS where none is written
WORTH_ORDERING, MOST_IN_CHAIN = 1 << 18, 5  # products of a chain, and operands: the bound of more might not be finite
WORTH_CALLING = 8192  # products of one matrix product of a stack: fewer are not worth a call each
Operand = tuple[Node, tuple[int, ...]]  # of an einsum, with its axes
Labels = tuple[int | None, ...]  # of each axis of a factor, the axis of the whole product; None where it repeats


@dataclass(frozen=True, slots=True)
class Factor:
    """An array and where its axes lie in the product."""

    node: Node
    labels: Labels

    @property
    def axes(self) -> frozenset[int]:
        return frozenset(a for a in self.labels if a is not None)


def factors_of(node: Node, labels: Labels) -> list[Factor]:
    """The arrays that are multiplied to make `node`, read through what only moves and repeats them."""
    match node.op:
        case "multiply":
            return [f for x in node.inputs for f in factors_of(x, labels)]
        case "square":
            return 2 * factors_of(node.inputs[0], labels)
        case "broadcast_to" | "permute" | "reshape":
            inner = moved(node, labels)
            if inner is not None:
                return factors_of(node.inputs[0], inner)
    return [Factor(node, labels)]


def moved(node: Node, labels: Labels) -> Labels | None:
    """The labels of the axes of a movement's input, or None where its axes are cut or joined."""
    (x,) = node.inputs
    if node.op == "permute":
        inner: list[int | None] = [None] * x.meta.ndim
        for k, axis in enumerate(node.params["axes"]):
            inner[axis] = labels[k]
        return tuple(inner)
    if node.op == "broadcast_to":
        kept = labels[len(labels) - x.meta.ndim :]
        sizes = node.shape[len(labels) - x.meta.ndim :]
        if not all(same(n, m) or is_one(n) for n, m in zip(x.shape, sizes)):
            return None
        return tuple(None if is_one(n) and not is_one(m) else a for n, m, a in zip(x.shape, sizes, kept))
    long = [(n, a) for n, a in zip(node.shape, labels) if not is_one(n)]
    if not [n for n, _ in long] or len(long) != sum(not is_one(n) for n in x.shape):
        return None
    rest = iter(long)
    found: list[int | None] = []
    for n in x.shape:
        size, axis = (n, None) if is_one(n) else next(rest)
        if not same(n, size):
            return None
        found.append(axis)
    return tuple(found)


def components(factors: Sequence[Factor], summed: frozenset[int]) -> list[list[Factor]]:
    """Factors in groups that share no summed axis."""
    groups: list[tuple[set[int], list[Factor]]] = []
    for f in factors:
        axes = set(f.axes & summed)
        touching = [g for g in groups if g[0] & axes or not (g[0] or axes)]
        merged = (axes.union(*(g[0] for g in touching)), [x for g in touching for x in g[1]] + [f])
        groups = [g for g in groups if g not in touching] + [merged]
    return [members for _, members in groups]


@dataclass(frozen=True, slots=True)
class FactoredGraph:
    """`graph` has one output more than the original, 0-D bool, when `is_guarded`: is its answer the original's?"""

    graph: Graph
    is_guarded: bool


@dataclass(slots=True)
class Factoring:
    """One graph, being rebuilt."""

    builder: Builder
    new: dict[Node, Node] = field(default_factory=dict)
    bounds: list[Node] = field(default_factory=list)  # not finite where a product may be infinite or not a number
    may_guard: bool = True
    least: int = 0  # products, where there has to be a guard
    strided: bool = False  # does the backend read matrices by any strides, and fuse products that it makes itself?
    chained: set[Node] = field(default_factory=set)  # products that only another product reads

    def built(self, node: Node) -> Node:
        if node not in self.new:
            self.new[node] = self.rebuild(node)
        return self.new[node]

    def rebuild(self, node: Node) -> Node:
        if node.op == "einsum" and any(i in self.chained for i in node.inputs):
            made = self.chain(node)
            if made is not None:
                return made
        inputs = tuple(self.built(i) for i in node.inputs)
        self.builder.location = node.location
        if node.op == "einsum" and len(inputs) > 1:
            made = self.einsum(list(zip(inputs, node.params["inputs"])), node.params["output"], node.params.get("block"))
            if made is not None:
                return made
        if node.op == "reduce" and node.params["reducer"] == "add" and node.dtype.kind in "iufc" and node.dtype != np.float16:
            made = self.sum_of_products(inputs[0], node.params["axes"])
            if made is not None:
                return made
        return self.builder.again(node, *inputs)

    def sum_of_products(self, x: Node, axes: Sequence[int]) -> Node | None:
        summed = frozenset(axes)
        factors = factors_of(x, tuple(range(x.meta.ndim)))
        groups = components(factors, summed)
        used = frozenset(a for g in groups for f in g for a in f.axes)
        kept = [a for a in range(x.meta.ndim) if a not in summed]
        if len(groups) == 1 and len(factors) == 2 and len(used) == x.meta.ndim and hint_of(product(x.shape)) >= MANY:
            pair = [(self.compact(f), tuple(sorted(f.axes))) for f in factors]
            return self.matrix_product(pair, tuple(kept), BLOCK)
        if len(groups) < 2 or not summed <= used or not self.saves(groups, x.shape):
            return None
        if x.dtype.kind == "c" or (x.dtype.kind == "f" and not self.is_worth_guarding(hint_of(product(x.shape)))):
            return None
        shape = tuple(x.shape[a] for a in kept)
        parts, bounds = zip(*(self.partial_sum(g, summed, x.shape, len(factors) > 2) for g in groups))
        result = self.multiply([self.spread(p, labels, kept, shape) for p, labels in parts])
        if x.dtype.kind == "f":
            self.bounds.append(self.multiply([self.spread(b, labels, kept, shape) for b, labels in bounds]))
        return result

    def is_worth_guarding(self, products: int) -> bool:
        return self.may_guard and products >= self.least

    def saves(self, groups: Sequence[Sequence[Factor]], shape: Sequence[Size]) -> bool:
        whole = hint_of(product(shape))
        parts = sum(hint_of(product([shape[a] for a in axes_of(g)])) for g in groups)
        return whole >= WORTH * parts

    def partial_sum(
        self, factors: Sequence[Factor], summed: frozenset[int], shape: Sequence[Size], is_reordered: bool
    ) -> tuple[tuple[Node, list[int]], tuple[Node, list[int]]]:
        """The sum of the product of some factors over their summed axes, and a bound of its size, with their axes.

        Where factors are multiplied in another order than the program does, the bound is one for every part of a product.
        """
        axes = axes_of(factors)
        sizes = tuple(shape[a] for a in axes)
        made = self.multiply([self.spread(self.compact(f), sorted(f.axes), axes, sizes) for f in factors])
        here = tuple(k for k, a in enumerate(axes) if a in summed)
        kept = [a for a in axes if a not in summed]
        bound = self.builder.apply("absolute", made) if made.dtype.kind == "f" else made
        if made.dtype.kind == "f" and is_reordered:
            sizes_of_parts = [self.at_least_one(self.spread(self.compact(f), sorted(f.axes), axes, sizes)) for f in factors]
            bound = self.multiply(sizes_of_parts)
        if here:
            made, bound = (self.builder.apply("reduce", n, reducer="add", axes=here) for n in (made, bound))
        return (made, kept), (bound, kept)

    def at_least_one(self, node: Node) -> Node:
        one = self.builder.constant(1, node.dtype)
        repeated = self.builder.apply("broadcast_to", one, shape=node.shape) if node.meta.ndim else one
        return self.builder.apply("maximum", self.builder.apply("absolute", node), repeated)

    def chain(self, node: Node) -> Node | None:
        """A product of products, in the order of least work; None where the order of the program is about as good."""
        operands, written = chain_of(node, self.chained)
        sizes = {axis: n for x, axes in operands for axis, n in zip(axes, x.shape)}
        hints = {a: hint_of(n) for a, n in sizes.items()}
        _, work = contraction_order([axes for _, axes in operands], node.params["output"], hints)
        if written < max(WORTH_ORDERING, 2 * work, self.least) or len(operands) > MOST_IN_CHAIN:
            return None
        self.builder.location = node.location
        return self.einsum([(self.built(x), axes) for x, axes in operands], node.params["output"], None, is_chain=True)

    def number(self, size: Size, dtype: np.dtype) -> Node:
        if isinstance(size, int):
            return self.builder.constant(size, dtype)
        return self.builder.apply("cast", self.builder.apply("size", value=size), dtype=dtype)

    def greatest(self, node: Node) -> Node:
        """The largest absolute value, or 1."""
        found = self.builder.apply("absolute", node)
        if node.meta.ndim:
            found = self.builder.apply("reduce", found, reducer="maximum", axes=tuple(range(node.meta.ndim)))
        return self.at_least_one(found)

    def einsum(self, operands: list[Operand], output: tuple[int, ...], block: int | None, is_chain: bool = False) -> Node | None:
        """Two operands at a time, the cheapest pair first; None where nothing is gained."""
        if len(operands) == 2:
            return self.matrix_product(operands, output, block)
        dtype = operands[0][0].dtype
        sizes = {axis: n for x, axes in operands for axis, n in zip(axes, x.shape)}
        hints = {a: hint_of(n) for a, n in sizes.items()}
        steps, work = contraction_order([axes for _, axes in operands], output, hints)
        is_worth = is_chain or math.prod(hints.values()) >= WORTH * work
        if not is_worth or dtype.kind not in "iuf" or dtype == np.float16 or any(same(n, 0) for n in sizes.values()):
            return None
        if dtype.kind == "f" and not self.is_worth_guarding(math.prod(map(hint_of, sizes.values()))):
            return None
        if dtype.kind == "f":
            summed = product([n for a, n in sizes.items() if a not in output])
            self.bounds.append(self.multiply([self.number(summed, dtype), *(self.greatest(x) for x, _ in operands)]))
        for pair, kept in steps:
            chosen = [operands[k] for k in pair]
            made = self.matrix_product(chosen, kept, block)
            if made is None:
                made = self.builder.apply("einsum", *(x for x, _ in chosen), inputs=tuple(a for _, a in chosen), output=kept)
            operands = [x for k, x in enumerate(operands) if k not in pair] + [(made, kept)]
        return operands[0][0]

    def matrix_product(self, operands: Sequence[Operand], output: tuple[int, ...], block: int | None = None) -> Node | None:
        """The einsum of two operands in the form that BLAS takes; None where it is no product of matrices."""
        (a, in_a), (b, in_b) = operands
        sizes = {axis: n for x, axes in operands for axis, n in zip(axes, x.shape)}
        stack = [x for x in output if x in in_a and x in in_b]
        m, n = [x for x in output if x not in in_b], [x for x in output if x not in in_a]
        if m and n and output.index(n[-1]) < output.index(m[-1]):  # so that the result is not read transposed
            return self.matrix_product([operands[1], operands[0]], output, block)
        k = [x for x in in_a if x not in output]
        if set(k) != {x for x in in_b if x not in output}:
            return None
        rows, columns, inner = (product([sizes[x] for x in axes]) for axes in (m, n, k))
        if short(a.dtype) not in DTYPES or any(map(is_one, (rows, columns, inner))) or is_tiny(rows, columns, inner):
            return None
        shape = tuple(sizes[x] for x in stack)
        moved = self.permuted(a, tuple(in_a.index(x) for x in (*stack, *m, *k)))
        made = self.reshaped(moved, (*shape, rows, inner))
        if self.strided and len(m) > 1 and is_view(moved) and not is_view(made):  # a window of an array, which would be copied
            if is_narrow(columns, inner, a.dtype):
                return None
            if not is_one(sizes[m[-1]]) and hint_of(product([sizes[m[-1]], columns, inner])) >= WORTH_CALLING:
                outer = tuple(sizes[x] for x in m[:-1])
                spread = self.builder.apply(
                    "broadcast_to", self.reshaped(b, (*[1] * len(outer), *b.shape)), shape=(*outer, *b.shape)
                )
                return self.matrix_product([(a, in_a), (spread, (*m[:-1], *in_b))], output, block)
        a = made
        b = self.reshaped(self.permuted(b, tuple(in_b.index(x) for x in (*stack, *k, *n))), (*shape, inner, columns))
        *labels, row, column, shared = range(len(stack) + 3)
        inputs, canonical = ((*labels, row, shared), (*labels, shared, column)), (*labels, row, column)
        options = {} if block is None else {"block": block}
        made = self.builder.apply("einsum", a, b, inputs=inputs, output=canonical, **options)
        made = self.reshaped(made, (*shape, *(sizes[x] for x in (*m, *n))))
        order = [*stack, *m, *n]
        return self.permuted(made, tuple(order.index(x) for x in output))

    def compact(self, factor: Factor) -> Node:
        """The array with its axes in the order of the product, and no others."""
        node = factor.node
        order = sorted((a, k) for k, a in enumerate(factor.labels) if a is not None)
        repeated = [k for k, a in enumerate(factor.labels) if a is None]
        node = self.permuted(node, (*(k for _, k in order), *repeated))
        return self.reshaped(node, node.shape[: len(order)])

    def spread(self, node: Node, labels: Sequence[int], axes: Sequence[int], shape: tuple[Size, ...]) -> Node:
        """Broadcast to all of `axes`."""
        node = self.reshaped(node, tuple(n if a in labels else 1 for a, n in zip(axes, shape)))
        return node if same_sizes(node, shape) else self.builder.apply("broadcast_to", node, shape=shape)

    def permuted(self, node: Node, axes: tuple[int, ...]) -> Node:
        return node if axes == tuple(range(len(axes))) else self.builder.apply("permute", node, axes=axes)

    def reshaped(self, node: Node, shape: tuple[Size, ...]) -> Node:
        return node if same_sizes(node, shape) else self.builder.apply("reshape", node, shape=shape)

    def multiply(self, nodes: Sequence[Node]) -> Node:
        result, *rest = nodes
        for n in rest:
            result = self.builder.apply("multiply", result, n)
        return result

    def guard(self) -> Node | None:
        """Are all bounds finite?"""
        answer: Node | None = None
        for bound in self.bounds:
            finite = self.builder.apply("isfinite", bound)
            axes = tuple(range(bound.meta.ndim))
            if axes:
                finite = self.builder.apply("reduce", finite, reducer="logical_and", axes=axes)
            answer = finite if answer is None else self.builder.apply("logical_and", answer, finite)
        return answer


Step = tuple[tuple[int, int], tuple[int, ...]]  # which two operands become one, put last, and its axes


def contraction_order(
    inputs: Sequence[tuple[int, ...]], output: tuple[int, ...], sizes: dict[int, int]
) -> tuple[list[Step], int]:
    """The pairs to take, always the one of least work, and how many products that are in all."""
    operands = list(inputs)
    steps: list[Step] = []
    work = 0
    while len(operands) > 1:
        costs = {}
        for pair in combinations(range(len(operands)), 2):
            others = {a for k, axes in enumerate(operands) if k not in pair for a in axes}.union(output)
            axes = dict.fromkeys(operands[pair[0]] + operands[pair[1]])
            kept = tuple(a for a in axes if a in others) if len(operands) > 2 else output
            costs[pair] = (math.prod(sizes[a] for a in axes), math.prod(sizes[a] for a in kept), kept)
        pair = min(costs, key=lambda p: costs[p][:2])
        work += costs[pair][0]
        steps.append((pair, costs[pair][2]))
        operands = [axes for k, axes in enumerate(operands) if k not in pair] + [costs[pair][2]]
    return steps, work


def chained_products(graph: Graph) -> set[Node]:
    """The sums of products that are read once, by a sum of products."""
    readers = readers_of(graph.nodes)
    given_out = {*graph.outputs, *(node for _, node in graph.writes)}

    def is_chained(node: Node) -> bool:
        if node.op != "einsum" or node in given_out or len(reading := readers.get(node, [])) != 1:
            return False
        (reader,) = reading
        axes = [a for x, a in zip(reader.inputs, reader.params["inputs"]) if x is node] if reader.op == "einsum" else []
        is_alike = reader.dtype == node.dtype and "block" not in node.params and "block" not in reader.params
        return len(axes) == 1 and len({*axes[0]}) == len(axes[0]) and is_alike and len(reader.inputs) > 1

    return {n for n in graph.nodes if is_chained(n)}


def chain_of(node: Node, chained: Set[Node]) -> tuple[list[Operand], int]:
    """What is multiplied in a product of products, with the axes of one einsum of it all, and how many products are written."""
    operands: list[Operand] = []
    fresh = count(1 + max(a for axes in node.params["inputs"] for a in axes))
    written = 0
    waiting = [(node, node.params["output"])]
    while waiting:
        x, outside = waiting.pop()
        if x is not node and x not in chained:
            operands.insert(0, (x, outside))
            continue
        names = dict(zip(x.params["output"], outside))
        sizes = {a: n for i, axes in zip(x.inputs, x.params["inputs"]) for a, n in zip(axes, i.shape)}
        names |= {a: a if x is node else next(fresh) for a in sizes if a not in names}
        written += math.prod(map(hint_of, sizes.values()))
        waiting += [(i, tuple(names[a] for a in axes)) for i, axes in zip(x.inputs, x.params["inputs"])]
    return operands, written


def is_view(node: Node) -> bool:
    """Are its elements at strides of an array's that it is made of by moving alone?"""
    base = node
    while base.op in MOVEMENT:
        (base,) = base.inputs
    return in_memory(node, set(), {base: base.meta.strides}, set()) is base


def axes_of(factors: Sequence[Factor]) -> list[int]:
    return sorted(set().union(*(f.axes for f in factors)))


def same_sizes(node: Node, shape: Sequence[Size]) -> bool:
    return node.meta.ndim == len(shape) and all(map(same, node.shape, shape))


def factor(graph: Graph, least: int = 0, *, strided: bool = False) -> FactoredGraph:
    """The graph with its sums of products taken apart. Asks nothing about symbolic sizes.

    Sums of fewer than `least` products are only taken apart where that needs no guard. With `strided`, the backend reads the
    matrices of products by any strides, and fuses small products that are none of BLAS's.
    """
    if not any(n.op == "einsum" or (n.op == "reduce" and n.params["reducer"] == "add") for n in graph.nodes):
        return FactoredGraph(graph, False)
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    factoring = Factoring(Builder(env=env), may_guard=not graph.writes, least=least, strided=strided)
    factoring.chained = chained_products(graph)
    factoring.new = factoring.builder.take(graph)
    for node in graph.nodes:
        if node.op != "input" and node not in factoring.chained:
            factoring.built(node)
    guard = factoring.guard()
    outputs = [factoring.new[n] for n in graph.outputs] + ([guard] if guard is not None else [])
    metas = [*graph.metas, *([TensorMeta((), np.dtype(np.bool_), boxed=False)] if guard is not None else [])]
    writes = [(index, factoring.new[node]) for index, node in graph.writes]
    made = factoring.builder.finish(outputs, metas, writes, graph.name)
    env.guards = guards
    same = {name: getattr(graph, name) for name in ("symbols", "checks", "restored", "accuracy")}
    return FactoredGraph(made.with_(**same), guard is not None)


def run_factored(
    factored: FactoredGraph, fast: CompiledGraph, graph: Graph, compile_graph: Callable[[Graph], CompiledGraph]
) -> CompiledGraph:
    """`fast`, the factored program; where its guard does not hold, the original, compiled when that first happens."""
    if not factored.is_guarded:
        return fast
    whole: list[CompiledGraph] = []
    may_underflow = "under" in graph.checks  # products that the factored program does not make

    def call(*args: Any) -> tuple[Any, ...]:
        if not may_underflow or IGNORES_UNDERFLOW.holds():
            *results, holds = fast.call(*args)
            if holds:
                return tuple(results)
        if not whole:
            whole.append(compile_graph(graph))
        return whole[0].call(*args)

    return CompiledGraph(call, fast.generated, fast.kernels, fast.seconds, passes=fast.passes)
