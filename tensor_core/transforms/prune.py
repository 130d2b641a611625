"""Results of control flow that nobody reads are not computed, and a loop that gives more stands for one that gives less.

Derivatives ask for more than is used in the end, and run a loop again to stack what its first run did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph, Node, topological
from npcompile.tensor_core.keys import freeze
from npcompile.tensor_core.transforms.subgraph import Name, graph_of

PRUNED = ("cond", "checkpoint", "while_loop", "for_loop")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left of a node of control flow."""

    operands: tuple[int, ...]  # of its own
    params: dict[str, Any]
    results: dict[int, int]  # by its old number the new one


@dataclass(slots=True)
class Use:
    """A node of control flow that stands for itself and for loops that give less."""

    node: Node
    results: set[int] = field(default_factory=set)  # those that are read
    plan: Plan | None = None


def prune(graph: Graph) -> Graph:
    """The same program with smaller nodes of control flow. Inputs stay, and so do all nodes where there are none."""
    order = graph.nodes
    if not any(n.op in PRUNED for n in order):
        return graph
    uses = uses_of(order)
    first: dict[int, Node] = {}  # of the nodes that one stands for: all have its operands
    for node, use in uses.items():
        first.setdefault(id(use), node)
    live = {*graph.results, *(node for _, node in graph.measured)}
    for node in reversed(order):
        if node in uses:
            use = uses[node]
            if use.results and first[id(use)] is node:
                use.plan = plan_for(use.node, use.results)
                live.update(use.node.inputs[k] for k in use.plan.operands)
        elif node in live:
            if node.op == "item" and node.inputs[0] in uses:
                uses[node.inputs[0]].results.add(node.params["index"])
            else:
                live.update(node.inputs)
    return rebuilt(graph, [n for n in order if n in live or n in first.values()], uses)


def rebuilt(graph: Graph, order: Sequence[Node], uses: dict[Node, Use]) -> Graph:
    builder = Builder(env=graph.env or ShapeEnv())
    made: dict[Node, Node] = {}
    whole: dict[int, Node] = {}  # nodes of control flow, by their use
    for node in order:
        builder.location = node.location
        use = uses.get(node.inputs[0] if node.op == "item" else node)
        if node.op == "input":
            made[node] = node
        elif use is None:
            made[node] = builder.apply(node.op, *(made[i] for i in node.inputs), **node.params)
        elif use.plan is not None and node.op == "item":
            made[node] = builder.apply("item", whole[id(use)], index=use.plan.results[node.params["index"]])
        elif use.plan is not None:
            operands = [made[use.node.inputs[k]] for k in use.plan.operands]
            whole[id(use)] = builder.apply(node.op, *operands, **use.plan.params)
    writes = tuple((index, made[n]) for index, n in graph.writes)
    measured = tuple((name, made[n]) for name, n in graph.measured)
    return replace(graph, outputs=tuple(made[n] for n in graph.outputs), writes=writes, measured=measured)


def uses_of(order: Iterable[Node]) -> dict[Node, Use]:
    """The use of each node of control flow. A loop has that of one that extends it."""
    found = {n: Use(n) for n in order if n.op in PRUNED}
    loops: dict[Any, Node] = {}
    for node in found:
        if node.op == "for_loop":
            loops[loop_key(node, Name(node.params["body_graph"]))] = node
    for node in [n for n in found if n.params.get("extends") is not None]:
        less = loops.get(loop_key(node, node.params["extends"]))
        if less is not None and found[less].node is less:
            for other, use in found.items():
                if use.node is less:
                    found[other] = found[node]
    return found


def loop_key(node: Node, body: Name) -> Any:
    params = node.params
    return node.inputs, body, params["carried"], params["scanned"], freeze(params["length"]), params.get("reverse", False)


def plan_for(node: Node, used: set[int]) -> Plan:
    return PLANS[node.op](node, used)


def read_by(graph: Graph, outputs: Iterable[int]) -> set[int]:
    """The inputs that these outputs depend on."""
    reads = set(topological([graph.outputs[k] for k in outputs]))
    return {k for k, n in enumerate(graph.inputs) if n in reads}


def part_of(graph: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    if len(inputs) == len(graph.inputs) and len(outputs) == len(graph.outputs):
        return graph
    return graph_of(
        graph.env or ShapeEnv(),
        [graph.inputs[k] for k in inputs],
        [graph.outputs[k] for k in outputs],
        name=graph.name,
        metas=[graph.metas[k] for k in outputs],
        checks=graph.checks,
    )


def plan_cond(node: Node, used: set[int]) -> Plan:
    outputs = sorted(used)
    graphs = {name: node.params[name] for name in ("true_graph", "false_graph")}
    inputs = sorted({k for graph in graphs.values() for k in read_by(graph, outputs)})
    params = {name: part_of(graph, inputs, outputs) for name, graph in graphs.items()}
    return Plan((0, *(1 + k for k in inputs)), params, {k: number for number, k in enumerate(outputs)})


def plan_checkpoint(node: Node, used: set[int]) -> Plan:
    body, again = node.params["body_graph"], node.params.get("again")
    outputs = sorted(used)
    inputs = sorted(read_by(body, outputs))
    params = {"body_graph": part_of(body, inputs, outputs)}
    if again is not None and len(inputs) == len(body.inputs):
        params["again"] = again
    return Plan(tuple(inputs), params, {k: number for number, k in enumerate(outputs)})


def needed(body: Graph, carried: int, outputs: set[int], inputs: set[int]) -> tuple[list[int], list[int]]:
    """Outputs and inputs of a body with all that later iterations need: a carry that is read is computed."""
    while True:
        grown = inputs | read_by(body, outputs) | {k for k in outputs if k < carried}
        more = outputs | {k for k in grown if k < carried}
        if grown == inputs and more == outputs:
            return sorted(outputs), sorted(inputs)
        outputs, inputs = more, grown


def plan_while_loop(node: Node, used: set[int]) -> Plan:
    cond, body, carried = (node.params[name] for name in ("cond_graph", "body_graph", "carried"))
    outputs, inputs = needed(body, carried, used, read_by(cond, [0]))
    params = {
        "cond_graph": part_of(cond, inputs, [0]),
        "body_graph": part_of(body, inputs, outputs),
        "carried": len(outputs),
    }
    return Plan(tuple(inputs), params, {k: number for number, k in enumerate(outputs)})


def plan_for_loop(node: Node, used: set[int]) -> Plan:
    body, carried, scanned = (node.params[name] for name in ("body_graph", "carried", "scanned"))
    outputs, inputs = needed(body, carried, used, set())
    params = node.params | {
        "body_graph": part_of(body, inputs, outputs),
        "carried": sum(k < carried for k in outputs),
        "scanned": sum(carried <= k < carried + scanned for k in inputs),
        "extends": None,
    }
    return Plan(tuple(inputs), params, {k: number for number, k in enumerate(outputs)})


PLANS = {"cond": plan_cond, "checkpoint": plan_checkpoint, "while_loop": plan_while_loop, "for_loop": plan_for_loop}
