"""Writes at places that are data, printed as Triton. What comes out never depends on the order in which programs run.

`set`: the last position of each place is found first (a maximum of integers, which is the same in any order), then stored.
Integers are combined where they are, by atomic operations that commute exactly. All else is combined in NumPy's order: a
program takes positions in turn, of equal places in a block one after the other. Many positions are cut in parts, each with
a copy of the target, which are combined in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npcompile.backends.cuda.programs.checks import rows_and_columns
from npcompile.backends.cuda.programs.combine import LOGIC, Combine
from npcompile.backends.cuda.programs.primitives import expressions, full, memory_type, part_of
from npcompile.backends.cuda.programs.printer import Context, Nest, finished, masks, nest_of
from npcompile.backends.cuda.programs.program import NotPrintable, Parameter, Program, pointer_type
from npcompile.backends.cuda.programs.tile_printer import BOTH, COLUMN, NONE, ROW, Writer, divided
from npcompile.backends.kernels.index import substitute
from npcompile.backends.kernels.kernel import Accumulator, CheckIndex, Kernel, Let, Load, Statement, Store, Value
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.meta import product

ATOMICS = {"add": "add", "maximum": "max", "fmax": "max", "minimum": "min", "fmin": "min"}
ATOMICS |= {f"bitwise_{name}": name for name in ("and", "or", "xor")}
WINNERS = Parameter("winners", "*i64", "scratch", "winners")
COPIES = "copies"  # of the target, one for each part


@dataclass(frozen=True, slots=True)
class Scatter:
    """target[places] = value, or target[places] op= value."""

    nest: Nest
    given: list[Statement]  # the places and the value, for one position
    store: Store
    value: Value
    mode: str

    @property
    def dtype(self) -> np.dtype:
        return self.store.value.dtype

    @property
    def place(self) -> Size:
        """In elements, or in parts of complex ones, from the start of the target."""
        return divided(self.store.offset, part_of(self.dtype).itemsize)

    @property
    def reach(self) -> Size:
        """Elements of the target, likewise."""
        last = {axis: n - 1 for axis, n in self.nest.axes}
        last |= {s.target.name: s.size - 1 for s in self.given if isinstance(s, CheckIndex)}
        return substitute(self.place, last) + (2 if self.dtype.kind == "c" else 1)

    @property
    def is_atomic(self) -> bool:
        return self.mode in ATOMICS and self.dtype.kind in "iu" and self.dtype.itemsize in (4, 8)

    @property
    def can_be_cut(self) -> bool:
        """Does combining with the identity change nothing, whatever is combined?"""
        return self.mode in LOGIC and not (self.dtype.kind == "c" and self.mode != "add")


def scatter_of(kernel: Kernel) -> Scatter:
    nest = nest_of(kernel.body)
    *given, store = nest.inside
    if not isinstance(store, Store) or any(isinstance(s, Store) for s in given):
        raise NotPrintable(kernel.name)
    old = {s.target.name for s in given if isinstance(s, Load) and s.buffer == store.buffer}
    if not old:
        return Scatter(nest, given, store, store.value, "set")
    combined = given[-1]
    if not isinstance(combined, Let) or combined.target != store.value or combined.args[0].name not in old or len(old) > 1:
        raise NotPrintable(kernel.name)
    given = [s for s in given[:-1] if not (isinstance(s, Load) and s.buffer == store.buffer)]
    value, mode = combined.args[1], combined.op
    if mode == "subtract":  # a - b is a + -b, exactly
        negative = Value(f"{value.name}_negative", value.dtype)
        given.append(Let(negative, "negative", (value,)))
        value, mode = negative, "add"
    return Scatter(nest, given, store, value, mode)


def guards_of(writer: Writer) -> list[str]:
    return sorted(set(writer.checked.values()))


def flat_writer(context: Context, count: Size) -> Writer:
    """Blocks over `count` positions."""
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices(None, "program * BLOCK")
    masks(writer, None, writer.size(count))
    return writer


def print_fill(context: Context, parameter: Parameter, count: Size, number: str, dtype: str) -> Program:
    """SPLIT times `count` elements of one number."""
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices(None, "program * BLOCK")
    masks(writer, None, f"SPLIT * ({writer.size(count)})")
    value = full("[1, BLOCK]", number, dtype)
    writer.line(f"tl.store({writer.use(parameter)} + column, {value}, mask=in_columns)")
    return finished(writer, f"{context.kernel.name}_fill")


# --- each position once


def is_uniform(context: Context, s: Scatter) -> bool:
    """Is one value written everywhere, so that it does not matter who is last?"""
    writer = flat_writer(context, s.nest.count)
    writer.axes("column", s.nest.axes, COLUMN)
    writer.statements(s.given)
    return writer.deps_of(s.value) == NONE


def print_positions(context: Context, s: Scatter, step: str) -> Program:
    """`step`: "mark" the last position of each place, "set" those that are the last, "all", or combine by "atomic" ones."""
    writer = flat_writer(context, s.nest.count)
    writer.axes("column", s.nest.axes, COLUMN)
    writer.statements(s.given)
    place = f"{writer.size(s.place)} + no_row + no_column"
    mask = writer.mask(BOTH, *guards_of(writer))
    match step:
        case "mark":
            writer.line(f"tl.atomic_max({writer.use(WINNERS)} + ({place}), column.to(tl.int64), mask={mask})")
        case "set":
            winner = f"tl.load({writer.use(WINNERS)} + ({place}), mask={mask}, other=-1)"
            writer.line(f"is_last = {winner} == column")
            writer.masks[COLUMN] = "is_last"
            writer.statement(s.store)
        case "all":
            writer.statement(s.store)
        case "atomic":
            target = writer.use(Parameter(s.store.buffer, pointer_type(s.dtype), "buffer", s.store.buffer))
            value = f"tl.broadcast_to({s.value.name}, [ROWS, BLOCK])"
            writer.deps_of(s.value)
            writer.line(f"tl.atomic_{ATOMICS[s.mode]}({target} + ({place}), {value}, mask={mask}, sem='relaxed')")
    return finished(writer, context.kernel.name if step != "mark" else f"{context.kernel.name}_mark")


# --- in order


def print_in_order(context: Context, s: Scatter, *, in_parts: bool) -> Program:
    """Positions one block of ROWS after the other, BLOCK columns side by side: into the target, or a part's copy of it."""
    rows, columns = rows_and_columns(s.nest)
    if in_parts:
        context = replace(context, types=context.types | {COPIES: context.types[s.store.buffer]})
    writer = context.writer()
    width = writer.size(product([n for _, n in columns]))
    height = writer.size(product([n for _, n in rows]))
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({width} + BLOCK - 1) // BLOCK")
    writer.line("part = program // blocks")
    writer.tile_indices(None, "(program % blocks) * BLOCK")
    masks(writer, None, width)
    writer.axes("column", columns, COLUMN)
    target = s.store.buffer
    if in_parts:
        target = COPIES
        writer.rows, writer.keeps_rows = {COPIES}, False
        copies = writer.use(copies_of(s))
        writer.line(f"{COPIES}_here = {copies} + part.to(tl.int64) * ({writer.size(s.reach)})")
    old = Value("old", s.dtype)
    combine: list[Statement] = [
        Load(old, target, s.store.offset),
        Let(s.store.value, s.mode, (old, s.value)),
        Store(target, s.store.offset, s.store.value),
    ]
    writer.line("first = part * (STEPS * ROWS)")
    writer.line(f"end = tl.minimum(first + STEPS * ROWS, {height})")
    with writer.block("for start in range(first, end, ROWS):"):
        writer.line("row = start + tl.arange(0, ROWS).to(INDEX)[:, None]")
        masks(writer, "end", None)
        writer.axes("row", rows, ROW)
        writer.statements(s.given)
        place = writer.size(substitute(s.place, {axis: 0 for axis, _ in columns}))
        inside = " & ".join(["in_rows", *guards_of(writer)])
        writer.line(f"place = tl.where({inside}, {place} + no_row, -1 - row)")
        writer.line("is_before = (place == tl.trans(place)) & (tl.trans(row) < row)")
        writer.line("turn = tl.sum(is_before.to(tl.int32), 1, keep_dims=True)")
        with writer.block("for now in range(0, tl.max(turn) + 1):"):
            writer.line("in_turn = in_rows & (turn == now)")
            writer.masks[ROW] = "in_turn"
            writer.statements(combine)
            writer.line("tl.debug_barrier()")
    return finished(writer, f"{context.kernel.name}_part0" if in_parts else context.kernel.name)


def copies_of(s: Scatter) -> Parameter:
    return Parameter(COPIES, pointer_type(s.dtype), "scratch", COPIES)


def identity_of(s: Scatter) -> str:
    """As a number in memory."""
    number, *_ = Combine(Accumulator("", s.mode, s.dtype, s.value)).identity()
    return number


def print_copies_combined(context: Context, s: Scatter) -> Program:
    """The target and all copies, in order. The parts of complex numbers are added apart."""
    writer = flat_writer(context, s.reach)
    dtype = part_of(s.dtype)
    target = writer.use(Parameter(s.store.buffer, pointer_type(dtype), "buffer", s.store.buffer))
    copies = writer.use(copies_of(s))
    truth = " != 0" if dtype.kind == "b" else ""
    writer.line(f"total = tl.load({target} + column, mask=in_columns, other=0){truth}")
    with writer.block("for part in range(0, SPLIT):"):
        place = f"{copies} + tl.cast(part, tl.int64) * ({writer.size(s.reach)}) + column"
        writer.line(f"given = tl.load({place}, mask=in_columns, other=0){truth}")
        (text,) = expressions(s.mode, ["total", "given"], [dtype] * 2, dtype)
        writer.line(f"total = {text}")
    writer.line(f"tl.store({target} + column, total.to({memory_type(dtype)}), mask=in_columns)")
    return finished(writer, context.kernel.name)
