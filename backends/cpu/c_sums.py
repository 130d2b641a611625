"""Sums in pairs, printed as C: blocks of a run one after another, and what they are added to.

The walk over a run needs no recursion. Halves are taken until a block is left, and of each that is still to do its size is kept,
and then the sum of the half before it. What is quickly computed is added to lanes meanwhile. Of the rest, and where a block goes
over the end of the innermost loop, the terms of a block are stored first. An addition to a lane waits for the one before: where
both halves of what is left are a block, their lanes are added to in turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.c_running_results import RunningResults
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.lanes import BYTES
from npcompile.backends.cpu.pairwise import BLOCK, LANES
from npcompile.backends.cpu.primitives import c_type, loaded_text
from npcompile.backends.cpu.reducers import added_text, combine_text, identity_text, is_pairwise, is_position
from npcompile.backends.cpu.software_pipelining import Pipeline
from npcompile.backends.cpu.statement_forms import room_of_terms
from npcompile.backends.kernels.kernel import Accumulate, Accumulator, Load, Loop, Run, Statement, Store, Value
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.meta import product

DEEPEST = 64  # halves of halves of the longest run

LEAF = """
VECTORS
static inline TYPE npc_lanes_NAME(const TYPE* a) { /* of all lanes, in pairs */
  const PART* r = (const PART*)a;
#if VECTORS_ARE_HERE && __has_builtin(__builtin_shufflevector)
  const npc_eight_NAME v = *(const npc_eight_NAME*)r;
  const npc_pairs_NAME p = __builtin_shufflevector(v, v, 0, 2, 4, 6) + __builtin_shufflevector(v, v, 1, 3, 5, 7);
  return (p[0] + p[1]) + (p[2] + p[3]);
#else
  return TOTAL;
#endif
}
OF_FOUR
static inline TYPE npc_block_NAME(const TYPE* a, int64_t n) {
  TYPE r[COUNT] __attribute__((aligned(64)));
  int64_t i = 0;
  for (int lane = 0; lane < COUNT; lane++) r[lane] = NOTHING;
  for (; i + COUNT <= n; i += COUNT) {
    #pragma omp simd
    for (int lane = 0; lane < COUNT; lane++) r[lane] = LANE;
  }
  TYPE sum = npc_lanes_NAME(r);
  for (; i < n; i++) sum = NEXT;
  return sum;
}
"""
# The lanes of four rows at once. Pairs are added as of one row.
LANES_OF_FOUR = """
static inline void npc_lanes_of_four_NAME(const TYPE* a, const TYPE* b, const TYPE* c, const TYPE* d, TYPE* sums) {
#if __has_builtin(__builtin_shufflevector)
  npc_pairs_NAME p[4];
  const TYPE* const rows[4] = {a, b, c, d};
  for (int k = 0; k < 4; k++) {
    const npc_eight_NAME v = *(const npc_eight_NAME*)rows[k];
    p[k] = __builtin_shufflevector(v, v, 0, 2, 4, 6) + __builtin_shufflevector(v, v, 1, 3, 5, 7);
  }
  for (int k = 0; k < 4; k += 2)
    p[k] = __builtin_shufflevector(p[k], p[k + 1], 0, 4, 2, 6) + __builtin_shufflevector(p[k], p[k + 1], 1, 5, 3, 7);
  p[0] = __builtin_shufflevector(p[0], p[2], 0, 1, 4, 5) + __builtin_shufflevector(p[0], p[2], 2, 3, 6, 7);
  for (int k = 0; k < 4; k++) sums[k] = p[0][k];
#else
  sums[0] = npc_lanes_NAME(a), sums[1] = npc_lanes_NAME(b), sums[2] = npc_lanes_NAME(c), sums[3] = npc_lanes_NAME(d);
#endif
}
"""
CALLED = re.compile(r"npc_(?:lanes|lanes_of_four|block)_([a-z]\d+)\(")


def blocks_text(kernels: str) -> str:
    """The functions that these kernels call to sum up a block, or the lanes of one."""
    return "".join(block_text(name) for name in sorted(set(CALLED.findall(kernels))))


def block_text(name: str) -> str:
    part = {"c8": "float", "c16": "double", "c32": "long double"}.get(name)
    a = Accumulator("a", "add", np.dtype(name), Value("", np.dtype(name)))
    total = pairs("r", 0, 1, LANES)
    if part:
        total = f"({c_type(a.dtype)}){{{pairs('r', 0, 2, LANES // 2)}, {pairs('r', 1, 2, LANES // 2)}}}"
    size = a.dtype.itemsize
    vectors = "\n".join(
        f"typedef {c_type(a.dtype)} npc_{of}_{name} __attribute__((vector_size({count * size}), may_alias));"
        for of, count in (("eight", LANES), ("pairs", LANES // 2))
    )
    has_vectors = name in ("f4", "f8")
    replaced = {"VECTORS_ARE_HERE": str(int(has_vectors)), "VECTORS": vectors if has_vectors else ""}
    text = LEAF.replace("OF_FOUR", LANES_OF_FOUR if has_vectors else "")
    replaced |= {"TYPE": c_type(a.dtype), "NAME": name, "PART": part or c_type(a.dtype), "TOTAL": total}
    replaced |= {"COUNT": str(LANES // 2 if part else LANES), "NOTHING": identity_text(a)}
    replaced |= {
        "LANE": combine_text("add", "r[lane]", "a[i + lane]", a.dtype),
        "NEXT": combine_text("add", "sum", "a[i]", a.dtype),
    }
    return re.sub("|".join(replaced), lambda found: replaced[found[0]], text)


def pairs(name: str, first: int, step: int, count: int) -> str:
    if count == 1:
        return f"{name}[{first}]"
    half = count // 2
    return f"({pairs(name, first, step, half)} + {pairs(name, first + half * step, step, half)})"


@dataclass(slots=True)
class Nest:
    """Loops inside each other, and the statements before each."""

    loops: list[Loop]
    before: list[list[Statement]]  # of each loop but the first
    body: list[Statement]

    @classmethod
    def of(cls, loop: Loop) -> Nest:
        nest = cls([loop], [], loop.body)
        while isinstance(inner := nest.body[-1], Loop):
            nest.loops.append(inner)
            nest.before.append(nest.body[:-1])
            nest.body = inner.body
        return nest


@dataclass(slots=True)
class Sums(RunningResults):
    """The sums of the innermost loops of a Reduce."""

    rows: list[tuple[str, dict[str, Accumulator]]] = field(default_factory=list)  # summed at a time: which, and their sums

    def every_accumulator(self) -> list[Accumulator]:
        return [a for _, sums in self.rows for a in sums.values()] or list(self.accumulators.values())

    def summed(self) -> list[Accumulator]:
        return [a for a in self.every_accumulator() if is_pairwise(a)]

    def per_block(self) -> int:
        """Elements of a block."""
        return BLOCK * self.lanes // LANES

    def sum_up_runs(self, run: Run, body: Sequence[Statement]) -> None:
        """The sums of one run after another, of the loops in the body."""
        *before, loop = body
        if not isinstance(loop, Loop):  # no axis has more elements than one
            return self.statements(body)
        self.statements(before)
        nest = Nest.of(loop)
        count = product([x.size for x in nest.loops])
        if run.size is not None and same(count, run.size):
            return self.sum_up_nest(nest, "0", size_text(count), count)
        for x in nest.loops:
            self.line(f"int64_t {x.axis}_at = 0;")
        self.run_lines(run)
        self.line("int64_t rest = period;")
        self.open(f"for (int64_t done = 0, some; done < {size_text(count)}; done += some) {{")
        self.line("some = npc_min(run, rest);")
        self.line("if (!(rest -= some)) rest = period;")
        self.sum_up_blocks(nest, "some", run.size)
        self.close()

    def sum_up_part(self, body: Sequence[Statement]) -> None:
        """What the number of a task says: a run, and of it, from its highest bit on, which half of a half."""
        *before, loop = body
        assert isinstance(loop, Loop)
        self.statements(before)
        nest = Nest.of(loop)
        self.line("const int64_t part = task >> c->halvings, parts = (period + run - 1) / run, first = part % parts * run;")
        self.line("int64_t rest = part / parts * period + first, count = npc_min(run, period - first);")
        self.open("for (int64_t bit = c->halvings; bit-- > 0;) {")
        self.line(f"const int64_t half = {self.half('count')};")
        self.line("if (task >> bit & 1) rest += half, count -= half;")
        self.line("else count = half;")
        self.close()
        for x in reversed(nest.loops[1:]):
            self.line(f"int64_t {x.axis}_at = rest % {size_text(x.size)};")
            self.line(f"rest /= {size_text(x.size)};")
        self.line(f"int64_t {loop.axis}_at = rest;")
        self.sum_up_blocks(nest, "count", None, is_part=True)

    def half(self, count: str) -> str:
        """Of so many elements those that are added up first, in C."""
        return f"npc_left_half({count})" if self.lanes == LANES else f"npc_left_half(2 * {count}) / 2"

    def run_lines(self, run: Run) -> None:
        """How long a run is, and after how many elements the next is as long as the first."""
        if run.size is not None:
            return self.line(f"const int64_t run = {size_text(run.size)}, period = run;")
        axes = ", ".join(f"{{{size_text(n)}, {size_text(stride)}, {int(is_summed)}}}" for n, stride, is_summed in run.axes)
        given = f"{len(run.axes)}, (const int64_t[][3]){{{axes}}}, {int(run.is_cast)}"
        self.line(f"int64_t period, run = npc_one_run({given}, &period);")

    def sum_up(self, loops: Sequence[Loop], first: str, count: str) -> None:
        """One run, of a part of the innermost loop."""
        (loop,) = loops
        self.sum_up_nest(Nest.of(loop), first, count, loop.size if first == "0" and count == size_text(loop.size) else None)

    def sum_up_nest(self, nest: Nest, first: str, count: str, size: Size | None) -> None:
        """One run, from an element of the outermost loop on. `size`: of the run, where that is known."""
        *outer, inner = nest.loops
        for x in outer:
            self.line(f"int64_t {x.axis}_at = {first};")
            first = "0"
        if isinstance(size, int) and size <= self.per_block() and not outer and self.form.is_fused:
            self.open("{")
            self.declare_sums()
            self.fused_block(inner, "0", str(size), size)
            self.add_sums()
            return self.close()
        self.open("{")
        self.line(f"int64_t {inner.axis}_at = {first};")
        self.sum_up_blocks(nest, count, size)
        self.close()

    def declare_sums(self) -> None:
        for a in self.summed():
            self.line(f"{c_type(a.dtype)} {a.name}_sum;")

    def add_sums(self) -> None:
        for a in self.summed():
            self.line(f"{a.name}_total = {added_text(a, f'{a.name}_total', f'{a.name}_sum')};")

    def sum_up_blocks(self, nest: Nest, count: str, size: Size | None, *, is_part: bool = False) -> None:
        """One run, or a part of one, from where the loops are on; then they are after it."""
        self.open("{")
        self.declare_sums()
        if isinstance(size, int) and size <= self.per_block():
            self.line(f"const int64_t left = {count};")
            self.block(nest)
        else:
            self.line(f"int64_t left = {count}, todo[{DEEPEST}];")
            for a in self.summed():
                self.line(f"{c_type(a.dtype)} {a.name}_left[{DEEPEST}];")
            self.line("int depth = 0;")
            in_pairs = self.adds_block_pairs(nest)
            self.open("for (;;) {")
            self.line("int64_t half = 0;")
            self.open(f"for (; left > {self.per_block()}; depth++) {{")
            self.line(f"half = {self.half('left')};")
            if in_pairs:
                self.line(f"if (left - half <= {self.per_block()}) break;")
            self.line("todo[depth] = left - half;")
            self.line("left = half;")
            self.close()
            if in_pairs:
                self.open(f"if (left > {self.per_block()}) {{")
                self.block_pair(nest.loops[0])
                self.close("} else {")
                self.indent += 1
            self.block(nest)
            if in_pairs:
                self.close()
            self.open("for (; depth && !todo[depth - 1]; depth--) {")
            for a in self.summed():
                self.line(f"{a.name}_sum = {combine_text('add', f'{a.name}_left[depth - 1]', f'{a.name}_sum', a.dtype)};")
            self.close()
            self.line("if (!depth) break;")
            self.line("left = todo[depth - 1];")
            self.line("todo[depth - 1] = 0;")
            for a in self.summed():
                self.line(f"{a.name}_left[depth - 1] = {a.name}_sum;")
            self.close()
        if is_part:
            for a in self.summed():
                self.line(f"{a.name}_total = {a.name}_sum;")
        else:
            self.add_sums()
        self.close()

    def adds_block_pairs(self, nest: Nest) -> bool:
        """Are both halves, of one block each, added up in one loop?

        What comes from memory for the first time comes sooner from one place after another, and with other results beside the
        sums C compilers make no vectors of both.
        """
        is_alone = all(map(is_pairwise, self.accumulators.values()))
        is_near = self.read.issuperset((x.buffer, x.offset) for x in nest.body if isinstance(x, Load))
        return len(nest.loops) == 1 and self.form.is_fused and not self.rows and is_alone and is_near

    def block_pair(self, s: Loop) -> None:
        """Blocks of `half` elements, a multiple of the lanes, and of the others of `left`, as many or a few more."""
        at, lanes, sums = f"{s.axis}_at", self.lanes, self.summed()
        for a in sums:
            self.line(f"{c_type(a.dtype)} {a.name}[{lanes}] __attribute__((aligned(64)));")
            self.fill(a)
            self.line(f"{c_type(a.dtype)} {a.name}_next[{lanes}] __attribute__((aligned(64)));")
            self.fill(a, "_next")
        self.line(f"const int64_t middle = {at} + half, end = {at} + left;")
        before, of_next = self.endings, {a.name: "_next[lane]" for a in sums}
        self.endings = {}
        self.open(f"for (; {at} < middle; {at} += {lanes}) {{")
        self.lane_loop(s, at, str(lanes), "omp simd")
        self.endings = of_next
        self.lane_loop(s, f"{at} + half", str(lanes), "omp simd")
        self.close()
        self.line(f"{at} += half;")
        self.open(f"for (; {at} + {lanes} <= end; {at} += {lanes}) {{")
        self.lane_loop(s, at, str(lanes), "omp simd")
        self.close()
        for a in sums:
            self.line(f"{a.name}_sum = npc_lanes_{short(a.dtype)}({a.name}_next);")
        self.endings = {a.name: "_sum" for a in sums}
        self.open(f"for (; {at} < end; {at}++) {{")
        self.rows_at(s, at)
        self.close()
        self.endings = before
        for a in sums:
            whole = combine_text("add", f"npc_lanes_{short(a.dtype)}({a.name})", f"{a.name}_sum", a.dtype)
            self.line(f"{a.name}_sum = {whole};")

    # --- one block of `left` elements, from where the loops are on

    def block(self, nest: Nest) -> None:
        at, size = f"{nest.loops[-1].axis}_at", size_text(nest.loops[-1].size)
        if len(nest.loops) == 1:
            self.inner_block(nest.loops[0])
            return self.line(f"{at} += left;")
        if self.form.is_fused:
            self.open(f"if ({at} + left <= {size}) {{")
            self.outside(nest)
            self.inner_block(nest.loops[-1])
            self.line(f"{at} += left;")
            self.advance(nest)
            self.close("} else {")
            self.indent += 1
        self.declare_terms()
        self.open("for (int64_t filled = 0, some; filled < left; filled += some) {")
        self.line(f"some = npc_min(left - filled, {size} - {at});")
        self.outside(nest)
        self.compute_terms(nest.loops[-1], "filled", "some")
        self.line(f"{at} += some;")
        self.advance(nest)
        self.close()
        self.combine_terms()
        if self.form.is_fused:
            self.close()

    def outside(self, nest: Nest) -> None:
        """What is before the innermost loop, for one index of each of the others."""
        for loop, before in zip(nest.loops, nest.before):
            self.line(f"const int64_t {loop.axis} = {loop.axis}_at;")
            self.statements(before)

    def advance(self, nest: Nest) -> None:
        """To the next elements of the outer loops, at the end of the innermost."""
        inner, *outer = reversed(nest.loops)
        self.open(f"if ({inner.axis}_at == {size_text(inner.size)}) {{")
        self.line(f"{inner.axis}_at = 0;")
        for k, loop in enumerate(outer):
            if k == len(outer) - 1:
                self.line(f"{loop.axis}_at++;")
            else:
                self.open(f"if (++{loop.axis}_at == {size_text(loop.size)}) {{")
                self.line(f"{loop.axis}_at = 0;")
        for _ in outer:
            self.close()

    def inner_block(self, loop: Loop) -> None:
        if self.form.is_fused:
            return self.fused_block(loop, f"{loop.axis}_at", "left")
        self.declare_terms()
        self.compute_terms(loop, "0", "left")
        self.combine_terms()

    def fused_block(self, s: Loop, first: str, count: str, size: Size | None = None) -> None:
        """Elements that are added to the lanes as they are computed. `size`: how many, where that is known.

        All that is added to is the block's own: compilers keep in memory what is used after a loop.
        """
        lanes, sums = self.lanes, self.summed()
        self.line(f"int64_t base = {first};")
        self.line(f"const int64_t end = {f'{first} + {count}' if first != '0' else count};")
        endings = self.endings
        if isinstance(size, int) and size < lanes:
            self.no_sums()
        else:
            is_sure = isinstance(size, int)
            if not is_sure:
                self.open(f"if (base + {lanes} > end) {{")
                self.no_sums()
                self.close("} else {")
                self.indent += 1
            others = [a for a in self.every_accumulator() if self.goes_with_blocks(a)]
            for a in sums:
                self.line(f"{c_type(a.dtype)} {a.name}[{lanes}] __attribute__((aligned(64)));")
                self.fill(a)
            for a in others:
                self.line(f"{c_type(a.dtype)} {a.name}_here[{lanes}] __attribute__((aligned(64)));")
                self.fill(a, "_here")
            self.endings = {a.name: "_here[lane]" for a in others}
            self.open("do {")
            self.lane_loop(s, "base", str(lanes), "omp simd")
            self.close(f"}} while ((base += {lanes}) + {lanes} <= end);")
            for a in others:
                reducer = "minimum" if self.is_turned(a) else a.reducer
                added = combine_text(reducer, f"{a.name}[lane]", f"{a.name}_here[lane]", a.dtype)
                self.line("#pragma omp simd")
                self.line(f"for (int lane = 0; lane < {lanes}; lane++) {a.name}[lane] = {added};")
            self.add_lanes(sums)
            if not is_sure:
                self.close()
        self.endings = {a.name: "_sum" for a in sums}
        if not isinstance(size, int) or size % lanes:
            self.open("for (; base < end; base++) {")
            self.rows_at(s, "base")
            self.close()
        self.endings = endings

    def goes_with_blocks(self, a: Accumulator) -> bool:
        """May what is beside the sums be combined block by block? Then in any order."""
        is_exact = a.dtype.kind in "bui" or a.reducer not in ("add", "multiply")
        return is_exact and not is_position(a) and not self.notes(a)

    def add_lanes(self, sums: Sequence[Accumulator]) -> None:
        kinds = {short(a.dtype) for a in sums}
        if len(self.rows) != 4 or not kinds <= {"f4", "f8"}:
            for a in sums:
                self.line(f"{a.name}_sum = npc_lanes_{short(a.dtype)}({a.name});")
            return
        for of_rows in zip(*(row.values() for _, row in self.rows)):
            names, kind = [a.name for a in of_rows], short(of_rows[0].dtype)
            added = " ".join(f"{name}_sum = added[{k}];" for k, name in enumerate(names))
            self.line(f"{{ {c_type(of_rows[0].dtype)} added[4]; npc_lanes_of_four_{kind}({', '.join(names)}, added); {added} }}")

    def no_sums(self) -> None:
        for a in self.summed():
            self.line(f"{a.name}_sum = {identity_text(a)};")

    def rows_at(self, s: Loop, place: str) -> None:
        every = self.accumulators
        for row, sums in self.rows or [("", every)]:
            self.open(f"{{ {row}".rstrip())
            self.line(f"const int64_t {s.axis} = {place};")
            self.accumulators = sums
            self.statements(s.body)
            self.close()
        self.accumulators = every

    def declare_terms(self) -> None:
        for a in self.accumulators.values():
            if not is_position(a):
                # The last vector is stored whole: what is read next waits longer for parts of one.
                size = self.per_block() * a.dtype.itemsize + BYTES
                self.line(f"char {a.name}_terms[{size}] __attribute__((aligned({BYTES})));")

    def compute_terms(self, s: Loop, filled: str, some: str) -> None:
        """The terms of `some` elements, after those that are there."""
        first, terms = f"{s.axis}_at", self.plan.loops[s].terms
        assert terms
        stored = {x.buffer for x in terms.loop.body if isinstance(x, Store)}
        for a in self.accumulators.values():
            if room_of_terms(a) in stored:
                self.line(f"char* const {room_of_terms(a)} = {a.name}_terms + ({filled} - {first}) * {a.dtype.itemsize};")
        is_laned, self.is_laned = self.is_laned, False
        if terms.is_independent:
            self.independent_loop(terms.loop, terms.pipeline, first, f"{first} + {some}")
        else:
            self.serial_loop(s.axis, (first, f"{first} + {some}"), terms.loop.body)
        self.is_laned = is_laned

    def combine_terms(self) -> None:
        for a in self.accumulators.values():
            if is_pairwise(a):
                self.line(f"{a.name}_sum = npc_block_{short(a.dtype)}((const {c_type(a.dtype)}*){a.name}_terms, left);")
            elif not is_position(a):
                self.open(f"for (int64_t base = 0; base < left; base += {self.lanes}) {{")
                self.line(f"const int64_t some = npc_min({self.lanes}, left - base);")
                self.open("for (int64_t lane = 0; lane < some; lane++) {")
                place = f"*(const npc_{short(a.dtype)}_in_memory*)({a.name}_terms + (base + lane) * {a.dtype.itemsize})"
                self.line(f"const {c_type(a.dtype)} {a.name}_term = {loaded_text(place, a.dtype)};")
                self.lane = "lane"
                self.accumulate(Accumulate(a.name, Value(f"{a.name}_term", a.dtype)))
                self.lane = "0"
                self.close()
                self.close()

    # --- what a Printer does

    def statements(self, body: Sequence[Statement]) -> None:
        raise NotImplementedError

    def independent_loop(self, s: Loop, pipeline: Pipeline | None, first: str, end: str) -> None:
        raise NotImplementedError

    def serial_loop(self, axis: str, limits: tuple[str, str], body: Sequence[Statement]) -> None:
        raise NotImplementedError

    def lane_loop(self, s: Loop, base: str, lanes: str, pragma: str = "GCC ivdep") -> None:
        raise NotImplementedError
