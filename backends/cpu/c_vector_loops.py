"""Loops in vectors printed as C, and the same loops over elements, of which the compiler makes what it can.

The last elements, too few for a vector, are one vector, of which only they are read and stored. Its other lanes hold the first of
them again, so that they note no error of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.c_functions import CALLED_WHOLE, WHOLE
from npcompile.backends.cpu.c_running_results import RunningResults
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.fp_barriers import is_masking
from npcompile.backends.cpu.kernel_plan import IndexTasks
from npcompile.backends.cpu.lanes import BYTES, Lanes
from npcompile.backends.cpu.primitives import c_type, power_text
from npcompile.backends.cpu.statement_forms import room_of_terms
from npcompile.backends.cpu.vector_loops import VectorForm, template_of
from npcompile.backends.kernels.index import split_linear, symbols_in
from npcompile.backends.kernels.kernel import Accumulate, Let, Load, Position, Statement, Store, Value

EARLY = 1536  # bytes ahead that memory is asked for
EARLY_ROW = 8192  # the same in rows that are read for a second time, at least: the next row is prefetched meanwhile


@dataclass(slots=True)
class Elements:
    """A loop over elements, of which the compiler makes vectors."""

    p: RunningResults
    print_statements: Callable[[Sequence[Statement]], None]
    width: int = 1

    def type_of(self, v: Value) -> str:
        return c_type(v.dtype)

    def begin(self, first: str) -> None:
        """Before the loop."""

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        self.print_statements(body)

    def say_independent(self, elements: int = 0) -> None:
        """That no element of the next loop depends on another one, or on none of so many."""
        self.p.line(f"#pragma omp simd safelen({elements})" if elements else "#pragma GCC ivdep")


@dataclass(slots=True)
class Vectors(Elements):
    """The same over vectors."""

    form: VectorForm = field(kw_only=True)

    def __post_init__(self) -> None:
        self.width = self.lanes.count

    @property
    def lanes(self) -> Lanes:
        return self.form.lanes

    @property
    def axis(self) -> str:
        return self.form.axis

    def type_of(self, v: Value) -> str:
        """Words hold truth values, all bits of them or none, and integers."""
        return self.lanes.named("npc_numbers@" if v.dtype.kind == "f" else "npc_words@")

    def begin(self, first: str) -> None:
        if self.form.is_past_caches:
            read, written = (list(map(place_of, places)) for places in (self.form.read, self.form.written))
            tests = [f"!((uintptr_t)({place}) % {BYTES})" for place in written]
            tests += [f"{place} != {other}" for place in written for other in read]  # not where they are in caches
            self.p.line("int is_far = c->is_far;")
            self.p.line(f"if (is_far) {{ const int64_t {self.axis} = {first}; is_far = {' && '.join(tests)}; }}")

    def say_independent(self, elements: int = 0) -> None:
        """The compiler is to make nothing of it."""

    def statements(self, body: Sequence[Statement], end: str = "") -> None:
        """What is done to the elements from `axis` on: to a whole vector, or to as many as there are before `end`."""
        if end:
            self.p.line(self.lanes.named(f"const npc_choice@ which = npc_first@({end} - {self.axis});"))
        for s in body:
            self.p.tell_line(s)
            match s:
                case Store():
                    has_room = s.buffer in map(room_of_terms, self.p.accumulators.values())
                    self.store(place_of(s), self.operand(s.value), is_some=bool(end) and not has_room)
                case Accumulate(name, value):
                    self.p.line(f"{name}_vector = {name}_vector + {self.operand(value)};")
                case Let() | Load() | Position() if s.target.name in self.form.scalars:
                    self.print_statements([s])
                case Let() | Load() | Position():
                    vector, text = self.type_of(s.target), self.lanes.named(self.text_of(s, is_some=bool(end)))
                    self.p.line(f"const {vector} {s.target.name} = ({vector})({text});")

    def text_of(self, s: Let | Load | Position, *, is_some: bool) -> str:
        match s:
            case Load():
                place = place_of(s)
                return f"npc_some@({place}, which)" if is_some else f"*(const npc_numbers@_in_memory*)({place})"
            case Position(_, index):
                linear = split_linear(index, self.axis)
                assert linear is not None
                order = "npc_order_of8(which)" if is_some else "npc_order8()"
                return f"{size_text(index)} + {size_text(linear[0])} * {order}"
            case Let(_, op, args):
                operands, dtype = [self.operand(v) for v in args], args[0].dtype
                if op == "power" and (product := power_text(operands[0], dtype, self.p.values.constants.get(args[1].name), "@")):
                    return product
                text = (template_of(s) or "").format(*operands, T=c_type(dtype))
                text = f"npc_same@({text})" if is_masking(s, self.p.values.constants) else text
                return text.replace(WHOLE, CALLED_WHOLE) if is_some or not self.form.are_inside else text

    def store(self, place: str, vector: str, *, is_some: bool) -> None:
        if is_some:
            return self.p.line(self.lanes.named(f"npc_store_some@({place}, {vector}, which);"))
        if self.form.is_past_caches:  # asked anew each time: the compiler would make two loops
            self.p.line('__asm__("" : "+r"(is_far));')
            early = " ".join(map(self.early, self.form.read)).strip()
            self.p.line(self.lanes.named(f"if (is_far) {{ npc_past_caches@({place}, {vector}); {early} }} else"))
        self.p.line(self.lanes.named(f"*(npc_numbers@_in_memory*)({place}) = {vector};"))

    def early(self, x: Load) -> str:
        """Prefetch what is read soon. What is the same for all rows is in the caches since the first."""
        way, ahead = self.p.plan.way, str(EARLY)
        if isinstance(way, IndexTasks) and way.axes:
            if symbols_in(x.offset).isdisjoint(axis for axis, _ in way.axes):
                return ""
            row = split_linear(x.offset, way.axes[-1][0])
            if row and (x.buffer, x.offset) in self.p.read:
                ahead = f"npc_max({size_text(row[0])} * {self.p.rows_at_once}, {EARLY_ROW})"
        return f"__builtin_prefetch({place_of(x)} + {ahead});"

    def operand(self, v: Value) -> str:
        if v.name in self.form.made:
            return v.name
        if v.dtype.kind == "f":
            return self.lanes.named(f"npc_all@({v.name})")
        return self.lanes.named(f"((npc_words@){{0}} {'+' if v.dtype.kind == 'i' else '-'} {v.name})")


def place_of(s: Load | Store) -> str:
    return f"{s.buffer} + {size_text(s.offset)}"


def print_vectors(vectors: Vectors, body: Sequence[Statement], first: str, end: str) -> None:
    p, axis, width = vectors.p, vectors.axis, vectors.width
    p.open("{")
    vectors.begin(first)
    p.line(f"const int64_t past_{axis} = {end};")
    p.line(f"int64_t {axis} = {first};")
    p.open(f"for (; {axis} + {width} <= past_{axis}; {axis} += {width}) {{")
    vectors.statements(body)
    p.close()
    p.open(f"if ({axis} < past_{axis}) {{")
    vectors.statements(body, f"past_{axis}")
    p.close()
    p.close()
