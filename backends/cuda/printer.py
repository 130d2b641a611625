"""Kernels printed as Triton: maps, rows on the chip and in passes, reductions in two stages, columns, scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npcompile.backends.cuda.combine import TWO_SUMS, Combine
from npcompile.backends.cuda.primitives import constant_texts, full, functions_text, part_of, triton_type
from npcompile.backends.cuda.program import NotPrintable, Parameter, Program, pointer_type
from npcompile.backends.cuda.tile_printer import BOTH, COLUMN, NONE, ROW, Writer
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Columns,
    Kernel,
    Loop,
    Reduce,
    Scan,
    ScratchRow,
    Statement,
    Store,
    children,
    walk,
)
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.meta import product

HEADER = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n"
Axes = list[tuple[str, Size]]


@dataclass(frozen=True, slots=True)
class Context:
    """What a kernel's buffers and symbols are."""

    kernel: Kernel
    types: dict[str, np.dtype]  # of all buffers of the schedule
    symbols: frozenset[str]
    on_device: frozenset[str] = frozenset()  # 0-D inputs that are read from memory

    def writer(self, **fields: object) -> Writer:
        rows = {s.buffer for s in walk(self.kernel.body) if isinstance(s, ScratchRow)}
        return Writer(self.kernel, self.types, self.symbols, self.on_device, rows=rows, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops with nothing but scalar instructions between them, outermost first."""

    before: list[Statement]
    axes: Axes
    body: list[Statement]

    @property
    def inside(self) -> list[Statement]:
        """All that is done for one element."""
        return [*self.before, *self.body]

    @property
    def count(self) -> Size:
        return product([n for _, n in self.axes])


def nest_of(body: Sequence[Statement], *, is_parallel: bool | None = None) -> Nest:
    """The loops at the end of `body`, each at the end of the one around it."""
    before: list[Statement] = []
    axes: Axes = []
    rest = list(body)
    while rest and isinstance(rest[-1], Loop) and not any(children(s) for s in rest[:-1]):
        loop = rest[-1]
        if is_parallel is not None and loop.is_parallel != is_parallel:
            break
        before += rest[:-1]
        axes.append((loop.axis, loop.size))
        rest = loop.body
    return Nest(before, axes, rest)


def finished(writer: Writer, name: str, combines: Sequence[Combine] = ()) -> Program:
    """The function with the functions that it calls."""
    own = writer.program_text(name)
    texts = {c.name: c.text() for c in combines}
    made = "".join(texts.values()) + own
    if "combine_two_sums" in own:
        made = TWO_SUMS + made
    return Program(name, HEADER + functions_text(made) + made, tuple(writer.parameters.values()))


# --- maps


def print_map(context: Context, *, is_flat: bool) -> Program:
    """Tiles over all loops counted as one, or of rows (all loops but the last) and columns (the last)."""
    writer = context.writer()
    nest = nest_of(context.kernel.body)
    if any(children(s) for s in nest.body):
        raise NotPrintable(f"{context.kernel.name} has loops beside each other")
    outer, inner = ([], nest.axes) if is_flat else (nest.axes[:-1], nest.axes[-1:])
    columns = writer.size(product([n for _, n in inner]))
    rows = writer.size(product([n for _, n in outer]))
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({columns} + BLOCK - 1) // BLOCK")
    writer.tile_indices("(program // blocks) * ROWS", "(program % blocks) * BLOCK")
    masks(writer, None if is_flat else rows, columns)
    writer.axes("row", outer, ROW)
    writer.axes("column", inner, COLUMN)
    writer.statements(nest.inside)
    return finished(writer, context.kernel.name)


def masks(writer: Writer, rows: str | None, columns: str | None) -> None:
    if rows is not None:
        writer.line(f"in_rows = row < {rows}")
        writer.masks[ROW] = "in_rows"
    if columns is not None:
        writer.line(f"in_columns = column < {columns}")
        writer.masks[COLUMN] = "in_columns"


# --- reductions


def print_rows(context: Context, *, is_on_chip: bool) -> Program:
    """ROWS rows in a program. On the chip a row is one block; else every pass goes over it in blocks."""
    kernel = context.kernel
    writer = context.writer(keeps_rows=is_on_chip)
    outer = nest_of(kernel.body, is_parallel=False)
    body = unwrapped(outer.body)
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices("program * ROWS", "0" if is_on_chip else None)
    masks(writer, writer.size(outer.count), None)
    writer.axes("row", outer.axes, ROW)
    scratch = [s for s in walk(kernel.body) if isinstance(s, ScratchRow)]
    if not is_on_chip:
        for s in scratch:
            dtype = part_of(context.types[s.buffer])
            name = writer.use(Parameter(s.buffer, pointer_type(dtype), "scratch", s.buffer))
            bytes_of_row = writer.size(s.bytes)
            writer.line(f"{name}_here = {name} + program.to(tl.int64) * ({bytes_of_row} // {dtype.itemsize})")
    combines: list[Combine] = []
    for statement in [*outer.before, *body]:
        if isinstance(statement, Reduce):
            combines += map(Combine, statement.accumulators)
        if isinstance(statement, (Reduce, Loop)):
            print_pass(writer, statement, is_on_chip)
            if scratch and not is_on_chip:
                writer.line("tl.debug_barrier()")
        else:
            writer.statement(statement)
    return finished(writer, kernel.name, combines)


def unwrapped(body: list[Statement]) -> list[Statement]:
    """The statements inside the buffers of rows."""
    while len(body) == 1 and isinstance(body[0], ScratchRow):
        body = body[0].body
    if any(isinstance(s, ScratchRow) for s in body):
        at = next(k for k, s in enumerate(body) if isinstance(s, ScratchRow))
        inner = body[at]
        assert isinstance(inner, ScratchRow)
        return unwrapped([*body[:at], *inner.body, *body[at + 1 :]])
    return body


def print_pass(writer: Writer, statement: Reduce | Loop, is_on_chip: bool) -> None:
    """One pass over the columns: what it computes for every element, and what it reduces."""
    nest = nest_of(statement.body if isinstance(statement, Reduce) else [statement])
    accumulators = statement.accumulators if isinstance(statement, Reduce) else []
    count = writer.size(nest.count)
    if is_on_chip:
        writer.line(f"in_columns = column < {count}")
        writer.masks[COLUMN] = "in_columns"
        writer.axes("column", nest.axes, COLUMN)
        states = element_states(writer, nest.inside, accumulators)
        for a in accumulators:
            reduce_block(writer, Combine(a), states[a.name], 1)
    else:
        start_states(writer, accumulators)
        with writer.block(f"for start in range(0, {count}, BLOCK):"):
            print_step(writer, nest, accumulators, "start", count, COLUMN)
        for a in accumulators:
            finish_state(writer, Combine(a), 1)
    for a in accumulators:
        give_result(writer, a, nest.count, ROW)


def element_states(writer: Writer, body: Sequence[Statement], accumulators: Sequence[Accumulator]) -> dict[str, list[str]]:
    """Print the statements; for each accumulator the names of what it is given, the identity outside of the array."""
    known = {a.name: Combine(a) for a in accumulators}
    states: dict[str, list[str]] = {}
    for s in body:
        if not isinstance(s, Accumulate):
            writer.statement(s)
            continue
        combine = known[s.accumulator]
        texts = writer.spread(s.value, combine.dtype)
        if combine.is_position:
            position = writer.size(s.position)
            missing = BOTH - writer.depends_on(s.position)
            texts = [texts[0], " + ".join([position, *(f"no_{which}" for which in sorted(missing))])]
        mask = writer.mask(BOTH)
        names = combine.states(f"{s.accumulator}_given")
        for name, text, dtype, identity in zip(names, texts, combine.types, combine.identity()):
            text = f"({text}).to({dtype})"
            neutral = full("()", identity, dtype)
            inside = f"tl.broadcast_to({mask}, [ROWS, BLOCK])"
            writer.line(f"{name} = tl.where({inside}, {text}, {neutral})")
        states[s.accumulator] = names
    return states


def start_states(writer: Writer, accumulators: Sequence[Accumulator]) -> None:
    for a in accumulators:
        combine = Combine(a)
        for name, dtype, identity in zip(combine.states(a.name), combine.types, combine.identity()):
            writer.line(f"{name} = {full('[ROWS, BLOCK]', identity, dtype)}")
        if combine.is_compensated:
            writer.line(f"{a.name}_low = tl.zeros([ROWS, BLOCK], {combine.types[0]})")
            writer.line(f"{a.name}_none = tl.zeros([ROWS, BLOCK], {combine.types[0]})")


def print_step(
    writer: Writer, nest: Nest, accumulators: Sequence[Accumulator], start: str, end: str, along: frozenset[str]
) -> None:
    """One block of a pass in blocks, along the columns or the rows of the tile."""
    if along == COLUMN:
        writer.line(f"column = {start} + tl.arange(0, BLOCK).to(INDEX)[None, :]")
        writer.line(f"in_columns = column < {end}")
        writer.masks[COLUMN] = "in_columns"
        writer.axes("column", nest.axes, COLUMN)
    else:
        writer.line(f"row = {start} + tl.arange(0, ROWS).to(INDEX)[:, None]")
        writer.line(f"in_rows = row < {end}")
        writer.masks[ROW] = "in_rows"
        writer.axes("row", nest.axes, ROW)
    states = element_states(writer, nest.inside, accumulators)
    for a in accumulators:
        combine = Combine(a)
        own, given = combine.states(a.name), states[a.name]
        if combine.is_compensated:
            low = f"{a.name}_low"
            writer.line(f"{own[0]}, {low} = combine_two_sums({own[0]}, {low}, {given[0]}, {a.name}_none)")
        else:
            writer.line(f"{', '.join(own)} = {combine.name}({', '.join([*own, *given])})")


def finish_state(writer: Writer, combine: Combine, axis: int) -> None:
    """Reduce the lanes of an accumulator that a loop has filled."""
    a = combine.accumulator
    if not combine.is_compensated:
        return reduce_block(writer, combine, combine.states(a.name), axis)
    (high,) = combine.states(f"{a.name}_total")
    pair = f"({combine.states(a.name)[0]}, {a.name}_low)"
    writer.line(f"{high}, {a.name}_error = tl.reduce({pair}, {axis}, combine_two_sums, keep_dims=True)")
    writer.line(f"{high} = tl.where(tl.abs({high}) < float('inf'), {high} + {a.name}_error, {high})")


def reduce_block(writer: Writer, combine: Combine, states: Sequence[str], axis: int) -> None:
    totals = combine.states(f"{combine.accumulator.name}_total")
    given = states[0] if len(states) == 1 else f"({', '.join(states)})"
    writer.line(f"{', '.join(totals)} = tl.reduce({given}, {axis}, {combine.name}, keep_dims=True)")


def give_result(writer: Writer, a: Accumulator, count: Size | None, deps: frozenset[str]) -> None:
    """The totals as the accumulator's result. `count` elements were combined; None where an earlier stage has looked."""
    combine = Combine(a)
    totals = combine.states(f"{a.name}_total")
    if combine.is_position:
        texts = [f"tl.where({totals[1]} < {2**31 - 1}, {totals[1]}, 0).to(tl.int64)"]
    elif a.dtype.kind == "b":
        texts = [f"({totals[0]} != 0)"]
        if a.result.dtype.kind != "b":
            texts = [f"({totals[0]} != 0).to({triton_type(a.result.dtype)})"]
    else:
        texts = [f"{t}.to({triton_type(a.result.dtype)})" for t in totals]
    if a.reducer == "add" and a.dtype.kind in "fc" and count is not None and not (isinstance(count, int) and count):
        zeros = constant_texts(0, part_of(a.result.dtype)) * len(texts)  # the sum of nothing is 0.0, not -0.0
        texts = [f"tl.where({writer.tensor(count)} == 0, {zero}, {t})" for zero, t in zip(zeros, texts)]
    writer.assign(a.result, texts, deps)


# --- reductions in two stages: parts of rows or columns, then the parts


def reduce_of(body: Sequence[Statement]) -> tuple[list[Statement], Reduce, list[Statement]]:
    """What comes before the only Reduce of `body`, it, and what comes after."""
    at = next(k for k, s in enumerate(body) if isinstance(s, Reduce))
    reduce = body[at]
    assert isinstance(reduce, Reduce)
    return list(body[:at]), reduce, list(body[at + 1 :])


def can_split(kernel: Kernel) -> bool:
    """Is it one reduction of rows, so that parts of a row can be reduced by programs of their own?"""
    body = nest_of(kernel.body, is_parallel=False).body
    return sum(isinstance(s, Reduce) for s in walk(body)) == 1 and not any(
        isinstance(s, (Loop, ScratchRow, Scan, Columns)) for s in body
    )


def partial_names(a: Accumulator) -> list[Parameter]:
    combine = Combine(a)
    return [
        Parameter(f"{a.name}_parts_{k}", pointer_type(dtype), "scratch", f"{a.name}_parts_{k}")
        for k, dtype in enumerate(combine.memory)
    ]


def print_row_parts(context: Context) -> tuple[Program, Program]:
    """The parts of rows, one a program, and their combination."""
    kernel = context.kernel
    outer = nest_of(kernel.body, is_parallel=False)
    before, reduce, after = reduce_of(outer.body)
    combines = list(map(Combine, reduce.accumulators))
    nest = nest_of(reduce.body)

    first = context.writer()
    first.line("program = tl.program_id(0).to(INDEX)")
    first.tile_indices("program // SPLIT", None)
    first.axes("row", outer.axes, ROW)
    first.statements([*outer.before, *before])
    count = first.size(nest.count)
    first.line("first = (program % SPLIT) * (STEPS * BLOCK)")
    first.line(f"end = tl.minimum(first + STEPS * BLOCK, {count})")
    start_states(first, reduce.accumulators)
    with first.block("for start in range(first, end, BLOCK):"):
        print_step(first, nest, reduce.accumulators, "start", "end", COLUMN)
    for combine in combines:
        finish_state(first, combine, 1)
        for parameter, total in zip(partial_names(combine.accumulator), combine.states(f"{combine.accumulator.name}_total")):
            first.line(f"tl.store({first.use(parameter)} + program + no_row, {total})")

    second = context.writer()
    second.line("program = tl.program_id(0).to(INDEX)")
    second.tile_indices("program", "0")
    second.axes("row", outer.axes, ROW)
    second.statements([*outer.before, *before])
    second.line("in_parts = column < SPLIT")
    for combine in combines:
        a = combine.accumulator
        names = combine.states(f"{a.name}_part")
        for parameter, name, dtype, identity in zip(partial_names(a), names, combine.types, combine.identity()):
            place = f"{second.use(parameter)} + (program * SPLIT + column)"
            second.line(f"{name} = tl.load({place}, mask=in_parts, other=0).to({dtype})")
            second.line(f"{name} = tl.where(in_parts, {name}, {full('()', identity, dtype)})")
        reduce_block(second, combine, names, 1)
        give_result(second, a, reduce.count, ROW)
    second.statements(after)
    return finished(first, f"{kernel.name}_parts", combines), finished(second, kernel.name, combines)


# --- columns


def columns_of(kernel: Kernel) -> tuple[Nest, list[Statement], Columns]:
    outer = nest_of(kernel.body, is_parallel=False)
    *before, columns = outer.body
    if not isinstance(columns, Columns) or any(children(s) for s in before):
        raise NotPrintable(kernel.name)
    return outer, before, columns


def print_columns(context: Context) -> Program:
    """Running results of BLOCK columns, each in ROWS lanes."""
    outer, before, columns = columns_of(context.kernel)
    writer = context.writer()
    column_start(writer, outer, columns, 1)
    writer.statements([*outer.before, *before])
    count = product([n for _, n in columns.loops])
    start_states(writer, columns.accumulators)
    nest = Nest([], columns.loops, columns.body)
    with writer.block(f"for start in range(0, {writer.size(count)}, ROWS):"):
        print_step(writer, nest, columns.accumulators, "start", writer.size(count), ROW)
    for a in columns.accumulators:
        finish_state(writer, Combine(a), 0)
        give_result(writer, a, count, COLUMN)
    del writer.masks[ROW]
    writer.statements(columns.finish)
    return finished(writer, context.kernel.name, list(map(Combine, columns.accumulators)))


def column_start(writer: Writer, outer: Nest, columns: Columns, split: int | str) -> None:
    """Names for the program's place: the outer axes, which are scalars, and its columns."""
    size = writer.size(columns.size)
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({size} + BLOCK - 1) // BLOCK")
    if split == 1:
        writer.line("outer = program // blocks")
    else:
        writer.line("part = program // blocks % SPLIT")
        writer.line("outer = program // blocks // SPLIT")
    writer.tile_indices(None, "(program % blocks) * BLOCK")
    masks(writer, None, size)
    writer.axes("outer", outer.axes, NONE)
    writer.axes("column", [(columns.axis, columns.size)], COLUMN)


def print_column_parts(context: Context) -> tuple[Program, Program]:
    """The same with the reduced axes cut in SPLIT parts, and their combination."""
    outer, before, columns = columns_of(context.kernel)
    combines = list(map(Combine, columns.accumulators))
    count = product([n for _, n in columns.loops])
    nest = Nest([], columns.loops, columns.body)

    first = context.writer()
    column_start(first, outer, columns, "SPLIT")
    first.statements([*outer.before, *before])
    size = first.size(columns.size)
    first.line("first = part * (STEPS * ROWS)")
    first.line(f"end = tl.minimum(first + STEPS * ROWS, {first.size(count)})")
    start_states(first, columns.accumulators)
    with first.block("for start in range(first, end, ROWS):"):
        print_step(first, nest, columns.accumulators, "start", "end", ROW)
    for combine in combines:
        finish_state(first, combine, 0)
        for parameter, total in zip(partial_names(combine.accumulator), combine.states(f"{combine.accumulator.name}_total")):
            place = f"{first.use(parameter)} + ((outer * SPLIT + part) * {size} + column)"
            first.line(f"tl.store({place}, {total}, mask=in_columns)")

    second = context.writer()
    column_start(second, outer, columns, 1)
    second.statements([*outer.before, *before])
    second.line("row = tl.arange(0, ROWS).to(INDEX)[:, None]")
    second.line("in_parts = (row < SPLIT) & in_columns")
    size = second.size(columns.size)
    for combine in combines:
        a = combine.accumulator
        names = combine.states(f"{a.name}_part")
        for parameter, name, dtype, identity in zip(partial_names(a), names, combine.types, combine.identity()):
            place = f"{second.use(parameter)} + ((outer * SPLIT + row) * {size} + column)"
            second.line(f"{name} = tl.load({place}, mask=in_parts, other=0).to({dtype})")
            second.line(f"{name} = tl.where(in_parts, {name}, {full('()', identity, dtype)})")
        reduce_block(second, combine, names, 0)
        give_result(second, a, count, COLUMN)
    second.statements(columns.finish)
    return finished(first, f"{context.kernel.name}_parts", combines), finished(second, context.kernel.name, combines)


# --- scans


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
