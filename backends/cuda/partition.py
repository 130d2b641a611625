"""Nodes that have no Triton form run with CuPy, or NumPy on copies: the graph is cut in pieces around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cuda.control import MOST_BYTES, run_control, run_loop
from npcompile.backends.cuda.library import Call, by_library, call_for
from npcompile.backends.cuda.native import is_native_node
from npcompile.backends.cuda.programs.primitives import has_triton_type
from npcompile.backends.cuda.runtime.graphs import Replayed, asks_the_host, overwrite, write_last
from npcompile.backends.cuda.runtime.interface import Device, Runner, copied, on_device, to_host
from npcompile.backends.kernels.graph_partition import LEAVES, VIEWS, Piece, cut
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.graph import Bound, Graph, Node, bind, subgraphs, symbols_of, users
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.op import OPS


class LoopKernel(Protocol):
    """A loop that one kernel runs: see loops.py."""

    graph: Graph

    def run(self, device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """Nodes that run one by one, then a piece."""

    foreign: tuple[Node, ...]
    piece: Piece | None


def stages(graph: Graph) -> list[Stage]:
    views = views_of(graph)

    def is_native_here(node: Node) -> bool:
        return node not in views and is_native_node(node)

    number = sunk(graph, staged(graph, is_native_here), is_native_here)
    foreign = [n for n in graph.nodes if n.op != "input" and not is_native_here(n)]
    last = max(number.values(), default=0)
    return [Stage(tuple(n for n in foreign if number[n] == s), cut(graph, number, s, is_native_here)) for s in range(last + 1)]


def views_of(graph: Graph) -> set[Node]:
    """Movements around library calls that need no kernel: products take views, and the library gives arrays without gaps."""
    reading = users(graph.nodes)
    views: set[Node] = set()
    for n in reversed(graph.nodes):
        is_read_so = all((is_product(u) and not is_native_node(u)) or u in views for u in reading[n]) and n not in graph.results
        if n.op == "reshape" and is_read_so or n.op == "permute" and is_read_so and is_taken_by_products(n.params["axes"]):
            views.add(n)
    for n in graph.nodes:
        if n.op == "reshape" and (n.inputs[0] in views or is_by_library(n.inputs[0])):
            views.add(n)
    while wrong := [n for n in views if is_copied(n, views) or is_read_by_a_kernel(n, views, reading[n])]:
        views.difference_update(wrong)
    return views


def is_taken_by_products(axes: Sequence[int]) -> bool:
    """Are these axes of an array without gaps matrices as cuBLAS takes them: rows or columns side by side, evenly apart?"""
    stack = list(axes[:-2])
    return len(axes) - 1 in axes[-2:] and (len(stack) < 2 or stack == list(range(len(stack))))


def is_copied(node: Node, views: set[Node]) -> bool:
    """Would this view of another view be a copy?"""
    return node.inputs[0] in views and node.inputs[0].op == "permute"


def is_read_by_a_kernel(node: Node, views: set[Node], readers: Sequence[Node]) -> bool:
    """Is it a transposed view that others than products read?"""
    return node.op == "permute" and not all(is_product(u) and not is_native_node(u) or u in views for u in readers)


def is_by_library(node: Node) -> bool:
    return node.op == "item" or not is_native_node(node) and call_for(node) is not None


def staged(graph: Graph, is_native_here: Callable[[Node], bool]) -> dict[Node, int]:
    """Every node's stage: in each, nodes that are not native run first, one by one, then the others as one piece."""
    stage: dict[Node, int] = {}
    for node in graph.nodes:
        waits = [
            stage[i] + (is_native_here(i) and i.op != "input" and i.op not in LEAVES and not is_native_here(node))
            for i in node.inputs
        ]
        stage[node] = max(waits, default=0)
    return stage


def sunk(graph: Graph, stage: dict[Node, int], is_native_here: Callable[[Node], bool]) -> dict[Node, int]:
    """Views and elementwise nodes go to the first stage that reads them: there they join the kernel that does."""
    found = dict(stage)
    reading = users(graph.nodes)
    results = set(graph.results)
    for node in reversed(graph.nodes):
        is_cheap = node.op in VIEWS or OPS[node.op].kind == "elementwise"
        if is_cheap and is_native_here(node) and node not in results and reading[node]:
            found[node] = min(found[u] if is_native_here(u) else found[u] - 1 for u in reading[node])
    return found


def run_in_pieces(
    graph: Graph,
    compile_piece: Callable[[Graph], Runner],
    compile_graph: Callable[[Graph], Any],
    compile_loop: Callable[[Node], LoopKernel | None],
) -> Runner:
    """Kernels and library calls in alternation. Writes are made last, when nothing is allocated any more.

    Control flow runs here, and calls what `compile_graph` makes of the graphs in its nodes, but for loops that
    `compile_loop` makes a kernel of.
    """
    parts = stages(graph)
    runners = [None if p.piece is None else compile_piece(p.piece.graph) for p in parts]
    foreign = [[Foreign.of(n, compile_graph) for n in p.foreign] for p in parts]
    loops = {n: compile_loop(n) for p in parts for n in p.foreign if n.op == "for_loop"}
    dead = dying(graph, parts)
    alone = {n for p in parts for n in p.foreign}
    shared = sharing(graph, alone)
    own = {n: memory_of(n, alone).op != "input" for _, n in graph.writes}

    def run(device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        values: dict[Node, Any] = dict(zip(graph.inputs, inputs))
        sizes = dict(zip(graph.symbols, symbols))
        for part, runner, calls, last_read in zip(parts, runners, foreign, dead):
            for call in calls:
                values[call.node] = call.run(device, values, sizes, loops.get(call.node))
            if runner is not None and part.piece is not None:
                piece = part.piece
                results = runner(device, [values[n] for n in piece.inputs], [symbols[k] for k in piece.symbols])
                values.update(zip(piece.outputs, results))
            for node in last_read:
                values.pop(node, None)
        fresh = [on_device(device, values[n]) if own[n] else copied(device, values[n]) for _, n in graph.writes]
        outputs = [on_device(device, values[n]) for n in graph.outputs]
        for k in shared:
            outputs[k] = copied(device, outputs[k])

        def write() -> None:
            for (index, _), value in zip(graph.writes, fresh):
                overwrite(device, inputs[index], value)

        if graph.writes:
            write_last(write)
        return outputs

    return run


def is_bound(node: Node) -> bool:
    """Do its params hold no size that only a run knows, nor a graph?"""
    return not subgraphs(node) and not any(True for value in node.params.values() for _ in symbols_of(value))


def memory_of(node: Node, foreign: set[Node]) -> Node:
    """Whose memory a node's value has: views are of another's."""
    while node.op in ("permute", "reshape") and node in foreign:
        (node,) = node.inputs
    return node


def sharing(graph: Graph, foreign: set[Node]) -> list[int]:
    """Which outputs are memory of an input or of another output: views are, and each is to be an array of its own."""
    seen: set[Node] = set()
    found = []
    for k, node in enumerate(graph.outputs):
        node = memory_of(node, foreign)
        if node.op == "input" or node in seen:
            found.append(k)
        seen.add(node)
    return found


def dying(graph: Graph, parts: Sequence[Stage]) -> list[list[Node]]:
    """What nobody reads after each stage: its memory is free again."""
    last: dict[Node, int] = {}
    for k, part in enumerate(parts):
        read = [i for n in part.foreign for i in n.inputs]
        made = [*part.foreign]
        if part.piece is not None:
            read += part.piece.inputs
            made += part.piece.outputs
        last |= dict.fromkeys([*made, *read], k)
    kept = set(graph.results)
    return [[n for n, k in last.items() if k == number and n not in kept] for number in range(len(parts))]


VIEWED: dict[str, Callable[..., Any]] = {
    "permute": lambda x, *, axes: x.transpose(axes),
    "reshape": lambda x, *, shape: x.reshape(shape),
}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A node that no kernel computes: by the device's library, or as control flow, or by NumPy on copies."""

    node: Node
    by_library: Call | None
    graphs: dict[str, tuple[Graph, Callable[..., Any]]]  # the param, its graph and that compiled
    stays: bool  # has the device every dtype here?
    is_fixed: bool  # are its params the same for all sizes?
    loop: Replayed | None = None  # a loop that may be recorded

    @classmethod
    def of(cls, node: Node, compile_graph: Callable[[Graph], Any]) -> Foreign:
        graphs = {
            name: (g, compile_graph(replace(g, checks=frozenset())).call)
            for name, g in subgraphs(node).items()
            if name.endswith("_graph")  # others only name what a graph is like
        }
        metas = [m for n in (node, *node.inputs) for m in (n.meta.items if isinstance(n.meta, TupleMeta) else (n.meta,))]
        made = cls(node, call_for(node), graphs, all(has_triton_type(m.dtype) for m in metas), is_bound(node))
        return replace(made, loop=made.recorded())

    def recorded(self) -> Replayed | None:
        """A loop whose length is known when it starts, as one CUDA graph where all that it does are launches."""
        if self.node.op != "for_loop" or not self.stays or any(asks_the_host(g) for g, _ in self.graphs.values()):
            return None

        def run(device: Device, inputs: Sequence[Any], sizes: Sequence[tuple[str, int]]) -> list[Any]:
            return [*run_control(device, self.node, inputs, self.params(dict(sizes)))]

        return Replayed(frozenset(), run, MOST_BYTES)

    def params(self, sizes: dict[str, int]) -> dict[str, Any]:
        """For these sizes, with graphs that can be called."""
        params = dict(self.node.params) if self.is_fixed else bind(self.node.params, sizes)
        return params | {name: Bound.of(g, call, sizes) for name, (g, call) in self.graphs.items()}

    def run(self, device: Device, values: dict[Node, Any], sizes: dict[str, int], kernel: LoopKernel | None = None) -> Any:
        node = self.node
        for i in node.inputs:
            if i not in values:  # a leaf that no piece has computed
                assert i.op in LEAVES, i
                values[i] = np.asarray(OPS[i.op].eager(**bind(i.params, sizes)))
        inputs = [values[i] for i in node.inputs]
        params = self.params(sizes)
        if node.op == "item":
            return inputs[0][params["index"]]
        if node.op in VIEWED and has_triton_type(node.dtype):
            x = on_device(device, inputs[0])
            return device.attempt(lambda: VIEWED[node.op](x, **params))  # a copy where strides do not fit the shape
        if self.graphs and self.stays and any(device.is_array(x) or x.ndim for x in inputs):
            if kernel is not None:
                given = [on_device(device, x) if x.ndim else x for x in inputs]
                return tuple(kernel.run(device, given, [sizes[s] for s in kernel.graph.symbols]))
            if self.loop is not None:
                return run_loop(device, self.loop, inputs, params, sizes)
            return run_control(device, node, inputs, params)
        made = None
        if self.by_library is not None:
            made = by_library(device, self.by_library, node, [on_device(device, x) for x in inputs], params)
        return by_numpy(device, node, inputs, bind(node.params, sizes)) if made is None else made


def by_numpy(device: Device, node: Node, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    host = [x if isinstance(x, tuple) else np.asarray(to_host(device, x), order="C") for x in inputs]
    with np.errstate(all="ignore"):
        value = OPS[node.op].eager(*host, **params)
    return value if isinstance(node.meta, TupleMeta) else np.asarray(value, node.dtype, order="C")
