"""Writes at places that are data, of which each combines with what is there: `np.add.at`, `np.bincount`.

Where the target is small beside what is written, slices of the writes run side by side, each on a copy of the target of its
own, and the copies are combined in the order of the slices. How many there are depends on sizes alone, so no result depends
on the number of threads. Sums of floating-point numbers round otherwise than one after another, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import context_fields, size_text
from npcompile.backends.cpu.kernel_plan import KernelPlan, ScatterBlocks, ScatterSlices
from npcompile.backends.cpu.primitives import c_type, loaded_text, stored_text
from npcompile.backends.cpu.reducers import identity_of, in_order_text
from npcompile.backends.kernels.operations import short

MOST_SLICES = 16
LEAST_SLICE = 8192  # elements
COPY_COST = 2  # copies of a target's element are made and read in the time of half as many writes
BLOCK = 512  # elements whose places are found before any is written
COPIES = 4  # of a small target, for one slice
FEW_BYTES = 8192  # of such a target
COMBINED = 1024  # elements of the target in a task that combines
COMBINED_ALONE = 8  # such tasks, each of one copy: other processors have written these, so that they are read slowly


def print_scatter_slices(p: Printer, way: ScatterSlices) -> None:
    """The body of the range function."""
    s, loop = way.target, way.loop
    p.statements(way.before)
    p.open("for (int64_t task = begin; task < end; task++) {")
    p.line("const int64_t slice_first = task * c->slice_size;")
    p.line(f"const int64_t slice_end = npc_min(slice_first + c->slice_size, {size_text(loop.size)});")
    p.open("if (c->partial) {")
    p.line(f"{s.buffer} = c->partial + task * c->block_size;")
    element = f"*(npc_{short(s.dtype)}_in_memory*)({s.buffer} + {s.dtype.itemsize} * k)"
    fresh = stored_text(identity_of(s.reducer, s.dtype), s.dtype)
    p.line(f"const int64_t elements = c->block_size / {s.dtype.itemsize};")
    p.line(f"for (int64_t k = 0; k < elements; k++) {element} = {fresh};")
    p.close()
    p.limits[loop.axis] = ("slice_first", "slice_end")
    if way.blocks is None:
        p.statement(loop)
    elif way.is_moved:
        p.open("if (!c->between) {")
        p.statement(loop)
        p.close("} else {")
        p.indent += 1
        print_blocks(p, way, way.blocks)
        p.close()
    else:
        print_blocks(p, way, way.blocks)
    p.close()


def print_blocks(p: Printer, way: ScatterSlices, blocks: ScatterBlocks) -> None:
    """Places and values of a block, in vectors, then its writes, to COPIES in turn: they seldom wait for each other."""
    s, c = way.target, c_type(way.target.dtype)
    p.open(f"for (int64_t block = slice_first; block < slice_end; block += {BLOCK}) {{")
    p.line(f"const int64_t lanes = npc_min({BLOCK}, slice_end - block);")
    p.line(f"int64_t places[{BLOCK}] __attribute__((aligned(64)));")
    last = [f"places[lane] = {size_text(blocks.store.offset)};"]
    if blocks.is_made:
        p.line(f"{c} values[{BLOCK}] __attribute__((aligned(64)));")
        last.append(f"values[lane] = {blocks.value.name};")
    head = f"for (int64_t lane = 0; lane < lanes; lane++) {{ const int64_t {way.loop.axis} = block + lane;"
    p.noting_loop(head, blocks.given, last)
    p.line("const int64_t between = c->between; /* what is written might be anything in memory, so c is not read meanwhile */")
    p.line("int64_t lane = 0;")
    for each in (COPIES, 1):
        p.open(f"for (; lane + {each} <= lanes; lane += {each}) {{")
        for k in range(each):
            at = f"(npc_{short(s.dtype)}_in_memory*)({s.buffer} + {k} * between + places[lane + {k}])"
            added = f"values[lane + {k}]" if blocks.is_made else blocks.value.name
            text = in_order_text(s.reducer, loaded_text("*at", s.dtype), added, s.dtype)
            p.line(f"{{ npc_{short(s.dtype)}_in_memory* const at = {at}; *at = {stored_text(text, s.dtype)}; }}")
        p.close()
    p.close()


def print_scatter_combine(plan: KernelPlan, way: ScatterSlices, symbols: Sequence[str]) -> str:
    """The range function that combines the copies, for blocks of the target."""
    s = way.target
    size, name = s.dtype.itemsize, f"npc_{short(s.dtype)}_in_memory"
    p = Printer(plan)
    p.line(f"struct {plan.name}_context* c = context;")
    for t, n in context_fields(plan.kernel, symbols):
        if n == s.buffer:
            p.line(f"{t} const {n} = c->{n};")
    p.line(f"const int64_t first = begin * {COMBINED}, last = npc_min(end * {COMBINED}, c->blocks);")
    p.line(
        f"const int64_t copies = c->between ? c->slices * {COPIES} : c->slices, step = c->between ? c->between : c->block_size;"
    )
    p.open("for (int64_t copy = 0; copy < copies; copy++) {")
    p.line("const char* const other = c->partial + copy * step;")
    p.line("#pragma GCC ivdep")
    p.open("for (int64_t k = first; k < last; k++) {")
    old, more = (loaded_text(f"*(const {name}*)({x} + {size} * k)", s.dtype) for x in (s.buffer, "other"))
    p.line(f"*({name}*)({s.buffer} + {size} * k) = {stored_text(in_order_text(s.reducer, old, more, s.dtype), s.dtype)};")
    p.close()
    p.close()
    head = f"static void {plan.name}_combine(void* context, int64_t begin, int64_t end, int thread) {{"
    return "\n".join([head, *p.lines, "}"])


def scatter_call(name: str, way: ScatterSlices) -> list[str]:
    """Statements that run the kernel with the context `c`."""
    s, each = way.target, f"npc_max(1, {size_text(way.each)})"
    size = size_text(s.size)
    return [
        f"const int64_t n = {size_text(way.loop.size)}, writes = n * {each}, size = {size};",
        f"const int64_t most = npc_min({MOST_SLICES}, npc_min(writes / {LEAST_SLICE}, writes / npc_max(1, {COPY_COST} * size)));",
        f"const int64_t bytes = (size * {s.dtype.itemsize} + 127) / 128 * 128;",
        f"c.between = most > 1 && bytes <= {FEW_BYTES} ? bytes : 0;",
        f"c.block_size = c.between ? {COPIES} * bytes : bytes;",
        "c.blocks = size;",
        "c.slices = npc_max(1, most);",
        "c.slice_size = npc_max(1, (n + c.slices - 1) / c.slices);",
        "c.slices = npc_max(1, (n + c.slice_size - 1) / c.slice_size);",
        "if (c.slices > 1) {",
        "  if (!(c.partial = rt->scratch(c.slices * c.block_size))) goto failed;",
        f"  if (rt->parallel({name}, &c, c.slices, 1)) {{ rt->release(c.partial); goto failed; }}",
        f"  const int64_t blocks = (size + {COMBINED - 1}) / {COMBINED};",
        f"  const int64_t combined = npc_max(1, {COMBINED_ALONE} / c.slices);",
        f"  const int stopped = !c.failed && rt->parallel({name}_combine, &c, blocks, combined);",
        f"  if (c.failed == 1) {{ c.failed = 0; {name}(&c, 0, c.slices, 0); }} /* find the first bad index */",
        "  rt->release(c.partial);",
        "  if (stopped) goto failed;",
        "} else {",
        f"  {name}(&c, 0, c.slices, 0);",
        "}",
    ]
