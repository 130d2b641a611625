"""The CUDA backend: a graph becomes the CPU's schedule and kernels, these become Triton, and CuPy runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npcompile.backends.cuda.native import is_listable, is_native_graph
from npcompile.backends.cuda.ordered_reductions import as_loops
from npcompile.backends.cuda.programs.primitives import is_native
from npcompile.backends.cuda.programs.program import NotPrintable
from npcompile.backends.cuda.ranges import in_range
from npcompile.backends.cuda.runtime.device import current_device, numbered_device
from npcompile.backends.cuda.runtime.graphs import BadIndex, Replayed, asks_the_host
from npcompile.backends.cuda.runtime.interface import Device, Runner, on_device, to_host
from npcompile.backends.cuda.runtime.run import Kernels, has_strides, numpy_runner
from npcompile.backends.eager import compile_eager
from npcompile.backends.kernels.contraction import factor, run_factored
from npcompile.backends.kernels.layouts import axes_in_memory, dense_strides
from npcompile.backends.registry import CompiledGraph, may_not_return
from npcompile.backends.special_calls import with_forms
from npcompile.backends.transfers import note
from npcompile.tensor_core.graph import Graph, Location, Node, bind
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.transforms.decompose import expanded

if TYPE_CHECKING:
    from npcompile.backends.cuda.partition import LoopKernel

WORTH_WAITING = 1 << 28  # products: fewer are made sooner than a guard is back from the device


def compile_cuda(graph: Graph, example_inputs: Sequence[Any] = (), mode: str = "default") -> CompiledGraph:
    """Compile `graph` for the current CUDA device. Takes NumPy arrays, which are moved there and back, or CuPy's.

    `mode="reduce-overhead"` repeats launches as CUDA graphs where it can (`graphs.py`), "max-autotune" tries tiles
    (`tuning.py`).
    Raises NoDevice. Floating-point errors are not seen on the device: where NumPy would raise one, NumPy runs.
    """
    return compile_for(graph, current_device(), mode=mode)


def compile_on(graph: Graph, number: int, mode: str = "default") -> CompiledGraph:
    """Compile `graph` for the CUDA device of this number. What it computes stays there; NumPy arrays it is given are moved.

    Raises NoDevice.
    """
    return compile_for(graph, numbered_device(number), stays=True, mode=mode)


def compile_for(graph: Graph, device: Device, stays: bool = False, mode: str = "default") -> CompiledGraph:
    graph = with_forms(expanded(graph), is_native)
    factored = factor(graph, least=WORTH_WAITING)
    fast = compile_program(factored.graph, device, stays, mode)
    return run_factored(factored, fast, graph, lambda g: compile_program(g, device, stays, mode))


def compile_program(graph: Graph, device: Device, stays: bool = False, mode: str = "default") -> CompiledGraph:
    """Compile a graph as it is written. Results stay on the device where inputs come from there, or if `stays`."""
    started = time.perf_counter()
    kernels: list[Kernels] = []
    written = {index for index, _ in graph.writes}
    on_host = compile_eager(graph, ())
    graph = as_loops(graph)
    uses = [first_use(graph, n) for n in graph.inputs]

    def by_numpy(remains: bool) -> Callable[..., tuple[Any, ...]]:
        return copying(on_host.call, graph, device) if remains else on_host.call

    def compile_piece(part: Graph) -> Runner:
        made = Kernels(part, is_tuned=mode == "max-autotune")
        try:
            made.prepare()
        except NotPrintable:
            return numpy_runner(part)
        kernels.append(made)
        return made.run

    def compile_inside(part: Graph) -> CompiledGraph:
        part = replace(part, accuracy=graph.accuracy)
        return compile_for(part, device, mode=mode if mode == "max-autotune" else "default")

    def compile_loop(node: Node) -> LoopKernel | None:
        from npcompile.backends.cuda.loops import LoopKernels, loop_graph

        made = LoopKernels(loop_graph(node, graph), is_tuned=mode == "max-autotune")
        try:
            made.prepare()
        except NotPrintable:
            return None
        kernels.append(made)
        return made

    program: Any = None
    if is_native_graph(graph):
        run = compile_piece(graph)
        program = kernels[0] if kernels else None
    else:
        from npcompile.backends.cuda.partition import run_in_pieces  # here: a first call is to be short too
        from npcompile.backends.cuda.runtime import listing

        run = run_in_pieces(graph, compile_piece, compile_inside, compile_loop)
        if is_listable(graph):
            program = listing.ListedProgram(run)
            run = program.run
    if mode == "reduce-overhead" and not asks_the_host(graph):
        program = Replayed(frozenset(written), run)
        run = program.run

    count = len(graph.inputs)

    def call(*args: Any) -> tuple[Any, ...]:
        inputs, symbols = args[:count], args[count:]
        if graph.checks and may_not_return():
            return by_numpy(stays or any(map(device.is_array, inputs)))(*args)
        with device.use():
            if not inputs or not all(map(device.is_array, inputs)):
                return run_there(inputs, symbols, stays or any(map(device.is_array, inputs)), args)
            try:  # the way of most calls, which is to be short
                return tuple(run(device, inputs, symbols))
            except BadIndex:
                return by_numpy(True)(*args)  # NumPy's own error

    def run_there(inputs: Sequence[Any], symbols: Sequence[Any], remains: bool, args: Sequence[Any]) -> tuple[Any, ...]:
        given = [move(device, x, n, k in written, uses[k]) for k, (x, n) in enumerate(zip(inputs, graph.inputs))]
        try:
            results = run(device, given, symbols)
        except BadIndex:
            return by_numpy(remains)(*args)  # NumPy's own error
        sizes = dict(zip(graph.symbols, symbols))
        if remains:
            outputs = tuple(results)
        else:
            outputs = tuple(
                fetch(device, x, meta, sizes, n.location) for x, meta, n in zip(results, graph.metas, graph.outputs, strict=True)
            )
        contents = []
        for index in written:
            if not device.is_array(inputs[index]):
                node = graph.inputs[index]
                contents.append((index, fetch(device, given[index], node.meta.with_(boxed=True), sizes, uses[index])))
        for index, value in contents:  # when nothing can fail any more
            inputs[index][...] = value
        return outputs

    seconds = {"schedule": time.perf_counter() - started}
    source = "\n".join(p.text for k in kernels for plan in k.prepare().plans for p in plan.programs)
    names = tuple(plan.kernel.name for k in kernels for plan in k.prepare().plans)
    made = call if program is None else device.shortened(graph, program, call)
    place = next((f" ({n.location})" for n in graph.nodes if n.location is not None), "")
    return CompiledGraph(in_range(made, device.library, f"{graph.name}{place}: {', '.join(names)}"), source, names, seconds)


def copying(call: Callable[..., tuple[Any, ...]], graph: Graph, device: Device) -> Callable[..., tuple[Any, ...]]:
    """`call`, which takes NumPy arrays, on copies of what is on the device; its results go there."""
    count = len(graph.inputs)

    def on_copies(*args: Any) -> tuple[Any, ...]:
        with device.use():
            copies = [to_host(device, x) if device.is_array(x) else x for x in args[:count]]
            made = call(*copies, *args[count:])
            results = tuple(upload_in(device, np.asarray(x), memory_order(meta)) for x, meta in zip(made, graph.metas))
            written = [k for k, _ in graph.writes if device.is_array(args[k])]
            for k, value in zip(written, [on_device(device, copies[k]) for k in written]):
                args[k][...] = value
            return results

    return on_copies


def first_use(graph: Graph, node: Node) -> Location | None:
    """The user's line that first needs an input."""
    return next((n.location for n in graph.nodes if node in n.inputs), None)


def move(device: Device, value: Any, node: Node, is_written: bool, location: Location | None = None) -> Any:
    """An input on the device: a dense array in the memory order that its meta has. What is 0-D and only read stays."""
    if device.is_array(value):
        return value
    array = np.asarray(value, node.dtype)
    if not array.ndim and not is_written:
        return array
    note(True, array.nbytes, location)
    return upload_in(device, array, memory_order(node.meta))


def upload_in(device: Device, host: np.ndarray, order: Sequence[int]) -> Any:
    """A dense copy on the device, with axes in this order from the outermost in memory."""
    dense = np.ascontiguousarray(host.transpose(order)).reshape([host.shape[a] for a in order])
    return device.upload(dense.transpose(np.argsort(order)))


def memory_order(meta: TensorMeta) -> list[int]:
    """Axes from the outermost in memory to the innermost."""
    return axes_in_memory(meta)[::-1]


def fetch(device: Device, value: Any, meta: TensorMeta, sizes: dict[str, int], location: Location | None = None) -> Any:
    """A fresh NumPy array with the memory order of `meta`, or a NumPy scalar."""
    value = on_device(device, value)
    strides = bind(dense_strides(meta), sizes)
    order = sorted(range(value.ndim), key=lambda a: (-strides[a], a))
    prototype = np.empty([value.shape[a] for a in order], meta.dtype).transpose(np.argsort(order)) if order else None
    out = np.empty((), meta.dtype) if prototype is None else np.empty_like(prototype, order="K")
    if not has_strides(value, out.strides):
        dense = device.empty(out.shape, out.dtype, out.strides)
        dense[...] = value
        value = dense
    device.download(value, out)
    note(False, out.nbytes, location)
    return out if meta.boxed else out[()]
