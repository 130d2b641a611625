"""Results of control flow that nobody reads are not computed, and a loop that keeps carries stands for the same without.

Derivatives ask for more than is used in the end, and run a loop again to keep what its first run did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder, Graph, Node, freeze, topological
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.transforms.subgraph import graph_of

PRUNED = ("cond", "while_loop", "for_loop")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left of a node of control flow."""

    operands: tuple[int, ...]  # of its own
    params: dict[str, Any]
    results: dict[int, int]  # by its old number the new one


@dataclass(slots=True)
class Use:
    """Which results of a node are read: of it, and of loops that it stands for."""

    keeps: tuple[int, ...] = ()
    results: set[int] = field(default_factory=set)
    plan: Plan | None = None


def prune(graph: Graph) -> Graph:
    """The same program with smaller nodes of control flow. Inputs stay, and so do all nodes where there are none."""
    order = graph.nodes
    if not any(n.op in PRUNED for n in order):
        return graph
    standing = stand_ins(order)
    uses = {n: Use(n.params.get("keeps", ())) for n in order if n.op in PRUNED}
    for node, other in standing.items():
        uses[other].keeps = tuple(sorted({*uses[other].keeps, *node.params.get("keeps", ())}))
    live = set(graph.results)
    for node in reversed(order):
        if node not in live:
            continue
        if node.op == "item" and node.inputs[0] in uses:
            other = standing[node.inputs[0]]
            uses[other].results.add(moved(node.inputs[0], node.params["index"], uses[other].keeps))
            live.add(other)
        elif node.op in PRUNED:
            uses[node].plan = plan = plan_for(node, uses[node])
            live.update(node.inputs[k] for k in plan.operands)
        else:
            live.update(node.inputs)
    return rebuilt(graph, [n for n in order if n in live], standing, uses)


def rebuilt(graph: Graph, order: Sequence[Node], standing: dict[Node, Node], uses: dict[Node, Use]) -> Graph:
    builder = Builder(env=graph.env or ShapeEnv())
    made: dict[Node, Node] = {}
    for node in order:
        builder.location = node.location
        if node.op == "input":
            made[node] = node
        elif node in uses:
            plan = uses[node].plan
            assert plan is not None
            made[node] = builder.apply(node.op, *(made[node.inputs[k]] for k in plan.operands), **plan.params)
        elif node.op == "item" and node.inputs[0] in uses:
            other = standing[node.inputs[0]]
            plan, number = uses[other].plan, moved(node.inputs[0], node.params["index"], uses[other].keeps)
            assert plan is not None
            made[node] = builder.apply("item", made[other], index=plan.results[number])
        else:
            made[node] = builder.apply(node.op, *(made[i] for i in node.inputs), **node.params)
    writes = tuple((index, made[n]) for index, n in graph.writes)
    return replace(graph, outputs=tuple(made[n] for n in graph.outputs), writes=writes)


def stand_ins(order: Iterable[Node]) -> dict[Node, Node]:
    """For each node of control flow the first that differs in nothing but the carries it keeps."""
    first: dict[Any, Node] = {}
    found = {}
    for node in order:
        if node.op in PRUNED:
            params = {name: value for name, value in node.params.items() if name != "keeps"}
            params.setdefault("reverse", False)
            found[node] = first.setdefault((node.op, node.inputs, freeze(params)), node)
    return found


def moved(node: Node, index: int, keeps: Sequence[int]) -> int:
    """The number of a result of a loop as that of one that keeps the carries `keeps`."""
    if node.op != "for_loop" or index < len(node.params["body_graph"].outputs):
        return index
    base = len(node.params["body_graph"].outputs)
    return base + keeps.index(node.params["keeps"][index - base])


def plan_for(node: Node, use: Use) -> Plan:
    assert isinstance(node.meta, TupleMeta)
    return {"cond": plan_cond, "while_loop": plan_while_loop, "for_loop": plan_for_loop}[node.op](node, use)


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


def plan_cond(node: Node, use: Use) -> Plan:
    outputs = sorted(use.results)
    graphs = {name: node.params[name] for name in ("true_graph", "false_graph")}
    inputs = sorted({k for graph in graphs.values() for k in read_by(graph, outputs)})
    params = {name: part_of(graph, inputs, outputs) for name, graph in graphs.items()}
    return Plan((0, *(1 + k for k in inputs)), params, {k: number for number, k in enumerate(outputs)})


def needed(body: Graph, carried: int, outputs: set[int], inputs: set[int]) -> tuple[list[int], list[int]]:
    """Outputs and inputs of a body with all that later iterations need: a carry that is read is computed."""
    while True:
        grown = inputs | read_by(body, outputs) | {k for k in outputs if k < carried}
        more = outputs | {k for k in grown if k < carried}
        if grown == inputs and more == outputs:
            return sorted(outputs), sorted(inputs)
        outputs, inputs = more, grown


def plan_while_loop(node: Node, use: Use) -> Plan:
    cond, body, carried = (node.params[name] for name in ("cond_graph", "body_graph", "carried"))
    outputs, inputs = needed(body, carried, set(use.results), read_by(cond, [0]))
    params = {
        "cond_graph": part_of(cond, inputs, [0]),
        "body_graph": part_of(body, inputs, outputs),
        "carried": len(outputs),
    }
    return Plan(tuple(inputs), params, {k: number for number, k in enumerate(outputs)})


def plan_for_loop(node: Node, use: Use) -> Plan:
    params = node.params
    body, carried, scanned = (params[name] for name in ("body_graph", "carried", "scanned"))
    base = len(body.outputs)
    keeps = [k for number, k in enumerate(use.keeps) if base + number in use.results]
    outputs, inputs = needed(body, carried, {k for k in use.results if k < base}, set(keeps))
    carries = [k for k in outputs if k < carried]
    left = {
        "body_graph": part_of(body, inputs, outputs),
        "carried": len(carries),
        "scanned": sum(carried <= k < carried + scanned for k in inputs),
        "keeps": tuple(carries.index(k) for k in keeps),
    }
    results = {k: number for number, k in enumerate(outputs)}
    results |= {base + use.keeps.index(k): len(outputs) + number for number, k in enumerate(keeps)}
    return Plan(tuple(inputs), params | left, results)
