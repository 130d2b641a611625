"""Random graphs by Triton's interpreter against the same graphs run op by op with NumPy: outputs, writes, memory order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npcompile.tracer.guard_text import text_of
from tests.cpu.random_graphs import RandomGraph
from tests.cpu.test_random_graphs import COUNT, check
from tests.cuda.interpreted import make_device

from npcompile.backends.cuda.backend import compile_for  # isort: skip  # after the interpreter is chosen

SEEDS = range(100, 148)


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_sizes(seed: int) -> None:
    graph = replace(RandomGraph(seed, COUNT, is_dynamic=False).build(), checks=frozenset())
    check(graph, {}, compile_for(graph, make_device()), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_symbolic_sizes(seed: int) -> None:
    graph = replace(RandomGraph(seed, COUNT, is_dynamic=True).build(), checks=frozenset())
    compiled = compile_for(graph, make_device())
    for n, m in ((4, 3), (5, 7), (12, 40)):
        assert graph.env is not None
        if all(eval(text_of(guard), {}, {"n": n, "m": m}) for guard in graph.env.guards):
            check(graph, {"n": n, "m": m}, compiled, seed)
