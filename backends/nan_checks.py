"""`config.check_nan`: graphs run op by op with NumPy, and the first result that is NaN, or infinite, is an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from npcompile.backends.eager import compile_eager
from npcompile.backends.registry import CompiledGraph
from npcompile.backends.together import Steps, at_once
from npcompile.tensor_core.graph import ARITHMETIC_KINDS, Bound, Graph, Location, Node, bind
from npcompile.tensor_core.op import OPS


class NotFinite(FloatingPointError):
    """A result of a compiled function is NaN, or infinite, while `npcompile.config.check_nan` asks for that."""


def compile_checked(graph: Graph, has_infinities: bool) -> CompiledGraph:
    """`has_infinities`: are they errors too? Nothing else is reported; arguments stay as they were."""
    silent = graph.with_(checks=frozenset())
    return compile_eager(silent, (), lambda graph, inputs: evaluate(graph, inputs, has_infinities))


def compiling_checked(graph: Graph, has_infinities: bool) -> Steps[CompiledGraph]:
    """The same as one of several pieces."""
    return at_once(lambda: compile_checked(graph, has_infinities))


def evaluate(graph: Graph, inputs: Sequence[Any], has_infinities: bool) -> tuple[list[Any], list[Any]]:
    """Outputs and new contents, as `graph.run` gives them, with each result looked at, in bodies of loops and branches too."""
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs))
    symbols = dict(zip(graph.symbols, inputs[len(graph.inputs) :]))

    def bound(value: Any) -> Any:
        if isinstance(value, Graph):
            return Bound.of(value, lambda *given: evaluate(value, given, has_infinities)[0], symbols)
        return bind(value, symbols)

    for node in graph.nodes:
        if node.op != "input":
            params = {name: bound(value) for name, value in node.params.items()}
            given = [values[i] for i in node.inputs]
            values[node] = OPS[node.op].eager(*given, **params)
            look_at(node, values[node], given, has_infinities)
    return [values[n] for n in graph.outputs], [values[n] for _, n in graph.writes]


def look_at(node: Node, result: Any, given: Sequence[Any], has_infinities: bool) -> None:
    """What only moves elements, and constants of the program, are let through."""
    if OPS[node.op].kind in ARITHMETIC_KINDS:
        require_finite(f"{node.op} gives", node.location, result, has_infinities, given)


def require_finite(what: str, location: Location | None, result: Any, has_infinities: bool, given: Sequence[Any] = ()) -> None:
    """`given`: what it was computed from. Raises NotFinite."""
    for x in parts_of(result):
        if x.dtype.kind not in "fc" or not (wrong := is_wrong(x, has_infinities)).any():
            continue
        place = "" if location is None else f"{location.filename}:{location.line}, in {location.function}: "
        first = tuple(int(k) for k in np.argwhere(wrong)[0]) if x.ndim else ()
        where = f" in {np.count_nonzero(wrong)} of {x.size} elements, the first at {list(first)}" if x.ndim else ""
        parts = [part for y in given for part in parts_of(y) if part.dtype.kind in "fc"]
        came = ". What it is computed from has some already" * any(is_wrong(part, has_infinities).any() for part in parts)
        raise NotFinite(f"{place}{what} {x[first]}{where}{came} (npcompile.config.check_nan)")


def parts_of(result: Any) -> Iterator[np.ndarray]:
    for part in result if isinstance(result, (tuple, list)) else (result,):
        yield np.asarray(part)


def is_wrong(x: np.ndarray, has_infinities: bool) -> Any:
    return np.asarray(~np.isfinite(x) if has_infinities else np.isnan(x))


def looking_at_results(compiled: CompiledGraph, graph: Graph, has_infinities: bool) -> CompiledGraph:
    """A graph of a backend of the user's: what it returns is looked at, and nothing between."""

    def call(*inputs: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):  # what it reports would name a line of the backend
            made = compiled.call(*inputs)
        for node, value in zip(graph.outputs, made):
            require_finite(f"{node.op} gives", node.location, value, has_infinities)
        return made

    return CompiledGraph(call, compiled.generated, compiled.kernels, compiled.seconds, compiled.counted, passes=compiled.passes)
