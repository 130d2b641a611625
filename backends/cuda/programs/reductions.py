"""Reductions printed as Triton: rows on the chip, rows in passes, rows and columns in parts that several programs take.

Parts are combined in a fixed order by every program that needs the whole, so no result depends on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npcompile.backends.cuda.programs.combine import Combine
from npcompile.backends.cuda.programs.primitives import full, part_of, triton_type
from npcompile.backends.cuda.programs.printer import Context, Nest, finished, masks, nest_of
from npcompile.backends.cuda.programs.program import NotPrintable, Parameter, Program, pointer_type
from npcompile.backends.cuda.programs.tile_printer import BOTH, COLUMN, NONE, ROW, Deps, Writer
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

# FOLD elements of a lane are combined in registers before the running results see them.
STATE = {COLUMN: "[ROWS, BLOCK // FOLD]", ROW: "[ROWS // FOLD, BLOCK]"}
FOLDED = {COLUMN: ("[ROWS, FOLD, BLOCK // FOLD]", 1), ROW: ("[FOLD, ROWS // FOLD, BLOCK]", 0)}
AXIS = {COLUMN: 1, ROW: 0}


# --- running results


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


def start_states(writer: Writer, accumulators: Sequence[Accumulator], along: Deps) -> None:
    for a in accumulators:
        combine = Combine(a)
        for name, dtype, identity in zip(combine.states(a.name), combine.types, combine.identity()):
            writer.line(f"{name} = {full(STATE[along], identity, dtype)}")
        if combine.is_compensated:
            writer.line(f"{a.name}_low = tl.zeros({STATE[along]}, {combine.types[0]})")
            writer.line(f"{a.name}_none = tl.zeros({STATE[along]}, {combine.types[0]})")


def begin_block(writer: Writer, nest: Nest, end: str, along: Deps) -> None:
    """The indices and masks of one block of a pass in blocks, from `start`, along the columns or the rows of the tile."""
    if along == COLUMN:
        writer.line("column = start + tl.arange(0, BLOCK).to(INDEX)[None, :]")
        masks(writer, None, end)
        writer.axes("column", nest.axes, COLUMN)
    else:
        writer.line("row = start + tl.arange(0, ROWS).to(INDEX)[:, None]")
        masks(writer, end, None)
        writer.axes("row", nest.axes, ROW)


def print_step(writer: Writer, nest: Nest, accumulators: Sequence[Accumulator], end: str, along: Deps) -> None:
    begin_block(writer, nest, end, along)
    states = element_states(writer, nest.inside, accumulators)
    shape, axis = FOLDED[along]
    for a in accumulators:
        combine = Combine(a)
        own, given = combine.states(a.name), states[a.name]
        folds = [f"tl.reshape({g}, {shape})" for g in given]
        pack = folds[0] if len(folds) == 1 else f"({', '.join(folds)})"
        writer.line(f"{', '.join(given)} = tl.reduce({pack}, {axis}, {combine.name})")
        if combine.is_compensated:
            low = f"{a.name}_low"
            writer.line(f"{own[0]}, {low} = combine_two_sums({own[0]}, {low}, {given[0]}, {a.name}_none)")
        else:
            writer.line(f"{', '.join(own)} = {combine.name}({', '.join([*own, *given])})")


def print_blocks(writer: Writer, nest: Nest, accumulators: Sequence[Accumulator], ends: tuple[str, str], along: Deps) -> None:
    """A pass from one end to the other in blocks; the accumulators' totals at its end."""
    start_states(writer, accumulators, along)
    with writer.block(f"for start in range({ends[0]}, {ends[1]}, {'BLOCK' if along == COLUMN else 'ROWS'}):"):
        print_step(writer, nest, accumulators, ends[1], along)
    for a in accumulators:
        finish_state(writer, Combine(a), AXIS[along])


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


def give_result(writer: Writer, a: Accumulator, deps: Deps) -> None:
    """The totals as the accumulator's result."""
    combine = Combine(a)
    totals = combine.states(f"{a.name}_total")
    if combine.is_position:
        texts = [f"tl.where({totals[1]} < NOWHERE, {totals[1]}, 0).to(tl.int64)"]
    elif a.dtype.kind == "b":
        texts = [f"({totals[0]} != 0)"]
        if a.result.dtype.kind != "b":
            texts = [f"({totals[0]} != 0).to({triton_type(a.result.dtype)})"]
    else:
        texts = [f"{t}.to({triton_type(a.result.dtype)})" for t in totals]
    if a.reducer == "add" and a.dtype.kind in "fc":
        texts = [f"({t} + 0.0)" for t in texts]  # NumPy's sums begin with 0.0, so that of -0.0 alone is 0.0
    writer.assign(a.result, texts, deps)


# --- parts: running results in memory


def partial_names(a: Accumulator) -> list[Parameter]:
    combine = Combine(a)
    return [
        Parameter(f"{a.name}_parts_{k}", pointer_type(dtype), "scratch", f"{a.name}_parts_{k}")
        for k, dtype in enumerate(combine.memory)
    ]


def store_parts(writer: Writer, accumulators: Sequence[Accumulator], place: str, mask: str = "") -> None:
    """The totals of this program's part."""
    for a in accumulators:
        for parameter, total in zip(partial_names(a), Combine(a).states(f"{a.name}_total")):
            address = f"{writer.use(parameter)} + ({place})"
            writer.line(f"tl.store({address}, {total}, mask={mask})" if mask else f"tl.store({address}, {total})")


def load_parts(writer: Writer, accumulators: Sequence[Accumulator], place: str, mask: str, axis: int) -> None:
    """The totals of all parts, combined along `axis`."""
    for a in accumulators:
        combine = Combine(a)
        names = combine.states(f"{a.name}_part")
        for parameter, name, dtype, identity in zip(partial_names(a), names, combine.types, combine.identity()):
            address = f"{writer.use(parameter)} + ({place})"
            writer.line(f"{name} = tl.load({address}, mask={mask}, other=0).to({dtype})")
            writer.line(f"{name} = tl.where({mask}, {name}, {full('()', identity, dtype)})")
        reduce_block(writer, combine, names, axis)


# --- rows


def unwrapped(body: list[Statement]) -> list[Statement]:
    """The statements inside the buffers of rows."""
    for at, s in enumerate(body):
        if isinstance(s, ScratchRow):
            return unwrapped([*body[:at], *s.body, *body[at + 1 :]])
    return body


@dataclass(frozen=True, slots=True)
class Rows:
    """The loops over rows, and what is done for each: scalar statements and passes over the row."""

    outer: Nest
    body: list[Statement]

    @property
    def can_split(self) -> bool:
        """Can parts of a row be taken by programs of their own?"""
        return not any(isinstance(s, (Scan, Columns)) for s in walk(self.body)) and any(isinstance(s, Reduce) for s in self.body)


def rows_of(kernel: Kernel) -> Rows:
    outer = nest_of(kernel.body, is_parallel=False)
    return Rows(outer, [*outer.before, *unwrapped(outer.body)])


def print_rows(context: Context, rows: Rows, *, is_on_chip: bool) -> Program:
    """ROWS rows in a program. On the chip a row is one block; else every pass goes over it in blocks."""
    outer, body = rows.outer, rows.body
    writer = context.writer(keeps_rows=is_on_chip)
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices("program * ROWS", "0" if is_on_chip else None)
    masks(writer, writer.size(outer.count), None)
    writer.axes("row", outer.axes, ROW)
    has_scratch = not is_on_chip and use_scratch(context, writer, "program")
    combines: list[Combine] = []
    for statement in body:
        if isinstance(statement, (Reduce, Loop)):
            combines += map(Combine, accumulators_of(statement))
            print_pass(writer, statement, is_on_chip)
            if has_scratch:
                writer.line("tl.debug_barrier()")
        else:
            writer.statement(statement)
    return finished(writer, context.kernel.name, combines)


def use_scratch(context: Context, writer: Writer, row: str) -> bool:
    """Names for the memory of this row, where there is any."""
    scratch = [s for s in walk(context.kernel.body) if isinstance(s, ScratchRow)]
    for s in scratch:
        dtype = part_of(context.types[s.buffer])
        name = writer.use(Parameter(s.buffer, pointer_type(dtype), "scratch", s.buffer))
        writer.line(f"{name}_here = {name} + ({row}).to(tl.int64) * ({writer.size(s.bytes)} // {dtype.itemsize})")
    return bool(scratch)


def accumulators_of(statement: Reduce | Loop) -> list[Accumulator]:
    return statement.accumulators if isinstance(statement, Reduce) else []


def nest_of_pass(statement: Reduce | Loop) -> Nest:
    return nest_of(statement.body if isinstance(statement, Reduce) else [statement])


def print_pass(writer: Writer, statement: Reduce | Loop, is_on_chip: bool) -> None:
    """One pass over the columns: what it computes for every element, and what it reduces."""
    nest, accumulators = nest_of_pass(statement), accumulators_of(statement)
    count = writer.size(nest.count)
    if is_on_chip:
        masks(writer, None, count)
        writer.axes("column", nest.axes, COLUMN)
        states = element_states(writer, nest.inside, accumulators)
        for a in accumulators:
            reduce_block(writer, Combine(a), states[a.name], 1)
    else:
        print_blocks(writer, nest, accumulators, ("0", count), COLUMN)
    for a in accumulators:
        give_result(writer, a, ROW)


def print_split_rows(context: Context, rows: Rows) -> list[Program]:
    """One program for each pass, on a part of a row; each combines the parts that the passes before it have left.

    A reduction at the end is combined by a last program, which takes whole rows.
    """
    outer, body = rows.outer, rows.body
    passes = [k for k, s in enumerate(body) if isinstance(s, (Reduce, Loop))]
    ends = [*passes, len(body)] if isinstance(body[passes[-1]], Reduce) else passes
    programs = []
    for number, end in enumerate(ends):
        is_last = end == ends[-1]
        writer = context.writer(keeps_rows=False)
        writer.line("program = tl.program_id(0).to(INDEX)")
        writer.tile_indices("program" if end == len(body) else "program // SPLIT", None)
        writer.line("parts = tl.arange(0, PARTS).to(INDEX)[None, :]")
        writer.axes("row", outer.axes, ROW)
        use_scratch(context, writer, "program" if end == len(body) else "program // SPLIT")
        combines: list[Combine] = []
        for k, statement in enumerate(body if is_last else body[: end + 1]):
            if k == end:
                assert isinstance(statement, (Reduce, Loop))
                print_part(writer, statement)
                combines += map(Combine, accumulators_of(statement))
            elif isinstance(statement, Reduce):
                load_parts(writer, statement.accumulators, "row * SPLIT + parts", "parts < SPLIT", 1)
                for a in statement.accumulators:
                    give_result(writer, a, ROW)
                combines += map(Combine, statement.accumulators)
            elif not isinstance(statement, Loop) and (is_last or not isinstance(statement, Store)):
                writer.statement(statement)
        name = context.kernel.name if is_last else f"{context.kernel.name}_part{number}"
        programs.append(finished(writer, name, combines))
    return programs


def print_part(writer: Writer, statement: Reduce | Loop) -> None:
    """A pass over one part of a row."""
    nest, accumulators = nest_of_pass(statement), accumulators_of(statement)
    writer.line("first = (program % SPLIT) * (STEPS * BLOCK)")
    writer.line(f"end = tl.minimum(first + STEPS * BLOCK, {writer.size(nest.count)})")
    print_blocks(writer, nest, accumulators, ("first", "end"), COLUMN)
    store_parts(writer, accumulators, "row * SPLIT + program % SPLIT")


# --- columns


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """The loops around columns, and what is done before these for each of their indices."""

    outer: Nest
    before: list[Statement]
    columns: Columns

    @property
    def count(self) -> Size:
        """Elements of a column."""
        return product([n for _, n in self.columns.loops])

    @property
    def inner(self) -> Nest:
        return Nest([], self.columns.loops, self.columns.body)


def columns_of(kernel: Kernel) -> ColumnSums:
    outer = nest_of(kernel.body, is_parallel=False)
    *before, columns = outer.body
    if not isinstance(columns, Columns) or any(children(s) for s in before):
        raise NotPrintable(kernel.name)
    return ColumnSums(outer, [*outer.before, *before], columns)


def column_writer(context: Context, sums: ColumnSums, *, has_parts: bool) -> Writer:
    """At the program's place: the outer axes, which are scalars, and its columns."""
    columns = sums.columns
    writer = context.writer()
    size = writer.size(columns.size)
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({size} + BLOCK - 1) // BLOCK")
    if has_parts:
        writer.line("part = program // blocks % SPLIT")
        writer.line("outer = program // blocks // SPLIT")
    else:
        writer.line("outer = program // blocks")
    writer.tile_indices(None, "(program % blocks) * BLOCK")
    masks(writer, None, size)
    writer.axes("outer", sums.outer.axes, NONE)
    writer.axes("column", [(columns.axis, columns.size)], COLUMN)
    writer.statements(sums.before)
    return writer


def print_columns(context: Context, sums: ColumnSums) -> Program:
    """Running results of BLOCK columns, each in ROWS // FOLD lanes."""
    writer = column_writer(context, sums, has_parts=False)
    print_blocks(writer, sums.inner, sums.columns.accumulators, ("0", writer.size(sums.count)), ROW)
    return finish_columns(context, writer, sums.columns, context.kernel.name)


def finish_columns(context: Context, writer: Writer, columns: Columns, name: str) -> Program:
    writer.masks.pop(ROW, None)
    for a in columns.accumulators:
        give_result(writer, a, COLUMN)
    writer.statements(columns.finish)
    return finished(writer, name, list(map(Combine, columns.accumulators)))


def print_column_parts(context: Context, sums: ColumnSums) -> tuple[Program, Program]:
    """The same with the reduced axes cut in SPLIT parts, and their combination."""
    columns = sums.columns
    first = column_writer(context, sums, has_parts=True)
    first.line("first = part * (STEPS * ROWS)")
    first.line(f"end = tl.minimum(first + STEPS * ROWS, {first.size(sums.count)})")
    print_blocks(first, sums.inner, columns.accumulators, ("first", "end"), ROW)
    store_parts(first, columns.accumulators, f"(outer * SPLIT + part) * {first.size(columns.size)} + column", "in_columns")

    second = column_writer(context, sums, has_parts=False)
    second.line("parts = tl.arange(0, PARTS).to(INDEX)[:, None]")
    place = f"(outer * SPLIT + parts) * {second.size(columns.size)} + column"
    load_parts(second, columns.accumulators, place, "(parts < SPLIT) & in_columns", 0)
    combines = list(map(Combine, columns.accumulators))
    parts = finished(first, f"{context.kernel.name}_part0", combines)
    return parts, finish_columns(context, second, columns, context.kernel.name)
