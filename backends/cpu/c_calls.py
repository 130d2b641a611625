"""The statements of npc_run that run a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.c_blocks import blocks_call, blocks_of
from npcompile.backends.cpu.c_kernels import (
    LEAST_SLICE,
    LEAST_WIDTH,
    Tasks,
    is_in_parts,
    is_split,
    outermost,
    run_in,
    sliced_columns,
    tasks_of,
    whole_reduce,
)
from npcompile.backends.cpu.c_printer import COLUMN_BLOCK, Printer
from npcompile.backends.cpu.c_sizes import context_fields, product_of, size_text
from npcompile.backends.cpu.c_tiles import slices_call, tiles_of
from npcompile.backends.cpu.doubts import doubted
from npcompile.backends.cpu.grains import FAR, PIECES, SERIAL_NANOSECONDS, moved_bytes, pieces_of
from npcompile.backends.cpu.product import MOST_ALONE
from npcompile.backends.cpu.scatters import scatter_call, sliced_scatter
from npcompile.backends.cpu.shared_kernels import Run
from npcompile.backends.cpu.sliced_scans import scan_call, sliced_scan
from npcompile.backends.kernels.kernel import Columns, Kernel, Loop, Product, Reduce, ScratchRow, walk
from npcompile.tensor_core.dim import Size, minimum

MOST_SLICES = 64
BLOCK, LEAST_BLOCK = 4096, 512  # elements of the innermost loop in one task
ACROSS = 64  # elements of it, and of the other loop, of which a task takes a square
TO_BEGIN = 1 << 17  # products that take as long as one more loop on all threads
CHUNK = 32768  # elements of a whole reduction in one task, at most


def chunk_of(kernel: Kernel) -> int:
    """Elements of a whole reduction in one task."""
    return min(CHUNK, max(2048, int(SERIAL_NANOSECONDS / kernel.cost) // 1024 * 1024))


def block_of(kernel: Kernel) -> int:
    """Elements of the innermost loop in one task. Threads that share a few long tasks would not end together."""
    return min(BLOCK, max(LEAST_BLOCK, int(SERIAL_NANOSECONDS / PIECES / kernel.cost) // LEAST_BLOCK * LEAST_BLOCK))


def print_call(runs: Sequence[Run], symbols: Sequence[str], *, on_one_thread: bool = False) -> list[str]:
    """Statements of npc_run that run a kernel, once for each of these; on one thread it keeps the GIL."""
    kernel = runs[0].kernel
    tasks = tasks_of(kernel)
    names = [n for _, n in context_fields(kernel, symbols)]
    given = [", ".join(f".{n} = {run.given.get(n, n)}" for n in names) or "0" for run in runs]
    lines, end = ["{", f"  struct {kernel.name}_context c = {{{given[0]}}};"], ["}"]
    if len(runs) > 1:
        lines = [
            "{",
            f"  const struct {kernel.name}_context each[{len(runs)}] = {{",
            *(f"    {{{text}}}," for text in given),
            "  };",
        ]
        lines += [f"  for (int k = 0; k < {len(runs)}; k++) {{", f"  struct {kernel.name}_context c = each[k];"]
        end = ["  }", "}"]
    n = size_text(product_of([s for _, s in tasks.axes]))
    elements = inner_elements(kernel, tasks)
    if tiles := tiles_of(kernel):
        lines += [f"  {line}" for line in slices_call(kernel, tiles, SERIAL_NANOSECONDS)]
    elif blocks := blocks_of(kernel):
        lines += [f"  {line}" for line in blocks_call(kernel, blocks)]
    elif scattered := sliced_scatter(kernel):
        lines += [f"  {line}" for line in scatter_call(kernel, scattered)]
    elif scan := sliced_scan(kernel):
        lines += [f"  {line}" for line in scan_call(kernel, scan)]
    elif kernel.is_serial:
        lines.append(f"  {kernel.name}(&c, 0, 1, 0);")
    elif kernel.is_whole:
        reduce, _, _ = whole_reduce(kernel)
        loop = outermost(reduce)
        outer = size_text(loop.size) if loop else "1"
        if is_in_parts(reduce):
            lines += [f"  {line}" for line in parts_lines(kernel, reduce)]
        else:
            lines.append(
                f"  const int64_t n = {outer}, each = npc_max(1, npc_floordiv({size_text(reduce.count)}, npc_max(1, n)));"
            )
            lines.append(f"  c.block_size = npc_max(1, {chunk_of(kernel)} / each);")
            lines.append("  const int64_t chunks = (n + c.block_size - 1) / c.block_size;")
        lines.append(f"  if (!(c.partial = rt->scratch(chunks * sizeof(struct {kernel.name}_partial) + 1))) goto failed;")
        grain = f"npc_max(1, (int64_t){int(SERIAL_NANOSECONDS / kernel.cost)} / npc_max(1, c.block_size * each))"
        lines.append(f"  const int64_t grain = {grain};")
        call = f"rt->parallel_in_pieces({kernel.name}, &c, chunks, grain, grain / {pieces_of(kernel)})"
        lines.append(f"  if ({call}) {{ rt->release(c.partial); goto failed; }}")
        lines.append(f"  {kernel.name}_combine(&c, chunks);")
        lines.append("  rt->release(c.partial);")
    else:
        if tasks.block:
            inner = size_text(tasks.block[1])
            block = ACROSS if tasks.square else block_of(kernel)
            lines.append(f"  c.block_size = {inner} <= {2 * block} ? npc_max(1, {inner}) : {block};")
            lines.append(f"  c.blocks = ({inner} + c.block_size - 1) / c.block_size;")
            n, elements = f"{n} * c.blocks", "c.block_size"
        if tasks.square:
            outer = size_text(tasks.square.size)
            lines.append(f"  c.slice_size = {outer} <= {2 * ACROSS} ? npc_max(1, {outer}) : {ACROSS};")
            lines.append(f"  c.slices = ({outer} + c.slice_size - 1) / c.slice_size;")
            n, elements = f"{n} * c.slices", "c.block_size * c.slice_size"
        if tasks.block:
            lines.append(f"  c.is_far = {n} * {elements} >= {FAR // moved_bytes(kernel)};")
        if tasks.columns is not None:
            columns, work = size_text(tasks.columns), int(SERIAL_NANOSECONDS / kernel.cost)
            lines.append(f"  c.width = {COLUMN_BLOCK};")
            if is_split(tasks):
                rows = f"({columns} + {LEAST_WIDTH} * rt->threads() - 1) / ({LEAST_WIDTH} * rt->threads())"
                lines.append(f"  if ({n} * {elements} >= {work}) c.width = npc_min(c.width, npc_max(1, {rows}) * {LEAST_WIDTH});")
            lines.append(f"  c.blocks = ({columns} + c.width - 1) / c.width;")
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
        call = f"rt->parallel_in_pieces({kernel.name}, &c, tasks, grain, grain / {pieces_of(kernel)})"
        if any(isinstance(s, Product) for s in tasks.body):  # a few large ones are better made one after another
            if is_openblas():
                lines.append("  const int64_t threads = rt->threads(), rounds = (tasks + threads - 1) / threads;")
                one_by_one = f"({elements} / threads + {TO_BEGIN}) * tasks < {elements} * rounds"
            else:
                one_by_one = f"{elements} > {MOST_ALONE}"
            call = f"rt->parallel({kernel.name}, &c, tasks, {one_by_one} ? tasks : grain)"
        if on_one_thread:
            call = f"rt->parallel({kernel.name}, &c, tasks, tasks)"
        if sliced:
            lines.append(f"  if ({call}) {{ rt->release(c.partial); goto failed; }}")
            lines += [f"  {kernel.name}_combine(&c);", "  rt->release(c.partial);"]
        else:
            lines.append(f"  if ({call}) goto failed;")
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
    if doubted(kernel):
        lines.append("  in_doubt |= c.in_doubt;")
    return [*lines, *end]


def parts_lines(kernel: Kernel, reduce: Reduce) -> list[str]:
    """Statements that say how many chunks there are: halves of halves of each run, until they are short enough."""
    p = Printer(kernel, indent=0)
    p.run_lines(run_in(reduce))
    return [
        *p.lines,
        f"while (run == period && run >> c.halvings > {chunk_of(kernel)}) c.halvings++;",
        "c.block_size = run >> c.halvings;",
        "const int64_t parts = (npc_max(1, period) + npc_max(1, run) - 1) / npc_max(1, run), each = 1;",
        f"const int64_t chunks = {size_text(reduce.count)} / npc_max(1, period) * parts << c.halvings;",
    ]


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
                total = total + product_of([*(n for _, n in s.loops), minimum(s.size, COLUMN_BLOCK)])
            case Loop() if not s.is_parallel or not any(isinstance(x, Loop) for x in walk(s.body)):
                total = total + s.size
    return size_text(total)
