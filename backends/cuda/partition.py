"""Nodes that have no Triton form run with CuPy, or NumPy on copies: the graph is cut in pieces around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npcompile.backends.cuda.combine import LOGIC
from npcompile.backends.cuda.device import Device
from npcompile.backends.cuda.primitives import PRIMITIVES, has_triton_type, is_native
from npcompile.backends.kernels.pieces import LEAVES, MOVES, Piece, cut, stages_of
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.graph import Bound, Graph, Node, bind, subgraphs
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.op import OPS

# (device, arrays, symbols) -> arrays: a piece on arrays of the device; scalars may stand for 0-D inputs.
Runner = Callable[[Device, Sequence[Any], Sequence[int]], list[Any]]


def is_native_node(node: Node) -> bool:
    """Can a kernel compute this node?"""
    if not all(has_triton_type(n.dtype) for n in (node, *node.inputs)):
        return False
    if OPS[node.op].kind == "elementwise":
        return is_native(node)
    match node.op:
        case "reduce" | "scan":
            return combines(node.params["reducer"], node.inputs[0].dtype)
        case "arg_reduce":
            return node.inputs[0].dtype.kind in "biuf"
        case "einsum":
            return bool(node.inputs) and not is_product(node)
    return node.op == "input" or node.op in LEAVES or node.op in MOVES


def combines(reducer: str, dtype: np.dtype) -> bool:
    if dtype.kind == "b":
        return reducer in LOGIC
    if reducer.startswith("logical"):
        return False
    return dtype.kind in PRIMITIVES.get(reducer, {})


def is_native_graph(graph: Graph) -> bool:
    return all(map(is_native_node, graph.nodes))


@dataclass(frozen=True, slots=True)
class Stage:
    """Nodes that run one by one, then a piece."""

    foreign: tuple[Node, ...]
    piece: Piece | None


def stages(graph: Graph) -> list[Stage]:
    number = stages_of(graph, is_native_node)
    foreign = [n for n in graph.nodes if n.op != "input" and not is_native_node(n)]
    last = max(number.values(), default=0)
    return [Stage(tuple(n for n in foreign if number[n] == s), cut(graph, number, s, is_native_node)) for s in range(last + 1)]


def run_in_pieces(graph: Graph, compile_piece: Callable[[Graph], Runner], compile_graph: Callable[[Graph], Any]) -> Runner:
    """Kernels and library calls in alternation. Writes are made last.

    Control flow runs here, and calls what `compile_graph` makes of the graphs in its nodes.
    """
    parts = stages(graph)
    runners = [None if p.piece is None else compile_piece(p.piece.graph) for p in parts]
    inside = {
        g: compile_graph(replace(g, checks=frozenset()))
        for g in dict.fromkeys(g for p in parts for n in p.foreign for g in subgraphs(n).values())
    }

    def run(device: Device, inputs: Sequence[Any], symbols: Sequence[int]) -> list[Any]:
        values: dict[Node, Any] = dict(zip(graph.inputs, inputs))
        sizes = dict(zip(graph.symbols, symbols))
        for part, runner in zip(parts, runners):
            for node in part.foreign:
                values[node] = run_foreign(device, node, values, sizes, inside)
            if runner is not None and part.piece is not None:
                piece = part.piece
                results = runner(device, [values[n] for n in piece.inputs], [symbols[k] for k in piece.symbols])
                values.update(zip(piece.outputs, results))
        fresh = [device.library.array(on_device(device, values[n])) for _, n in graph.writes]
        outputs = [on_device(device, values[n]) for n in graph.outputs]
        for k, n in enumerate(graph.outputs):  # each is an array of its own
            if n.op == "input" or n in graph.outputs[:k]:
                outputs[k] = device.library.array(outputs[k])
        for (index, _), value in zip(graph.writes, fresh):
            inputs[index][...] = value
        return outputs

    return run


def on_device(device: Device, value: Any) -> Any:
    return value if device.is_array(value) else dense_upload(device, np.asarray(value))


def dense_upload(device: Device, host: np.ndarray) -> Any:
    return device.upload(np.ascontiguousarray(host).reshape(host.shape))


def to_host(device: Device, value: Any) -> np.ndarray:
    """A NumPy array of what may be on the device."""
    if not device.is_array(value):
        return np.asarray(value)
    out = np.empty(value.shape, value.dtype)
    dense = device.empty(out.shape, out.dtype, out.strides)
    dense[...] = value
    device.download(dense, out)
    return out


LIBRARY = {"fft": "fft.fft", "ifft": "fft.ifft", "rfft": "fft.rfft", "irfft": "fft.irfft"}


def run_foreign(device: Device, node: Node, values: dict[Node, Any], sizes: dict[str, int], inside: dict[Graph, Any]) -> Any:
    """One node by the device's library where that has NumPy's meaning, else by NumPy on copies."""
    inputs = []
    for i in node.inputs:
        if i not in values:  # a leaf that no piece has computed
            assert i.op in LEAVES, i
            values[i] = np.asarray(OPS[i.op].eager(**bind(i.params, sizes)))
        inputs.append(values[i])
    params = bind(node.params, sizes)
    made = None
    if not any(isinstance(m, TupleMeta) for m in (node.meta, *(i.meta for i in node.inputs))):
        made = by_library(device, node, inputs, params)
    if made is not None:
        return made
    for name, graph in subgraphs(node).items():
        params[name] = Bound.of(graph, inside[graph].call, sizes)
    host = [x if isinstance(x, tuple) else np.asarray(to_host(device, x), order="C") for x in inputs]
    with np.errstate(all="ignore"):
        value = OPS[node.op].eager(*host, **params)
    return value if isinstance(node.meta, TupleMeta) else np.asarray(value, node.dtype, order="C")


def by_library(device: Device, node: Node, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """The result as a dense array of the device, or None."""
    library = device.library
    if not all(has_triton_type(n.dtype) for n in (node, *node.inputs)):
        return None
    if is_product(node):
        made = library.matmul(*(on_device(device, x) for x in inputs))
    elif node.op in LIBRARY:
        folder, name = LIBRARY[node.op].split(".")
        x = on_device(device, inputs[0])
        made = getattr(getattr(library, folder), name)(x, params["n"], params["axis"], params["norm"])
    else:
        function = getattr(library, node.op, None)
        if OPS[node.op].kind != "elementwise" or params or function is None or node.op == "power":
            return None
        made = function(*(on_device(device, x) for x in inputs))
    if made.dtype != node.dtype:
        return None
    return library.ascontiguousarray(made).reshape(made.shape)
