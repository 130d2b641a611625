"""Random graphs compiled against the same graphs run op by op with NumPy: outputs, writes, memory order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.eager import compile_eager
from npcompile.tensor_core import Graph
from npcompile.tracer.guard_text import text_of
from tests.cpu.random_graphs import RandomGraph, arrays_for
from tests.ops.bits import different

SEEDS = range(24)
COUNT = 12


def check(graph: Graph, values: dict[str, int], compiled: Any, seed: int) -> None:
    ours, theirs = (arrays_for(graph, values, seed) for _ in range(2))
    with np.errstate(all="ignore"):
        got, expected = compiled(*ours), compile_eager(graph, [])(*theirs)
    for a, b in zip((*got, *ours[: len(graph.inputs)]), (*expected, *theirs[: len(graph.inputs)])):
        assert a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
        if graph.accuracy == "bitwise":
            assert not different(a, b)
        elif a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_sizes(seed: int) -> None:
    graph = replace(RandomGraph(seed, COUNT, is_dynamic=False).build(), checks=frozenset())
    check(graph, {}, compile_cpu(graph, []), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_numpys_bits(seed: int) -> None:
    graph = replace(RandomGraph(seed, COUNT, is_dynamic=False).build(), checks=frozenset(), accuracy="bitwise")
    check(graph, {}, compile_cpu(graph, []), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_symbolic_sizes(seed: int) -> None:
    graph = replace(RandomGraph(seed, COUNT, is_dynamic=True).build(), checks=frozenset())
    compiled = compile_cpu(graph, [])
    for n, m in ((4, 3), (5, 7), (30, 20)):
        assert graph.env is not None
        if all(eval(text_of(guard), {}, {"n": n, "m": m}) for guard in graph.env.guards):
            check(graph, {"n": n, "m": m}, compiled, seed)
