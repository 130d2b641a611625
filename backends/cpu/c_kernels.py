"""Kernels printed as C, as their plans say: each a range function over its tasks, and what combines their partial results."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.c_blocks import OWN, own_bytes, print_blocks
from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_row_blocks import ROWS, block_condition, print_row_block
from npcompile.backends.cpu.c_scan_slices import print_scan_slices
from npcompile.backends.cpu.c_scatters import print_scatter_combine, print_scatter_slices
from npcompile.backends.cpu.c_sizes import context_fields, size_text
from npcompile.backends.cpu.c_squares import print_square
from npcompile.backends.cpu.c_tiles import context_text, print_slices, print_slices_combine, slices_struct
from npcompile.backends.cpu.kernel_plan import (
    COLUMN_BLOCK,
    Axis,
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
    TileSlices,
    is_small,
)
from npcompile.backends.cpu.nan_recheck import noting_doubts
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.reducers import combine_partial, combine_text, declare_total, ending, partial_fields, store_partial
from npcompile.backends.cpu.transpose_tiling import LINE
from npcompile.backends.kernels.kernel import Accumulator


def print_kernel(plan: KernelPlan, symbols: Sequence[str]) -> list[str]:
    """The functions of a kernel: the one over its tasks, and one that combines these where that is needed."""
    functions = [print_range_function(plan, symbols)]
    match plan.way:
        case ReduceChunks() | ReduceHalves() as way:
            functions.append(print_combine(plan, way, symbols))
        case TileSlices() as way:
            functions.append(print_slices_combine(plan, way, symbols))
        case ScatterSlices() as way:
            functions.append(print_scatter_combine(plan, way, symbols))
        case ColumnBlocks(is_sliced=True) as way:
            functions.append(print_columns_combine(plan, way, symbols))
    return functions


def print_range_function(plan: KernelPlan, symbols: Sequence[str]) -> str:
    fields = context_fields(plan.kernel, symbols)
    lines = [*print_structs(plan, fields)]
    # A function of its own: the compiler may not move its operations past what asks for their errors, nor leave them out.
    lines.append(f"NPC_NOT_INLINED static void {plan.name}(void* context, int64_t begin, int64_t end, int thread) {{")
    lines.append(f"  struct {plan.name}_context* c = context;")
    for t, n in fields:
        restrict = "restrict " if t == "char*" and plan.kernel.buffers[n] and not n.startswith("x") else ""
        lines.append(f"  {t}{' const' if t != 'char*' else ''} {restrict}{n} = c->{n};")
    lines += [f"  char {name}[{size} + 1] __attribute__((aligned({LINE})));" for name, size in plan.scratch if is_small(size)]
    scratch = {name: size_text(size) for name, size in plan.scratch if not is_small(size)}
    scratch |= {OWN: own_bytes(plan.way.blocks)} if isinstance(plan.way, RowBlocks) and plan.way.blocks.own else {}
    for name, size in scratch.items():
        lines.append(f"  char* {name} = rt->scratch({size} + 1);")
    for name in scratch:
        lines.append(f"  if (!{name}) {{ NPC_TELL(c->failed, 2); goto done; }}")
    printer = Printer(plan)
    print_body(printer)
    lines += noting_doubts(plan.rechecked, printer.lines, in_fours=printer.in_fours)
    lines.append("done:;")
    if any(form.is_past_caches for form in plan.values.vectors.values()):
        lines += ["#if defined NPC_VECTORS8", "  if (c->is_far) __builtin_ia32_sfence();", "#endif"]
    lines += [f"  rt->release({name});" for name in scratch]
    lines.append("}")
    return "\n".join(lines)


def print_structs(plan: KernelPlan, fields: Sequence[tuple[str, str]]) -> list[str]:
    """What the range function is given, and what a task leaves."""
    more: list[str] = []
    partial: list[str] = []
    match plan.way:
        case TileSlices() as way:
            more, partial = [context_text(way)], [slices_struct(plan.name, way)]
        case RowBlocks():
            more = ["  int is_alone;"]
        case ReduceChunks(reduce=reduce) | ReduceHalves(reduce=reduce):
            partial = [f"struct {plan.name}_partial {{ {' '.join(map(partial_fields, reduce.accumulators))} }};"]
        case ColumnBlocks(columns=columns, is_sliced=True):
            kept = " ".join(f"{c_type(a.dtype)} {a.name}[{COLUMN_BLOCK}];" for a in columns.accumulators)
            partial = [f"struct {plan.name}_partial {{ {kept} }};"]
    return [
        f"struct {plan.name}_context {{",
        *(f"  {t} {n};" for t, n in fields),
        "  int64_t blocks, block_size, slices, slice_size, halvings, width, between, bad_index, bad_size;",
        "  char* partial;",
        f"  int bad_axis, failed, is_far{', in_doubt' if plan.rechecked else ''};",
        *more,
        "};",
        *partial,
    ]


def print_body(p: Printer) -> None:
    match p.plan.way:
        case InOrder(body):
            open_tasks(p, [])
            p.statements(body)
            close_tasks(p, [])
        case ElementBlocks() | Squares() as way:
            print_elements(p, way)
        case ColumnBlocks() as way:
            print_columns(p, way)
        case IndexTasks() as way:
            print_indices(p, way)
        case ReduceChunks() | ReduceHalves() as way:
            print_chunk(p, way)
        case TileSlices() as way:
            print_slices(p, way)
        case RowBlocks(blocks):
            print_blocks(p, blocks)
        case ScatterSlices() as way:
            print_scatter_slices(p, way)
        case ScanSlices() as way:
            print_scan_slices(p, way)


# --- tasks over loops

Counter = tuple[str, str]  # a C variable, and how many values it has


def counters_of(axes: Sequence[Axis]) -> list[Counter]:
    return [(axis, size_text(size)) for axis, size in axes]


def open_tasks(p: Printer, counters: Sequence[Counter], step: str = "1") -> None:
    """The loop over tasks, of which each is one value of all counters, the last ones first."""
    if counters:
        p.line("int64_t rest = begin;")
    for axis, count in reversed(counters):
        p.line(f"int64_t {axis} = rest % ({count});")
        p.line(f"rest /= {count};")
    p.open(f"for (int64_t task = begin{f', {step} = 1' if step != '1' else ''}; task < end; task += {step}) {{")


def close_tasks(p: Printer, counters: Sequence[Counter], step: str = "1") -> None:
    """To the next task."""
    for k, (axis, count) in enumerate(reversed(counters)):
        by = step if k == 0 else "1"
        if k == len(counters) - 1:
            p.line(f"{axis} += {by};")
        else:
            p.open(f"if (({axis} += {by}) == {count}) {{")
            p.line(f"{axis} = 0;")
    for _ in counters[1:]:
        p.close()
    p.close()


def print_elements(p: Printer, way: ElementBlocks | Squares) -> None:
    axis, n = way.inner[0], size_text(way.inner[1])
    if isinstance(way, ElementBlocks) and not way.axes:  # all blocks of a call as one
        p.line(f"const int64_t first = begin * c->block_size, last = npc_min(end * c->block_size, {n});")
        p.limits[axis] = ("first", "last")
        return p.statements(way.body)
    counters = [*counters_of(way.axes), ("inner_block", "c->blocks")]
    if isinstance(way, Squares):
        counters.append(("outer_block", "c->slices"))
    open_tasks(p, counters)
    p.line(f"const int64_t first_{axis} = inner_block * c->block_size, end_{axis} = npc_min(first_{axis} + c->block_size, {n});")
    p.limits[axis] = (f"first_{axis}", f"end_{axis}")
    if isinstance(way, Squares):
        print_square(p, way)
    else:
        p.statements(way.body)
    close_tasks(p, counters)


def print_columns(p: Printer, way: ColumnBlocks) -> None:
    counters = counters_of(way.axes)
    if way.is_sliced:
        counters.append(("slice", "c->slices"))
        p.partial = f"struct {p.plan.name}_partial"
    counters.append(("column_block", "c->blocks"))
    p.width = "c->width" if way.is_narrowed else p.width
    open_tasks(p, counters)
    p.statements(way.body)
    close_tasks(p, counters)


def print_indices(p: Printer, way: IndexTasks) -> None:
    counters = counters_of(way.axes)
    step = "step" if way.row_sums else "1"
    open_tasks(p, counters, step)
    if way.row_sums:
        axis, count = counters[-1]
        p.open(f"if (task + {ROWS} <= end && {block_condition(axis, count, way.row_sums)}) {{")
        print_row_block(p, axis, way.row_sums)
        p.line(f"step = {ROWS};")
        p.close()
        p.open("else {")
        p.statements(way.body)
        p.line("step = 1;")
        p.close()
    else:
        p.statements(way.body)
    close_tasks(p, counters, step)


def print_columns_combine(plan: KernelPlan, way: ColumnBlocks, symbols: Sequence[str]) -> str:
    """The function that combines the slices, in order, and stores the results."""
    p, s, name = Printer(plan, is_combining=True), way.columns, plan.name
    p.lane, p.accumulators = "lane", {a.name: a for a in s.accumulators}
    for t, n in context_fields(plan.kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    p.statements(way.body[:-1])
    p.open("for (int64_t column_block = 0; column_block < c->blocks; column_block++) {")
    p.line(f"const int64_t first = column_block * {COLUMN_BLOCK}, lanes = npc_min({COLUMN_BLOCK}, {size_text(s.size)} - first);")
    p.line(f"struct {name}_partial* partial = (struct {name}_partial*)c->partial + column_block;")
    for a in s.accumulators:
        p.line(f"{c_type(a.dtype)}* const {a.name} = partial->{a.name};")
    p.open("for (int64_t slice = 1; slice < c->slices; slice++) {")
    p.line(f"const struct {name}_partial* const other = partial + slice * c->blocks;")
    for a in s.accumulators:
        combined = combine_text(a.reducer, f"{a.name}[lane]", f"other->{a.name}[lane]", a.dtype)
        p.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {combined};")
    p.close()
    p.finish_columns(s)
    p.close()
    head = f"static void {name}_combine(struct {name}_context* c) {{"
    return "\n".join([head, *noting_doubts(plan.rechecked, p.lines), "}"])


# --- whole reductions: chunks, then their partial results


def print_chunk(p: Printer, way: ReduceChunks | ReduceHalves) -> None:
    reduce, name = way.reduce, p.plan.name
    p.statements(way.before)
    if isinstance(way, ReduceHalves):
        p.run_lines(way.run)
    p.open("for (int64_t task = begin; task < end; task++) {")
    p.declare(reduce, p.plan.reduces[reduce])
    if isinstance(way, ReduceHalves):
        p.sum_up_part(reduce.body)
    else:
        if way.loop is not None:
            p.line(
                "const int64_t chunk_first = task * c->block_size, "
                f"chunk_end = npc_min(chunk_first + c->block_size, {size_text(way.loop.size)});"
            )
            p.limits[way.loop.axis] = ("chunk_first", "chunk_end")
        p.statements(reduce.body)
    p.line(f"struct {name}_partial* partial = (struct {name}_partial*)c->partial + task;")
    for a in reduce.accumulators:
        p.combine_lanes(a)
        p.line(store_partial(a))
    p.close()


def combine_parts(p: Printer, accumulators: Sequence[Accumulator]) -> None:
    """Those of a run, in pairs, into the first."""
    p.open("for (int64_t parts = ((int64_t)1 << c->halvings) / 2; parts; parts /= 2) {")
    p.open("for (int64_t part = 0; part < parts; part++) {")
    for a in accumulators:
        left, right = (f"partial[2 * part{more}].{a.name}" for more in ("", " + 1"))
        p.line(f"partial[part].{a.name} = {combine_text(a.reducer, left, right, a.dtype)};")
    p.close()
    p.close()


def print_combine(plan: KernelPlan, way: ReduceChunks | ReduceHalves, symbols: Sequence[str]) -> str:
    """The function that combines the chunks, in order, and stores the results."""
    p, reduce, name = Printer(plan, is_combining=True), way.reduce, plan.name
    p.accumulators = {a.name: a for a in reduce.accumulators}
    for t, n in context_fields(plan.kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    for a in reduce.accumulators:
        p.line(declare_total(a))
    p.open("for (int64_t k = 0; k < chunks; k += (int64_t)1 << c->halvings) {")
    p.line(f"struct {name}_partial* partial = (struct {name}_partial*)c->partial + k;")
    if isinstance(way, ReduceHalves):
        combine_parts(p, reduce.accumulators)
    for a in reduce.accumulators:
        p.line(combine_partial(a))
    p.close()
    p.endings = {a.name: ending(a) for a in reduce.accumulators}
    for a in reduce.accumulators:
        p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {p.result_text(a, reduce.count)};")
        p.note_doubt(a)
    p.statements(way.after)
    head = f"static void {name}_combine(struct {name}_context* c, int64_t chunks) {{"
    return "\n".join([head, *noting_doubts(plan.rechecked, p.lines), "}"])
