"""A backend in one folder: a graph becomes a Python function, a line for each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.backends.registry import CompiledGraph, FloatingPointSignal, register_backend
from npcompile.tensor_core.graph import Graph, bind, give_out
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.transforms.decompose import expanded
from tests.toy_backend.primitives import PRIMITIVES


def compile_toy(graph: Graph, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
    """Primitives that it has text for are printed; the others are asked of the op table."""
    graph = expanded(graph)
    source, names = printed(graph)
    namespace: dict[str, Any] = {"np": np, "OPS": OPS, "bind": bind, "params": names}
    exec(source, namespace)

    def call(*inputs: Any) -> tuple[Any, ...]:
        symbols = dict(zip(graph.symbols, inputs[len(graph.inputs) :]))
        reported = {c: "raise" for c in graph.checks if np.geterr()[c] != "ignore"}
        with np.errstate(**{"all": "ignore"} | reported):
            try:
                results = namespace["program"](symbols, *map(np.asarray, inputs[: len(graph.inputs)]))
            except FloatingPointError:
                raise FloatingPointSignal from None
        outputs, contents = results[: len(graph.outputs)], [np.array(x) for x in results[len(graph.outputs) :]]
        made = tuple(give_out(x, meta, symbols) for x, meta in zip(outputs, graph.metas))
        for (index, _), value in zip(graph.writes, contents):
            inputs[index][...] = value
        return made

    return CompiledGraph(call, source)


def printed(graph: Graph) -> tuple[str, list[dict[str, Any]]]:
    """The function `program(symbols, *inputs)`, and the parameters that its lines name by number."""
    names = {node: f"x{k}" for k, node in enumerate(graph.inputs)}
    lines, params = [f"def program(symbols, {', '.join(names.values())}):"], []
    for node in graph.nodes[len(names) :]:
        operands = [names[x] for x in node.inputs]
        names[node] = f"t{len(names)}"
        text = PRIMITIVES[node.op].format(*operands) if node.op in PRIMITIVES else ""
        if not text:
            params.append(node.params)
            given = [*operands, f"**bind(params[{len(params) - 1}], symbols)"]
            text = f"OPS[{node.op!r}].eager({', '.join(given)})"
        lines.append(f"    {names[node]} = {text}  # {node.meta}")
    lines.append(f"    return [{', '.join(names[node] for node in graph.results)}]")
    return "\n".join(lines), params


def register() -> None:
    register_backend("toy", compile_toy)
