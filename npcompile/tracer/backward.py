"""Gradients of a compiled program: its graph and that of its gradients are captured together and cut in two."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.backends.registry import CompiledGraph
from npcompile.tensor_core.graph import Graph, Node, topological
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.tensor import Tensor, attach
from npcompile.tensor_core.transforms.partition import Split, split
from npcompile.tensor_core.transforms.reverse import depending, gradients
from npcompile.tracer.capture import Capture
from npcompile.tracer.values import TensorValue


@dataclass(slots=True, eq=False)
class Backward:
    """What a program's Tensors need for their gradients."""

    results: list[Node]  # the contents of the Tensors that have one
    leaves: list[TensorValue]  # where it goes
    split: Split


def with_backward(capture: Capture, graph: Graph, tensors: Sequence[Node]) -> tuple[Graph, Backward | None]:
    """The graph with what the gradients of those of `tensors` that depend on leaves need, as further outputs."""
    builder, leaves = capture.builder, capture.leaves()
    if not leaves or not tensors:
        return graph, None
    order = topological(tensors)
    reached = depending(order, [t.array.storage.original for t in leaves])
    results = [n for n in dict.fromkeys(tensors) if n in reached and n not in capture.freed and not capture.why_lost(n)]
    if not results:
        return graph, None
    before, ignored = len(builder.inputs), builder.ignored
    cotangents = [builder.input(TensorMeta(n.shape, n.dtype)) for n in results]
    found = gradients(builder, results, cotangents, [t.array.storage.original for t in leaves])
    wanted = [(t, n) for t, n in zip(leaves, found) if n is not None]
    metas = [*graph.metas, *(TensorMeta(n.shape, n.dtype) for _, n in wanted)]
    builder.checks = frozenset()
    joint = builder.finish([*graph.outputs, *(n for _, n in wanted)], metas, graph.writes, graph.name)
    del builder.inputs[before:], builder.arguments[before:]
    builder.ignored = ignored
    cut = split(joint, before, len(graph.outputs))
    return cut.forward, Backward(results, [t for t, _ in wanted], cut)


@dataclass(slots=True, eq=False)
class BackwardProgram:
    """The gradients' graph, compiled when they are first asked for."""

    graph: Graph
    compile: Callable[[Graph], CompiledGraph]
    kept: int  # how many of its inputs are arguments of the program, as they are
    symbols: tuple[str, ...]  # names of the integers that `attach_backward` is given
    compiled: CompiledGraph | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, *values: Any) -> tuple[Any, ...]:
        if self.compiled is None:
            with self.lock:
                if self.compiled is None:
                    self.compiled = self.compile(self.graph)
        return self.compiled(*values)


def attach_backward(
    program: BackwardProgram,
    outputs: Sequence[np.ndarray],
    leaves: Sequence[Tensor],
    values: Sequence[Any],
    symbols: Sequence[int],
) -> list[Tensor]:
    """Tensors around the results of a program. `values` are the arguments and saved arrays that its backward graph reads."""
    sizes = [symbols[program.symbols.index(s)] for s in program.graph.symbols]
    shapes = [(x.shape, x.dtype) for x in outputs]

    def backward(cotangents: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
        given = [np.zeros(*like) if c is None else np.ascontiguousarray(c) for c, like in zip(cotangents, shapes)]
        return list(program.run(*values, *given, *sizes))

    return attach(outputs, leaves, backward)
