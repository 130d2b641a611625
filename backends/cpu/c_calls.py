"""The statements of npc_run that run a kernel, as its plan says."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.c_blocks import blocks_call
from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_scan_slices import scan_call
from npcompile.backends.cpu.c_scatters import scatter_call
from npcompile.backends.cpu.c_sizes import context_fields, size_text
from npcompile.backends.cpu.c_tiles import slices_call
from npcompile.backends.cpu.kernel_plan import (
    COLUMN_BLOCK,
    ColumnBlocks,
    ElementBlocks,
    IndexTasks,
    InOrder,
    KernelPlan,
    ReduceChunks,
    ReduceHalves,
    RowBlocks,
    ScanSlices,
    ScatterSlices,
    Squares,
    Tasks,
    TileSlices,
    WrittenRow,
)
from npcompile.backends.cpu.planning import LEAST_FAR_WIDTH, LEAST_SLICE, LEAST_WIDTH
from npcompile.backends.cpu.product import MOST_ALONE
from npcompile.backends.cpu.shared_kernels import Run
from npcompile.tensor_core.meta import product

MOST_SLICES = 64
TO_BEGIN = 1 << 17  # products that take as long as one more loop on all threads


def print_call(plan: KernelPlan, runs: Sequence[Run], symbols: Sequence[str], *, on_one_thread: bool = False) -> list[str]:
    """Statements of npc_run that run a kernel, once for each of these; on one thread it keeps the GIL."""
    names = [n for _, n in context_fields(plan.kernel, symbols)]
    given = [", ".join(f".{n} = {run.given.get(n, n)}" for n in names) or "0" for run in runs]
    lines, end = ["{", f"  struct {plan.name}_context c = {{{given[0]}}};"], ["}"]
    if len(runs) > 1:
        lines = [
            "{",
            f"  const struct {plan.name}_context each[{len(runs)}] = {{",
            *(f"    {{{text}}}," for text in given),
            "  };",
        ]
        lines += [f"  for (int k = 0; k < {len(runs)}; k++) {{", f"  struct {plan.name}_context c = each[k];"]
        end = ["  }", "}"]
    inside = [*way_call(plan, on_one_thread=on_one_thread), *failures(plan)]
    return [*lines, *(f"  {line}" for line in inside), *end]


def way_call(plan: KernelPlan, *, on_one_thread: bool) -> list[str]:
    match plan.way:
        case InOrder():
            return [f"{plan.name}(&c, 0, 1, 0);"]
        case ReduceChunks() | ReduceHalves() as way:
            return chunks_call(plan, way)
        case TileSlices() as way:
            return slices_call(plan, way)
        case RowBlocks() as way:
            return blocks_call(plan.name, way)
        case ScatterSlices() as way:
            return scatter_call(plan.name, way)
        case ScanSlices() as way:
            return scan_call(plan.name, way)
        case _ as way:
            return tasks_call(plan, way, on_one_thread=on_one_thread)


def failures(plan: KernelPlan) -> list[str]:
    """What is done about what went wrong in the tasks."""
    lines = []
    if plan.kernel.can_fail:
        lines.append("if (c.failed == 1) { rt->index_error(c.bad_index, c.bad_axis, c.bad_size); goto failed; }")
    if plan.multiplies:
        lines.append("if (c.failed == 3) goto failed;")
    if plan.allocates:
        lines.append("if (c.failed == 2) { rt->scratch((int64_t)1 << 62); goto failed; } /* sets MemoryError */")
    if plan.rechecked:
        lines.append("in_doubt |= c.in_doubt;")
    return lines


# --- tasks over loops


def tasks_call(plan: KernelPlan, way: Tasks, *, on_one_thread: bool) -> list[str]:
    begin, tasks, elements = counted(plan, way)
    lines = [*begin, f"const int64_t tasks = {tasks}, grain = npc_max(1, (int64_t){plan.grain} / npc_max(1, {elements}));"]
    call = f"npc_in_pieces({plan.name}, &c, tasks, grain, grain / {plan.pieces})"
    if isinstance(way, IndexTasks) and way.multiplies:  # a few large ones are better made one after another
        if is_openblas():
            lines.append("const int64_t threads = rt->threads(), rounds = (tasks + threads - 1) / threads;")
            one_by_one = f"({elements} / threads + {TO_BEGIN}) * tasks < {elements} * rounds"
        else:
            one_by_one = f"{elements} > {MOST_ALONE}"
        call = f"rt->parallel({plan.name}, &c, tasks, {one_by_one} ? tasks : grain)"
    if on_one_thread:
        call = f"rt->parallel({plan.name}, &c, tasks, tasks)"
    if isinstance(way, ColumnBlocks) and way.is_sliced:
        lines.append(f"if ({call}) {{ rt->release(c.partial); goto failed; }}")
        lines += [f"{plan.name}_combine(&c);", "rt->release(c.partial);"]
    else:
        lines.append(f"if ({call}) goto failed;")
    if plan.kernel.can_fail:
        find = f"c.failed = 0; {plan.name}(&c, 0, tasks, 0);"
        lines.append(f"if (c.failed == 1 && tasks > grain) {{ /* find the first bad index */ {find} }}")
    return lines


def counted(plan: KernelPlan, way: Tasks) -> tuple[list[str], str, str]:
    """Statements that cut the loops in tasks, and in C how many there are and how many elements each has."""
    n = size_text(product([size for _, size in way.axes]))
    match way:
        case IndexTasks(written=WrittenRow(size, least, line, far)):
            row = size_text(size)
            is_far = f"{row} >= {least} && {row} % {line} == 0 && {n} * {row} >= {far}"
            return [f"c.is_far = {is_far};"], n, size_text(way.elements)
        case IndexTasks():
            return [], n, size_text(way.elements)
        case ColumnBlocks():
            return columns_counted(plan, way, n)
        case ElementBlocks():
            lines, tasks = blocks_lines(size_text(way.inner[1]), way.block), f"{n} * c.blocks"
            return [*lines, f"c.is_far = {tasks} * c.block_size >= {way.far};"], tasks, "c.block_size"
        case Squares():
            outer, block = size_text(way.outer[1]), way.block
            tasks, elements = f"{n} * c.blocks * c.slices", "c.block_size * c.slice_size"
            return (
                [
                    *blocks_lines(size_text(way.inner[1]), block),
                    f"c.slice_size = {outer} <= {2 * block} ? npc_max(1, {outer}) : {block};",
                    f"c.slices = ({outer} + c.slice_size - 1) / c.slice_size;",
                    f"c.is_far = {tasks} * {elements} >= {way.far};",
                ],
                tasks,
                elements,
            )


def blocks_lines(inner: str, block: int) -> list[str]:
    return [
        f"c.block_size = {inner} <= {2 * block} ? npc_max(1, {inner}) : {block};",
        f"c.blocks = ({inner} + c.block_size - 1) / c.block_size;",
    ]


def columns_counted(plan: KernelPlan, way: ColumnBlocks, n: str) -> tuple[list[str], str, str]:
    columns, elements, tasks = size_text(way.columns.size), size_text(way.elements), f"{n} * c.blocks"
    lines = [f"c.width = {COLUMN_BLOCK};"]
    if way.is_narrowed:
        width = f"npc_max(1, ({columns} + shared - 1) / shared) * least"
        lines += [
            f"c.is_far = {n} * {elements} >= {way.far};",
            f"const int64_t least = c.is_far ? {LEAST_FAR_WIDTH} : {LEAST_WIDTH}, shared = least * rt->threads();",
            f"if ({n} * {elements} >= {plan.grain}) c.width = npc_min(c.width, {width});",
        ]
    lines.append(f"c.blocks = ({columns} + c.width - 1) / c.width;")
    if not way.is_sliced:
        return lines, tasks, elements
    (_, size), *others = way.columns.loops
    outer, each = size_text(size), size_text(product([way.columns.size, *(n for _, n in others)]))
    lines += [
        f"c.slice_size = npc_max({LEAST_SLICE} / npc_max(1, {each}), ({outer} + {MOST_SLICES - 1}) / {MOST_SLICES});",
        "c.slice_size = npc_max(1, c.slice_size);",
        f"c.slices = npc_max(1, ({outer} + c.slice_size - 1) / c.slice_size);",
        f"if (!(c.partial = rt->scratch(c.slices * c.blocks * sizeof(struct {plan.name}_partial)))) goto failed;",
    ]
    return lines, f"{tasks} * c.slices", f"c.slice_size * {each}"


# --- whole reductions


def chunks_call(plan: KernelPlan, way: ReduceChunks | ReduceHalves) -> list[str]:
    name = plan.name
    call = f"npc_in_pieces({name}, &c, chunks, grain, grain / {plan.pieces})"
    return [
        *(halves_lines(plan, way) if isinstance(way, ReduceHalves) else chunks_lines(way)),
        f"struct {name}_partial alone, *partial = chunks > 1 ? rt->scratch(chunks * sizeof alone) : &alone;",
        "if (!(c.partial = (char*)partial)) goto failed;",
        f"const int64_t grain = npc_max(1, (int64_t){plan.grain} / npc_max(1, c.block_size * each));",
        f"const int is_stopped = {call};",
        f"if (!is_stopped) {name}_combine(&c, chunks);",
        "if (chunks > 1) rt->release(partial);",
        "if (is_stopped) goto failed;",
    ]


def chunks_lines(way: ReduceChunks) -> list[str]:
    """Statements that say how many chunks there are."""
    outer = size_text(way.loop.size) if way.loop else "1"
    return [
        f"const int64_t n = {outer}, each = npc_max(1, npc_floordiv({size_text(way.reduce.count)}, npc_max(1, n)));",
        f"c.block_size = npc_max(1, {way.chunk} / each);",
        "const int64_t chunks = (n + c.block_size - 1) / c.block_size;",
    ]


def halves_lines(plan: KernelPlan, way: ReduceHalves) -> list[str]:
    """The same of halves of halves of each run, until they are short enough."""
    p = Printer(plan, indent=0)
    p.run_lines(way.run)
    return [
        *p.lines,
        f"while (run == period && run >> c.halvings > {way.chunk}) c.halvings++;",
        "c.block_size = run >> c.halvings;",
        "const int64_t parts = (npc_max(1, period) + npc_max(1, run) - 1) / npc_max(1, run), each = 1;",
        f"const int64_t chunks = {size_text(way.reduce.count)} / npc_max(1, period) * parts << c.halvings;",
    ]
