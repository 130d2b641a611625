"""Kernels printed as C: each a range function over its tasks, and the code that calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.primitives import c_type, constant_text, kind, primitive_text
from npcompile.backends.cpu.product import MOST_ALONE, MOST_IN_STACK
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    CheckIndex,
    Columns,
    Kernel,
    Let,
    Load,
    Loop,
    Position,
    Product,
    Reduce,
    Scan,
    ScratchRow,
    Statement,
    Store,
    children,
    walk,
)
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import Size, c_call, hint_of, text_of

ROUNDS = 16  # of all lanes, before sums are moved to a compensated total: then errors grow as in pairwise summation
FEW_COLUMNS = 4096  # with so few, a reduction over leading axes is cut along these too
LEAST_SLICE = 32768  # elements of such a part
MOST_SLICES = 64
COLUMN_BLOCK = 512  # running results kept at once by a reduction over leading axes
BLOCK = 4096  # elements of the innermost loop in one task
FEW_TASKS = 16  # products of a stack: of so few, large ones are made one after another
CHUNK = 32768  # elements of a whole reduction in one task, at most
SHORT_ROW = 512  # items: for fewer the lanes of a reduction are the compiler's, which keeps them in registers
SERIAL_NANOSECONDS = 50000  # work that is not worth a second thread

REDUCE_HELPERS = """
#define NPC_TWO_SUM(high, low, x) do { \\
    __typeof__(high) npc_s = (high) + (x), npc_b = npc_s - (high); \\
    (low) += ((high) - (npc_s - npc_b)) + ((x) - npc_b); \\
    (high) = npc_s; } while (0)
#define NPC_TOTAL(high, low) ((high) - (high) == 0 ? (high) + (low) : (high))
"""


INTERNAL = re.compile(r"[vtk]\d+")  # names that lowering gives to axes and values
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def size_text(size: Size) -> str:
    """A size or index in C. The graph's symbols get a prefix: they may have any name."""
    return NAME.sub(lambda m: m[0] if is_internal(m[0]) else symbol_text(m[0]), text_of(size, c_call))


def is_internal(name: str) -> bool:
    return bool(INTERNAL.fullmatch(name)) or name.startswith("npc_")


def symbol_text(name: str) -> str:
    return f"size_{name}"


def compensated(acc: Accumulator) -> bool:
    return acc.reducer == "add" and kind(acc.dtype) in "fg"


def is_position(acc: Accumulator) -> bool:
    """Is the result where the value was, not the value?"""
    return acc.reducer in ("arg_max", "arg_min")


def better_text(acc: Accumulator, value: str, best: str) -> str:
    """Does `value` replace the best so far, in C? NaN is better than any number."""
    op = "greater" if acc.reducer == "arg_max" else "less"
    text = primitive_text(op, [value, best], [acc.dtype, acc.dtype], np.dtype(np.bool_))
    return f"{text} | (({value} != {value}) & ({best} == {best}))" if acc.dtype.kind == "f" else text


RELATION = {"maximum": ">", "minimum": "<"}


def notes_nan(acc: Accumulator) -> bool:
    """Is NaN kept beside the lanes? Then these need one instruction for each vector."""
    return acc.reducer in RELATION and kind(acc.dtype) == "f"


def identity_text(acc: Accumulator) -> str:
    return identity_of(acc.reducer, acc.dtype)


def identity_of(reducer: str, dtype: np.dtype) -> str:
    """What changes no value that it is combined with."""
    if reducer == "add":
        return constant_text(-0.0 if dtype.kind == "f" else complex(-0.0, -0.0) if dtype.kind == "c" else 0, dtype)
    if reducer in ("multiply", "logical_and"):
        return constant_text(1, dtype)
    if reducer == "bitwise_and":
        return (
            constant_text(True if dtype.kind == "b" else dtype.type(0) if dtype.kind == "u" else -1, dtype)
            if dtype.kind != "u"
            else str(np.iinfo(dtype).max) + "u"
        )
    if reducer in ("fmax", "fmin") and dtype.kind == "f":
        return constant_text(np.nan, dtype)
    if reducer in ("maximum", "fmax", "arg_max"):
        return constant_text(lowest(dtype), dtype)
    if reducer in ("minimum", "fmin", "arg_min"):
        return constant_text(highest(dtype), dtype)
    return constant_text(0, dtype)


FOLD = re.compile(r"npc_fold_(\w+)_([a-z]\d+)_(\d+)\(")


def folds_text(kernels: str) -> str:
    """The functions that these kernels call to combine the lanes of an accumulator into the first one, in pairs."""
    lines = []
    for reducer, name, lanes in sorted(set(FOLD.findall(kernels))):
        dtype = np.dtype(name)
        text = combine_text(reducer, "a[lane]", "a[lane + width]", dtype)
        lines.append(f"static __attribute__((noinline)) void npc_fold_{reducer}_{name}_{lanes}({c_type(dtype)}* a) {{")
        lines.append(f"  for (int width = {int(lanes) // 2}; width; width /= 2)")
        lines.append(f"    for (int lane = 0; lane < width; lane++) a[lane] = {text};")
        lines.append("}")
    return "\n".join(lines)


def from_zero(a: Accumulator, total: str) -> str:
    """NumPy's sums begin with 0.0, so that of -0.0 alone is 0.0."""
    if a.reducer != "add" or a.dtype.kind not in "fc":
        return total
    return combine_text("add", total, constant_text(0, a.dtype), a.dtype)


SIMD = re.compile(r"npc_simd_(\w+)_([a-z]\d+)\b")


def simd_reductions_text(kernels: str) -> str:
    """OpenMP's declarations of the reductions in these kernels. Its own sum starts at 0.0 and would lose -0.0."""
    lines = []
    for reducer, name in sorted(set(SIMD.findall(kernels))):
        dtype = np.dtype(name)
        combined = simd_text(reducer, "omp_out", "omp_in", dtype)
        lines.append(f"#pragma omp declare reduction(npc_simd_{reducer}_{name}: {c_type(dtype)}: omp_out = {combined}) \\")
        lines.append(f"  initializer(omp_priv = {identity_of(reducer, dtype)})")
    return "\n".join(lines)


def simd_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    """Combines results in which NaN is noted apart."""
    if dtype.kind == "f" and reducer in RELATION:
        return f"{b} {RELATION[reducer]} {a} ? {b} : {a}"
    return combine_text(reducer, a, b, dtype)


def lowest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": False, "f": -np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).min


def highest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": True, "f": np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).max


def combine_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    return primitive_text(reducer, [a, b], [dtype, dtype], dtype)


def fits_simd(s: Reduce) -> bool:
    """Are rows short, or may they be, and is nothing in the loop that OpenMP's simd cannot have?"""
    if isinstance(s.count, int) and (s.count > SHORT_ROW or s.count < 2):
        return False
    plain = all(kind(a.dtype) in "fiub" and not is_position(a) for a in s.accumulators)
    return plain and not any(isinstance(x, (CheckIndex, Product, Reduce, Columns, Scan)) for x in walk(s.body))


@dataclass(slots=True)
class Printer:
    """The body of one range function."""

    kernel: Kernel
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    lanes: int = 1
    is_laned: bool = False  # inside a Reduce
    is_simd: bool = False  # inside a Reduce whose lanes are the compiler's
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    lane: str = "0"
    limits: dict[str, tuple[str, str]] = field(default_factory=dict)  # axis -> first and end, when not 0 and its size
    reducing: Reduce | None = None
    partial: str = ""  # the type of a slice's results, of a Columns that is cut in slices

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def open(self, text: str) -> None:
        self.line(text)
        self.indent += 1

    def close(self, text: str = "}") -> None:
        self.indent -= 1
        self.line(text)

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Let(target, "constant", _, ((_, value),)):
                self.line(f"const {c_type(target.dtype)} {target.name} = {constant_text(value, target.dtype)};")
            case Let(target, op, args, _):
                text = primitive_text(op, [a.name for a in args], [a.dtype for a in args], target.dtype)
                self.line(f"const {c_type(target.dtype)} {target.name} = {text};")
            case Position(target, index):
                self.line(f"const int64_t {target.name} = {size_text(index)};")
            case Load(target, buffer, offset, mask):
                read = self.memory(buffer, offset, target.dtype, "const ")
                zero = "{0}" if target.dtype.kind == "c" else "0"
                if mask and target.dtype.kind == "c":
                    read = f"{mask.name} ? {read} : ({c_type(target.dtype)}){zero}"
                elif mask:
                    read = f"{mask.name} ? {read} : 0"
                self.line(f"const {c_type(target.dtype)} {target.name} = {read};")
            case Store(buffer, offset, value):
                cast = "(_Float16)" if kind(value.dtype) == "e" else ""
                self.line(f"{self.memory(buffer, offset, value.dtype)} = {cast}{value.name};")
            case CheckIndex():
                self.check(s)
            case Accumulate():
                self.accumulate(s)
            case Product():
                self.product(s)
            case Loop():
                self.loop(s)
            case Reduce():
                self.reduce(s)
            case Columns():
                self.columns(s)
            case Scan():
                self.scan(s)
            case ScratchRow():
                self.statements(s.body)

    def memory(self, buffer: str, offset: Size, dtype: np.dtype, const: str = "") -> str:
        return f"*({const}npc_{short(dtype)}_in_memory*)({buffer} + {size_text(offset)})"

    def check(self, s: CheckIndex) -> None:
        value, size = s.value.name, size_text(s.size)
        self.line(f"int64_t {s.target.name} = {value} + ({value} < 0 ? {size} : 0);")
        outside = f"(uint64_t){s.target.name} >= (uint64_t){size}"
        fail = f"c->bad_index = {value}; c->bad_axis = {s.axis}; c->bad_size = {size}; c->failed = 1; goto done;"
        if s.mask:
            self.line(f"if (!{s.mask.name}) {s.target.name} = 0;")
            self.line(f"else if (__builtin_expect({outside}, 0)) {{ {fail} }}")
        else:
            self.line(f"if (__builtin_expect({outside}, 0)) {{ {fail} }}")

    def product(self, s: Product) -> None:
        matrices = [", ".join([f"{x.buffer} + {size_text(x.offset)}", size_text(x.row), size_text(x.column)]) for x in s.matrices]
        m, n, k = map(size_text, s.sizes)
        block = k if s.block is None else s.block
        self.line(f"const int failed = npc_product_{short(s.dtype)}({', '.join(matrices)}, {m}, {n}, {k}, {block});")
        self.line("if (failed) { c->failed = failed; goto done; }")

    # --- loops

    def loop(self, s: Loop) -> None:
        first, end = self.limits.get(s.axis, ("0", size_text(s.size)))
        if self.is_laned and not any(isinstance(x, (Loop, Reduce)) for x in walk(s.body)):
            return self.laned_loop(s, first, end)
        is_innermost = not any(isinstance(x, (Loop, Reduce, Columns, Scan)) for x in walk(s.body))
        if s.is_parallel and is_innermost:
            self.line("#pragma GCC ivdep")
        self.open(f"for (int64_t {s.axis} = {first}; {s.axis} < {end}; {s.axis}++) {{")
        self.statements(s.body)
        self.close()

    def laned_loop(self, s: Loop, first: str, end: str) -> None:
        """The innermost loop of a reduction: item i goes to accumulator i % lanes, so that they work side by side."""
        if self.is_simd:
            return self.simd_loop(s, first, end)
        self.open(f"for (int64_t block = {first}; block < {end}; block += {self.lanes}) {{")
        self.line(f"const int64_t lanes = npc_min({self.lanes}, {end} - block);")
        self.line("#pragma GCC ivdep")
        self.open("for (int64_t lane = 0; lane < lanes; lane++) {")
        self.line(f"const int64_t {s.axis} = block + lane;")
        before, self.lane = self.lane, "lane"
        self.statements(s.body)
        self.lane = before
        self.close()
        self.flush_sometimes()
        self.close()

    def simd_loop(self, s: Loop, first: str, end: str) -> None:
        """The same in blocks for which the compiler makes the lanes."""
        accumulators = self.accumulators.values()
        block = ROUNDS * 64 // max(a.dtype.itemsize for a in accumulators)
        clauses = [f"reduction(npc_simd_{a.reducer}_{short(a.dtype)}: {a.name})" for a in accumulators]
        clauses += [f"reduction(|: {a.name}_nan)" for a in accumulators if notes_nan(a)]
        self.open(f"for (int64_t block = {first}; block < {end}; block += {block}) {{")
        self.line(f"const int64_t block_end = npc_min(block + {block}, {end});")
        for a in accumulators:
            if compensated(a):
                self.line(f"{a.name} = {identity_text(a)};")
        self.line(f"#pragma omp simd {' '.join(clauses)}")
        self.open(f"for (int64_t {s.axis} = block; {s.axis} < block_end; {s.axis}++) {{")
        self.statements(s.body)
        self.close()
        for a in accumulators:
            if compensated(a):
                self.line(f"NPC_TWO_SUM({a.name}_high, {a.name}_low, {a.name});")
        self.close()

    def flush_sometimes(self) -> None:
        flushed = [a for a in self.accumulators.values() if compensated(a)]
        if not flushed:
            return
        self.open(f"if (++rounds == {ROUNDS}) {{")
        self.line("rounds = 0;")
        for a in flushed:
            self.flush(a)
            self.fill(a)
        self.close()

    # --- reductions

    def fill(self, a: Accumulator) -> None:
        self.line(f"for (int lane = 0; lane < {self.lanes}; lane++) {a.name}[lane] = {identity_text(a)};")

    def fold_lanes(self, a: Accumulator) -> None:
        if self.lanes > 1:
            self.line(f"npc_fold_{a.reducer}_{short(a.dtype)}_{self.lanes}({a.name});")

    def flush(self, a: Accumulator) -> None:
        self.fold_lanes(a)
        self.line(f"NPC_TWO_SUM({a.name}_high, {a.name}_low, {a.name}[0]);")

    def accumulate(self, s: Accumulate) -> None:
        a = self.accumulators[s.accumulator]
        value = s.value.name
        if is_position(a):
            best, at = f"{a.name}[{self.lane}]", f"{a.name}_at[{self.lane}]"
            self.line(f"const int {a.name}_better = {better_text(a, value, best)};")
            self.line(f"{at} = {a.name}_better ? {size_text(s.position)} : {at};")
            self.line(f"{best} = {a.name}_better ? {value} : {best};")
        elif a.name in self.scanned():
            text = combine_text(a.reducer, a.name, value, a.dtype)
            self.line(f"{a.name} = {a.name}_started ? {text} : {value};")
            self.line(f"{a.name}_started = 1;")
            self.line(f"const {c_type(a.dtype)} {a.result.name} = {a.name};")
        elif self.is_laned and notes_nan(a):
            place, relation = self.place(a), RELATION[a.reducer]
            number = f"{a.name}_number"
            self.line(f"const {c_type(a.dtype)} {number} = {value} == {value} ? {value} : {identity_text(a)};")
            self.line(f"{place} = {number} {relation} {place} ? {number} : {place};")
            self.line(f"{a.name}_nan |= {value} != {value};")
        else:
            place = self.place(a)
            self.line(f"{place} = {combine_text(a.reducer, place, value, a.dtype)};")

    def place(self, a: Accumulator) -> str:
        return a.name if self.is_simd else f"{a.name}[{self.lane}]"

    def scanned(self) -> set[str]:
        return {s.accumulator.name for s in walk(self.kernel.body) if isinstance(s, Scan)}

    def lanes_for(self, s: Reduce) -> int:
        widest = max(8 if is_position(a) else a.dtype.itemsize for a in s.accumulators)
        lanes = 512 // widest
        while isinstance(s.count, int) and lanes > 1 and lanes // 2 >= s.count:
            lanes //= 2
        return lanes

    def declare(self, s: Reduce) -> None:
        self.lanes, self.is_laned = self.lanes_for(s), True
        self.is_simd = not self.kernel.is_whole and fits_simd(s)
        self.accumulators = {a.name: a for a in s.accumulators}
        if self.is_simd:
            for a in s.accumulators:
                total = f", {a.name}_high = {identity_text(a)}, {a.name}_low = 0" if compensated(a) else ""
                self.line(f"{c_type(a.dtype)} {a.name} = {identity_text(a)}{total};")
                if notes_nan(a):
                    self.line(f"int {a.name}_nan = 0;")
            return
        for a in s.accumulators:
            c = c_type(a.dtype)
            self.line(f"{c} {a.name}[{self.lanes}] __attribute__((aligned(64)));")
            self.fill(a)
            if is_position(a):
                self.line(f"int64_t {a.name}_at[{self.lanes}] __attribute__((aligned(64)));")
                self.line(f"for (int lane = 0; lane < {self.lanes}; lane++) {a.name}_at[lane] = -1;")
            if compensated(a):
                self.line(f"{c} {a.name}_high = {identity_text(a)}, {a.name}_low = 0;")
            if notes_nan(a):
                self.line(f"int {a.name}_nan = 0;")
        if any(map(compensated, s.accumulators)):
            self.line("int rounds = 0;")

    def combine_lanes(self, a: Accumulator) -> None:
        if self.is_simd:
            pass
        elif is_position(a):
            self.first_lane(a)
        elif compensated(a):
            self.flush(a)
        else:
            self.fold_lanes(a)
        if notes_nan(a):
            self.line(f"if ({a.name}_nan) {self.place(a)} = {constant_text(np.nan, a.dtype)};")

    def first_lane(self, a: Accumulator) -> None:
        """The best of all lanes to lane 0; of equal ones the first. A lane that saw nothing better than the worst has -1."""
        value, best = f"{a.name}[lane]", f"{a.name}[0]"
        nan = f" || ({value} != {value} && {best} != {best})" if a.dtype.kind == "f" else ""
        self.open(f"for (int lane = 1; lane < {self.lanes}; lane++) {{")
        self.line(f"const int is_same = {value} == {best}{nan}, is_better = {better_text(a, value, best)};")
        at, first = f"{a.name}_at[lane]", f"{a.name}_at[0]"
        self.open(f"if ({at} >= 0 && (is_better || {first} < 0 || (is_same && {at} < {first}))) {{")
        self.line(f"{best} = {value};")
        self.line(f"{first} = {at};")
        self.close()
        self.close()

    def result_text(self, a: Accumulator, count: Size) -> str:
        if is_position(a):
            return f"npc_max(0, {a.name}_at[0])"
        total = f"NPC_TOTAL({a.name}_high, {a.name}_low)" if compensated(a) else from_zero(a, self.place(a))
        if kind(a.result.dtype) == "e" and a.dtype.itemsize == 4:
            total = f"(float)(_Float16)({total})"
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

    def reduce(self, s: Reduce) -> None:
        for a in s.accumulators:
            self.line(f"{c_type(a.result.dtype)} {a.result.name};")
        self.open("{")
        self.declare(s)
        self.statements(s.body)
        for a in s.accumulators:
            self.combine_lanes(a)
            self.line(f"{a.result.name} = {self.result_text(a, s.count)};")
        self.close()
        self.is_laned = self.is_simd = False

    def columns(self, s: Columns) -> None:
        size = size_text(s.size)
        self.line(f"const int64_t first = column_block * {COLUMN_BLOCK}, lanes = npc_min({COLUMN_BLOCK}, {size} - first);")
        self.accumulators = {a.name: a for a in s.accumulators}
        self.lanes = COLUMN_BLOCK
        for a in s.accumulators:
            self.line(f"{c_type(a.dtype)} {a.name}[{COLUMN_BLOCK}] __attribute__((aligned(64)));")
            self.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {identity_text(a)};")
            if is_position(a):
                self.line(f"int64_t {a.name}_at[{COLUMN_BLOCK}] __attribute__((aligned(64)));")
                self.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}_at[lane] = -1;")
        for k, (axis, n) in enumerate(s.loops):
            first, end = "0", size_text(n)
            if self.partial and k == 0:
                first, end = "slice * c->slice_size", f"npc_min((slice + 1) * c->slice_size, {end})"
            self.open(f"for (int64_t {axis} = {first}, end_{axis} = {end}; {axis} < end_{axis}; {axis}++) {{")
        self.lane = "lane"
        self.line("#pragma GCC ivdep")
        self.open("for (int64_t lane = 0; lane < lanes; lane++) {")
        self.line(f"const int64_t {s.axis} = first + lane;")
        self.statements(s.body)
        self.close()
        for _ in s.loops:
            self.close()
        if self.partial:
            self.line(f"{self.partial}* const partial = ({self.partial}*)c->partial + slice * c->blocks + column_block;")
            for a in s.accumulators:
                self.line(f"for (int64_t lane = 0; lane < lanes; lane++) partial->{a.name}[lane] = {a.name}[lane];")
        else:
            self.finish_columns(s)
        self.lane = "0"

    def finish_columns(self, s: Columns) -> None:
        self.line("#pragma GCC ivdep")
        self.open("for (int64_t lane = 0; lane < lanes; lane++) {")
        self.line(f"const int64_t {s.axis} = first + lane;")
        count: Size = 1
        for _, n in s.loops:
            count = count * n
        for a in s.accumulators:
            total = f"npc_max(0, {a.name}_at[lane])" if is_position(a) else f"{a.name}[lane]"
            total = from_zero(a, total)
            if kind(a.result.dtype) == "e" and a.dtype.itemsize == 4:
                total = f"(float)(_Float16)({total})"
            if a.reducer == "add" and a.dtype.kind in "fc" and not (isinstance(count, int) and count):
                total = f"({size_text(count)} == 0 ? {constant_text(0, a.dtype)} : {total})"
            self.line(f"const {c_type(a.result.dtype)} {a.result.name} = {total};")
        self.statements(s.finish)
        self.close()

    def scan(self, s: Scan) -> None:
        a = s.accumulator
        self.accumulators = {a.name: a}
        self.open("{")
        self.line(f"{c_type(a.dtype)} {a.name} = {'{0}' if a.dtype.kind == 'c' else '0'}; int {a.name}_started = 0;")
        self.statements(s.body)
        self.close()


# --- reductions over leading axes: slices of the outermost, then their partial results


def sliced_columns(kernel: Kernel) -> Columns | None:
    """The Columns of a kernel that has too few columns to keep the threads busy with."""
    made = kernel.body[-1] if kernel.body else None
    if not isinstance(made, Columns) or not made.loops or kernel.can_fail or any(map(is_position, made.accumulators)):
        return None
    elements = hint_of(product_of([made.size, *(n for _, n in made.loops)]))
    return made if hint_of(made.size) <= FEW_COLUMNS and elements >= 4 * LEAST_SLICE else None


def print_columns_combine(kernel: Kernel, s: Columns, symbols: Sequence[str]) -> str:
    """The function that combines the slices, in order, and stores the results."""
    p = Printer(kernel)
    p.lanes, p.lane, p.accumulators = COLUMN_BLOCK, "lane", {a.name: a for a in s.accumulators}
    for t, n in context_fields(kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    p.statements(kernel.body[:-1])
    p.open("for (int64_t column_block = 0; column_block < c->blocks; column_block++) {")
    p.line(f"const int64_t first = column_block * {COLUMN_BLOCK}, lanes = npc_min({COLUMN_BLOCK}, {size_text(s.size)} - first);")
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + column_block;")
    for a in s.accumulators:
        p.line(f"{c_type(a.dtype)}* const {a.name} = partial->{a.name};")
    p.open("for (int64_t slice = 1; slice < c->slices; slice++) {")
    p.line(f"const struct {kernel.name}_partial* const other = partial + slice * c->blocks;")
    for a in s.accumulators:
        combined = combine_text(a.reducer, f"{a.name}[lane]", f"other->{a.name}[lane]", a.dtype)
        p.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {combined};")
    p.close()
    p.finish_columns(s)
    p.close()
    head = f"static void {kernel.name}_combine(struct {kernel.name}_context* c) {{"
    return "\n".join([head, *p.lines, "}"])


# --- tasks


@dataclass(slots=True)
class Tasks:
    """The loops of a kernel that are cut in tasks, outermost first, and what is done in a task."""

    axes: list[tuple[str, Size]]
    body: list[Statement]  # of a task: statements between the loops come first
    block: tuple[str, Size] | None = None  # the innermost loop, when it is cut in blocks too
    columns: Size | None = None  # the column axis of a Columns


def tasks_of(kernel: Kernel) -> Tasks:
    axes: list[tuple[str, Size]] = []
    before: list[Statement] = []
    body = kernel.body
    while not kernel.is_serial and not kernel.is_whole and body and isinstance(body[-1], Loop):
        loop = body[-1]
        if any(children(s) for s in body[:-1]) or loop.is_parallel != is_map(kernel):
            break
        inner = loop.body
        before += body[:-1]
        if loop.is_parallel and not any(isinstance(s, Loop) for s in inner):
            return Tasks(axes, [*before, loop], (loop.axis, loop.size))
        axes.append((loop.axis, loop.size))
        body = inner
    columns = next((s.size for s in body if isinstance(s, Columns)), None)
    return Tasks(axes, [*before, *body], None, columns)


def is_map(kernel: Kernel) -> bool:
    """Nothing but parallel loops."""
    return all(s.is_parallel for s in walk(kernel.body) if isinstance(s, Loop)) and not any(
        isinstance(s, (Reduce, Columns, Scan, Product)) for s in walk(kernel.body)
    )


def print_kernel(kernel: Kernel, symbols: Sequence[str]) -> str:
    tasks = tasks_of(kernel)
    printer = Printer(kernel)
    fields = context_fields(kernel, symbols)
    lines = [f"struct {kernel.name}_context {{", *(f"  {t} {n};" for t, n in fields)]
    lines += [
        "  int64_t blocks, block_size, slices, slice_size, bad_index, bad_size;",
        "  char* partial;",
        "  int bad_axis, failed;",
        "};",
    ]
    sliced = sliced_columns(kernel)
    if kernel.is_whole:
        lines += partial_struct(kernel)
    if sliced:
        fields_of_partial = " ".join(f"{c_type(a.dtype)} {a.name}[{COLUMN_BLOCK}];" for a in sliced.accumulators)
        lines.append(f"struct {kernel.name}_partial {{ {fields_of_partial} }};")
        printer.partial = f"struct {kernel.name}_partial"
    lines.append(f"static void {kernel.name}(void* context, int64_t begin, int64_t end, int thread) {{")
    lines.append(f"  struct {kernel.name}_context* c = context;")
    for t, n in fields:
        restrict = "restrict " if t == "char*" and kernel.buffers[n] and not n.startswith("x") else ""
        lines.append(f"  {t}{' const' if t != 'char*' else ''} {restrict}{n} = c->{n};")
    rows = [s for s in walk(kernel.body) if isinstance(s, ScratchRow)]
    for s in rows:
        lines.append(f"  char* {s.buffer} = rt->scratch({size_text(s.bytes)} + 1);")
    for s in rows:
        lines.append(f"  if (!{s.buffer}) {{ c->failed = 2; goto done; }}")
    if kernel.is_whole:
        print_chunk(printer, kernel)
    else:
        print_tasks(printer, tasks)
    lines += printer.lines
    lines.append("done:;")
    lines += [f"  rt->release({s.buffer});" for s in rows]
    lines.append("}")
    return "\n".join(lines)


def context_fields(kernel: Kernel, symbols: Sequence[str]) -> list[tuple[str, str]]:
    used = {name for s in walk(kernel.body) for size in sizes_in(s) for name in symbols_in(size)}
    fields = [("char*", b) for b in kernel.buffers]
    fields += [(c_type(d), n) for n, d in kernel.scalars.items()]
    return fields + [("int64_t", symbol_text(s)) for s in symbols if s in used]


def sizes_in(s: Statement) -> Iterator[Size]:
    match s:
        case Load() | Store():
            yield s.offset
        case Product():
            yield from s.sizes
            for x in s.matrices:
                yield from (x.offset, x.row, x.column)
        case Position():
            yield s.index
        case CheckIndex():
            yield s.size
        case Accumulate():
            yield s.position
        case Loop():
            yield s.size
        case Reduce():
            yield s.count
        case ScratchRow():
            yield s.bytes
        case Columns():
            yield s.size
            yield from (n for _, n in s.loops)


def print_tasks(p: Printer, tasks: Tasks) -> None:
    counters = [(axis, size_text(size)) for axis, size in tasks.axes]
    if tasks.block:
        counters.append(("inner_block", "c->blocks"))
    if p.partial:
        counters.append(("slice", "c->slices"))
    if tasks.columns is not None:
        counters.append(("column_block", "c->blocks"))
    if counters:
        p.line("int64_t rest = begin;")
    for axis, count in reversed(counters):
        p.line(f"int64_t {axis} = rest % ({count});")
        p.line(f"rest /= {count};")
    p.open("for (int64_t task = begin; task < end; task++) {")
    if tasks.block:
        axis, size = tasks.block
        n = size_text(size)
        p.line(
            f"const int64_t first_{axis} = inner_block * c->block_size, end_{axis} = npc_min(first_{axis} + c->block_size, {n});"
        )
        p.limits[axis] = (f"first_{axis}", f"end_{axis}")
    p.statements(tasks.body)
    for k, (axis, count) in enumerate(reversed(counters)):
        if k == len(counters) - 1:
            p.line(f"{axis}++;")
        else:
            p.open(f"if (++{axis} == {count}) {{")
            p.line(f"{axis} = 0;")
    for _ in counters[1:]:
        p.close()
    p.close()


# --- whole reductions: chunks, then their partial results


def whole_reduce(kernel: Kernel) -> tuple[Reduce, list[Statement], list[Statement]]:
    """The Reduce of a whole kernel, what comes before it and what comes after."""
    at = next(k for k, s in enumerate(kernel.body) if isinstance(s, Reduce))
    reduce = kernel.body[at]
    assert isinstance(reduce, Reduce)
    return reduce, kernel.body[:at], kernel.body[at + 1 :]


def outermost(reduce: Reduce) -> Loop | None:
    return next((s for s in reduce.body if isinstance(s, Loop)), None)


def partial_struct(kernel: Kernel) -> list[str]:
    reduce, _, _ = whole_reduce(kernel)
    fields = [f"{c_type(a.dtype)} {a.name}{f', {a.name}_low' if compensated(a) else ''};" for a in reduce.accumulators]
    return [f"struct {kernel.name}_partial {{ {' '.join(fields)} }};"]


def print_chunk(p: Printer, kernel: Kernel) -> None:
    reduce, before, _ = whole_reduce(kernel)
    p.statements(before)
    p.open("for (int64_t task = begin; task < end; task++) {")
    loop = outermost(reduce)
    if loop is not None:
        p.line(
            "const int64_t chunk_first = task * c->block_size, "
            f"chunk_end = npc_min(chunk_first + c->block_size, {size_text(loop.size)});"
        )
        p.limits[loop.axis] = ("chunk_first", "chunk_end")
    p.declare(reduce)
    p.statements(reduce.body)
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + task;")
    for a in reduce.accumulators:
        p.combine_lanes(a)
        if compensated(a):
            p.line(f"partial->{a.name} = {a.name}_high; partial->{a.name}_low = {a.name}_low;")
        else:
            p.line(f"partial->{a.name} = {a.name}[0];")
    p.close()


def print_combine(kernel: Kernel, symbols: Sequence[str]) -> str:
    """The function that combines the chunks, in order, and stores the results."""
    reduce, _, after = whole_reduce(kernel)
    p = Printer(kernel)
    p.lanes, p.accumulators = 1, {a.name: a for a in reduce.accumulators}
    for t, n in context_fields(kernel, symbols):
        p.line(f"{t} const {n} = c->{n};")
    for a in reduce.accumulators:
        c = c_type(a.dtype)
        if compensated(a):
            p.line(f"{c} {a.name}_high = {identity_text(a)}, {a.name}_low = 0;")
        else:
            p.line(f"{c} {a.name}[1] = {{{identity_text(a)}}};")
    p.open("for (int64_t k = 0; k < chunks; k++) {")
    p.line(f"struct {kernel.name}_partial* partial = (struct {kernel.name}_partial*)c->partial + k;")
    for a in reduce.accumulators:
        if compensated(a):
            p.line(f"NPC_TWO_SUM({a.name}_high, {a.name}_low, partial->{a.name});")
            p.line(f"{a.name}_low += partial->{a.name}_low;")
        else:
            p.line(f"{a.name}[0] = {combine_text(a.reducer, f'{a.name}[0]', f'partial->{a.name}', a.dtype)};")
    p.close()
    for a in reduce.accumulators:
        p.line(f"const {c_type(a.result.dtype)} {a.result.name} = {p.result_text(a, reduce.count)};")
    p.statements(after)
    head = f"static void {kernel.name}_combine(struct {kernel.name}_context* c, int64_t chunks) {{"
    return "\n".join([head, *p.lines, "}"])


# --- the call


def chunk_of(kernel: Kernel) -> int:
    """Elements of a whole reduction in one task."""
    return min(CHUNK, max(2048, int(SERIAL_NANOSECONDS / kernel.cost) // 1024 * 1024))


def print_call(kernel: Kernel, symbols: Sequence[str], *, on_one_thread: bool = False) -> list[str]:
    """Statements of npc_run that run the kernel; on one thread it keeps the GIL."""
    tasks = tasks_of(kernel)
    values = [f".{n} = {n}" for _, n in context_fields(kernel, symbols)]
    lines = ["{", f"  struct {kernel.name}_context c = {{{', '.join(values) or '0'}}};"]
    n = size_text(product_of([s for _, s in tasks.axes]))
    elements = inner_elements(kernel, tasks)
    if kernel.is_serial:
        lines.append(f"  {kernel.name}(&c, 0, 1, 0);")
    elif kernel.is_whole:
        reduce, _, _ = whole_reduce(kernel)
        loop = outermost(reduce)
        outer = size_text(loop.size) if loop else "1"
        lines.append(f"  const int64_t n = {outer}, each = npc_max(1, npc_floordiv({size_text(reduce.count)}, npc_max(1, n)));")
        lines.append(f"  c.block_size = npc_max(1, {chunk_of(kernel)} / each);")
        lines.append("  const int64_t chunks = (n + c.block_size - 1) / c.block_size;")
        lines.append(f"  if (!(c.partial = rt->scratch(chunks * sizeof(struct {kernel.name}_partial) + 1))) goto failed;")
        grain = f"npc_max(1, (int64_t){int(SERIAL_NANOSECONDS / kernel.cost)} / npc_max(1, c.block_size * each))"
        lines.append(f"  if (rt->parallel({kernel.name}, &c, chunks, {grain})) {{ rt->release(c.partial); goto failed; }}")
        lines.append(f"  {kernel.name}_combine(&c, chunks);")
        lines.append("  rt->release(c.partial);")
    else:
        if tasks.block:
            inner = size_text(tasks.block[1])
            lines.append(f"  c.block_size = {inner} <= {2 * BLOCK} ? npc_max(1, {inner}) : {BLOCK};")
            lines.append(f"  c.blocks = ({inner} + c.block_size - 1) / c.block_size;")
            n, elements = f"{n} * c.blocks", "c.block_size"
        if tasks.columns is not None:
            lines.append(f"  c.blocks = ({size_text(tasks.columns)} + {COLUMN_BLOCK - 1}) / {COLUMN_BLOCK};")
            n = f"{n} * c.blocks"
        if sliced := sliced_columns(kernel):
            outer = size_text(sliced.loops[0][1])
            each = size_text(product_of([sliced.size, *(n for _, n in sliced.loops[1:])]))
            n, elements = f"{n} * c.slices", f"c.slice_size * {each}"
            lines.append(
                f"  c.slice_size = npc_max({LEAST_SLICE} / npc_max(1, {each}), ({outer} + {MOST_SLICES - 1}) / {MOST_SLICES});"
            )
            lines.append("  c.slice_size = npc_max(1, c.slice_size);")
            lines.append(f"  c.slices = npc_max(1, ({outer} + c.slice_size - 1) / c.slice_size);")
            lines.append(
                f"  if (!(c.partial = rt->scratch(c.slices * c.blocks * sizeof(struct {kernel.name}_partial)))) goto failed;"
            )
        lines.append(
            f"  const int64_t tasks = {n}, "
            f"grain = npc_max(1, (int64_t){int(SERIAL_NANOSECONDS / kernel.cost)} / npc_max(1, {elements}));"
        )
        grain = "grain"
        if any(isinstance(s, Product) for s in tasks.body):  # a few large ones are parallel inside
            most = MOST_IN_STACK if is_openblas() else MOST_ALONE
            grain = f"{elements} > (tasks < {FEW_TASKS} ? {MOST_ALONE} : {most}) ? tasks : grain"
        if on_one_thread:
            grain = "tasks"
        if sliced:
            lines.append(f"  if (rt->parallel({kernel.name}, &c, tasks, {grain})) {{ rt->release(c.partial); goto failed; }}")
            lines += [f"  {kernel.name}_combine(&c);", "  rt->release(c.partial);"]
        else:
            lines.append(f"  if (rt->parallel({kernel.name}, &c, tasks, {grain})) goto failed;")
        if kernel.can_fail:
            lines.append(
                "  if (c.failed == 1 && tasks > grain) { /* find the first bad index */ "
                f"c.failed = 0; {kernel.name}(&c, 0, tasks, 0); }}"
            )
    if kernel.can_fail:
        lines.append("  if (c.failed == 1) { rt->index_error(c.bad_index, c.bad_axis, c.bad_size); goto failed; }")
    if any(isinstance(s, Product) for s in walk(kernel.body)):
        lines.append("  if (c.failed == 3) goto failed;")
    if any(isinstance(s, (ScratchRow, Product)) for s in walk(kernel.body)):
        lines.append("  if (c.failed == 2) { rt->scratch((int64_t)1 << 62); goto failed; } /* sets MemoryError */")
    return [*lines, "}"]


def product_of(sizes: Sequence[Size]) -> Size:
    total: Size = 1
    for n in sizes:
        total = total * n
    return total


def inner_elements(kernel: Kernel, tasks: Tasks) -> str:
    """How many elements the loops of one task visit."""
    total: Size = 0
    for s in walk(tasks.body):
        match s:
            case Reduce():
                total = total + s.count
            case Product():
                total = total + product_of(s.sizes)
            case Columns():
                total = total + product_of([n for _, n in s.loops]) * COLUMN_BLOCK
            case Loop() if not s.is_parallel or not any(isinstance(x, Loop) for x in walk(s.body)):
                total = total + s.size
    return size_text(total)
