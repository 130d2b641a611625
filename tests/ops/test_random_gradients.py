"""Gradients of random graphs against differences, and compiled against op by op, for fixed and symbolic sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Graph, Node
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tracer.guard_text import text_of
from tests.cpu.random_graphs import F8, RandomGraph, arrays_for

SEEDS = range(12)
COUNT = 12
SIZES = ({"n": 4, "m": 3}, {"n": 5, "m": 7})
STEP = 1e-6


def loss_and_gradients(random_graph: RandomGraph) -> Graph:
    """The sum of the sines of all floating-point results, its gradients, and the gradients of the sum of their sines."""
    graph, builder = random_graph.build(), random_graph.builder
    inputs = [x for x in graph.inputs if x.dtype == F8]

    def total(nodes: list[Node]) -> Node:
        sines = [builder.apply("sin", node) for node in nodes]
        sums = [builder.apply("reduce", s, reducer="add", axes=tuple(range(s.meta.ndim))) for s in sines]
        result = builder.constant(0, F8)
        for each in sums:
            result = builder.apply("add", result, each)
        return result

    def slopes(loss: Node) -> list[Node]:
        found = gradients(builder, [loss], [builder.constant(1, F8)], inputs)
        return [
            builder.apply("broadcast_to", builder.constant(0, F8), shape=x.shape) if node is None else node
            for node, x in zip(found, inputs)
        ]

    loss = total([node for node in graph.outputs if node.dtype == F8])
    first = slopes(loss)
    return replace(builder.finish([loss, *first, *slopes(total(first))]), checks=frozenset())


def check(graph: Graph, sizes: dict[str, int], compiled: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = arrays_for(graph, sizes, seed)
    places = [k for k, x in enumerate(graph.inputs) if x.dtype == F8]
    for k in places:
        values[k] += rng.uniform(0.01, 0.1, values[k].shape)  # away from equal elements and from steps
    plain = compile_eager(graph, [])
    expected = plain(*values)
    for a, b in zip(compiled(*values), expected):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    directions = [rng.standard_normal(values[k].shape) for k in places]
    after, before = list(values), list(values)
    for k, v in zip(places, directions):
        after[k], before[k] = values[k] + STEP * v, values[k] - STEP * v
    slope = (plain(*after)[0] - plain(*before)[0]) / (2 * STEP)
    parts = [g * v for g, v in zip(expected[1:], directions)]
    size = sum(np.abs(p).sum() for p in parts)
    assert abs(sum(p.sum() for p in parts) - slope) <= 1e-5 * (1 + size)


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_sizes(seed: int) -> None:
    graph = loss_and_gradients(RandomGraph(seed, COUNT, is_dynamic=False))
    check(graph, {}, compile_cpu(graph, []), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_symbolic_sizes(seed: int) -> None:
    graph = loss_and_gradients(RandomGraph(seed, COUNT, is_dynamic=True))
    compiled = compile_cpu(graph, [])
    for sizes in SIZES:
        assert graph.env is not None
        if all(eval(text_of(guard), {}, dict(sizes)) for guard in graph.env.guards):
            check(graph, sizes, compiled, seed)
