"""Arguments as they were, when a floating-point error is found after they have been overwritten.

The program is then run again by NumPy, which reports the error, so what it reads must be there again. Old contents are
outputs more of the graph, which its kernels store while they read them anyway, and a second schedule stores them back.
What is written by a copy at the end needs none of this: the error is known before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npcompile.backends.cpu.memory import build_schedule, update_chain
from npcompile.backends.cpu.schedule import Schedule, dense_strides, estimate
from npcompile.tensor_core.array import reshaped
from npcompile.tensor_core.dim import ShapeEnv, hint_of
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.meta import TensorMeta, product

MOST_PARTS = 16  # of one argument that are kept one by one


@dataclass(frozen=True, slots=True)
class Undo:
    """The last `kept` outputs of the program are old contents; `schedule` stores them, its last inputs, back."""

    kept: int = 0
    schedule: Schedule | None = None


def with_undo(schedule: Schedule) -> tuple[Schedule, Undo]:
    """A schedule of the same program that keeps what it overwrites, where that is asked for."""
    graph = schedule.graph
    kept: set[int] = set()
    undo = Undo()
    while graph.checks and (early := overwritten_early(schedule) & graph.restored) - kept:
        kept |= early
        keeping, undo = keep(graph, kept)
        schedule = build_schedule(keeping)
    return schedule, undo


def overwritten_early(schedule: Schedule) -> set[int]:
    """Inputs that are overwritten before all floating-point errors are known."""
    late = {target.number for _, _, target in schedule.copies}
    return {index for index, _ in schedule.graph.writes} - late


def keep(graph: Graph, kept: set[int]) -> tuple[Graph, Undo]:
    """The graph with the old contents of some inputs as outputs, and what stores them back."""
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    builder = Builder(env=env)
    inputs = [builder.input(n.meta) for n in graph.inputs]
    old: list[Node] = []
    writes = []
    for index, node in graph.writes:
        if index in kept:
            restored = inputs[index]
            for part in parts_of(graph.inputs[index], node):
                old.append(part.read(builder, graph.inputs[index]))
                restored = part.update(builder, restored, builder.input(kept_meta(old[-1].meta)))
            writes.append((index, restored))
    keeping = replace(graph, outputs=(*graph.outputs, *old), metas=(*graph.metas, *(kept_meta(n.meta) for n in old)))
    undo = build_schedule(replace(builder.finish([], writes=writes, name="undo"), symbols=graph.symbols))
    env.guards = guards
    assert not any(b.kind == "temporary" for b in undo.buffers), undo
    return keeping, Undo(len(old), undo)


def kept_meta(meta: TensorMeta) -> TensorMeta:
    """Dense, its axes in the order of memory."""
    directed = meta.with_(strides=tuple(abs(estimate(s)) for s in meta.strides))
    return TensorMeta(meta.shape, meta.dtype, dense_strides(directed))


@dataclass(frozen=True, slots=True)
class Part:
    """The part of an array that a slice_update replaces, or all of it."""

    slice_update: Node | None = None

    def read(self, builder: Builder, x: Node) -> Node:
        if self.slice_update is None:
            return reshaped(builder, x, x.shape or (1,))  # 0-D inputs are numbers to a kernel, not memory
        return builder.apply("slice", x, **self.slice_update.params, shape=self.slice_update.inputs[1].shape)

    def update(self, builder: Builder, x: Node, value: Node) -> Node:
        if self.slice_update is None:
            return reshaped(builder, value, x.shape)
        return builder.apply("slice_update", x, value, **self.slice_update.params)


def parts_of(target: Node, written: Node) -> Sequence[Part]:
    """The parts that `written` replaces in `target`."""
    chain = update_chain(written)
    is_partial = chain and chain[0].inputs[0] is target and all(u.op == "slice_update" for u in chain)
    if not is_partial or len(chain) > MOST_PARTS:
        return [Part()]
    if sum(hint_of(product(u.inputs[1].shape)) for u in chain) >= hint_of(product(target.shape)):
        return [Part()]
    return [Part(u) for u in chain]
