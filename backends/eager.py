"""The captured graph run by NumPy, op by op: the reference for every other backend, and the last resort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.registry import Abilities, CompiledGraph, FloatingPointSignal, register_backend
from npcompile.backends.together import Steps, at_once
from npcompile.tensor_core.graph import Graph, give_out, print_graph, run

Evaluate = Callable[[Graph, Sequence[Any]], tuple[list[Any], list[Any]]]


def evaluate(graph: Graph, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Outputs and new contents."""
    return run(graph, inputs, lambda op, *xs, **params: op.eager(*xs, **params))


def compile_eager(graph: Graph, example_inputs: Sequence[Any], evaluate: Evaluate = evaluate) -> CompiledGraph:
    """Run each op of `graph` with NumPy. Needs no compiler."""

    def call(*inputs: Any) -> tuple[Any, ...]:
        symbols = dict(zip(graph.symbols, inputs[len(graph.inputs) :]))
        arrays = [np.asarray(x, n.dtype) if n.meta.weak else x for x, n in zip(inputs, graph.inputs)]
        reported = {c: "raise" for c in graph.checks if np.geterr()[c] != "ignore"}
        with np.errstate(**{"all": "ignore"} | reported):
            try:
                outputs, contents = evaluate(graph, [*arrays, *inputs[len(graph.inputs) :]])
            except FloatingPointError:
                if not reported:  # it is not NumPy's
                    raise
                raise FloatingPointSignal from None
        results = tuple(give_out(value, meta, symbols) for value, meta in zip(outputs, graph.metas))
        fresh = [np.array(c) for c in contents]  # all are computed before any is written
        for (index, _), value in zip(graph.writes, fresh):
            inputs[index][...] = value
        return results

    return CompiledGraph(call, generated=print_graph(graph))


def compiling_eager(graph: Graph) -> Steps[CompiledGraph]:
    """The same as one of several pieces."""
    return at_once(lambda: compile_eager(graph, ()))


def register() -> None:
    register_backend("eager", compile_eager, Abilities(is_own=True))
