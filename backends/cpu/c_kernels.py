"""Kernels printed as C: each a range function over its tasks, and what combines the partial results of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npcompile.backends.cpu.c_blocks import OWN, blocks_of, own_bytes, print_blocks
from npcompile.backends.cpu.c_printer import COLUMN_BLOCK, Printer, is_unrolled
from npcompile.backends.cpu.c_sizes import context_fields, product_of, size_text
from npcompile.backends.cpu.c_tiles import context_text, print_slices, slices_struct, tiles_of
from npcompile.backends.cpu.doubts import doubted, noting_doubts
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.reducers import (
    combine_partial,
    combine_text,
    declare_total,
    ending,
    is_pairwise,
    is_position,
    partial_fields,
    store_partial,
)
from npcompile.backends.cpu.row_blocks import ROWS, block_condition, print_row_block, sums_rows
from npcompile.backends.cpu.scatters import print_sliced_scatter, sliced_scatter
from npcompile.backends.cpu.sliced_scans import print_scan_slices, sliced_scan
from npcompile.backends.cpu.squares import Square, print_square, square_of
from npcompile.backends.kernels.kernel import (
    Accumulator,
    Columns,
    Kernel,
    Loop,
    Product,
    Reduce,
    Run,
    Scan,
    ScratchRow,
    Statement,
    children,
    walk,
)
from npcompile.tensor_core.dim import Size, hint_of

FEW_COLUMNS = 4096  # with so few, a reduction over leading axes is cut along these too
MOST_BEFORE = 8  # statements outside of the innermost loop, which squares compute again
LEAST_SLICE = 32768  # elements of such a part
LEAST_WIDTH = 16  # columns of a block


@dataclass(slots=True)
class Tasks:
    """The loops of a kernel that are cut in tasks, outermost first, and what is done in a task."""

    axes: list[tuple[str, Size]]
    body: list[Statement]  # of a task: statements between the loops come first
    block: tuple[str, Size] | None = None  # the innermost loop, when it is cut in blocks too
    columns: Size | None = None  # the column axis of a Columns
    square: Square | None = None


def tasks_of(kernel: Kernel) -> Tasks:
    axes: list[tuple[str, Size]] = []
    before: list[Statement] = []
    body = kernel.body
    while not kernel.is_serial and not kernel.is_whole and body and isinstance(body[-1], Loop):
        loop = body[-1]
        if any(children(s) for s in body[:-1]) or loop.is_parallel != is_map(kernel):
            break
        inner = loop.body
        before += body[:-1]
        if loop.is_parallel and not any(isinstance(s, Loop) for s in inner):
            square = None if len(before) > MOST_BEFORE else square_of(axes, loop.axis, [*before, loop])
            if square:
                axes.remove((square.axis, square.size))
            return Tasks(axes, [*before, loop], (loop.axis, loop.size), square=square)
        axes.append((loop.axis, loop.size))
        body = inner
    columns = next((s.size for s in body if isinstance(s, Columns)), None)
    return Tasks(axes, [*before, *body], None, columns)


def is_split(tasks: Tasks) -> bool:
    """Are there fewer columns in a block where that keeps more threads busy? Sums in NumPy's order cannot be cut along rows."""
    columns = next((s for s in tasks.body if isinstance(s, Columns)), None)
    if columns is None or is_unrolled(columns) or hint_of(columns.size) < 2 * LEAST_WIDTH:
        return False
    return any(a.is_numpys for a in columns.accumulators)


def is_map(kernel: Kernel) -> bool:
    """Nothing but parallel loops."""
    return all(s.is_parallel for s in walk(kernel.body) if isinstance(s, Loop)) and not any(
        isinstance(s, (Reduce, Columns, Scan, Product)) for s in walk(kernel.body)
    )


def print_kernel(kernel: Kernel, symbols: Sequence[str]) -> str:
    tiles, blocks = tiles_of(kernel), blocks_of(kernel)
    printer = Printer(kernel)
    fields = context_fields(kernel, symbols)
    lines = [f"struct {kernel.name}_context {{", *(f"  {t} {n};" for t, n in fields)]
    lines += [
        "  int64_t blocks, block_size, slices, slice_size, halvings, width, between, bad_index, bad_size;",
        "  char* partial;",
        f"  int bad_axis, failed, is_far{', in_doubt' if doubted(kernel) else ''};",
        *([context_text(tiles)] if tiles else []),
        *(["  int is_alone;"] if blocks else []),
        "};",
    ]
    sliced = sliced_columns(kernel)
    if tiles:
        lines.append(slices_struct(kernel, tiles))
    if kernel.is_whole:
        lines += partial_struct(kernel)
    if sliced:
        fields_of_partial = " ".join(f"{c_type(a.dtype)} {a.name}[{COLUMN_BLOCK}];" for a in sliced.accumulators)
        lines.append(f"struct {kernel.name}_partial {{ {fields_of_partial} }};")
        printer.partial = f"struct {kernel.name}_partial"
    lines.append(f"static void {kernel.name}(void* context, int64_t begin, int64_t end, int thread) {{")
    lines.append(f"  struct {kernel.name}_context* c = context;")
    for t, n in fields:
        restrict = "restrict " if t == "char*" and kernel.buffers[n] and not n.startswith("x") else ""
        lines.append(f"  {t}{' const' if t != 'char*' else ''} {restrict}{n} = c->{n};")
    scratch = {s.buffer: size_text(s.bytes) for s in walk(kernel.body) if isinstance(s, ScratchRow)}
    scratch |= {OWN: own_bytes(blocks)} if blocks and blocks.own else {}
    for name, size in scratch.items():
        lines.append(f"  char* {name} = rt->scratch({size} + 1);")
    for name in scratch:
        lines.append(f"  if (!{name}) {{ NPC_TELL(c->failed, 2); goto done; }}")
    if kernel.is_whole:
        print_chunk(printer, kernel)
    elif tiles:
        print_slices(printer, tiles)
    elif blocks:
        print_blocks(printer, blocks)
    elif scattered := sliced_scatter(kernel):
        print_sliced_scatter(printer, kernel, scattered)
    elif scan := sliced_scan(kernel):
        print_scan_slices(printer, kernel, scan)
    else:
        print_tasks(printer, tasks_of(kernel))
    lines += noting_doubts(kernel, printer.lines)
    lines.append("done:;")
    lines += [f"  rt->release({name});" for name in scratch]
    lines.append("}")
    return "\n".join(lines)


def print_tasks(p: Printer, tasks: Tasks) -> None:
    if tasks.block and not tasks.axes and not tasks.square:  # all blocks of a call as one
        axis, size = tasks.block
        p.line(f"const int64_t first = begin * c->block_size, last = npc_min(end * c->block_size, {size_text(size)});")
        p.limits[axis] = ("first", "last")
        return p.statements(tasks.body)
    counters = [(axis, size_text(size)) for axis, size in tasks.axes]
    if tasks.block:
        counters.append(("inner_block", "c->blocks"))
    if tasks.square:
        counters.append(("outer_block", "c->slices"))
    if p.partial:
        counters.append(("slice", "c->slices"))
    if tasks.columns is not None:
        counters.append(("column_block", "c->blocks"))
        p.width = "c->width" if is_split(tasks) else p.width
    if counters:
        p.line("int64_t rest = begin;")
    for axis, count in reversed(counters):
        p.line(f"int64_t {axis} = rest % ({count});")
        p.line(f"rest /= {count};")
    in_blocks = bool(tasks.axes and counters[-1][0] == tasks.axes[-1][0] and sums_rows(p.kernel, tasks.body))
    step = "step" if in_blocks else "1"
    p.open(f"for (int64_t task = begin{', step = 1' if in_blocks else ''}; task < end; task += {step}) {{")
    if tasks.block:
        axis, size = tasks.block
        n = size_text(size)
        p.line(
            f"const int64_t first_{axis} = inner_block * c->block_size, end_{axis} = npc_min(first_{axis} + c->block_size, {n});"
        )
        p.limits[axis] = (f"first_{axis}", f"end_{axis}")
    if tasks.square:
        assert tasks.block
        print_square(p, tasks.square, *tasks.block, tasks.body)
    elif in_blocks:
        axis, count = counters[-1]
        p.open(f"if (task + {ROWS} <= end && {block_condition(axis, count, tasks.body)}) {{")
        print_row_block(p, axis, tasks.body)
        p.line(f"step = {ROWS};")
        p.close()
        p.open("else {")
        p.statements(tasks.body)
        p.line("step = 1;")
        p.close()
    else:
        p.statements(tasks.body)
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


# --- reductions over leading axes: slices of the outermost, then their partial results


def sliced_columns(kernel: Kernel) -> Columns | None:
    """The Columns of a kernel that has too few columns to keep the threads busy with."""
    made = kernel.body[-1] if kernel.body else None
    if not isinstance(made, Columns) or not made.loops or made.is_running or is_unrolled(made) or kernel.can_fail:
        return None
    if any(is_position(a) or a.is_ordered or a.is_numpys for a in made.accumulators):
        return None
    elements = hint_of(product_of([made.size, *(n for _, n in made.loops)]))
    return made if hint_of(made.size) <= FEW_COLUMNS and elements >= 4 * LEAST_SLICE else None


def print_columns_combine(kernel: Kernel, s: Columns, symbols: Sequence[str]) -> str:
    """The function that combines the slices, in order, and stores the results."""
    p = Printer(kernel)
    p.lanes, p.lane, p.accumulators = COLUMN_BLOCK, "lane", {a.name: a for a in s.accumulators}
    for t, n in context_fields(kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    p.statements(kernel.body[:-1])
    p.open("for (int64_t column_block = 0; column_block < c->blocks; column_block++) {")
    p.line(f"const int64_t first = column_block * {COLUMN_BLOCK}, lanes = npc_min({COLUMN_BLOCK}, {size_text(s.size)} - first);")
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + column_block;")
    for a in s.accumulators:
        p.line(f"{c_type(a.dtype)}* const {a.name} = partial->{a.name};")
    p.open("for (int64_t slice = 1; slice < c->slices; slice++) {")
    p.line(f"const struct {kernel.name}_partial* const other = partial + slice * c->blocks;")
    for a in s.accumulators:
        combined = combine_text(a.reducer, f"{a.name}[lane]", f"other->{a.name}[lane]", a.dtype)
        p.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {combined};")
    p.close()
    p.finish_columns(s)
    p.close()
    head = f"static void {kernel.name}_combine(struct {kernel.name}_context* c) {{"
    return "\n".join([head, *noting_doubts(kernel, p.lines), "}"])


# --- whole reductions: chunks, then their partial results


def whole_reduce(kernel: Kernel) -> tuple[Reduce, list[Statement], list[Statement]]:
    """The Reduce of a whole kernel, what comes before it and what comes after."""
    at = next(k for k, s in enumerate(kernel.body) if isinstance(s, Reduce))
    reduce = kernel.body[at]
    assert isinstance(reduce, Reduce)
    return reduce, kernel.body[:at], kernel.body[at + 1 :]


def outermost(reduce: Reduce) -> Loop | None:
    return next((s for s in reduce.body if isinstance(s, Loop)), None)


def partial_struct(kernel: Kernel) -> list[str]:
    reduce, _, _ = whole_reduce(kernel)
    return [f"struct {kernel.name}_partial {{ {' '.join(map(partial_fields, reduce.accumulators))} }};"]


def is_in_parts(reduce: Reduce) -> bool:
    """Are the tasks halves of halves of runs, so that sums are NumPy's?"""
    return any(map(is_pairwise, reduce.accumulators)) and outermost(reduce) is not None


def run_in(reduce: Reduce) -> Run:
    return reduce.run or Run(((reduce.count, 1, True),))


def print_chunk(p: Printer, kernel: Kernel) -> None:
    reduce, before, _ = whole_reduce(kernel)
    p.statements(before)
    if is_in_parts(reduce):
        p.run_lines(run_in(reduce))
    p.open("for (int64_t task = begin; task < end; task++) {")
    loop = outermost(reduce)
    p.declare(reduce)
    if is_in_parts(reduce):
        p.sum_up_part(reduce.body)
    else:
        if loop is not None:
            p.line(
                "const int64_t chunk_first = task * c->block_size, "
                f"chunk_end = npc_min(chunk_first + c->block_size, {size_text(loop.size)});"
            )
            p.limits[loop.axis] = ("chunk_first", "chunk_end")
        p.statements(reduce.body)
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + task;")
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


def print_combine(kernel: Kernel, symbols: Sequence[str]) -> str:
    """The function that combines the chunks, in order, and stores the results."""
    reduce, _, after = whole_reduce(kernel)
    p = Printer(kernel)
    p.lanes, p.accumulators = 1, {a.name: a for a in reduce.accumulators}
    for t, n in context_fields(kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    for a in reduce.accumulators:
        p.line(declare_total(a))
    p.open("for (int64_t k = 0; k < chunks; k += (int64_t)1 << c->halvings) {")
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + k;")
    if is_in_parts(reduce):
        combine_parts(p, reduce.accumulators)
    for a in reduce.accumulators:
        p.line(combine_partial(a))
    p.close()
    p.endings = {a.name: ending(a) for a in reduce.accumulators}
    for a in reduce.accumulators:
        p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {p.result_text(a, reduce.count)};")
        p.note_doubt(a)
    p.statements(after)
    head = f"static void {kernel.name}_combine(struct {kernel.name}_context* c, int64_t chunks) {{"
    return "\n".join([head, *noting_doubts(kernel, p.lines), "}"])
