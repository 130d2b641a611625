"""Tiles printed as C: a task is a slice of the axis, which goes tile by tile through all parts and leaves partial results.

A slice's results are a struct of those that are one number each, and after it an array for every accumulator of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_row_blocks import ROWS as SUMMED_ROWS
from npcompile.backends.cpu.c_row_blocks import block_condition, print_row_block
from npcompile.backends.cpu.c_sizes import context_fields, size_text
from npcompile.backends.cpu.kernel_plan import COLUMN_BLOCK, KernelPlan, RowSums, TilePart, TileSlices
from npcompile.backends.cpu.nan_recheck import noting_doubts
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.reducers import (
    combine_partial,
    combine_text,
    declare_total,
    identity_text,
    partial_fields,
    store_partial,
)
from npcompile.backends.kernels.kernel import Accumulator, Columns, Loop, Reduce, Statement

NEAR_TILE = 1 << 15  # bytes that a tile reads and writes: the first-level cache keeps them
TILE = 1 << 18  # the same where that would be few rows: the second-level cache of one processor keeps them
ROWS = 4  # added to columns at once
LEAST_SLICE = 32768  # elements
MOST_SLICES = 256
LEAST_ROWS = 16  # of a slice: its results take as much memory as one


def totals_of(parts: Sequence[TilePart]) -> list[Accumulator]:
    return [a for part in parts if isinstance(part.main, Reduce) for a in part.main.accumulators]


def columns_of(parts: Sequence[TilePart]) -> Iterator[tuple[Columns, Accumulator]]:
    for part in parts:
        if isinstance(part.main, Columns):
            yield from ((part.main, a) for a in part.main.accumulators)


def context_text(way: TileSlices) -> str:
    """Fields of the context: the bytes of one slice's results, and where in them the columns are."""
    places = "".join(f", at_{a.name}" for _, a in columns_of(way.parts))
    return f"  int64_t partial_size{places};"


def print_slices(p: Printer, way: TileSlices) -> None:
    """The body of the range function."""
    parts = way.parts
    p.open("for (int64_t task = begin; task < end; task++) {")
    p.line("const int64_t slice_first = task * c->slice_size;")
    p.line(f"const int64_t slice_end = npc_min(slice_first + c->slice_size, {size_text(way.tiles.size)});")
    p.line("char* const slice = c->partial + task * c->partial_size;")
    for part in parts:
        if isinstance(part.main, Reduce):
            p.declare(part.main, p.plan.reduces[part.main])
            p.accumulate_nowhere()
    for columns, a in columns_of(parts):
        p.line(f"{c_type(a.dtype)}* const {a.name}_total = ({c_type(a.dtype)}*)(slice + c->at_{a.name});")
        p.line(f"for (int64_t lane = 0; lane < {size_text(columns.size)}; lane++) {a.name}_total[lane] = {identity_text(a)};")
    p.open("for (int64_t tile_first = slice_first; tile_first < slice_end; tile_first += c->block_size) {")
    p.line("const int64_t tile_end = npc_min(tile_first + c->block_size, slice_end);")
    for part in parts:
        p.open("{")
        p.statements(part.before)
        print_part(p, part)
        p.close()
    p.close()
    p.line(f"struct {p.plan.name}_partial* const partial = (struct {p.plan.name}_partial*)slice;")
    for part in parts:
        if isinstance(part.main, Reduce):
            p.accumulate_in_lanes(part.main, p.plan.reduces[part.main])
            for a in part.main.accumulators:
                p.combine_lanes(a)
                p.line(store_partial(a))
            p.accumulate_nowhere()
    p.close()


def print_part(p: Printer, part: TilePart) -> None:
    """What the part does to a tile."""
    p.limits = {part.axis: ("tile_first", "tile_end")}
    match part.main:
        case Reduce():
            p.accumulate_in_lanes(part.main, p.plan.reduces[part.main])
            p.statements(part.main.body)
        case Columns():
            p.open(
                f"for (int64_t column_block = 0; column_block * {COLUMN_BLOCK} < {size_text(part.main.size)}; column_block++) {{"
            )
            p.column_block(part.main, ROWS)
            for a in part.main.accumulators:
                total = f"{a.name}_total[first + lane]"
                combined = combine_text(a.reducer, total, f"{a.name}[lane]", a.dtype)
                p.line(f"for (int64_t lane = 0; lane < lanes; lane++) {total} = {combined};")
            p.close()
        case Loop(body=body) if part.row_sums:
            print_rows(p, part.axis, part.row_sums, body)
        case _:
            p.statement(part.main)
    p.accumulate_nowhere()


def print_rows(p: Printer, axis: str, rows: RowSums, body: Sequence[Statement]) -> None:
    """Sums along the rows of a tile, several rows at a time."""
    p.line(f"int64_t {axis} = tile_first;")
    p.open(f"for (; {block_condition(axis, 'tile_end', rows)}; {axis} += {SUMMED_ROWS}) {{")
    print_row_block(p, axis, rows)
    p.close()
    p.open(f"for (; {axis} < tile_end; {axis}++) {{")
    p.statements(body)
    p.close()


def print_slices_combine(plan: KernelPlan, way: TileSlices, symbols: Sequence[str]) -> str:
    """The function that combines the slices, in order, and stores the results."""
    p = Printer(plan, is_combining=True)
    for t, n in context_fields(plan.kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    for part in way.parts:
        if part.is_combined:
            p.open("{")
            p.statements(part.before)
            combine_part(p, part)
            p.close()
    head = f"static void {plan.name}_combine(struct {plan.name}_context* c) {{"
    return "\n".join([head, *noting_doubts(plan.rechecked, p.lines), "}"])


def combine_part(p: Printer, part: TilePart) -> None:
    name = p.plan.name
    match part.main:
        case Reduce(accumulators, count):
            for a in accumulators:
                p.line(declare_total(a))
            p.open("for (int64_t slice = 0; slice < c->slices; slice++) {")
            p.line(
                f"const struct {name}_partial* const partial = (struct {name}_partial*)(c->partial + slice * c->partial_size);"
            )
            for a in accumulators:
                p.line(combine_partial(a))
            p.close()
            for a in accumulators:
                p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {p.result_text(a, count)};")
                p.note_doubt(a)
            p.statements(part.after)
        case Columns(size=size, accumulators=accumulators):
            p.line(f"const int64_t first = 0, lanes = {size_text(size)};")
            for a in accumulators:
                c = c_type(a.dtype)
                p.line(f"{c}* const {a.name} = ({c}*)(c->partial + c->at_{a.name});")
                p.open("for (int64_t slice = 1; slice < c->slices; slice++) {")
                p.line(f"const {c}* const other = ({c}*)(c->partial + slice * c->partial_size + c->at_{a.name});")
                combined = combine_text(a.reducer, f"{a.name}[lane]", "other[lane]", a.dtype)
                p.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {combined};")
                p.close()
            p.finish_columns(part.main)


def slices_struct(name: str, way: TileSlices) -> str:
    fields = " ".join(partial_fields(a) for a in totals_of(way.parts))
    return f"struct {name}_partial {{ {fields} }};"


def slices_call(plan: KernelPlan, way: TileSlices) -> list[str]:
    """Statements that run the kernel with the context `c`."""
    name, tiles = plan.name, way.tiles
    lines = [
        f"const int64_t n = {size_text(tiles.size)}, each = npc_max(1, {size_text(tiles.elements)});",
        f"const int64_t bytes = npc_max(1, {size_text(tiles.bytes)}), rows = {NEAR_TILE} / bytes;",
        f"c.block_size = rows < 64 ? npc_min(64, npc_max(8, {TILE} / bytes)) : rows / 64 * 64; /* full vectors of results */",
        f"c.slice_size = npc_max({LEAST_SLICE} / each, (n + {MOST_SLICES - 1}) / {MOST_SLICES});",
        f"c.slice_size = npc_max({LEAST_ROWS}, c.slice_size);",
        "c.slice_size = (c.slice_size + c.block_size - 1) / c.block_size * c.block_size;",
        "c.slices = npc_max(1, (n + c.slice_size - 1) / c.slice_size);",
        f"c.partial_size = (sizeof(struct {name}_partial) + 63) / 64 * 64;",
    ]
    for columns, a in columns_of(way.parts):
        lines.append(f"c.at_{a.name} = c.partial_size;")
        lines.append(f"c.partial_size += ({size_text(columns.size)} * sizeof({c_type(a.dtype)}) + 63) / 64 * 64;")
    lines.append("if (!(c.partial = rt->scratch(c.slices * c.partial_size + 1))) goto failed;")
    grain = f"npc_max(1, (int64_t){plan.grain} / (c.slice_size * each))"
    lines.append(f"if (rt->parallel({name}, &c, c.slices, {grain})) {{ rt->release(c.partial); goto failed; }}")
    return [*lines, f"{name}_combine(&c);", "rt->release(c.partial);"]
