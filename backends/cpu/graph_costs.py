"""What the kernels of a graph read and write, and the memory between them."""

from __future__ import annotations

from dataclasses import replace

from npcompile.backends.cpu.backend import given_out, held_during, lowered, memory_of, scratch_of
from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.partition import is_native_graph
from npcompile.backends.cpu.primitives import has_text, is_native
from npcompile.backends.cpu.row_programs import by_rows
from npcompile.backends.cpu.shared_kernels import batches, shared
from npcompile.backends.cpu.undo import with_undo
from npcompile.backends.kernels.contraction import factor
from npcompile.backends.kernels.memory import build_schedule
from npcompile.backends.special_calls import with_forms
from npcompile.tensor_core.costs import Costs, costs_of_graph, size_of
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.transforms.decompose import expanded, is_composite


def costs(graph: Graph) -> Costs:
    """Of a graph whose sizes are known. Where NumPy does a part of it, what each operation reads and writes by itself."""
    found = costs_of_graph(graph)
    graph = by_rows(with_forms(expanded(graph, lambda node: is_composite(node.op) and not has_text(node)), is_native))
    graph = factor(graph, strided=True).graph
    if not is_native_graph(graph):
        return found
    schedule, undo = with_undo(build_schedule(graph, tiled=True, by_rows=is_openblas()))
    runs, given = shared(lowered(schedule)), given_out(schedule, undo)
    sizes = {b.name: size_of(b.shape) * b.dtype.itemsize for b in schedule.buffers if b.kind in ("input", "output", "temporary")}
    accessed = sum(sizes.get(name, 0) for run in runs for name in memory_of(run, run.kernel.buffers))
    between = [b for b in schedule.buffers if b.kind == "temporary" or (b.kind == "output" and b.number >= given)]
    scratch, _ = scratch_of(between)
    grouped = batches(runs)
    held = held_during(grouped, scratch, {"small", *(b.name for b in undo.old)})
    always = sum(size_of([size]) for name, size in scratch.items() if name not in held)
    at_once = [
        sum(size_of([scratch[name]]) for name, (first, last) in held.items() if first <= k <= last) for k in range(len(grouped))
    ]
    return replace(found, bytes_accessed=accessed, temporaries=always + max(at_once, default=0))
