"""Running results of reductions, printed as C: how they are declared, added to, combined over lanes, and read in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.extremes import RELATION, declare_signs, note_sign, sign_of_zero
from npcompile.backends.cpu.fp_barriers import opaque_text
from npcompile.backends.cpu.kernel_plan import KernelPlan, Order, ReduceForm, ValueForms
from npcompile.backends.cpu.nan_recheck import doubt_lines
from npcompile.backends.cpu.primitives import c_type, constant_text, rounded_text
from npcompile.backends.cpu.reducers import (
    LOGICAL,
    WIDTHS,
    added_text,
    better_text,
    combine_text,
    declare_total,
    ending,
    from_zero,
    ignores_nan,
    in_order_text,
    is_pairwise,
    is_position,
    lane_identity,
    notes_nan,
)
from npcompile.backends.kernels.kernel import Accumulate, Accumulator, CheckIndex, Let, Load, Position, Reduce, Statement, Store
from npcompile.backends.kernels.operations import short
from npcompile.backends.native_profiling import PROFILERS, line_of
from npcompile.tensor_core.dim import Size

ALONE = ReduceForm(Order.SERIAL)  # outside of every Reduce


@dataclass(slots=True)
class RunningResults:
    """The lines of a range function, and the accumulators that are open where the next one goes."""

    plan: KernelPlan
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    is_laned: bool = False  # inside a Reduce
    form: ReduceForm = ALONE  # of that Reduce
    endings: dict[str, str] = field(default_factory=dict)  # of the names of these sums, where they are not in lanes
    adds_rows: bool = False  # to results, as NumPy does
    is_held: bool = False  # are running results of a column in registers?
    held: dict[str, str] = field(default_factory=dict)  # of an accumulator: the ending of the register's name, not "_held"
    is_running: bool = False  # are they asked for after each step?
    is_first: bool = False  # is nothing combined yet, so that a value replaces the identity?
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    read: set[tuple[str, Size]] = field(default_factory=set)  # buffers, and where in them
    rows_at_once: int = 1  # that a task reads before it writes any
    lane: str = "0"
    is_combining: bool = False  # what tasks have left, in a function of its own
    in_fours: bool = False  # are doubted sums of four rows noted at once?
    is_postponed: bool = False  # are values kept until others have been computed, and then combined in their order?

    @property
    def values(self) -> ValueForms:
        return self.plan.combined if self.is_combining else self.plan.values

    @property
    def lanes(self) -> int:
        return self.form.lanes

    def notes(self, a: Accumulator) -> bool:
        """Is kept beside it what was seen? In lanes in memory NaN stays, and zeros have their order there."""
        return self.is_laned and notes_nan(a) and (self.form.order not in (Order.LANES, Order.PAIRS) or ignores_nan(a))

    def is_turned(self, a: Accumulator) -> bool:
        """Are there the least of negatives, which take fewer instructions than the greatest of numbers?"""
        return notes_nan(a) and not self.notes(a) and self.is_laned and a.reducer == "maximum"

    @property
    def is_simd(self) -> bool:
        """Are the lanes the compiler's?"""
        return self.form.order is Order.SIMD

    def tell_line(self, s: Statement) -> None:
        """Of the user's, where profilers are to know what `s` is of."""
        if PROFILERS.are_told and isinstance(s, Let | Load | Position | CheckIndex | Store | Accumulate):
            place = self.plan.kernel.places.get((s.value if isinstance(s, Store | Accumulate) else s.target).name)
            if place is not None:
                self.line(line_of(place.filename, place.line))

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def open(self, text: str) -> None:
        self.line(text)
        self.indent += 1

    def close(self, text: str = "}") -> None:
        self.indent -= 1
        self.line(text)

    def fill(self, a: Accumulator, ending: str = "") -> None:
        reducer, name = "minimum" if self.is_turned(a) else a.reducer, a.name + ending
        self.line(f"for (int lane = 0; lane < {self.lanes}; lane++) {name}[lane] = {lane_identity(reducer, a.dtype)};")

    def fold_lanes(self, a: Accumulator) -> None:
        if self.lanes > 1:
            self.line(f"npc_fold_{a.reducer}_{short(a.dtype)}_{self.lanes}({a.name});")

    def accumulate(self, s: Accumulate) -> None:
        a = self.accumulators[s.accumulator]
        value = s.value.name
        if self.is_postponed:
            self.line(f"{a.name}_terms[lane] = {value};")
        elif is_position(a):
            best, at = self.place(a), f"{a.name}_at_held" if self.is_held else f"{a.name}_at[{self.lane}]"
            self.line(f"const int {a.name}_better = {better_text(a, value, best)};")
            self.line(f"{at} = {a.name}_better ? {size_text(s.position)} : {at};")
            self.line(f"{best} = {a.name}_better ? {value} : {best};")
        elif a.name in self.plan.scanned:
            text = in_order_text(a.reducer, a.name, value, a.dtype)
            self.line(f"{a.name} = {a.name}_started ? {text} : {value};")
            self.line(f"{a.name}_started = 1;")
            self.line(f"const {c_type(a.dtype)} {a.result.name} = {a.name};")
        elif self.notes(a):
            place, relation = self.place(a), RELATION[a.reducer]
            number = f"{a.name}_number"
            self.line(f"const {c_type(a.dtype)} {number} = {value} == {value} ? {value} : {lane_identity(a.reducer, a.dtype)};")
            self.line(f"{place} = {number} {relation} {place} ? {number} : {place};")
            self.line(f"{a.name}_seen |= {value} {'==' if ignores_nan(a) else '!='} {value};")
            self.line(note_sign(a.name, a.reducer, number if ignores_nan(a) else value, a.dtype))
        elif self.is_turned(a):
            least = combine_text("minimum", self.place(a), f"-{value}", a.dtype)
            self.line(f"{self.place(a)} = {least};")
        elif self.is_simd and a.reducer in LOGICAL:
            self.line(f"{a.name} {LOGICAL[a.reducer]}= {value} != 0;")
        else:
            place = self.place(a)
            if self.is_first and notes_nan(a):
                added = value
            elif self.is_running and notes_nan(a):
                added = in_order_text(a.reducer, place, value, a.dtype)
            else:
                added = added_text(a, place, value) if self.adds_rows else combine_text(a.reducer, place, value, a.dtype)
            self.line(f"{place} = {added};")
            if self.is_running:
                self.line(f"const {c_type(a.result.dtype)} {a.result.name} = {place};")

    def place(self, a: Accumulator) -> str:
        if self.is_held:
            return a.name + self.held.get(a.name, "_held")
        return a.name if self.is_simd else a.name + self.endings.get(a.name, f"[{self.lane}]")

    def accumulate_in_lanes(self, s: Reduce, form: ReduceForm) -> None:
        self.is_laned, self.form = True, form
        self.endings = {a.name: ending(a) for a in s.accumulators if is_pairwise(a)}
        self.accumulators = {a.name: a for a in s.accumulators}

    def accumulate_nowhere(self) -> None:
        self.is_laned, self.form = False, ALONE
        self.endings = {}
        self.lane = "0"

    def declare(self, s: Reduce, form: ReduceForm) -> None:
        self.accumulate_in_lanes(s, form)
        if self.is_simd:
            for a in s.accumulators:
                c = WIDTHS[form.truth_bytes] if a.reducer in LOGICAL else c_type(a.dtype)
                self.line(f"{c} {a.name} = {lane_identity(a.reducer, a.dtype)};")
                if self.notes(a):
                    self.line(f"int {a.name}_seen = 0; {declare_signs(a.name, a.reducer, a.dtype)}")
            return
        for a in s.accumulators:
            c = c_type(a.dtype)
            if is_pairwise(a):
                self.line(declare_total(a))
                continue
            self.line(f"{c} {a.name}[{self.lanes}] __attribute__((aligned(64)));")
            self.fill(a)
            if is_position(a):
                self.line(f"int64_t {a.name}_at[{self.lanes}] __attribute__((aligned(64)));")
                self.line(f"for (int lane = 0; lane < {self.lanes}; lane++) {a.name}_at[lane] = -1;")
            if self.notes(a):
                self.line(f"int {a.name}_seen = 0; {declare_signs(a.name, a.reducer, a.dtype)}")

    def combine_lanes(self, a: Accumulator) -> None:
        if self.is_simd or is_pairwise(a):
            pass
        elif is_position(a):
            self.first_lane(a)
        else:
            if self.is_turned(a):
                self.line(f"for (int lane = 0; lane < {self.lanes}; lane++) {a.name}[lane] = -{a.name}[lane];")
            self.fold_lanes(a)
        if self.notes(a):
            self.line(sign_of_zero(a.name, self.place(a)))
            self.line(f"if ({'!' if ignores_nan(a) else ''}{a.name}_seen) {self.place(a)} = {constant_text(np.nan, a.dtype)};")

    def first_lane(self, a: Accumulator) -> None:
        """The best of all lanes to lane 0, in pairs; of equal ones the first. A lane that saw nothing but the worst has -1."""
        best, value = f"{a.name}[lane]", f"{a.name}[lane + width]"
        nan = f" | (({value} != {value}) & ({best} != {best}))" if a.dtype.kind == "f" else ""
        at, other = f"{a.name}_at[lane]", f"{a.name}_at[lane + width]"
        self.open(f"for (int width = {self.lanes // 2}; width; width /= 2) {{")
        self.open("for (int lane = 0; lane < width; lane++) {")
        self.line(f"const int is_first = (uint64_t){other} < (uint64_t){at};")
        self.line(f"const int is_better = {better_text(a, value, best)} | ((({value} == {best}){nan}) & is_first);")
        self.line(f"{at} = is_better ? {other} : {at};")
        self.line(f"{best} = is_better ? {value} : {best};")
        self.close()
        self.close()

    def result_text(self, a: Accumulator, count: Size) -> str:
        if is_position(a):
            return f"npc_max(0, {a.name}_at[0])"
        total = from_zero(a, self.place(a))
        if a.result.dtype == np.float16 and a.dtype.itemsize == 4:
            total = rounded_text(f"({total})", a.result.dtype)
        if a.reducer == "add" and a.dtype.kind in "fc":
            zero = constant_text(0, a.dtype)
            return (
                zero
                if isinstance(count, int) and count == 0
                else total
                if isinstance(count, int)
                else f"({size_text(count)} == 0 ? {zero} : {total})"
            )
        return total

    def total_text(self, a: Accumulator, text: str) -> str:
        """The result of a reduction: made opaque, where it is one of numbers that the compiler may know."""
        return opaque_text(text, c_type(a.result.dtype), is_one=True) if a.name in self.values.totals else text

    def note_doubt(self, a: Accumulator) -> None:
        for line in doubt_lines(a):
            self.line(line)
