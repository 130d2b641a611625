"""Running combinations printed as Triton."""

from __future__ import annotations

from npcompile.backends.cuda.combine import Combine
from npcompile.backends.cuda.primitives import full
from npcompile.backends.cuda.printer import Context, Nest, finished, masks, nest_of
from npcompile.backends.cuda.program import NotPrintable, Program
from npcompile.backends.cuda.reductions import element_states
from npcompile.backends.cuda.tile_printer import BOTH, COLUMN, NONE, ROW, Writer
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import Accumulate, Kernel, Scan, Statement, Store, children


def scan_of(kernel: Kernel) -> tuple[Nest, list[Statement], Scan, Nest]:
    outer = nest_of(kernel.body, is_parallel=False)
    *before, scan = outer.body
    if not isinstance(scan, Scan) or any(children(s) for s in before):
        raise NotPrintable(kernel.name)
    return outer, before, scan, nest_of(scan.body)


def is_along_memory(kernel: Kernel) -> bool:
    """Are the results of a scan side by side along its axis?"""
    _, _, _, nest = scan_of(kernel)
    ((axis, _),) = nest.axes
    for s in nest.body:
        if isinstance(s, Store):
            linear = split_linear(s.offset, axis)
            return linear is not None and is_number(linear[0], s.value.dtype.itemsize)
    return False


def print_scan(context: Context, *, is_across: bool) -> Program:
    """A row a program, scanned block by block; or `is_across`, BLOCK scans side by side, step by step as NumPy goes."""
    outer, before, scan, nest = scan_of(context.kernel)
    combine = Combine(scan.accumulator)
    a = scan.accumulator
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices(None if is_across else "program", "program * BLOCK" if is_across else None)
    if is_across:
        masks(writer, None, writer.size(outer.count))
        writer.axes("column", outer.axes, COLUMN)
    else:
        writer.axes("row", outer.axes, ROW)
    writer.statements([*outer.before, *before])
    ((_, size),) = nest.axes
    carry = combine.states(f"{a.name}_carry")
    shape = "[1, BLOCK]" if is_across else "[1, 1]"
    for name, dtype, identity in zip(carry, combine.types, combine.identity()):
        writer.line(f"{name} = {full(shape, identity, dtype)}")
    step = "1" if is_across else "BLOCK"
    with writer.block(f"for start in range(0, {writer.size(size)}, {step}):"):
        if is_across:
            writer.axes("start", nest.axes, NONE)
        else:
            writer.line("column = start + tl.arange(0, BLOCK).to(INDEX)[None, :]")
            masks(writer, None, writer.size(size))
            writer.axes("column", nest.axes, COLUMN)
        for s in nest.inside:
            if not isinstance(s, Accumulate):
                writer.statement(s)
                continue
            states = element_states(writer, [s], [a])[a.name]
            scan_step(writer, combine, states, carry, is_across)
    return finished(writer, context.kernel.name, [combine])


def scan_step(writer: Writer, combine: Combine, given: list[str], carry: list[str], is_across: bool) -> None:
    a = combine.accumulator
    totals = combine.states(f"{a.name}_total")
    pack = given[0] if len(given) == 1 else f"({', '.join(given)})"
    if is_across:
        writer.line(f"{', '.join(carry)} = {combine.name}({', '.join([*carry, *given])})")
        give = carry
    else:
        scanned = combine.states(f"{a.name}_scanned")
        writer.line(f"{', '.join(scanned)} = tl.associative_scan({pack}, 1, {combine.name})")
        before = [f"tl.broadcast_to({c}, [ROWS, BLOCK])" for c in carry]
        writer.line(f"{', '.join(scanned)} = {combine.name}({', '.join([*before, *scanned])})")
        writer.line(f"{', '.join(totals)} = tl.reduce({pack}, 1, {combine.name}, keep_dims=True)")
        writer.line(f"{', '.join(carry)} = {combine.name}({', '.join([*carry, *totals])})")
        give = scanned
    if a.dtype.kind == "b":
        texts = [f"({give[0]} != 0)"]
    else:
        texts = list(give)
    writer.assign(a.result, texts, COLUMN if is_across else BOTH)
