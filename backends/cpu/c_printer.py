"""The statements of kernels, printed as C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npcompile.backends.cpu.c_checks import check_lines
from npcompile.backends.cpu.c_near_angles import named, near_and_far
from npcompile.backends.cpu.c_pipelines import print_pipeline
from npcompile.backends.cpu.c_places import print_first_places
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.c_strips import print_strips
from npcompile.backends.cpu.c_sums import Sums
from npcompile.backends.cpu.c_vector_loops import Elements, Vectors, print_vectors
from npcompile.backends.cpu.extremes import signs_operator
from npcompile.backends.cpu.fp_barriers import is_masking, opaque_text
from npcompile.backends.cpu.kept_values import kept_text
from npcompile.backends.cpu.kernel_plan import COLUMN_BLOCK, Order, ReduceForm
from npcompile.backends.cpu.lanes import IS_HERE
from npcompile.backends.cpu.numpy_loops import number_text
from npcompile.backends.cpu.primitives import (
    c_type,
    constant_text,
    loaded_text,
    power_text,
    primitive_text,
    rounded_text,
    stored_text,
)
from npcompile.backends.cpu.reducers import (
    LOGICAL,
    added_text,
    from_zero,
    identity_text,
    is_pairwise,
    is_position,
    notes_nan,
    tree_text,
)
from npcompile.backends.cpu.software_pipelining import Pipeline
from npcompile.backends.cpu.vector_loops import VectorForm
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    CheckIndex,
    Columns,
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
    Value,
)
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.op import OPS

FEW_LANES = 64  # so few columns are a loop of known length
ORDERED = 32  # elements whose terms are computed at once, where they are added in their order


@dataclass(slots=True)
class Printer(Sums):
    """The body of one range function."""

    limits: dict[str, tuple[str, str]] = field(default_factory=dict)  # axis -> first and end, when not 0 and its size
    partial: str = ""  # the type of a slice's results, of a Columns that is cut in slices
    replaced: dict[str, str] = field(default_factory=dict)  # of values that are loaded: where from, not as the statement says
    is_few: bool = False  # is the innermost loop one of known length, of a vector or two?
    is_noting: bool = False  # are indices outside noted, and 0 instead, so that the loop has no other end?
    width: str = str(COLUMN_BLOCK)  # columns of a block, in C
    angles: str = ""  # goes before the names of sines, cosines and tangents

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        self.tell_line(s)
        match s:
            case Let(target, "constant", _, ((_, value),)):
                self.line(f"const {c_type(target.dtype)} {target.name} = {constant_text(value, target.dtype)};")
            case Let(target, "kept", (value, *others), _):
                text = kept_text(value.name, c_type(value.dtype), [(x.name, c_type(x.dtype)) for x in others])
                self.line(f"const {c_type(target.dtype)} {target.name} = {text};")
            case Let(target, "by_numpy", args, ((_, operation), (_, way))):
                names, dtypes = [a.name for a in args], [a.dtype for a in args]
                text = number_text(OPS[operation].numpy, names, dtypes, way)
                self.line(f"const {c_type(target.dtype)} {target.name} = {text};")
            case Let(target, op, args, _):
                names = [a.name for a in args]
                if hidden := self.values.opaque.get(target.name):
                    name, dtype = names[hidden.operand], args[hidden.operand].dtype
                    names[hidden.operand] = opaque_text(name, c_type(dtype), hidden.is_one)
                text = primitive_text(op, names, [a.dtype for a in args], target.dtype)
                if op == "power":
                    text = power_text(names[0], args[0].dtype, self.values.constants.get(args[1].name)) or text
                if is_masking(s, self.values.constants):
                    text = f"npc_same_{'f8' if target.dtype.itemsize == 8 else 'f4'}({text})"
                self.line(f"const {c_type(target.dtype)} {target.name} = {named(text, s, self.angles)};")
            case Position(target, index):
                self.line(f"const int64_t {target.name} = {size_text(index)};")
            case Load(target, buffer, offset, mask):
                self.read.add((buffer, offset))
                read = loaded_text(self.memory(buffer, offset, target.dtype, "const "), target.dtype)
                if place := self.replaced.get(target.name):
                    read = f"*(const npc_{short(target.dtype)}_in_memory*)({place})"
                zero = "{0}" if target.dtype.kind == "c" else "0"
                if mask and target.dtype.kind == "c":
                    read = f"{mask.name} ? {read} : ({c_type(target.dtype)}){zero}"
                elif mask:
                    read = f"{mask.name} ? {read} : 0"
                self.line(f"const {c_type(target.dtype)} {target.name} = {read};")
            case Store(buffer, offset, value):
                self.line(f"{self.memory(buffer, offset, value.dtype)} = {stored_text(value.name, value.dtype)};")
            case CheckIndex():
                for text in check_lines(s, is_noting=self.is_noting):
                    self.line(text)
            case Accumulate():
                self.accumulate(s)
            case Product():
                self.product(s)
            case Loop():
                self.loop(s)
            case Reduce():
                self.reduce(s, self.plan.reduces[s])
            case Columns():
                self.columns(s)
            case Scan():
                self.scan(s)
            case ScratchRow():
                self.statements(s.body)

    def memory(self, buffer: str, offset: Size, dtype: np.dtype, const: str = "") -> str:
        return f"*({const}npc_{short(dtype)}_in_memory*)({buffer} + {size_text(offset)})"

    def product(self, s: Product) -> None:
        matrices = [", ".join([f"{x.buffer} + {size_text(x.offset)}", size_text(x.row), size_text(x.column)]) for x in s.matrices]
        m, n, k = map(size_text, s.sizes)
        block = k if s.block is None else s.block
        self.line(f"const int failed = rt->product_{short(s.dtype)}({', '.join(matrices)}, {m}, {n}, {k}, {block});")
        self.line("if (failed) { NPC_TELL(c->failed, failed); goto done; }")
        if s.dtype.kind == "c" and s.block is not None:
            self.line(f"NPC_FROM_ZERO({'double' if s.dtype.itemsize == 16 else 'float'}, {matrices[0]}, {m}, {n})")

    # --- loops

    def loop(self, s: Loop) -> None:
        limits = first, end = self.limits.get(s.axis, ("0", size_text(s.size)))
        form = self.plan.loops[s]
        if form.strips:
            return print_strips(self, form.strips, s.axis, first, end)
        if self.is_laned and form.is_innermost:
            return self.laned_loop(s, first, end)
        if form.notes_outside:
            return self.noting_loop(f"for (int64_t {s.axis} = {first}; {s.axis} < {end}; {s.axis}++) {{", s.body)
        if form.is_independent and not self.is_few:
            return self.independent_loop(s, form.pipeline, first, end)
        if form.is_independent:  # a few elements would be no loop any more before they could become a vector
            self.line("#pragma omp simd")
        self.serial_loop(s.axis, limits, s.body)

    def serial_loop(self, axis: str, limits: tuple[str, str], body: Sequence[Statement]) -> None:
        self.open(f"for (int64_t {axis} = {limits[0]}; {axis} < {limits[1]}; {axis}++) {{")
        self.statements(body)
        self.close()

    def independent_loop(self, s: Loop, pipeline: Pipeline | None, first: str, end: str) -> None:
        """An innermost loop whose iterations do not depend on each other."""
        body = pipeline.body if pipeline else s.body
        form = None if self.replaced else self.values.vectors.get(s)
        if form:
            vectors = Vectors(self, self.statements, form=form)
            self.line(IS_HERE)
            if pipeline:
                print_pipeline(pipeline, vectors, first, end)
            else:
                print_vectors(vectors, body, first, end)
            self.line("#else")
        if pipeline:
            print_pipeline(pipeline, Elements(self, self.statements), first, end)
        else:
            near_and_far(self, s.body, first, end, lambda *part: self.vector_loop(s.axis, *part))
        if form:
            self.line("#endif")

    def vector_loop(self, axis: str, body: Sequence[Statement], first: str, end: str) -> None:
        self.line("#pragma GCC ivdep")
        self.serial_loop(axis, (first, end), body)

    def noting_loop(self, head: str, body: Sequence[Statement], last: Sequence[str] = ()) -> None:
        """A loop that goes on after an index outside, and once more to find the first one where there was any."""
        has_checks = any(isinstance(s, CheckIndex) for s in body)
        if has_checks:
            self.line("int outside = 0;")
        self.line("#pragma GCC ivdep")
        self.open(head)
        self.is_noting = True
        self.statements(body)
        self.is_noting = False
        for text in last:
            self.line(text)
        self.close()
        if not has_checks:
            return
        self.line("if (__builtin_expect(outside, 0))")
        self.open(head)
        self.statements([s for s in body if not isinstance(s, Store)])
        self.close()

    def laned_loop(self, s: Loop, first: str, end: str) -> None:
        """The innermost loop of a reduction: item i goes to accumulator i % lanes, so that they work side by side."""
        match self.form.order:
            case Order.SIMD:
                self.simd_loop(s, first, end)
            case Order.PAIRS:
                self.sum_up([s], first, f"{end} - {first}" if first != "0" else end)
            case Order.TERMS:
                self.ordered_loop(s, first, end)
            case Order.PLACES:
                print_first_places(self, s, first, end)
            case Order.SERIAL if self.rows:
                self.open(f"for (int64_t base = {first}; base < {end}; base++) {{")
                self.rows_at(s, "base")
                self.close()
            case Order.SERIAL:
                self.serial_loop(s.axis, (first, end), s.body)
            case Order.LANES:
                self.open(f"for (int64_t block = {first}; block < {end}; block += {self.lanes}) {{")
                self.line(f"const int64_t lanes = npc_min({self.lanes}, {end} - block);")
                self.lane_loop(s, "block", "lanes")
                self.close()

    def simd_loop(self, s: Loop, first: str, end: str) -> None:
        """The same with lanes that the compiler makes."""
        accumulators = self.accumulators.values()
        made = [LOGICAL.get(a.reducer, f"npc_simd_{a.reducer}_{short(a.dtype)}") for a in accumulators]
        clauses = [f"reduction({reduction}: {a.name})" for reduction, a in zip(made, accumulators)]
        extremes = [a for a in accumulators if notes_nan(a)]
        clauses += [f"reduction(|: {a.name}_seen) reduction({signs_operator(a.reducer)}: {a.name}_signs)" for a in extremes]
        self.line(f"#pragma omp simd {' '.join(clauses)}")
        self.serial_loop(s.axis, (first, end), s.body)

    def lane_loop(self, s: Loop, base: str, lanes: str, pragma: str = "GCC ivdep") -> None:
        every = self.accumulators
        for row, sums in self.rows or [("", every)]:

            def write(body: Sequence[Statement], first: str, end: str, row: str = row) -> None:
                self.line(f"#pragma {pragma}")
                self.open(f"for (int64_t lane = {first}; lane < {end}; lane++) {{ {row}".rstrip())
                self.line(f"const int64_t {s.axis} = {base} + lane;")
                self.statements(body)
                self.close()

            before, self.lane, self.accumulators = self.lane, "lane", sums
            near_and_far(self, s.body, "0", lanes, write)
            self.lane = before
        self.accumulators = every

    def ordered_loop(self, s: Loop, first: str, end: str) -> None:
        """The same where items are combined in their order: what some add is computed in vectors, and then added one by one."""
        rows = ORDERED if not isinstance(s.size, int) else min(ORDERED, 1 << (s.size.bit_length() - 1))
        accumulators = self.accumulators.values()
        self.line(f"for (int64_t base = {first}, lanes; base < {end}; base += lanes) {{")
        self.indent += 1
        self.line(f"lanes = npc_min({rows}, {end} - base);")
        for a in accumulators:
            self.line(f"{c_type(a.dtype)} {a.name}_terms[{rows}] __attribute__((aligned(64)));")
        for head, lanes, pragma in ((f"if (lanes == {rows}) {{", str(rows), "omp simd"), ("else {", "lanes", "GCC ivdep")):
            self.open(head)
            self.is_postponed = True
            self.lane_loop(s, "base", lanes, pragma)
            self.is_postponed = False
            self.open(f"for (int64_t lane = 0; lane < {lanes}; lane++) {{")
            for a in accumulators:
                self.line(f"const {c_type(a.dtype)} {a.name}_term = {a.name}_terms[lane];")
                self.accumulate(Accumulate(a.name, Value(f"{a.name}_term", a.dtype)))
            self.close()
            self.close()
        self.close()

    # --- reductions

    def reduce(self, s: Reduce, form: ReduceForm) -> None:
        for a in s.accumulators:
            self.line(f"{c_type(a.result.dtype)} {a.result.name};")
        self.open("{")
        self.declare(s, form)
        if form.order is Order.PAIRS and s.run:
            self.sum_up_runs(s.run, s.body)
        else:
            self.statements(s.body)
        for a in s.accumulators:
            self.combine_lanes(a)
            self.line(f"{a.result.name} = {self.total_text(a, self.result_text(a, s.count))};")
            self.note_doubt(a)
        self.close()
        self.accumulate_nowhere()

    def columns(self, s: Columns) -> None:
        self.adds_rows, form = s.run == 1, self.plan.columns[s]
        if form.is_unrolled:
            return self.unrolled_columns(s)
        if self.partial:
            axis, n = s.loops[0]
            self.limits[axis] = ("slice * c->slice_size", f"npc_min((slice + 1) * c->slice_size, {size_text(n)})")
        self.column_block(s, form.rows)
        if self.partial:
            self.line(f"{self.partial}* const partial = ({self.partial}*)c->partial + slice * c->blocks + column_block;")
            for a in s.accumulators:
                self.line(f"for (int64_t lane = 0; lane < lanes; lane++) partial->{a.name}[lane] = {a.name}[lane];")
        elif s.finish:
            self.finish_columns(s)

    def unrolled_columns(self, s: Columns) -> None:
        """All that is accumulated in a column at once, in registers; what lies side by side as NumPy does, in a few sums."""
        self.open_columns(s)
        self.accumulators, self.is_held = {a.name: a for a in s.accumulators}, True
        places = list(np.ndindex(*(n for _, n in s.loops)))
        sums = [a for a in s.accumulators if is_pairwise(a) and s.run > 1]
        for a in s.accumulators:
            names = [f"{a.name}_held", *(f"{a.name}_held{k}" for k in ("_sum", *range(summands(a))) if a in sums)]
            self.line(f"{c_type(a.dtype)} {', '.join(f'{name} = {identity_text(a)}' for name in names)};")
            if is_position(a):
                self.line(f"int64_t {a.name}_at_held = -1;")
        for k, place in enumerate(places):
            at = k % s.run
            self.held = {a.name: f"_held{at % summands(a) if at < in_lanes(s, a) else '_sum'}" for a in sums}
            self.is_first = k == 0
            self.open(f"{{ {' '.join(f'const int64_t {axis} = {i};' for (axis, _), i in zip(s.loops, place))}")
            self.statements(s.body)
            self.close()
            for a in sums:
                self.end_of_run(s, a, at + 1)
        self.held, self.is_first = {}, False
        self.finish_column(s)
        self.is_held = False
        self.close()

    def end_of_run(self, s: Columns, a: Accumulator, done: int) -> None:
        """What is added up after so many elements of a run."""
        if done == in_lanes(s, a):
            self.line(f"{a.name}_held_sum = {tree_text(a, [f'{a.name}_held{i}' for i in range(summands(a))])};")
        if done == s.run:
            self.line(f"{a.name}_held = {added_text(a, f'{a.name}_held', f'{a.name}_held_sum')};")
            names = [f"{a.name}_held{k}" for k in ("_sum", *range(summands(a)))]
            self.line(" ".join(f"{name} = {identity_text(a)};" for name in names))

    def open_columns(self, s: Columns) -> None:
        """The loop over the columns of a block."""
        self.line(f"const int64_t {block_text(s.size, self.width)};")
        self.line("#pragma GCC ivdep")
        self.open("for (int64_t lane = 0; lane < lanes; lane++) {")
        self.line(f"const int64_t {s.axis} = first + lane;")

    def column_block(self, s: Columns, rows: int = 1) -> None:
        """What is accumulated in the columns of a block, so many rows for each time that a running result is read."""
        self.line(f"const int64_t {block_text(s.size, self.width)};")
        self.accumulators = {a.name: a for a in s.accumulators}
        for a in s.accumulators:
            self.line(f"{c_type(a.dtype)} {a.name}[{COLUMN_BLOCK}] __attribute__((aligned(64)));")
            self.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}[lane] = {identity_text(a)};")
            if is_position(a):
                self.line(f"int64_t {a.name}_at[{COLUMN_BLOCK}] __attribute__((aligned(64)));")
                self.line(f"for (int64_t lane = 0; lane < lanes; lane++) {a.name}_at[lane] = -1;")
        form = self.values.vectors.get(s) if self.width == str(COLUMN_BLOCK) and not self.replaced else None
        if form:
            self.line(IS_HERE)
            self.column_vectors(s, form)
            self.line("#else")
        self.lane, self.is_running = "lane", s.is_running
        self.column_loops(s, rows)
        self.lane, self.is_running = "0", False
        if form:
            self.line("#endif")

    def column_vectors(self, s: Columns, form: VectorForm) -> None:
        """The same where all columns are one vector."""
        vectors = Vectors(self, self.statements, form=form)
        self.open("{")
        for a in s.accumulators:
            self.line(form.lanes.named(f"npc_numbers@ {a.name}_vector = npc_all@({identity_text(a)});"))
        for axis, n in s.loops:
            first, end = self.limits.get(axis, ("0", size_text(n)))
            self.open(f"for (int64_t {axis} = {first}, end_{axis} = {end}; {axis} < end_{axis}; {axis}++) {{")
        self.line(f"const int64_t {s.axis} = first;")
        vectors.statements(s.body, "lanes")
        for _ in s.loops:
            self.close()
        for a in s.accumulators:
            self.line(form.lanes.named(f"*(npc_numbers@_in_memory*){a.name} = {a.name}_vector;"))
        self.close()

    def column_loops(self, s: Columns, rows: int) -> None:
        loops = [(axis, *self.limits.get(axis, ("0", size_text(n)))) for axis, n in s.loops]
        many = loops.pop() if rows > 1 and loops else None
        for axis, first, end in loops:
            self.open(f"for (int64_t {axis} = {first}, end_{axis} = {end}; {axis} < end_{axis}; {axis}++) {{")
        if many is None:
            self.column_row(s, [""])
        else:
            axis, first, end = many
            is_narrow = self.width != str(COLUMN_BLOCK)
            if is_narrow:  # short parts of rows come sooner from memory one after another, however compilers would group them
                self.open(f"if (c->is_far && lanes <= {COLUMN_BLOCK // 2}) for (int64_t row = {first}; row < {end}; row++) {{")
                self.column_row(s, [f"const int64_t {axis} = row;"])
                self.line('__asm__ volatile("");')
                self.close("} else {")
                self.indent += 1
            self.line(f"int64_t row = {first};")
            for each in (rows, 1):
                self.open(f"for (; row + {each} <= {end}; row += {each}) {{")
                self.column_row(s, [f"const int64_t {axis} = row + {k};" for k in range(each)])
                self.close()
            if is_narrow:
                self.close()
        for _ in loops:
            self.close()

    def column_row(self, s: Columns, rows: Sequence[str]) -> None:
        """The loop over columns. Each of `rows` says which row it is; of several, only the last stores the running results."""
        held = s.accumulators if len(rows) > 1 else []

        def write(body: Sequence[Statement], begin: str, end: str) -> None:
            self.line("#pragma GCC ivdep")
            self.open(f"for (int64_t lane = {begin}; lane < {end}; lane++) {{")
            self.line(f"const int64_t {s.axis} = first + lane;")
            for a in held:
                self.line(f"{c_type(a.dtype)} {a.name}_held = {a.name}[lane];")
            self.is_held = bool(held)
            for row in rows:
                self.open(f"{{ {row}")
                self.statements(body)
                self.close()
            self.is_held = False
            for a in held:
                self.line(f"{a.name}[lane] = {a.name}_held;")
            self.close()

        near_and_far(self, s.body, "0", "lanes", write)

    def finish_columns(self, s: Columns) -> None:
        self.lane = "lane"
        self.line("#pragma GCC ivdep")
        self.open("for (int64_t lane = 0; lane < lanes; lane++) {")
        self.line(f"const int64_t {s.axis} = first + lane;")
        self.finish_column(s)
        self.close()
        self.lane = "0"

    def finish_column(self, s: Columns) -> None:
        count: Size = 1
        for _, n in s.loops:
            count = count * n
        for a in s.accumulators:
            total = self.place(a)
            if is_position(a):
                total = f"npc_max(0, {a.name}_at{'_held' if self.is_held else '[lane]'})"
            total = from_zero(a, total)
            if a.result.dtype == np.float16 and a.dtype.itemsize == 4:
                total = rounded_text(f"({total})", a.result.dtype)
            if a.reducer == "add" and a.dtype.kind in "fc" and not (isinstance(count, int) and count):
                total = f"({size_text(count)} == 0 ? {constant_text(0, a.dtype)} : {total})"
            self.line(f"const {c_type(a.result.dtype)} {a.result.name} = {self.total_text(a, total)};")
            self.note_doubt(a)
        self.statements(s.finish)

    def scan(self, s: Scan) -> None:
        a = s.accumulator
        self.accumulators = {a.name: a}
        self.open("{")
        self.line(f"{c_type(a.dtype)} {a.name} = {'{0}' if a.dtype.kind == 'c' else '0'}; int {a.name}_started = 0;")
        self.statements(s.body)
        self.close()


def block_text(size: Size, width: str) -> str:
    """The first column of a block, and how many it has."""
    if isinstance(size, int) and size <= FEW_LANES and width == str(COLUMN_BLOCK):
        return f"first = 0, lanes = {size}"
    return f"first = column_block * {width}, lanes = npc_min({width}, {size_text(size)} - first)"


def summands(a: Accumulator) -> int:
    """How many sums NumPy makes side by side along memory."""
    return 4 if a.dtype.kind == "c" else 8


def in_lanes(s: Columns, a: Accumulator) -> int:
    """How many elements of a run are added up side by side."""
    return s.run // summands(a) * summands(a)
