"""Kernels printed as Triton: what all forms share, and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npcompile.backends.cuda.programs.combine import TWO_SUMS, Combine
from npcompile.backends.cuda.programs.primitives import functions_text
from npcompile.backends.cuda.programs.program import NotPrintable, Program
from npcompile.backends.cuda.programs.tile_printer import COLUMN, NONE, ROW, Writer
from npcompile.backends.kernels.kernel import Kernel, Let, Load, Loop, ScratchRow, Statement, children, walk
from npcompile.backends.kernels.operations import is_costly
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
    is_fast: bool = False  # may results be rounded otherwise than NumPy's?

    def writer(self, **fields: object) -> Writer:
        rows = {s.buffer for s in walk(self.kernel.body) if isinstance(s, ScratchRow)}
        return Writer(self.kernel, self.types, self.symbols, self.on_device, rows=rows, is_fast=self.is_fast, **fields)  # type: ignore[arg-type]


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
    return Program(name, HEADER + functions_text(made) + made, tuple(writer.parameters.values()), writer.is_fast)


def masks(writer: Writer, rows: str | None, columns: str | None) -> None:
    """Names for what is inside of the array, of as many rows and columns."""
    for which, deps, size in (("row", ROW, rows), ("column", COLUMN, columns)):
        if size is not None:
            writer.line(f"in_{which}s = {which} < {size}")
            writer.masks[deps] = f"in_{which}s"


# --- maps


def map_of(kernel: Kernel) -> Nest:
    nest = nest_of(kernel.body)
    if any(children(s) for s in nest.body):
        raise NotPrintable(f"{kernel.name} has loops beside each other")
    return nest


def reads_first(body: Sequence[Statement]) -> list[Statement]:
    """The same with memory read before what takes long, where that is not needed for it: all reads are on their way at once.

    The compiler does not move them itself, as functions have branches.
    """
    made: list[Statement] = []
    for s in body:
        at = len(made)
        if isinstance(s, Load):
            while at and isinstance(before := made[at - 1], Let) and before.target != s.mask:
                at -= 1
            if not any(isinstance(m, Let) and is_costly(m.op) for m in made[at:]):
                at = len(made)
        made.insert(at, s)
    return made


def print_map(context: Context, nest: Nest, *, is_flat: bool) -> Program:
    """Tiles over all loops counted as one, or of rows (all loops but the last) and columns (the last)."""
    writer = context.writer()
    outer, inner = ([], nest.axes) if is_flat else (nest.axes[:-1], nest.axes[-1:])
    columns = writer.size(product([n for _, n in inner]))
    rows = writer.size(product([n for _, n in outer]))
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({columns} + BLOCK - 1) // BLOCK")
    writer.tile_indices("(program // blocks) * ROWS", "(program % blocks) * BLOCK")
    masks(writer, None if is_flat else rows, columns)
    writer.axes("row", outer, ROW)
    writer.axes("column", inner, COLUMN)
    writer.statements(reads_first(nest.inside))
    return finished(writer, context.kernel.name)


def print_turned_map(context: Context, nest: Nest, across: str) -> Program:
    """Tiles over the last loop and the one of `across`, along which other memory is contiguous. Other loops are scalars."""
    writer = context.writer()
    inner, rows = nest.axes[-1], next(a for a in nest.axes if a[0] == across)
    outer = [a for a in nest.axes[:-1] if a is not rows]
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.line(f"blocks = ({writer.size(inner[1])} + BLOCK - 1) // BLOCK")
    writer.line(f"heights = ({writer.size(rows[1])} + ROWS - 1) // ROWS")
    writer.line("outer = program // blocks // heights")
    writer.tile_indices("(program // blocks % heights) * ROWS", "(program % blocks) * BLOCK")
    masks(writer, writer.size(rows[1]), writer.size(inner[1]))
    writer.axes("outer", outer, NONE)
    writer.axes("row", [rows], ROW)
    writer.axes("column", [inner], COLUMN)
    writer.statements(reads_first(nest.inside))
    return finished(writer, context.kernel.name)
