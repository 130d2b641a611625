"""What is decided about the values of a function, in the order in which it prints them: those that the C compiler must not know.

An operation on numbers that the compiler knows notes no errors (fp_barriers.py), so an operand is made opaque; vectors, which the
compiler does not look through, need no such operand, so that a loop with one is written in elements alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.fp_barriers import KnownNumbers, is_chosen
from npcompile.backends.cpu.kernel_plan import (
    ColumnBlocks,
    ElementBlocks,
    IndexTasks,
    InOrder,
    LoopForm,
    Opaque,
    ReduceChunks,
    ReduceForm,
    ReduceHalves,
    RowBlocks,
    ScanSlices,
    ScatterSlices,
    Squares,
    TileSlices,
    ValueForms,
    Way,
)
from npcompile.backends.cpu.vector_loops import VectorForm, column_vectors_of, vectors_of
from npcompile.backends.kernels.kernel import Accumulate, Columns, Let, Load, Loop, Position, Reduce, Scan, ScratchRow, Statement
from npcompile.tensor_core.dim import Size


@dataclass(slots=True)
class Following:
    """Follows the statements of a function of a kernel."""

    reduces: Mapping[Reduce, ReduceForm]
    loops: Mapping[Loop, LoopForm]
    sizes: Mapping[str, Size]
    unread: frozenset[str]  # memory that the kernel only writes
    known: KnownNumbers = field(default_factory=KnownNumbers)
    opaque: dict[str, Opaque] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)
    vectors: dict[Loop | Columns, VectorForm] = field(default_factory=dict)

    def forms(self) -> ValueForms:
        return ValueForms(self.opaque, frozenset(self.known.totals), self.constants, self.vectors)

    def function(self, way: Way) -> None:
        """The range function."""
        match way:
            case InOrder() | ElementBlocks() | IndexTasks():
                self.statements(way.body)
            case ColumnBlocks():
                self.statements(way.body, finishes=not way.is_sliced)
            case Squares():
                if not way.copied:  # elements first, of loads that were turned over
                    self.elements(way.body)
                self.statements(way.body)
            case ReduceChunks() | ReduceHalves():
                self.statements([*way.before, *way.reduce.body], around=way.reduce)
            case TileSlices():
                for part in way.parts:
                    self.statements(part.before)
                    self.statements([part.main], finishes=False)
            case RowBlocks():
                for statements in way.blocks.parts:
                    self.statements(statements)
            case ScatterSlices():
                self.statements(way.before)
                if way.blocks is None or way.is_moved:
                    self.statements([way.loop])
                if way.blocks:
                    self.statements(way.blocks.given)
            case ScanSlices():
                self.statements([*way.before, *way.inside, way.loop])

    def combining(self, way: Way) -> None:
        """The function that combines what tasks have left."""
        match way:
            case ReduceChunks() | ReduceHalves():
                self.statements(way.after)
            case ColumnBlocks(is_sliced=True):
                self.statements([*way.body[:-1], *way.columns.finish])
            case TileSlices():
                for part in way.parts:
                    if part.is_combined:
                        self.statements(part.before)
                        self.statements(part.main.finish if isinstance(part.main, Columns) else part.after)

    def statements(self, body: Iterable[Statement], *, finishes: bool = True, around: Reduce | None = None) -> None:
        """`finishes`: are columns finished here? `around`: the Reduce around the statements."""
        for s in body:
            match s:
                case Loop() if around:
                    self.loop_of_reduce(s, around)
                case Loop():
                    self.loop(s)
                case Reduce():
                    self.statements(s.body, around=s)
                case Columns():
                    if form := column_vectors_of(s, self.known):
                        self.vectors[s] = form
                    self.statements(s.body)
                    self.statements(s.finish if finishes else ())
                case Scan() | ScratchRow():
                    self.statements(s.body)
                case _:
                    self.value(s)

    def elements(self, body: Iterable[Statement]) -> None:
        """The same without vectors."""
        for s in body:
            if isinstance(s, Loop):
                self.elements(s.body)
            else:
                self.value(s)

    def value(self, s: Statement) -> None:
        match s:
            case Let(op="kept" | "by_numpy"):
                pass
            case Let(target):
                if s.op == "constant":
                    self.constants[target.name] = s.params[0][1]
                if (operand := self.known.hidden(s)) is not None:
                    is_one = not is_chosen(self.known.of(s.args[operand]))
                    self.opaque.setdefault(target.name, Opaque(operand, is_one))
            case Position():
                self.known.is_at(s, self.sizes)
            case Load(target, buffer, offset, mask):
                self.known.reads(target, (buffer, str(offset), mask))
            case Accumulate():
                self.known.accumulates(s)

    def loop(self, s: Loop) -> None:
        form = self.loops[s]
        if form.strips:
            for part in form.strips.parts:
                if isinstance(part, Loop):
                    self.loop(part)
            return
        if form.is_independent:
            self.in_vectors(s, form.pipeline.body if form.pipeline else s.body)
        self.statements(s.body)

    def loop_of_reduce(self, s: Loop, reduce: Reduce) -> None:
        form, terms = self.reduces[reduce], self.loops[s].terms
        if terms is None or form.is_fused:
            self.statements(s.body, around=reduce)
        if terms is None:
            return
        for x in s.body:
            if isinstance(x, Accumulate):
                self.known.accumulates(x)
        if terms.is_independent:
            self.in_vectors(terms.loop, terms.pipeline.body if terms.pipeline else terms.loop.body)
        self.elements(terms.loop.body)

    def in_vectors(self, s: Loop, body: Sequence[Statement]) -> None:
        if found := vectors_of(s.axis, body, self.known, self.unread):
            self.vectors[s] = found
