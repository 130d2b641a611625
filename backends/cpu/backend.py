"""The CPU backend: a graph becomes a schedule, kernels, one C unit and a function."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from npcompile.backends.cpu.binding import beside
from npcompile.backends.cpu.bitwise import with_numpys_bits
from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.c_calls import print_call
from npcompile.backends.cpu.c_functions import functions_text
from npcompile.backends.cpu.c_kernels import print_kernel
from npcompile.backends.cpu.c_places import places_text
from npcompile.backends.cpu.c_sizes import INTERNAL, size_text, symbol_text
from npcompile.backends.cpu.c_squares import turns_text
from npcompile.backends.cpu.c_sums import blocks_text
from npcompile.backends.cpu.column_scans import scan_columns
from npcompile.backends.cpu.few_columns import sum_few_columns
from npcompile.backends.cpu.kept_values import KEPT, keep_values
from npcompile.backends.cpu.kernel_plan import ColumnBlocks, KernelPlan, RowBlocks, TileSlices, is_small
from npcompile.backends.cpu.loader import loader, loading
from npcompile.backends.cpu.nan_recheck import HELPERS as DOUBTS
from npcompile.backends.cpu.nan_recheck import may_be_infinite
from npcompile.backends.cpu.pairwise import PAIRWISE_HELPERS
from npcompile.backends.cpu.partition import is_native_graph, running_in_pieces
from npcompile.backends.cpu.planning import plan_kernel
from npcompile.backends.cpu.primitives import (
    HIDE_OTHER_ERRORS,
    c_type,
    has_text,
    is_native,
    loaded_text,
    memory_type,
    numpy_underflows,
)
from npcompile.backends.cpu.reducers import REDUCE_HELPERS, folds_text, simd_reductions_text
from npcompile.backends.cpu.row_programs import by_rows
from npcompile.backends.cpu.shared_kernels import Run, batches, shared
from npcompile.backends.cpu.sure_indices import drop_sure_checks
from npcompile.backends.cpu.transpose_tiling import LINE
from npcompile.backends.cpu.undo import Undo, with_undo
from npcompile.backends.kernels.contraction import factor, run_factored
from npcompile.backends.kernels.kernel import Kernel, Let, walk
from npcompile.backends.kernels.layouts import dense_strides
from npcompile.backends.kernels.lower import lower
from npcompile.backends.kernels.memory import build_schedule
from npcompile.backends.kernels.operations import short
from npcompile.backends.kernels.schedule import Buffer, Schedule
from npcompile.backends.kernels.strips import cut_in_strips
from npcompile.backends.native_profiling import PROFILERS, profiled
from npcompile.backends.passes import Pass
from npcompile.backends.registry import CompiledGraph
from npcompile.backends.special_calls import with_forms
from npcompile.backends.together import Steps, finished
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.events import stretch
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.meta import TensorMeta, product
from npcompile.tensor_core.transforms.decompose import expanded, is_composite

ITEM = "npc_item"  # gives the only output
LONG = 100  # calls, inputs and outputs: most of the compiler's time would go into what runs once a call
AS_WRITTEN = """#ifdef __clang__
__attribute__((optnone, noinline))
#else
__attribute__((optimize("O0")))
#endif"""
BEGIN = "PyObject* {}(PyObject* self, PyObject* const* args, int64_t nargs) {{"
TUPLE_OF_ITEM = f"""{BEGIN.format(ITEM)} return npc_made(self, args, nargs); }}
{BEGIN.format("npc_run")}
  PyObject* item = npc_made(self, args, nargs);
  return item ? rt->tuple_of(1, item) : NULL;
}}"""
# What a pass made, by how the kernel runs.
MADE_BY: dict[type, str] = {TileSlices: "row tiling", RowBlocks: "products by rows", ColumnBlocks: "sums of columns"}
ERROR_BITS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}  # as the runtime's `report` takes them


def compile_cpu(graph: Graph, example_inputs: Sequence[Any] = ()) -> CompiledGraph:
    """Compile `graph` to machine code. Nodes without a C form run with NumPy, between native pieces. Raises NoCompiler."""
    return finished(compiling(graph))


def compiling(graph: Graph) -> Steps[CompiledGraph]:
    """The same in steps."""
    graph = expanded(graph, lambda node: is_composite(node.op) and not has_text(node))
    if graph.accuracy == "bitwise":
        return (yield from compiling_pieces(with_numpys_bits(graph)))
    graph = by_rows(with_forms(graph, is_native))
    factored = factor(graph, strided=True)
    fast = yield from compiling_pieces(factored.graph)
    return run_factored(factored, fast, graph, lambda g: finished(compiling_pieces(g)))


def compiling_pieces(graph: Graph) -> Steps[CompiledGraph]:
    """Compile a graph as it is written."""
    if not is_native_graph(graph):
        return (yield from running_in_pieces(graph, compiling_pieces, compiling))
    assert not any(map(INTERNAL.fullmatch, graph.symbols)), graph.symbols
    started = time.perf_counter()
    with stretch("schedule", graph.name):
        schedule, undo = with_undo(build_schedule(graph, tiled=True, by_rows=is_openblas()))
        kernels = lowered(schedule)
        runs = shared(kernels)
        printed = {run.kernel.name: run.kernel for run in runs}
        for kernel in printed.values():
            cut_in_strips(kernel)
        plans = {name: plan_kernel(kernel) for name, kernel in printed.items()}
    scheduled = time.perf_counter()
    with stretch("print", graph.name):
        unit = print_unit(schedule, runs, plans, undo)
    written = time.perf_counter()
    loaded = yield from loading(unit, [n.dtype for n in schedule.graph.outputs] + [n.dtype for n in graph.inputs])
    item = beside(loaded.call, ITEM) if given_out(schedule, undo) == 1 else None
    seconds = {"schedule": scheduled - started, "print": written - scheduled, "compile": loaded.seconds}
    about = comment(f"{schedule}\n\n" + "\n\n".join(map(str, kernels)))  # not compiled: strides of inputs make no other unit
    names, passes = tuple(run.kernel.name for run in runs), tuple(p for plan in plans.values() for p in passes_of(plan))
    return CompiledGraph(loaded.call, f"{about}\n{unit}", names, seconds, item=item, passes=passes)


def lowered(schedule: Schedule) -> list[Kernel]:
    """The kernels of a schedule as the CPU has them."""
    kernels = lower(schedule)
    for kernel in kernels:
        drop_sure_checks(kernel)
        keep_values(kernel, schedule.graph.checks)
        scan_columns(kernel)
        sum_few_columns(kernel)
    return kernels


def passes_of(plan: KernelPlan) -> Iterator[Pass]:
    """What a plan shows of the passes that made the kernel, and how it runs."""
    if plan.operations > 1:
        yield Pass("fusion", f"{plan.name}, {plan.operations} operations")
    if name := MADE_BY.get(type(plan.way)):
        yield Pass(name, plan.name)
    if plan.multiplies:
        yield Pass("products", plan.name)
    if plan.kernel.can_fail:
        yield Pass("bounds check elimination", plan.name, "an index that is data")
    if any(isinstance(s, Let) and s.op == KEPT for s in walk(plan.kernel.body)):
        yield Pass("values kept for their errors", plan.name)
    if any(form.strips for form in plan.loops.values()):
        yield Pass("calls of NumPy's loops in strips", plan.name)
    yield Pass("plan", f"{plan.name}: {plan.words()}")


def print_unit(schedule: Schedule, runs: Sequence[Run], plans: Mapping[str, KernelPlan], undo: Undo) -> str:
    """The C translation unit, after the prelude. `plans`: by the names of the kernels that run."""
    graph = schedule.graph
    undoing = [plan_kernel(kernel) for kernel in lower(undo.schedule, first=len(runs))] if undo.schedule else []
    parts = [REDUCE_HELPERS, *([DOUBTS] if any(plan.rechecked for plan in plans.values()) else [])]
    literals = {b.name: b for plan in plans.values() for b in plan.kernel.literals}
    parts += [literal_text(b) for b in literals.values()]
    # Seldom run, or quickly, so not worth the compiler's time.
    cold = [*(plan for plan in plans.values() if plan.kernel.is_small), *undoing]
    parts += [f"static __attribute__((cold)) void {plan.name}(void*, int64_t, int64_t, int);" for plan in cold]
    for plan in (*plans.values(), *undoing):
        parts += print_kernel(plan, graph.symbols)
    parts.append(print_entry(schedule, runs, plans, undo, undoing))
    text = "\n".join(parts)
    parts[:0] = [
        PAIRWISE_HELPERS,
        blocks_text(text),
        places_text(text),
        folds_text(text),
        simd_reductions_text(text),
        turns_text(text),
    ]
    made = "\n".join(parts) + "\n"
    names = [*(plan.name for plan in (*plans.values(), *undoing)), "npc_made" if given_out(schedule, undo) == 1 else "npc_run"]
    return profiled(f"{functions_text(made, loader().compiler)}{made}", graph.name, *names)


def comment(text: str) -> str:
    return "/*\n" + text.replace("*/", "* /") + "\n*/"


def literal_text(buffer: Buffer) -> str:
    data = ", ".join(map(str, buffer.data)) or "0"
    # Not constant, as far as the compiler knows: else it would know the elements (fp_barriers.py).
    array = f'__attribute__((visibility("hidden"), aligned(64))) unsigned char {buffer.name}_data[] = {{{data}}};'
    return f"{array}\n#define {buffer.name} ((const char*){buffer.name}_data)"


def print_entry(
    schedule: Schedule, runs: Sequence[Run], plans: Mapping[str, KernelPlan], undo: Undo, undoing: Sequence[KernelPlan]
) -> str:
    """The function of the unit: `runs`, and `undoing` after a floating-point error."""
    graph = schedule.graph
    given = given_out(schedule, undo)
    lines = [f"static {BEGIN}".format("npc_made") if given == 1 else BEGIN.format("npc_run")]
    lines[:0] = ["NPC_NOT_INLINED"] * PROFILERS.are_told
    if len(runs) + len(graph.outputs) + len(graph.inputs) > LONG:
        lines.insert(0, AS_WRITTEN)
    body: list[str] = ["PyObject* result = NULL;"]
    errors = sum(ERROR_BITS[c] for c in graph.checks)
    outputs = [b for b in schedule.buffers if b.kind == "output" and b.number < given]
    temporaries = [b for b in schedule.buffers if b.kind == "temporary" or (b.kind == "output" and b.number >= given)]
    boxed = {b.number: graph.metas[b.number].boxed for b in outputs}
    scratch, places = scratch_of(temporaries)
    if (size := scratch.get("small")) is not None and is_small(size):
        del scratch["small"]
        body.append(f"char small[{size}] __attribute__((aligned({LINE}))); /* scratch memory */")
    body += [f"char* {piece} = NULL;" for piece in scratch]
    if outputs:  # in memory: of hundreds of variables the compiler would follow each to the end from every call that may fail
        body.append(f"PyObject* objects[{len(outputs)}] = {{NULL}};")
    for k, name in enumerate(map(symbol_text, graph.symbols)):
        body.append(f"int64_t {name};")
        body.append(f"if (rt->as_int64(args[{len(graph.inputs) + k}], &{name})) return NULL;")
    for k, node in enumerate(graph.inputs):
        if node in schedule.memory:
            body.append(f"char* const x{k} = ((npc_array*)args[{k}])->data;")
        elif any(f"x{k}" in run.kernel.scalars for run in runs):
            body += read_scalar(k, node.dtype, len(graph.outputs) + k, node.meta.weak)
    failing = "{ rt->unwritten(); goto failed; }" if graph.writes else "goto failed;"
    for b in outputs:
        body += make_output(b.number, graph.metas[b.number], failing)
    copies = len(runs) - len(schedule.copies)  # these overwrite arguments, so they come after the report
    begun, copying = batches(runs[:copies]), batches(runs[copies:])
    calls = [print_call(plans[batch[0].kernel.name], batch, graph.symbols) for batch in (*begun, *copying)]
    held = held_during([*begun, *copying], scratch, {"small", *(b.name for b in undo.old)})
    written = {f"x{k}" for k, _ in graph.writes}
    writing = [k for k, batch in enumerate((*begun, *copying)) if any(writes_to(run, written) for run in batch)] or [len(calls)]
    begins = {piece: f"if (!({piece} = rt->scratch({size_text(size)} + 1))) {failing}" for piece, size in scratch.items()}
    body += [begin for piece, begin in begins.items() if piece not in held]
    body += [f"char* const {name} = small + {place};" for name, place in places.items()]
    if errors:
        body.append("rt->watch();")
    has_doubts = any(plan.rechecked for plan in plans.values())
    if has_doubts:
        body.append("int in_doubt = 0;")
    for k, call in enumerate(calls):
        if k == writing[0]:  # in between arguments are neither as they were nor as they will be
            call[:0] = ["rt->hold(1);"]
        if k == writing[-1]:
            call.append("rt->hold(0);")
        # Where memory is lacking nothing may have been written.
        call[:0] = [begins[piece] for piece, (first, _) in held.items() if min(first, writing[0]) == k]
        call += [f"rt->release({piece}); {piece} = NULL;" for piece, (_, last) in held.items() if last == k]
    for call in calls[: len(begun)]:
        body += call
    if errors:
        if has_doubts:
            body.append(
                f"if (in_doubt && {may_be_infinite(graph, [plan.kernel for plan in plans.values()])}) rt->note_invalid();"
            )
        names = {(n.op, short(n.dtype)) for n in graph.nodes}
        unseen = any(numpy_underflows(n.op, n.dtype) for n in graph.nodes)
        with_invalid = sum(ERROR_BITS[c] for c in ("divide", "over")) if names & HIDE_OTHER_ERRORS else 0
        body.append(f"if (rt->report({errors}, {with_invalid}, {ERROR_BITS['under'] if unseen else 0})) {{")
        body += [f"  char* const x{len(graph.inputs) + k} = {b.name};" for k, b in enumerate(undo.old)]
        for plan in undoing:  # an exception is set, so no thread may wait for signals meanwhile
            body += [f"  {line}" for line in print_call(plan, [Run(plan.kernel, {})], graph.symbols, on_one_thread=True)]
        body += ["  goto failed;", "}"]
    for call in calls[len(begun) :]:
        body += call
    for b in outputs:
        if not boxed[b.number]:
            body.append(f"if (!(objects[{b.number}] = rt->box(npc_dtypes[{b.number}], out{b.number}))) goto failed;")
    if given == 1:
        body += ["result = objects[0];", "objects[0] = NULL;"]
    else:
        body.append(f"if (!(result = rt->tuple({len(outputs)}))) goto failed;")
        if outputs:
            body.append(
                f"for (int k = 0; k < {len(outputs)}; k++) {{ rt->tuple_set(result, k, objects[k]); objects[k] = NULL; }}"
            )
    lines += [f"  {line}" for line in body]
    lines.append("failed:;")
    lines += ["  rt->hold(0);"] * bool(graph.writes)
    lines += [f"  rt->release({piece});" for piece in scratch]
    if outputs:
        lines.append(f"  for (int k = 0; k < {len(outputs)}; k++) if (objects[k]) rt->decref(objects[k]);")
    lines += ["  return result;", "}"]
    return "\n".join([*lines, *([TUPLE_OF_ITEM] if given == 1 else [])])


def given_out(schedule: Schedule, undo: Undo) -> int:
    """How many of the outputs callers get."""
    return len(schedule.graph.outputs) - undo.outputs


def held_during(batches: Sequence[Sequence[Run]], pieces: Iterable[str], throughout: Set[str]) -> dict[str, tuple[int, int]]:
    """The first and the last batch that each piece is for. Then it is given back, and the next piece is in the same memory."""
    found: dict[str, tuple[int, int]] = {}
    for k, batch in enumerate(batches):
        for name in {name for run in batch for name in memory_of(run, run.kernel.buffers)}:
            found[name] = found.get(name, (k, k))[0], k
    return {piece: found[piece] for piece in pieces if piece in found and piece not in throughout}


def scratch_of(temporaries: Sequence[Buffer]) -> tuple[dict[str, Size], dict[str, int]]:
    """Pieces of scratch memory to their bytes, and where small temporaries are in the piece that they share.

    Hundreds of calls that may fail would take the C compiler longer than all kernels.
    """
    pieces: dict[str, Size] = {}
    places: dict[str, int] = {}
    end = 0
    for b in temporaries:
        size = product(b.shape) * b.dtype.itemsize
        if is_small(size):
            assert isinstance(size, int)
            places[b.name] = end
            end += size // LINE * LINE + LINE  # one byte more at least, as elements may have none
        else:
            pieces[b.name] = size
    return pieces | ({"small": end} if end else {}), places


def read_scalar(k: int, dtype: np.dtype, constant: int, is_weak: bool) -> list[str]:
    reader = {"f8": ("double", "as_double"), "i8": ("int64_t", "as_int64")}.get(short(dtype)) if is_weak else None
    if reader:
        return [f"{reader[0]} x{k};", f"if (rt->{reader[1]}(args[{k}], &x{k})) return NULL;"]
    return [
        f"{memory_type(dtype)} x{k}_read;",
        f"if (rt->scalar_data(args[{k}], npc_dtypes[{constant}], &x{k}_read)) return NULL;",
        f"const {c_type(dtype)} x{k} = {loaded_text(f'x{k}_read', dtype)};",
    ]


def writes_to(run: Run, arguments: Set[str]) -> bool:
    """Does the kernel store in one of these?"""
    return not arguments.isdisjoint(memory_of(run, (name for name, is_written in run.kernel.buffers.items() if is_written)))


def memory_of(run: Run, buffers: Iterable[str]) -> list[str]:
    """Where some of the kernel's buffers are."""
    return [word for name in buffers for word in re.findall(r"\w+", run.given.get(name, name))]


def make_output(k: int, meta: TensorMeta, failing: str) -> list[str]:
    """The new array, or room for one element that becomes a NumPy scalar. `failing`: what is done where memory is lacking."""
    if not meta.boxed:
        return [f"char out{k}[16] __attribute__((aligned(16)));"]
    shape, strides = (", ".join(map(size_text, part)) or "0" for part in (meta.shape, dense_strides(meta)))
    return [
        f"int64_t out{k}_shape[] = {{{shape}}}, out{k}_strides[] = {{{strides}}};",
        f"if (!(objects[{k}] = rt->empty(npc_dtypes[{k}], {meta.ndim}, out{k}_shape, out{k}_strides))) {failing}",
        f"char* const out{k} = ((npc_array*)objects[{k}])->data;",
    ]
