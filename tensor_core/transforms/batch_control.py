"""Batches of control flow. Lanes that take different branches take both; lanes that are done wait for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from npcompile.tensor_core.array import expand, full, permute, reshaped
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Graph, Node, subgraphs
from npcompile.tensor_core.transforms.batch import Batcher, Operand, made_again, rule
from npcompile.tensor_core.transforms.reverse import gradients
from npcompile.tensor_core.transforms.subgraph import Name, graph_of


class Lanes:
    """A graph made again in a builder of its own, with a batch axis on some of its inputs."""

    def __init__(self, batcher: Batcher, graph: Graph, flags: Sequence[bool], active: Sequence[Node] = ()) -> None:
        """A node `active` says which lanes are: it becomes one more input, after those of the graph."""
        self.builder = Builder(env=batcher.builder.env)
        self.active = [self.builder.input(n.meta) for n in active]
        self.batcher = Batcher(self.builder, batcher.size, active=next(iter(self.active), None))
        self.checks = graph.checks
        self.inputs = [
            self.builder.input(n.meta.with_(shape=(batcher.size, *n.shape)) if flag else n.meta)
            for n, flag in zip(graph.inputs, flags, strict=True)
        ]
        self.outputs = inlined(self.batcher, graph, list(zip(self.inputs, flags)))

    @property
    def flags(self) -> list[bool]:
        return [flag for _, flag in self.outputs]

    def graph(self, name: str, flags: Sequence[bool], extra: Sequence[Operand] = ()) -> Graph:
        """With a batch axis on the outputs that `flags` tells: all that differ from lane to lane, at least."""
        outputs = [self.batcher.with_axis(x) if flag else x[0] for x, flag in zip(self.outputs, flags, strict=True)]
        return graph_of(self.builder.env, [*self.inputs, *self.active], outputs, name=name, checks=self.checks)


def inlined(batcher: Batcher, graph: Graph, operands: Sequence[Operand]) -> list[Operand]:
    """The outputs of `graph` for these operands, in the batcher's builder."""
    return made_again(batcher, graph.outputs, dict(zip(graph.inputs, operands, strict=True)))


def given(batcher: Batcher, operands: Sequence[Operand], flags: Sequence[bool]) -> list[Node]:
    return [batcher.with_axis(x) if flag else x[0] for x, flag in zip(operands, flags, strict=True)]


def items(batcher: Batcher, node: Node, flags: Sequence[bool]) -> list[Operand]:
    return [(batcher.apply("item", node, index=k), flag) for k, flag in enumerate(flags)]


def chosen(batcher: Batcher, predicate: Node, x: Operand, y: Operand) -> Node:
    """x in the lanes where `predicate` is true, y in the others."""
    a, b = batcher.with_axis(x), batcher.with_axis(y)
    lanes = reshaped(batcher.builder, predicate, (batcher.size, *(1 for _ in a.shape[1:])))
    return batcher.apply("where", expand(batcher.builder, lanes, a.shape), a, b)


def only(batcher: Batcher, lanes: Node) -> Batcher:
    """Of its lanes that are active, those alone."""
    both = lanes if batcher.active is None else batcher.apply("logical_and", batcher.active, lanes)
    return replace(batcher, active=both)


def told_to(batcher: Batcher, *graphs: Graph) -> list[Node]:
    """Which lanes are active, for graphs in a node that ask: a loop in them ends when these have ended."""
    return [batcher.active] if batcher.active is not None and any(map(may_wait, graphs)) else []


def may_wait(graph: Graph) -> bool:
    return any(n.op in ("while_loop", "while_vjp") or any(map(may_wait, subgraphs(n).values())) for n in graph.nodes)


@rule("cond")
def batch_cond(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> list[Operand]:
    (predicate, is_batched), *operands = inputs
    arms = [node.params[name] for name in ("true_graph", "false_graph")]
    if not is_batched:
        active = told_to(batcher, *arms)
        lanes = [Lanes(batcher, graph, [flag for _, flag in operands], active) for graph in arms]
        flags = [a or b for a, b in zip(*(each.flags for each in lanes))]
        graphs = [each.graph(name, flags) for each, name in zip(lanes, ("true", "false"))]
        taken = batcher.apply("cond", predicate, *(x for x, _ in operands), *active, true_graph=graphs[0], false_graph=graphs[1])
        return items(batcher, taken, flags)
    ignored, batcher.builder.ignored = batcher.builder.ignored, FLOAT_ERRORS  # of lanes that do not take the branch
    takers = predicate, batcher.apply("logical_not", predicate)
    true, false = (inlined(only(batcher, lanes), graph, operands) for graph, lanes in zip(arms, takers))
    batcher.builder.ignored = ignored
    return [(chosen(batcher, predicate, x, y), True) for x, y in zip(true, false)]


@rule("checkpoint")
def batch_checkpoint(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> list[Operand]:
    flags = [flag for _, flag in inputs]
    active = told_to(batcher, node.params["body_graph"])
    lanes, again = Lanes(batcher, node.params["body_graph"], flags, active), node.params.get("again")
    params: dict[str, Any] = {"body_graph": lanes.graph("checkpointed", lanes.flags)}
    if again is not None:
        part = Lanes(batcher, again.graph, flags[len(flags) - len(again.graph.inputs) :], active)
        params["again"] = Name(part.graph("again", part.flags))
    return items(batcher, batcher.apply("checkpoint", *(x for x, _ in inputs), *active, **params), lanes.flags)


def settled(
    batcher: Batcher, body: Graph, flags: list[bool], carried: int, active: Sequence[Node] = ()
) -> tuple[Lanes, list[bool]]:
    """The body in lanes, with a batch axis on all carries that get one in some iteration."""
    while True:
        lanes = Lanes(batcher, body, flags, active)
        grown = [a or b for a, b in zip(flags, lanes.flags[:carried])] + flags[carried:]
        if grown == flags:
            return lanes, flags
        flags = grown


@rule("while_loop")
def batch_while_loop(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> list[Operand]:
    return looped(batcher, inputs, **node.params)


def looped(batcher: Batcher, inputs: Sequence[Operand], cond_graph: Graph, body_graph: Graph, carried: int) -> list[Operand]:
    lanes, flags = settled(batcher, body_graph, [flag for _, flag in inputs], carried)
    tested = Lanes(batcher, cond_graph, flags)
    if tested.flags[0] or batcher.active is not None:
        return looped_apart(batcher, inputs, cond_graph, body_graph, carried)
    made = batcher.apply(
        "while_loop",
        *given(batcher, inputs, flags),
        cond_graph=tested.graph("cond", [False]),
        body_graph=lanes.graph("body", flags[:carried]),
        carried=carried,
    )
    return items(batcher, made, flags[:carried])


def looped_apart(
    batcher: Batcher, inputs: Sequence[Operand], cond_graph: Graph, body_graph: Graph, carried: int
) -> list[Operand]:
    """Until no lane goes on. Which do is one more carry; the others keep what they have."""
    flags = [k < carried or flag for k, (_, flag) in enumerate(inputs)]
    operands = list(zip(given(batcher, inputs, flags), flags))
    ignored, batcher.builder.ignored = batcher.builder.ignored, FLOAT_ERRORS
    goes_on = only(batcher, batcher.with_axis(inlined(batcher, cond_graph, operands)[0])).active
    assert goes_on is not None
    batcher.builder.ignored = ignored

    lanes = Lanes(batcher, body_graph, flags, active=[goes_on])
    inner = lanes.batcher
    going = inner.active
    assert going is not None
    kept = zip(lanes.outputs, lanes.inputs[:carried])
    after: list[Operand] = [(chosen(inner, going, new, (old, True)), True) for new, old in kept]
    constants = list(zip(lanes.inputs[carried:], flags[carried:]))
    (again,) = inlined(inner, cond_graph, [*after, *constants])
    outputs = [*(x for x, _ in after), inner.apply("logical_and", going, inner.with_axis(again))]
    order = [*lanes.inputs[:carried], going, *lanes.inputs[carried:]]
    place = Builder(env=batcher.builder.env)
    unread = [place.input(n.meta) for n in order]
    some = place.apply("reduce", unread[carried], reducer="logical_or", axes=(0,))
    made = batcher.apply(
        "while_loop",
        *(x for x, _ in operands[:carried]),
        goes_on,
        *(x for x, _ in operands[carried:]),
        cond_graph=graph_of(place.env, unread, [some], name="cond"),
        body_graph=graph_of(place.env, order, outputs, name="body"),  # reports nothing: lanes that are done go on too
        carried=carried + 1,
    )
    return items(batcher, made, [True] * (carried + 1))[:carried]


@rule("while_vjp")
def batch_while_vjp(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> list[Operand]:
    """The gradients of the batched loop: one lane's results depend on no other's operands."""
    params, builder = node.params, batcher.builder
    moving, count, carried = params["moving"], params["inputs"], params["carried"]
    operands: list[Operand] = list(inputs[:count])
    for k in moving:
        name = f"lanes_{len(builder.made)}"  # an operand may be there twice
        operands[k] = builder.apply("alias", batcher.with_axis(operands[k]), name=name), True
    results = looped(batcher, operands, params["cond_graph"], params["body_graph"], carried)
    ends = [batcher.with_axis(results[k]) for k in moving if k < carried]
    cotangents = [batcher.with_axis(x) for x in inputs[count:]]
    wrt = [operands[k][0] for k in moving]
    found = gradients(builder, ends, cotangents, wrt)
    return [(x if x is not None else full(builder, w.shape, 0, w.dtype), True) for x, w in zip(found, wrt)]


def batched_body(
    batcher: Batcher, body: Graph, flags: list[bool], carried: int, active: Sequence[Node]
) -> tuple[Graph, list[bool], list[bool]]:
    """The body of a for_loop in lanes, which of its inputs have the batch axis, and which of its outputs."""
    key = body, tuple(flags), carried, len(active)
    if key not in batcher.graphs:
        lanes, flags = settled(batcher, body, flags, carried, active)
        out = [*flags[:carried], *lanes.flags[carried:]]
        batcher.graphs[key] = lanes.graph("body", out), flags, out
    found: tuple[Graph, list[bool], list[bool]] = batcher.graphs[key]
    return found


@rule("for_loop")
def batch_for_loop(batcher: Batcher, node: Node, inputs: Sequence[Operand]) -> list[Operand]:
    """Elements have the batch axis first, so arrays have it second while the loop goes along axis 0."""
    params = node.params
    carried, scanned, less = params["carried"], params["scanned"], params.get("extends")
    active = told_to(batcher, params["body_graph"])
    body = partial(batched_body, batcher, flags=[flag for _, flag in inputs], carried=carried, active=active)
    graph, flags, out = body(params["body_graph"])
    operands = given(batcher, inputs, flags)
    for k in range(carried, carried + scanned):
        if flags[k]:
            operands[k] = swapped(batcher.builder, operands[k])
    extends = None if less is None else Name(body(less.graph)[0])
    made = batcher.apply("for_loop", *operands, *active, **params | {"body_graph": graph, "extends": extends})
    results = items(batcher, made, out)
    return [(swapped(batcher.builder, x) if k >= carried and flag else x, flag) for k, (x, flag) in enumerate(results)]


def swapped(builder: Builder, node: Node) -> Node:
    return permute(builder, node, (1, 0, *range(2, node.meta.ndim)))
