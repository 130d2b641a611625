"""What becomes of each call when it is compiled: in the graph as kernels, in the graph as a call of NumPy, or a break."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import npcompile as npc
from npcompile.backends.cpu.partition import is_native_node
from npcompile.tensor_core.graph import Graph, subgraphs
from npcompile.tracer.restarts import Break
from tests.surface.arguments import arguments, function_of, names_in
from tests.surface.calls import SECTIONS


@dataclass(frozen=True)
class Measured:
    """One call. `with_numpy`: the nodes of its graphs that the CPU's backend has no kernel for, and draws of random numbers."""

    expression: str
    graphs: int
    with_numpy: tuple[str, ...]
    breaks: tuple[Break, ...]

    @property
    def kind(self) -> str:
        if self.breaks:
            return "break"
        return "with NumPy" if self.with_numpy else "compiled"


def measure(expression: str) -> Measured:
    """Compile the call and make it once. The backend is NumPy's: the graph is the same for each."""
    function = npc.compile(function_of(expression), backend="eager")
    given = arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = npc.explain(function)(*(copy.deepcopy(given[n]) for n in names_in(expression)))
    with_numpy = {n for graph in told.graphs for n in without_kernel(graph)}
    if any("drawn_0 = " in program for program in told.programs):
        with_numpy.add("a draw, before the graph")
    return Measured(expression, len(told.graphs), tuple(sorted(with_numpy)), told.breaks)


def without_kernel(graph: Graph) -> Iterable[str]:
    for node in graph.nodes:
        inside = subgraphs(node)
        for each in inside.values():
            yield from without_kernel(each)
        if not inside and not is_native_node(node) and node.op != "item":
            yield node.op


def measure_all() -> dict[str, dict[str, list[Measured]]]:
    """Section -> name -> its calls."""
    return {s: {name: [measure(e) for e in calls] for name, calls in names.items()} for s, names in SECTIONS.items()}
