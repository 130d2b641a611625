"""Every form of kernel on small arrays, for compute-sanitizer: under it a kernel takes fifty times as long.

LIMITS are those at which plan.py chooses forms, lowered until a few thousand elements reach each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.graph import Node

Shape = tuple[int, ...]
Function = Callable[..., Sequence[Node]]  # (builder, *operands) -> results

LIMITS = {"ON_CHIP": 1024, "PART": 256, "PASS_BYTES": 2048, "PROCESSORS": 4, "PROGRAMS": 32, "PARTS": 16, "ROW_PARTS": 16}
LIMITS |= {"SCANNED": 256, "TURNS": 16}

ALL, NUMBERS, REAL = "?bhilBHILefdFD", "bilBLefdFD", "bilBLefd"
LENGTHS = (0, 1, 3, 17, 1000, 1025)
ODD: tuple[Shape, ...] = ((1, 1), (3, 17), (7, 1000), (2, 1025))


@dataclass(frozen=True, slots=True)
class Indices:
    """An operand of indices, from -size to size - 1, in the place of a shape."""

    shape: Shape
    size: int


@dataclass(frozen=True, slots=True)
class Case:
    """A function of operands of these shapes, for each dtype, as one graph."""

    name: str
    function: Function
    shapes: Sequence[Shape | Indices]
    dtypes: str
    layout: str = "dense"
    is_wide: bool = False  # offsets of 64 bits
    is_fast: bool = False

    def __str__(self) -> str:
        shape = "x".join(map(str, getattr(self.shapes[0], "shape", self.shapes[0])))
        marks = [self.layout] * (self.layout != "dense") + ["wide"] * self.is_wide + ["fast"] * self.is_fast
        return "-".join([self.name, shape, *marks])


# How operands lie in memory: a view of an array with more elements.
LAYOUTS: dict[str, tuple[Callable[[Shape], Shape], Callable[[Any, Shape], Any]]] = {
    "dense": (lambda shape: shape, lambda x, shape: x),
    "not aligned": (lambda shape: (math.prod(shape) + 1,), lambda x, shape: x[1:].reshape(shape)),
    "strided": (lambda shape: (*shape[:-1], 2 * shape[-1]), lambda x, shape: x[..., ::2]),
    "reversed": (lambda shape: shape, lambda x, shape: x[::-1]),
}


def whole_arrays(case: Case) -> list[np.ndarray]:
    """What the operands are views of. Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(len(case.name))
    grown = LAYOUTS[case.layout][0]

    def made(shape: Shape | Indices, dtype: str) -> np.ndarray:
        if isinstance(shape, Indices):
            return rng.integers(-shape.size, shape.size, shape.shape)
        shape = grown(shape)
        if dtype == "e" and math.prod(shape) > 500:  # sums of more than 2048 are not exact
            return (rng.random(shape) < 300 / math.prod(shape)).astype(dtype)
        return rng.integers(0 if dtype == "?" else 1, 2 if dtype == "?" else 5, shape).astype(dtype)

    return [made(shape, dtype) for dtype in case.dtypes for shape in case.shapes]


def views(case: Case, arrays: Sequence[Any]) -> list[Any]:
    view = LAYOUTS[case.layout][1]
    shapes = [shape for _ in case.dtypes for shape in case.shapes]
    return [x if isinstance(shape, Indices) else view(x, shape) for x, shape in zip(arrays, shapes, strict=True)]


def graph_of(case: Case, operands: Sequence[np.ndarray]) -> Graph:
    builder = Builder()
    nodes = [builder.input(TensorMeta(x.shape, x.dtype, x.strides)) for x in operands]
    count = len(case.shapes)
    results = [r for k in range(0, len(nodes), count) for r in case.function(builder, *nodes[k : k + count])]
    graph = builder.finish(results)
    return replace(graph, accuracy="fast") if case.is_fast else graph


# --- what kernels compute


def arithmetic(builder: Builder, x: Node, y: Node) -> list[Node]:
    names = {"b": ["logical_xor", "less_equal"], "c": ["multiply", "divide"], "f": ["divide", "arctan2"]}
    made = [builder.apply(name, x, y) for name in names.get(x.dtype.kind, ["floor_divide", "remainder"])]
    if x.dtype.kind in "fc":
        made.append(builder.apply("add", builder.apply("exp", x), builder.apply("sin", y)))
    wide = np.dtype("D" if x.dtype.kind == "c" else "d")
    return [*made, builder.apply("cast", x, dtype=wide), builder.apply("where", builder.apply("not_equal", x, y), x, y)]


def functions(builder: Builder, x: Node, y: Node) -> list[Node]:
    return [builder.apply(name, x) for name in ("tan", "arcsin", "log1p", "reciprocal")] + [builder.apply("power", x, y)]


def transposed(builder: Builder, x: Node, y: Node) -> list[Node]:
    return [builder.apply("logical_or" if x.dtype.kind == "b" else "add", builder.apply("permute", x, axes=(1, 0)), y)]


def part(builder: Builder, x: Node, start: Shape, shape: Shape, step: Shape = (1, 1)) -> Node:
    return builder.apply("slice", x, start=start, step=step, shape=shape)


def stencil(builder: Builder, x: Node) -> list[Node]:
    """The sum of four neighbours, and x with it inside; rows backwards; two copies one after the other."""
    m, n = x.shape
    inner = (m - 2, n - 2)
    total = part(builder, x, (1, 1), inner)
    for start in ((0, 1), (2, 1), (1, 0), (1, 2)):
        total = builder.apply("add", total, part(builder, x, start, inner))
    backwards = part(builder, x, (m - 1, 0), ((m + 1) // 2, n), (-2, 1))
    joined = builder.apply("concatenate", x, backwards, axis=0)
    return [builder.apply("slice_update", x, total, start=(1, 1), step=(1, 1)), joined]


def over(*axes: int) -> Function:
    return lambda builder, x: reduced(builder, x, axes)


def reduced(builder: Builder, x: Node, axes: Shape) -> list[Node]:
    reducers = {"b": ["logical_or", "logical_and"], "c": ["add"]}.get(x.dtype.kind, ["add", "maximum"])
    made = [builder.apply("reduce", x, reducer=r, axes=axes) for r in reducers]
    if x.dtype.kind in "iuf" and len(axes) == 1:
        made.append(builder.apply("arg_reduce", x, which="min", axis=axes[0]))
    return made


def softmax(builder: Builder, x: Node) -> list[Node]:
    def along(reducer: str, node: Node) -> Node:
        made = builder.apply("reduce", node, reducer=reducer, axes=(1,))
        return builder.apply("broadcast_to", builder.apply("reshape", made, shape=(x.shape[0], 1)), shape=x.shape)

    e = builder.apply("exp", builder.apply("subtract", x, along("maximum", x)))
    return [builder.apply("divide", e, along("add", e))]


def scanned(axis: int) -> Function:
    def function(builder: Builder, x: Node) -> list[Node]:
        reducers = {"b": ["logical_or"], "c": ["add"]}.get(x.dtype.kind, ["add", "maximum"])
        return [builder.apply("scan", x, reducer=r, axis=axis) for r in reducers]

    return function


def scattered(*modes: str) -> Function:
    return lambda builder, x, value, i: [builder.apply("scatter", x, value, i, mode=mode) for mode in modes]


def scattered_number(builder: Builder, x: Node, i: Node) -> list[Node]:
    one = builder.apply("broadcast_to", builder.constant(1, x.dtype), shape=(*i.shape, *x.shape[1:]))
    return [builder.apply("scatter", x, one, i, mode="set")]


def gathered(builder: Builder, x: Node, i: Node) -> list[Node]:
    taken = builder.apply("gather", x, i)
    return [taken, builder.apply("reduce", taken, reducer="logical_or" if x.dtype.kind == "b" else "add", axes=(0,))]


def multiplied(builder: Builder, x: Node, y: Node) -> list[Node]:
    return [builder.apply("einsum", x, y, inputs=((0, 1, 3), (0, 3, 2)), output=(0, 1, 2))]


def with_number(builder: Builder, x: Node, number: Node) -> list[Node]:
    return [builder.apply("subtract", x, builder.apply("broadcast_to", number, shape=x.shape))]


# --- all of them


def cases() -> Iterator[Case]:
    for n in LENGTHS:
        yield Case("arithmetic", arithmetic, [(n,), (n,)], ALL if n in (0, 17, 1025) else "?lefD")
    for shape in ODD:
        yield Case("arithmetic", arithmetic, [shape, shape], ALL if shape == (2, 1025) else "?lefD")
    for layout in ("not aligned", "strided", "reversed"):
        yield Case("arithmetic", arithmetic, [(7, 1000)] * 2, "?hefD", layout)
        yield Case("rows", softmax, [(7, 1000)], "ed", layout)
    yield Case("functions", functions, [(1025,)] * 2, "FD")
    yield Case("functions", arithmetic, [(1025,)] * 2, "ef", is_fast=True)
    yield Case("a number", with_number, [(1025,), ()], "bLefdFD")
    for m, n in ((1, 1), (17, 1000), (1025, 33)):
        yield Case("transposed", transposed, [(m, n), (n, m)], "?hfdD")
    for shape in ((3, 3), (17, 1000), (33, 35)):
        yield Case("stencil", stencil, [shape], "lefdD")
    for shape in (*ODD, (3, 5003)):
        dtypes = "?" + NUMBERS if shape[1] > 1000 else "?lefD"
        yield from (Case(f"over {axes}", over(*axes), [shape], dtypes) for axes in ((0,), (1,), (0, 1)))
        yield Case("rows", softmax, [shape], "efd")
    yield Case("rows", softmax, [(0, 3)], "fd")
    yield Case("sums of nothing", lambda b, x: [b.apply("reduce", x, reducer="add", axes=(1,))], [(3, 0)], "lfD")
    yield Case("rows", softmax, [(5, 5003)], "f")
    for shape in ((1000, 17), (1025, 40), (5003, 3)):
        yield Case("columns", over(0), [shape], "?" + NUMBERS if shape[1] == 40 else "?lefD")
    yield Case("whole", over(0), [(20_001,)], "?befdD")
    for shape in ((1, 1), (17, 33), (1025, 3), (3, 1025), (130, 40), (0, 3)):
        for axis in (0, 1):
            yield Case(f"scan along {axis}", scanned(axis), [shape], "?lefD" if 0 not in shape else "f")
    for count in (0, 1, 17, 1025):
        indices = Indices((count,), 9)
        many = count == 1025
        yield Case("set", scattered("set"), [(9,), (count,), indices], ALL if many else "?fD")
        yield Case("set rows", scattered("set"), [(9, 7), (count, 7), indices], "?hdD" if many else "f")
        yield Case("set to one number", scattered_number, [(9, 7), indices], "bfD")
        yield Case("add", scattered("add"), [(9,), (count,), indices], "?bilBLefdFD" if many else "?lfD")
        yield Case("add rows", scattered("add", "subtract"), [(9, 7), (count, 7), indices], "lfD")
        yield Case("extremes", scattered("maximum", "minimum"), [(9,), (count,), indices], "?bBLed" if many else "lf")
        yield Case("gather", gathered, [(9,), indices], "?befdFD" if many else "fD")
        yield Case("gather rows", gathered, [(9, 7), indices], "?hdD" if many else "f")
    yield Case("gather of nothing", lambda b, x, i: [b.apply("gather", x, i)], [(9, 0), Indices((17,), 9)], "f")
    for shape in ((1, 1, 1), (3, 7, 20)):
        yield Case("products", multiplied, [shape, (shape[0], shape[2], shape[1] + 5)], "lfdD")
    yield from (replace(case, is_wide=True) for case in wide_cases())


def wide_cases() -> list[Case]:
    """One for each form."""
    indices = Indices((1025,), 9)
    return [
        Case("arithmetic", arithmetic, [(17, 1000)] * 2, "lfD"),
        Case("arithmetic", arithmetic, [(1025,)] * 2, "?e"),
        Case("transposed", transposed, [(17, 1000), (1000, 17)], "hD"),
        Case("stencil", stencil, [(33, 35)], "f"),
        Case("rows", softmax, [(3, 17)], "f"),
        Case("rows", softmax, [(3, 5003)], "f"),
        Case("rows", softmax, [(5, 5003)], "f"),
        Case("over (1,)", over(1), [(3, 5003)], "lfD"),
        Case("columns", over(0), [(1025, 40)], "lfD"),
        *(Case(f"scan along {a}", scanned(a), [shape], "lfD") for a in (0, 1) for shape in ((1025, 3), (3, 1025), (130, 40))),
        Case("set", scattered("set"), [(9,), (1025,), indices], "lD"),
        Case("set to one number", scattered_number, [(9, 7), indices], "f"),
        Case("add", scattered("add"), [(9,), (1025,), indices], "lfD"),
        Case("gather", gathered, [(9,), indices], "fD"),
        Case("products", multiplied, [(3, 7, 20), (3, 20, 12)], "fD"),
    ]
