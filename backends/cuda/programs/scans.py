"""Running combinations printed as Triton."""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.backends.cuda.programs.combine import Combine
from npcompile.backends.cuda.programs.primitives import full
from npcompile.backends.cuda.programs.printer import Context, Nest, finished, masks, nest_of
from npcompile.backends.cuda.programs.program import NotPrintable, Program
from npcompile.backends.cuda.programs.reductions import (
    AXIS,
    begin_block,
    element_states,
    load_parts,
    print_blocks,
    reduce_block,
    store_parts,
)
from npcompile.backends.cuda.programs.tile_printer import BOTH, COLUMN, NONE, ROW, Deps, Writer
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import Accumulate, Accumulator, Kernel, Scan, Statement, Store, children


@dataclass(frozen=True, slots=True)
class Scanned:
    """The loops around a scan, what is done before it for each of their indices, and the loops that it goes along."""

    outer: Nest
    before: list[Statement]
    scan: Scan
    nest: Nest

    @property
    def is_along_memory(self) -> bool:
        """Are the results side by side along its axis?"""
        ((axis, _),) = self.nest.axes
        for s in self.nest.body:
            if isinstance(s, Store):
                linear = split_linear(s.offset, axis)
                return linear is not None and is_number(linear[0], s.value.dtype.itemsize)
        return False


def scan_of(kernel: Kernel) -> Scanned:
    outer = nest_of(kernel.body, is_parallel=False)
    *before, scan = outer.body
    if not isinstance(scan, Scan) or any(children(s) for s in before):
        raise NotPrintable(kernel.name)
    return Scanned(outer, [*outer.before, *before], scan, nest_of(scan.body))


def print_scan_in_order(context: Context, scanned: Scanned) -> Program:
    """BLOCK scans side by side, step by step as NumPy goes."""
    outer, nest, a = scanned.outer, scanned.nest, scanned.scan.accumulator
    combine = Combine(a)
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices(None, "program * BLOCK")
    masks(writer, None, writer.size(outer.count))
    writer.axes("column", outer.axes, COLUMN)
    writer.statements(scanned.before)
    carry = combine.states(f"{a.name}_carry")
    for name, dtype, identity in zip(carry, combine.types, combine.identity()):
        writer.line(f"{name} = {full('[1, BLOCK]', identity, dtype)}")
    with writer.block(f"for start in tl.range(0, {writer.size(nest.count)}, num_stages=16):"):
        writer.axes("start", nest.axes, NONE)
        for s in nest.inside:
            if isinstance(s, Accumulate):
                given = element_states(writer, [s], [a])[a.name]
                writer.line(f"{', '.join(carry)} = {combine.name}({', '.join([*carry, *given])})")
                give_scanned(writer, a, carry, COLUMN)
            else:
                writer.statement(s)
    return finished(writer, context.kernel.name, [combine])


def print_scan(context: Context, scanned: Scanned, along: Deps, *, in_parts: bool) -> list[Program]:
    """Scans along the columns of a tile, a row a program, or along its rows, BLOCK scans side by side, block by block.

    `in_parts`: each scan is cut in SPLIT parts. A first program makes their totals; the second begins a part with the
    totals of all before it.
    """
    totals = [part_totals(context, scanned, along)] if in_parts else []
    return [*totals, scan_of_parts(context, scanned, along, in_parts=in_parts)]


def part_writer(context: Context, scanned: Scanned, along: Deps) -> tuple[Writer, str, str]:
    """At a part of a scan: where its total is kept, of the part that a text names, and the mask of that."""
    outer, nest = scanned.outer, scanned.nest
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    if along == COLUMN:
        step, place, mask = "BLOCK", "row * SPLIT + {}", ""
        writer.line("part = program % SPLIT")
        writer.tile_indices("program // SPLIT", None)
        writer.axes("row", outer.axes, ROW)
    else:
        width = writer.size(outer.count)
        step, place, mask = "ROWS", f"{{}} * {width} + column", "in_columns"
        writer.line(f"blocks = ({width} + BLOCK - 1) // BLOCK")
        writer.line("part = program // blocks")
        writer.tile_indices(None, "(program % blocks) * BLOCK")
        masks(writer, None, width)
        writer.axes("column", outer.axes, COLUMN)
    writer.statements(scanned.before)
    writer.line(f"first = part * (STEPS * {step})")
    writer.line(f"end = tl.minimum(first + STEPS * {step}, {writer.size(nest.count)})")
    return writer, place, mask


def part_totals(context: Context, scanned: Scanned, along: Deps) -> Program:
    scan, nest = scanned.scan, scanned.nest
    writer, place, mask = part_writer(context, scanned, along)
    body: list[Statement] = [s for s in nest.inside if not isinstance(s, Store)]
    print_blocks(writer, Nest([], nest.axes, body), [scan.accumulator], ("first", "end"), along)
    store_parts(writer, [scan.accumulator], place.format("part"), mask)
    return finished(writer, f"{context.kernel.name}_part0", [Combine(scan.accumulator)])


def scan_of_parts(context: Context, scanned: Scanned, along: Deps, *, in_parts: bool) -> Program:
    nest, a = scanned.nest, scanned.scan.accumulator
    axis, combine = AXIS[along], Combine(a)
    writer, place, mask = part_writer(context, scanned, along)
    carry = combine.states(f"{a.name}_carry")
    if in_parts:
        writer.line(f"parts = tl.arange(0, PARTS).to(INDEX){'[None, :]' if along == COLUMN else '[:, None]'}")
        load_parts(writer, [a], place.format("parts"), " & ".join(filter(None, ["(parts < part)", mask])), axis)
        for name, total in zip(carry, combine.states(f"{a.name}_total")):
            writer.line(f"{name} = {total}")
    else:
        for name, dtype, identity in zip(carry, combine.types, combine.identity()):
            writer.line(f"{name} = {full('[1, 1]' if along == COLUMN else '[1, BLOCK]', identity, dtype)}")
    with writer.block(f"for start in range(first, end, {'BLOCK' if along == COLUMN else 'ROWS'}):"):
        begin_block(writer, nest, "end", along)
        for s in nest.inside:
            if isinstance(s, Accumulate):
                given = element_states(writer, [s], [a])[a.name]
                scan_block(writer, combine, given, carry, axis)
            else:
                writer.statement(s)
    return finished(writer, context.kernel.name, [combine])


def scan_block(writer: Writer, combine: Combine, given: list[str], carry: list[str], axis: int) -> None:
    a = combine.accumulator
    pack = given[0] if len(given) == 1 else f"({', '.join(given)})"
    scanned = combine.states(f"{a.name}_scanned")
    writer.line(f"{', '.join(scanned)} = tl.associative_scan({pack}, {axis}, {combine.name})")
    before = [f"tl.broadcast_to({c}, [ROWS, BLOCK])" for c in carry]
    writer.line(f"{', '.join(scanned)} = {combine.name}({', '.join([*before, *scanned])})")
    reduce_block(writer, combine, given, axis)
    writer.line(f"{', '.join(carry)} = {combine.name}({', '.join([*carry, *combine.states(f'{a.name}_total')])})")
    give_scanned(writer, a, scanned, BOTH)


def give_scanned(writer: Writer, a: Accumulator, names: list[str], deps: Deps) -> None:
    writer.assign(a.result, [f"({names[0]} != 0)"] if a.dtype.kind == "b" else names, deps)
