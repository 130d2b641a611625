"""Arguments as they were, when a floating-point error is found after they have been overwritten.

The program is then run again by NumPy, which reports the error, so what it reads must be there again. The kernels store
what they overwrite, which most of them read anyway, and a second schedule stores it back. What is written by a copy at
the end needs none of this: the error is known before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npcompile.backends.kernels.layouts import dense_strides, estimate
from npcompile.backends.kernels.memory import build_schedule, update_chain
from npcompile.backends.kernels.schedule import Buffer, Schedule
from npcompile.tensor_core.array import reshaped
from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph, Node
from npcompile.tensor_core.meta import TensorMeta


@dataclass(frozen=True, slots=True)
class Undo:
    """`schedule` stores the old contents in `old` back: its last inputs. `outputs` of them are the program's last ones."""

    old: tuple[Buffer, ...] = ()
    outputs: int = 0
    schedule: Schedule | None = None


def with_undo(schedule: Schedule) -> tuple[Schedule, Undo]:
    """A schedule of the same program that keeps what it overwrites, where that is asked for."""
    graph = schedule.graph
    whole: list[int] = []  # inputs of which all old contents are outputs more, which kernels of any kind can store
    while more := [k for k in overwritten_early(schedule) if k not in whole and not updates_in_place(schedule, k)]:
        whole += more
        old = [graph.inputs[k] for k in whole]
        metas = [kept_meta(x.meta) for x in old]
        schedule = build_schedule(replace(graph, outputs=(*graph.outputs, *old), metas=(*graph.metas, *metas)), tiled=True)
    kept = {b.number: b for b in schedule.buffers if b.kind == "output"}
    places: list[tuple[int, Node | None, Buffer]] = [(k, None, kept[len(graph.outputs) + j]) for j, k in enumerate(whole)]
    for k in overwritten_early(schedule):
        for update in () if k in whole else updates_in_place(schedule, k):
            places.append((k, update, keep_part(schedule, update, f"old{len(places)}")))
    if not places:
        return schedule, Undo()
    return schedule, Undo(tuple(b for *_, b in places), len(whole), undo_schedule(graph, places))


def overwritten_early(schedule: Schedule) -> list[int]:
    """Inputs that are to be restored, and are overwritten before all floating-point errors are known."""
    graph = schedule.graph
    late = {target.number for _, _, target in schedule.copies}
    return [k for k, _ in graph.writes if graph.checks and k in graph.restored and k not in late]


def updates_in_place(schedule: Schedule, index: int) -> list[Node]:
    """The updates of parts of an input that are all that happens to it, first to last; empty when more happens."""
    graph = schedule.graph
    chain = update_chain(dict(graph.writes)[index])
    is_all = chain and chain[0].inputs[0] is graph.inputs[index] and schedule.in_place.issuperset(chain)
    return chain if is_all and all(u.op == "slice_update" for u in chain) else []


def keep_part(schedule: Schedule, update: Node, name: str) -> Buffer:
    """Memory in which the update stores what it overwrites."""
    steps = zip(update.params["step"], schedule.memory[update].strides)
    meta = kept_meta(TensorMeta(update.inputs[1].shape, update.dtype, tuple(step * stride for step, stride in steps)))
    buffer = schedule.kept[update] = Buffer(name, meta.dtype, meta.shape, meta.strides, "temporary")
    schedule.buffers.append(buffer)
    return buffer


def kept_meta(meta: TensorMeta) -> TensorMeta:
    """Dense, its axes in the order of memory."""
    directed = meta.with_(strides=tuple(abs(estimate(s)) for s in meta.strides))
    return TensorMeta(meta.shape, meta.dtype, dense_strides(directed))


def undo_schedule(graph: Graph, places: Sequence[tuple[int, Node | None, Buffer]]) -> Schedule:
    """Stores old contents, which are inputs after those of `graph`, where they were: the last overwritten first."""
    env = graph.env or ShapeEnv()
    guards = dict(env.guards)
    builder = Builder(env=env)
    inputs = [builder.input(n.meta) for n in graph.inputs]
    metas = [TensorMeta(b.shape or (1,), b.dtype, b.strides) for *_, b in places]  # a 0-D input is a number, not memory
    old = [builder.input(meta) for meta in metas]
    restored: dict[int, Node] = {}
    for (k, update, _), value in reversed([*zip(places, old)]):
        if update is None:
            restored[k] = reshaped(builder, value, inputs[k].shape)
        else:
            restored[k] = builder.apply("slice_update", restored.get(k, inputs[k]), value, **update.params)
    undo = builder.finish([], writes=list(restored.items()), name="undo")
    env.guards = guards  # no answer depends on what meta rules have asked
    schedule = build_schedule(replace(undo, symbols=graph.symbols))
    assert not any(b.kind == "temporary" for b in schedule.buffers), schedule
    return schedule
