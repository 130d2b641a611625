"""Vector-Jacobian products of control flow: nodes of control flow again.

A branch is pulled back by a branch. A loop over an axis stacks what its body's derivative needs of each iteration, as
`partition.split` has it, and is pulled back by a loop in the opposite direction. Of a loop whose length is data the one
node `while_vjp` does both: it keeps the carries, and runs the body again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npcompile.tensor_core.array import full
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dim import ShapeEnv, Size
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Graph, Node, topological
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.transforms.forward import derivatives
from npcompile.tensor_core.transforms.partition import Split, split
from npcompile.tensor_core.transforms.replay import replay
from npcompile.tensor_core.transforms.reverse import gradients, is_differentiable
from npcompile.tensor_core.transforms.subgraph import Name, graph_of, inside
from npcompile.tensor_core.transforms.value import Value

Part = Value | None | Callable[[], Value]


def scratch(graph: Graph) -> tuple[Builder, list[Node], list[Node]]:
    """The graph in a builder of its own, whose inputs come first: a place to make derivatives in."""
    builder = Builder(env=graph.env or ShapeEnv(), ignored=FLOAT_ERRORS)
    inputs = [builder.input(n.meta) for n in graph.inputs]
    return builder, inputs, replay(builder, graph.outputs, dict(zip(graph.inputs, inputs)))


def zeros(builder: Builder, like: Node) -> Node:
    return full(builder, like.shape, 0, like.dtype)


def results(builder: Builder, node: Node) -> list[Value]:
    return [Value(builder, builder.apply("item", node, index=k)) for k in range(len(node.meta.items))]  # type: ignore[attr-defined]


# --- cond


def vjp_cond(
    g: Sequence[Value | None],
    out: Sequence[Value],
    predicate: Value,
    *operands: Value,
    true_graph: Graph,
    false_graph: Graph,
    wanted: Sequence[bool],
) -> list[Part]:
    builder = predicate.builder
    known = {k: x for k, x in enumerate(g) if x is not None}
    wrt = [k for k, x in enumerate(operands) if wanted[1 + k] and is_differentiable(x.node.meta)]
    arms = [pulled_back(graph, list(known), wrt) for graph in (true_graph, false_graph)]
    used = [k for k in wrt if any(arm.found[k] is not None for arm in arms)]
    if not used:
        return [None] * (1 + len(operands))
    graphs = []
    for arm in arms:
        outputs = [x if (x := arm.found[k]) is not None else zeros(arm.builder, arm.inputs[k]) for k in used]
        graphs.append(graph_of(arm.builder.env, [*arm.cotangents, *arm.inputs], outputs, name="cond_vjp"))
    inputs = [x.node for x in (predicate, *known.values(), *operands)]
    node = builder.apply("cond", *inputs, true_graph=graphs[0], false_graph=graphs[1])
    parts = dict(zip(used, results(builder, node)))
    return [None, *(parts.get(k) for k in range(len(operands)))]


@dataclass(slots=True)
class PulledBack:
    """A graph and its vector-Jacobian product, in one builder."""

    builder: Builder
    inputs: list[Node]
    outputs: list[Node]
    cotangents: list[Node]
    found: dict[int, Node | None]  # by input


def pulled_back(graph: Graph, outputs: Sequence[int], wrt: Sequence[int]) -> PulledBack:
    builder, inputs, made = scratch(graph)
    cotangents = [builder.input(made[k].meta) for k in outputs]
    found = gradients(builder, [made[k] for k in outputs], cotangents, [inputs[k] for k in wrt])
    return PulledBack(builder, inputs, made, cotangents, dict(zip(wrt, found)))


# --- checkpoint


def vjp_checkpoint(
    g: Sequence[Value | None],
    out: Sequence[Value],
    *operands: Value,
    body_graph: Graph,
    again: Name | None = None,
    wanted: Sequence[bool],
) -> list[Part]:
    """One node that computes the body again and pulls it back: it needs nothing but the operands and the cotangents."""
    known = {k: x for k, x in enumerate(g) if x is not None}
    wrt = [k for k, x in enumerate(operands) if wanted[k] and is_differentiable(x.node.meta)]
    arm = pulled_back(body_graph, list(known), wrt)
    found = {k: x for k, x in arm.found.items() if x is not None}
    if not found:
        return [None] * len(operands)
    graph = graph_of(arm.builder.env, [*arm.cotangents, *arm.inputs], list(found.values()), name="checkpoint_vjp")
    program = set(topological(arm.outputs))
    order = topological(found.values())
    read = [*found.values(), *(i for n in order if n not in program for i in n.inputs)]
    computed = [n for n in dict.fromkeys(read) if n in program and n.inputs and not isinstance(n.meta, TupleMeta)]
    name = Name(graph_of(arm.builder.env, arm.inputs, computed, name="again"))
    inputs = [x.node for x in (*known.values(), *operands)]
    node = operands[0].builder.apply("checkpoint", *inputs, body_graph=graph, again=name)
    parts = dict(zip(found, results(operands[0].builder, node)))
    return [parts.get(k) for k in range(len(operands))]


# --- loops


@dataclass(slots=True)
class Iteration:
    """The vector-Jacobian product of one iteration of a loop."""

    builder: Builder
    inputs: list[Node]  # the body's
    outputs: list[Node]  # the body's
    carries: dict[int, Node]  # the cotangents of next carries, of those that have one
    stacks: dict[int, Node]  # the cotangents of other outputs
    found: dict[int, Node]  # the gradients, by the input of the body

    def carry_gradients(self) -> list[Node]:
        return [x if (x := self.found.get(k)) is not None else zeros(self.builder, g) for k, g in self.carries.items()]


def pull_iteration_back(body: Graph, carried: int, seeds: set[int], stacks: Sequence[int], wanted: Sequence[bool]) -> Iteration:
    """`seeds` are the carries with a cotangent after the loop, `wanted` says which inputs are to get a gradient."""
    active = active_inputs(body, carried, wanted)
    live = {k for k in seeds if k in active}
    while True:  # a cotangent of one carry becomes one of all carries that it was made of
        builder, inputs, made = scratch(body)
        carries = {k: builder.input(made[k].meta) for k in sorted(live)}
        stacked = {k: builder.input(made[k].meta) for k in stacks}
        outputs = [made[k] for k in (*carries, *stacked)]
        found = gradients(builder, outputs, [*carries.values(), *stacked.values()], [inputs[k] for k in active])
        reached = {k: x for k, x in zip(active, found) if x is not None}
        grown = live | {k for k in reached if k < carried}
        if grown == live:
            return Iteration(builder, inputs, made, carries, stacked, reached)
        live = grown


def active_inputs(body: Graph, carried: int, wanted: Sequence[bool]) -> list[int]:
    """The inputs that are wanted, and the carries that come to depend on them."""
    active = {k for k, n in enumerate(body.inputs) if wanted[k] and is_differentiable(n.meta)}
    nodes = body.nodes
    while True:
        moving = {body.inputs[k] for k in active}
        for node in nodes:
            if is_differentiable(node.meta) and not moving.isdisjoint(node.inputs):
                moving.add(node)
        grown = active | {k for k, n in enumerate(body.outputs[:carried]) if n in moving}
        if grown == active:
            return sorted(active)
        active = grown


def vjp_for_loop(
    g: Sequence[Value | None],
    out: Sequence[Value],
    *operands: Value,
    body_graph: Graph,
    carried: int,
    scanned: int,
    length: Size,
    reverse: bool = False,
    extends: Name | None = None,
    wanted: Sequence[bool],
) -> list[Part]:
    builder = operands[0].builder if operands else out[0].builder
    seeds = {k for k in range(carried) if g[k] is not None}
    stacks = [k for k in range(carried, len(g)) if g[k] is not None]
    one = pull_iteration_back(body_graph, carried, seeds, stacks, wanted)
    if not one.found:
        return [None] * len(operands)
    arrays, constants = range(carried, carried + scanned), range(carried + scanned, len(operands))
    summed, moved = ([k for k in group if k in one.found] for group in (constants, arrays))
    found = [*one.carry_gradients(), *(one.found[k] for k in (*summed, *moved))]
    parts = split(one.builder.finish([*one.outputs, *found]), len(one.inputs), len(one.outputs))
    kept = parts.kept_inputs
    saved = len(kept) + len(parts.saved)

    inputs = parts.backward.inputs  # what is kept and saved, and the cotangents
    given, cotangents = dict(zip(kept, inputs)), inputs[saved:]
    place = Builder(env=one.builder.env, ignored=FLOAT_ERRORS)
    first, last = len(one.carries), len(one.carries) + len(summed)
    sums = [place.input(one.inputs[k].meta) for k in summed]
    added = [place.apply("add", total, x) for total, x in zip(sums, parts.backward.outputs[first:last])]
    elements = [*(given[k] for k in kept if k not in constants), *inputs[len(kept) : saved], *cotangents[first:]]
    order = [*cotangents[:first], *sums, *elements, *(given[k] for k in kept if k in constants)]
    outputs = [*parts.backward.outputs[:first], *added, *parts.backward.outputs[last:]]
    graph = graph_of(place.env, order, outputs, name="loop_vjp")

    carries_kept = [k for k in kept if k < carried]
    stacked = extended(
        operands, body_graph, parts, carries_kept, carried=carried, scanned=scanned, length=length, reverse=reverse
    )
    values = [
        *(g[k] or operands[k].zeros() for k in one.carries),
        *(operands[k].zeros() for k in summed),
        *stacked[len(parts.saved) :],
        *(operands[k] for k in kept if k in arrays),
        *stacked[: len(parts.saved)],
        *(g[k] for k in stacks),
        *(operands[k] for k in kept if k in constants),
    ]
    params = {"carried": last, "scanned": len(elements), "length": length, "reverse": not reverse}
    node = builder.apply("for_loop", *(x.node for x in values if x is not None), body_graph=graph, **params)
    gradient = dict(zip([*one.carries, *summed, *moved], results(builder, node)))
    return [gradient.get(k) for k in range(len(operands))]


def extended(operands: Sequence[Value], body: Graph, parts: Split, kept: Sequence[int], **params: Any) -> list[Value]:
    """Stacks of what an iteration saves, then of the carries `kept` as it got them: by a loop that stands for this one."""
    count = len(parts.saved) + len(kept)
    if not count:
        return []
    inputs, outputs = parts.forward.inputs, [*parts.forward.outputs, *(parts.forward.inputs[k] for k in kept)]
    metas = [*body.metas, *(inside(n.meta) for n in outputs[len(body.metas) :])]
    graph = graph_of(body.env or ShapeEnv(), inputs, outputs, name=body.name, metas=metas, checks=body.checks)
    builder = operands[0].builder
    node = builder.apply("for_loop", *(x.node for x in operands), body_graph=graph, extends=Name(body), **params)
    return results(builder, node)[-count:]


# --- while_loop


def vjp_while_loop(
    g: Sequence[Value | None],
    out: Sequence[Value],
    *operands: Value,
    cond_graph: Graph,
    body_graph: Graph,
    carried: int,
    wanted: Sequence[bool],
) -> list[Part]:
    builder = operands[0].builder
    one = pull_iteration_back(body_graph, carried, {k for k in range(carried) if g[k] is not None}, (), wanted)
    if not one.found:
        return [None] * len(operands)
    used = [k for k in range(carried, len(operands)) if k in one.found]
    sums = [one.builder.input(one.inputs[k].meta) for k in used]
    added = [one.builder.apply("add", total, one.found[k]) for total, k in zip(sums, used)]
    outputs = [*one.carry_gradients(), *added]
    graph = graph_of(one.builder.env, [*one.carries.values(), *sums, *one.inputs], outputs, name="loop_vjp")
    cotangents = [g[k] or operands[k].zeros() for k in one.carries]
    moving = (*one.carries, *used)
    node = builder.apply(
        "while_vjp",
        *(x.node for x in (*operands, *cotangents)),
        cond_graph=cond_graph,
        body_graph=body_graph,
        vjp_graph=graph,
        carried=carried,
        moving=moving,
        inputs=len(operands),
    )
    parts = dict(zip(moving, results(builder, node)))
    return [parts.get(k) for k in range(len(operands))]


def vjp_while_vjp(
    g: Sequence[Value | None],
    out: Sequence[Value],
    *operands: Value,
    cond_graph: Graph,
    body_graph: Graph,
    vjp_graph: Graph,
    carried: int,
    moving: Sequence[int],
    inputs: int,
    wanted: Sequence[bool],
) -> list[Part]:
    """With respect to the cotangents, in which it is linear: the loop run with tangents. That makes jvp of while_loop."""
    if any(wanted[:inputs]):
        raise Decline(
            "a while_loop has no second derivative", "Its number of iterations is data. Use fori_loop or scan, which have one."
        )
    builder = operands[0].builder
    live = [k for k in moving if k < carried]
    tangents = [x or out[k].zeros() for k, x in enumerate(g)]
    place, made_inputs, made = scratch(body_graph)
    moved = [place.input(made_inputs[k].meta) for k in moving]
    pushed = derivatives(place, [made[k] for k in live], [made_inputs[k] for k in moving], moved)
    outputs = [*made[:carried], *(x if x is not None else zeros(place, made[k]) for k, x in zip(live, pushed))]
    order = [*made_inputs[:carried], *moved[: len(live)], *made_inputs[carried:], *moved[len(live) :]]
    body = graph_of(place.env, order, outputs, name="while_jvp", checks=body_graph.checks)
    place, cond_inputs, made = scratch(cond_graph)
    unread = [place.input(n.meta) for n in moved]
    order = [*cond_inputs[:carried], *unread[: len(live)], *cond_inputs[carried:], *unread[len(live) :]]
    cond = graph_of(place.env, order, made, name="while_cond", checks=cond_graph.checks)
    program = operands[:inputs]
    given: list[Any] = [*program[:carried], *tangents[: len(live)], *program[carried:], *tangents[len(live) :]]
    node = builder.apply("while_loop", *(x.node for x in given), cond_graph=cond, body_graph=body, carried=carried + len(live))
    return [*[None] * inputs, *results(builder, node)[carried:]]
