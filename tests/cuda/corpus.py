"""Graphs for which the CUDA backend has kernels, and what of each goes to the compiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping

import numpy as np

import npcompile as npc
from npcompile.backends.cuda.partition import stages
from npcompile.backends.cuda.programs.plan import plan_kernel
from npcompile.backends.cuda.programs.program import Launch, NotPrintable, Plan
from npcompile.backends.cuda.runtime.compiler import Request
from npcompile.backends.cuda.runtime.run import signature
from npcompile.backends.kernels.lower import lower
from npcompile.backends.kernels.memory import build_schedule
from npcompile.compiler import compiled_function
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.graph import Node, subgraphs
from tests.tracer import harness
from tests.tracer.breaks import test_breaks
from tests.tracer.bytecode import test_control_flow
from tests.tracer.python import test_functions

NONE: Mapping[str, int] = {}


# --- from graphs to requests


def plans_of(graph: Graph) -> list[Plan]:
    """Of all pieces, the graphs inside of nodes among them. What no kernel can be has none."""
    made: list[Plan] = []
    for stage in stages(graph):
        for node in stage.foreign:
            made += [p for inner in subgraphs(node).values() for p in plans_of(inner)]
        if stage.piece is not None:
            schedule = build_schedule(stage.piece.graph, abreast=True)
            kernels = lower(schedule)
            types = {b.name: b.dtype for b in (*schedule.buffers, *(b for k in kernels for b in k.literals))}
            try:
                is_fast = graph.accuracy == "fast"
                made += [plan_kernel(k, types, stage.piece.graph.symbols, is_fast=is_fast) for k in kernels]
            except NotPrintable:
                continue
    return made


def request_of(launch: Launch, sizes: Mapping[str, int], *, is_wide: bool = False) -> Request:
    """With pointers that are multiples of 16."""
    program, tile = launch.program, launch.tile
    divisible = tuple(
        k for k, p in enumerate(program.parameters) if p.is_pointer or (p.role == "size" and sizes[p.source] % 16 == 0)
    )
    # The name has a digest of where the kernel is: without it, equal ones are compiled once.
    text = program.with_tile(tile, is_wide).replace(program.name, "kernel")
    return Request("kernel", text, signature(launch, is_wide), divisible, tile.warps, tile.stages, program.is_fast)


def requests_of(graph: Graph, sizes: Mapping[str, int] = NONE, *, is_wide: bool = False) -> list[Request]:
    return [request_of(launch, sizes, is_wide=is_wide) for plan in plans_of(graph) for launch in plan.launches(sizes)]


# --- the tracer's sample functions


def sample_requests() -> list[Request]:
    """The kernels of every graph that they are captured to, each once."""
    found: dict[Request, None] = {}
    for module in (test_functions, test_breaks, test_control_flow):
        for test in tuple(vars(module).values()):
            if hasattr(test, "sample"):
                for graph in graphs_of(test.sample):
                    sizes = {s: graph.env.hints.get(s, 4) for s in graph.symbols} if graph.env is not None else NONE
                    found |= dict.fromkeys(requests_of(graph, sizes))
    return list(found)


def graphs_of(sample: harness.Sample) -> Iterator[Graph]:
    compiled = npc.compile(sample.function, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for round in range(2):
            harness.run(compiled, sample.function, harness.clone(sample.arguments(round)))
    known = compiled_function(compiled)
    yield from (graph for graph, _ in known.graphs) if known is not None else ()


# --- every form of kernel


def forms() -> list[Graph]:
    """Small and large arrays of each form, one graph for each size at which another form is chosen."""
    return [
        *(rows(shape) for shape in [(1 << 20, 3), (500, 1000), (3, 16384), (300, 40_000), (2, 1 << 20)]),
        *(reductions(shape, d) for shape, d in [((500, 1000), "f"), ((40, 300_001), "d"), ((1 << 22, 3), "e"), ((9, 9), "D")]),
        reductions((700, 900), "?", "logical_or"),
        *(positions(shape) for shape in [(50, 60), (1 << 20, 2)]),
        *(scans(shape, d) for shape, d in [((50, 4000), "f"), ((3, 1 << 18), "D"), ((1 << 18, 3), "l"), ((60, 70), "?")]),
        *(
            scatters(count, mode, d)
            for count in (100, 1 << 18)
            for mode, d in [("set", "f"), ("add", "l"), ("add", "d"), ("add", "D")]
        ),
        *(scatters(1 << 14, mode, d) for mode, d in [("maximum", "e"), ("logical_or", "?"), ("multiply", "F"), ("add", "?")]),
        movement(),
        products(),
    ]


def given(builder: Builder, *shapes: tuple[int, ...], dtype: str = "d") -> list[Node]:
    return [builder.input(TensorMeta(shape, np.dtype(dtype))) for shape in shapes]


def rows(shape: tuple[int, int]) -> Graph:
    """Softmax: two reductions and what follows them."""
    builder = Builder()
    (x,) = given(builder, shape, dtype="f")

    def along(reducer: str, node: Node) -> Node:
        made = builder.apply("reduce", node, reducer=reducer, axes=(1,))
        return builder.apply("broadcast_to", builder.apply("reshape", made, shape=(shape[0], 1)), shape=shape)

    e = builder.apply("exp", builder.apply("subtract", x, along("maximum", x)))
    return builder.finish([builder.apply("divide", e, along("add", e))])


def reductions(shape: tuple[int, int], dtype: str, reducer: str = "add") -> Graph:
    builder = Builder()
    (x,) = given(builder, shape, dtype=dtype)
    return builder.finish([builder.apply("reduce", x, reducer=reducer, axes=axes) for axes in ((0,), (1,), (0, 1))])


def positions(shape: tuple[int, int]) -> Graph:
    builder = Builder()
    (x,) = given(builder, shape, dtype="f")
    return builder.finish([builder.apply("arg_reduce", x, which=w, axis=a) for w, a in (("max", 0), ("min", 1))])


def scans(shape: tuple[int, int], dtype: str) -> Graph:
    builder = Builder()
    (x,) = given(builder, shape, dtype=dtype)
    return builder.finish([builder.apply("scan", x, reducer="logical_or" if dtype == "?" else "add", axis=a) for a in (0, 1)])


def scatters(count: int, mode: str, dtype: str) -> Graph:
    """Into rows, and into single elements; what they read is gathered."""
    builder = Builder()
    wide, flat = given(builder, (100, 20), (1000,), dtype=dtype)
    values, value = given(builder, (count, 20), (count,), dtype=dtype)
    (i,) = given(builder, (count,), dtype="l")
    results = [builder.apply("scatter", wide, values, i, mode=mode), builder.apply("scatter", flat, value, i, mode=mode)]
    return builder.finish([*results, builder.apply("gather", flat, i), builder.apply("gather", wide, i)])


def movement() -> Graph:
    builder = Builder()
    x, y, z = given(builder, (300, 400), (400, 300), (5, 60, 70))
    turned = builder.apply("add", builder.apply("permute", x, axes=(1, 0)), y)
    stacked = builder.apply("permute", z, axes=(0, 2, 1))
    joined = builder.apply("concatenate", x, x, axis=0)
    inner = builder.apply("slice", x, start=(298, 0), step=(-2, 3), shape=(100, 130))
    return builder.finish(
        [turned, builder.apply("sin", stacked), joined, builder.apply("slice_update", x, inner, start=(5, 6), step=(1, 1))]
    )


def products() -> Graph:
    builder = Builder()
    x, y = given(builder, (7, 9, 20), (7, 20, 12), dtype="f")
    a, b = given(builder, (9, 20), (20, 12), dtype="D")
    stack = builder.apply("einsum", x, y, inputs=((0, 1, 3), (0, 3, 2)), output=(0, 1, 2))
    return builder.finish([stack, builder.apply("einsum", a, b, inputs=((0, 2), (2, 1)), output=(0, 1))])


def form_requests() -> list[Request]:
    """Of offsets in 32 bits, and of a few graphs in 64."""
    graphs = forms()
    narrow = [r for graph in graphs for r in requests_of(graph)]
    wide = [r for graph in (rows((500, 1000)), positions((1 << 20, 2)), movement()) for r in requests_of(graph, is_wide=True)]
    return list(dict.fromkeys([*narrow, *wide]))
