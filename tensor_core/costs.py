"""What a graph computes and moves, in numbers: as XLA's cost analysis counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.op import OPS, Cost
from npcompile.tensor_core.transforms.decompose import expanded, is_composite


@dataclass(slots=True)
class Costs:
    """flops: additions, multiplications, comparisons and the like, one for an element; a product that is added is two.
    transcendentals: functions such as exp, one for an element. bytes_accessed: what is read from arrays and written to them.
    temporaries: bytes of arrays that are neither arguments nor results, at most at once. uncounted: what is in none of these.
    """

    flops: float = 0
    transcendentals: float = 0
    bytes_accessed: float = 0
    arguments: int = 0  # bytes
    outputs: int = 0
    temporaries: int = 0
    uncounted: list[str] = field(default_factory=list)


def size_of(shape: Iterable[object]) -> int:
    """Elements. Of a graph whose sizes are known."""
    return prod(n for n in shape if isinstance(n, int))


def bytes_of(node: Node) -> int:
    return size_of(node.shape) * node.dtype.itemsize


def costs_of_graph(graph: Graph) -> Costs:
    """With what each operation reads and writes by itself: a backend that computes several together knows better.

    Sizes that are symbols count as 1.
    """
    graph = expanded(graph, lambda node: is_composite(node.op))
    found = Costs()
    inputs, results = set(graph.inputs), set(graph.outputs)
    found.arguments = sum(map(bytes_of, inputs))
    found.outputs = sum(map(bytes_of, graph.outputs))
    for node in graph.nodes:
        op = OPS[node.op]
        if op.kind in ("leaf", "movement"):
            continue
        operations = operations_of(node)
        if operations is None:
            found.uncounted.append(f"{node.op} at {node.location}")
        elif op.kind == "elementwise" and op.cost is Cost.FUNCTION:
            found.transcendentals += operations
        else:
            found.flops += operations
        found.bytes_accessed += bytes_of(node) + sum(map(bytes_of, node.inputs))
        found.temporaries += 0 if node in results else bytes_of(node)
    return found


def operations_of(node: Node) -> int | None:
    """Of a node of primitives. None: nobody knows."""
    size = size_of(node.shape)
    match OPS[node.op].kind:
        case "elementwise" | "scan":
            return size
        case "reduction":
            return max(0, size_of(node.inputs[0].shape) - size)
        case "contraction":
            axes = {a: n for x, numbers in zip(node.inputs, node.params["inputs"]) for a, n in zip(numbers, x.shape)}
            every, count = size_of(axes.values()), len(node.inputs)
            return every * count if every != size else every * (count - 1)
        case "update" | "gather":
            return 0
        case "scatter":
            return size_of(node.inputs[-1].shape)
    return None
