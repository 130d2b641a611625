"""Random graphs over the whole op table, with arrays to run them on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.dim import Dim, Size, hint_of, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import broadcast_shapes, contiguous_strides

F8, I8, B1 = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)


@dataclass(eq=False)
class RandomGraph:
    """A graph of `count` random nodes over inputs of sizes drawn from two symbols, or fixed sizes."""

    seed: int
    count: int
    is_dynamic: bool
    random: random.Random = field(init=False)
    builder: Builder = field(default_factory=Builder)
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def build(self) -> Graph:
        rng = self.random
        n: Size = 4
        m: Size = 3
        if self.is_dynamic:
            n, m = (self.builder.env.symbol(name, hint, at_least=2) for name, hint in (("n", 4), ("m", 3)))
        self.sizes = (n, m)
        for shape in rng.choices([(n, m), (m,), (n,), (m, n), (n, 1), (2, n, m)], k=rng.randint(1, 3)):
            strides = contiguous_strides(shape, 8, rng.choice("CCF"))
            self.nodes.append(self.builder.input(TensorMeta(shape, rng.choice([F8, F8, I8]), strides)))
        while len(self.nodes) < self.count:
            made = getattr(self, rng.choice(MAKERS))(rng.choice(self.nodes[-6:]))
            if made is not None and made.meta.ndim <= 3 and hint_of(made.meta.size) < 400:
                self.nodes.append(made)
        results = rng.sample(self.nodes, min(len(self.nodes), rng.randint(1, 4)))
        if results[-1] is not self.nodes[-1]:
            results[-1] = self.nodes[-1]
        writes = []
        for k, x in enumerate(self.builder.inputs):
            candidates = [y for y in self.nodes if y.dtype == x.dtype and all_same(y.shape, x.shape) and y is not x]
            if candidates and rng.random() < 0.5:
                writes.append((k, rng.choice(candidates)))
        return self.builder.finish(results, [r.meta.with_(strides=()) for r in results], writes)

    # --- makers: a node over `x`, or None where the choice does not fit

    def unary(self, x: Node) -> Node:
        if x.dtype == F8:
            return self.builder.apply(self.random.choice(["negative", "absolute", "tanh", "sin", "floor", "sign"]), x)
        if x.dtype == I8:
            return self.builder.apply(self.random.choice(["negative", "absolute", "invert", "square"]), x)
        return self.builder.apply("logical_not", x)

    def binary(self, x: Node) -> Node | None:
        y = self.random.choice(self.nodes)
        op = self.random.choice(["add", "subtract", "multiply", "maximum", "minimum", "less", "equal"])
        if x.dtype == B1 or y.dtype == B1:
            x, y = self.to(x, F8), self.to(y, F8)
        if x.dtype != y.dtype:
            x, y = self.to(x, F8), self.to(y, F8)
        pair = self.together(x, y)
        return self.builder.apply(op, *pair) if pair else None

    def together(self, *xs: Node) -> tuple[Node, ...] | None:
        for a in xs:
            for b in xs:
                for p, q in zip(reversed(a.shape), reversed(b.shape)):
                    if not same(p, q) and not (isinstance(p, int) and p == 1) and not (isinstance(q, int) and q == 1):
                        return None
        shape = broadcast_shapes(*(x.shape for x in xs))
        return tuple(x if all_same(x.shape, shape) else self.builder.apply("broadcast_to", x, shape=shape) for x in xs)

    def to(self, x: Node, dtype: np.dtype) -> Node:
        return x if x.dtype == dtype else self.builder.apply("cast", x, dtype=dtype)

    def cast(self, x: Node) -> Node | None:
        return self.to(x, F8) if x.dtype != F8 else None

    def where(self, x: Node) -> Node | None:
        y = self.random.choice(self.nodes)
        c = self.random.choice(self.nodes)
        if y.dtype != x.dtype:
            return None
        trio = self.together(self.to(c, B1), x, y)
        return self.builder.apply("where", *trio) if trio else None

    def constant(self, x: Node) -> Node | None:
        if x.dtype == B1:
            return None
        c = self.builder.constant(self.random.randint(-3, 3), x.dtype)
        return self.builder.apply("add", x, self.builder.apply("broadcast_to", c, shape=x.shape))

    def permute(self, x: Node) -> Node:
        axes = list(range(x.meta.ndim))
        self.random.shuffle(axes)
        return self.builder.apply("permute", x, axes=tuple(axes))

    def reshape(self, x: Node) -> Node:
        kind = self.random.randrange(3)
        if kind == 0:
            return self.builder.apply("reshape", x, shape=(x.meta.size,))
        if kind == 1:
            at = self.random.randint(0, x.meta.ndim)
            return self.builder.apply("reshape", x, shape=(*x.shape[:at], 1, *x.shape[at:]))
        return self.builder.apply("reshape", x, shape=tuple(reversed(x.shape)))

    def slice(self, x: Node) -> Node | None:
        start, step, shape = [], [], []
        for n in x.shape:
            choice = self.random.randrange(4)
            if choice == 1:
                start, step, shape = [*start, n - 1], [*step, -1], [*shape, n]
            elif choice == 2 and hint_of(n) > 2:
                start, step, shape = [*start, 1], [*step, 1], [*shape, n - 1]
            elif choice == 3 and isinstance(n, int):
                start, step, shape = [*start, 0], [*step, 2], [*shape, (n + 1) // 2]
            else:
                start, step, shape = [*start, 0], [*step, 1], [*shape, n]
        return self.builder.apply("slice", x, start=tuple(start), step=tuple(step), shape=tuple(shape))

    def concatenate(self, x: Node) -> Node | None:
        others = [y for y in self.nodes if y.dtype == x.dtype and y.meta.ndim == x.meta.ndim > 0]
        axis = self.random.randrange(x.meta.ndim) if x.meta.ndim else 0
        fitting = [y for y in others if all(same(p, q) for a, (p, q) in enumerate(zip(x.shape, y.shape)) if a != axis)]
        return self.builder.apply("concatenate", x, self.random.choice(fitting), x, axis=axis) if fitting else None

    def reduce(self, x: Node) -> Node | None:
        axes = tuple(a for a in range(x.meta.ndim) if self.random.random() < 0.5)
        if x.dtype == B1 or not axes:
            return None
        return self.builder.apply("reduce", x, reducer=self.random.choice(["add", "maximum", "minimum"]), axes=axes)

    def normalize(self, x: Node) -> Node | None:
        if x.dtype != F8 or not x.meta.ndim:
            return None
        total = self.builder.apply("reduce", x, reducer="maximum", axes=(x.meta.ndim - 1,))
        kept = self.builder.apply("reshape", total, shape=(*x.shape[:-1], 1))
        return self.builder.apply("subtract", x, self.builder.apply("broadcast_to", kept, shape=x.shape))

    def scan(self, x: Node) -> Node | None:
        if x.dtype == B1 or not x.meta.ndim:
            return None
        return self.builder.apply(
            "scan", x, reducer=self.random.choice(["add", "maximum"]), axis=self.random.randrange(x.meta.ndim)
        )

    def arg_reduce(self, x: Node) -> Node | None:
        if x.dtype == B1 or not x.meta.ndim:
            return None
        return self.builder.apply(
            "arg_reduce", x, which=self.random.choice(["max", "min"]), axis=self.random.randrange(x.meta.ndim)
        )

    def indices(self, shape: tuple[Size, ...], bound: Size) -> Node:
        where = self.builder.apply("index", shape=shape, axis=len(shape) - 1)
        low = self.builder.apply("broadcast_to", self.builder.constant(-1, I8), shape=shape)
        return self.builder.apply("add", where, low) if self.random.random() < 0.5 else self.builder.apply("minimum", where, low)

    def gather(self, x: Node) -> Node | None:
        if not x.meta.ndim:
            return None
        return self.builder.apply("gather", x, self.indices((x.shape[0],), x.shape[0]))

    def scatter(self, x: Node) -> Node | None:
        if not x.meta.ndim or x.dtype != I8:
            return None
        return self.builder.apply(
            "scatter", x, self.unary(x), self.indices((x.shape[0],), x.shape[0]), mode=self.random.choice(["set", "add"])
        )

    def slice_update(self, x: Node) -> Node | None:
        value = self.slice(x)
        if value is None:
            return None
        start, step = value.params["start"], value.params["step"]
        if self.random.random() < 0.5:
            value = self.unary(value)
        elif self.random.random() < 0.5:
            flipped = tuple(n - 1 for n in value.shape), tuple(-1 for _ in value.shape)
            value = self.builder.apply("slice", value, start=flipped[0], step=flipped[1], shape=value.shape)
        return self.builder.apply("slice_update", x, value, start=start, step=step) if value.dtype == x.dtype else None

    def einsum(self, x: Node) -> Node | None:
        if x.dtype == B1 or not 1 <= x.meta.ndim <= 2:
            return None
        y = self.random.choice([y for y in self.nodes if y.dtype == x.dtype and y.meta.ndim] or [x])
        if not same(x.shape[-1], y.shape[0]) or y.meta.ndim > 2:
            return None
        left, right = tuple(range(x.meta.ndim)), tuple(range(x.meta.ndim - 1, x.meta.ndim + y.meta.ndim - 1))
        output = tuple(a for a in (*left, *right) if a != x.meta.ndim - 1)
        return self.builder.apply("einsum", x, y, inputs=(left, right), output=output)


MAKERS = "unary binary binary binary where constant permute reshape slice concatenate reduce reduce normalize scan arg_reduce"
MAKERS = (MAKERS + " gather scatter slice_update slice_update einsum cast").split()


def all_same(a: tuple[Size, ...], b: tuple[Size, ...]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def arrays_for(graph: Graph, values: dict[str, int], seed: int) -> list[Any]:
    """Fresh inputs in the memory order that their metas promise, then the symbols."""
    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for x in graph.inputs:
        shape = tuple(evaluate_size(n, values) for n in x.shape)
        data = rng.integers(-4, 5, shape) if x.dtype == I8 else rng.integers(-8, 9, shape) / 4
        is_fortran = x.meta.ndim > 1 and not all_same(x.meta.strides, contiguous_strides(x.shape, 8))
        arrays.append(np.array(data, x.dtype, order="F" if is_fortran else "C"))
    return [*arrays, *(values[s] for s in graph.symbols)]


def evaluate_size(size: Size, values: dict[str, int]) -> int:
    from npcompile.tensor_core.dim import evaluate

    return evaluate(size, values) if isinstance(size, Dim) else size
