"""Blocks of rows printed as C: a task takes a block through all parts, in memory of its own where no one else reads it.

Where there are too few rows for all threads, and products are most of the work, all rows are one block that threads multiply
together.
"""

from __future__ import annotations

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.cost_model import PIECES, SERIAL_NANOSECONDS
from npcompile.backends.cpu.kernel_plan import RowBlocks
from npcompile.backends.kernels.kernel import Blocks, Product
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.meta import product

MOST_ROWS, FEWEST_ROWS = 128, 8  # of a block: enough that copying the right matrix takes little of its time; of a tile
MANY = 64  # rows that are worth reading a matrix of more than NEAR bytes for, from behind a processor's own cache
NEAR = 1 << 20
BLOCK = 1 << 21  # bytes that a task reads and writes
ENOUGH = 2  # so many times the tasks are the threads: with fewer of them, threads go through the parts together
PER_NANOSECOND = {"f4": 64, "f8": 32}  # products that are made
OWN = "own"  # the memory of a task


def own_bytes(blocks: Blocks) -> str:
    """Of the memory of a task."""
    return f"c->block_size * ({size_text(sum(blocks.own.values(), start=0))})"


def print_blocks(p: Printer, blocks: Blocks) -> None:
    """The body of the range function."""
    p.open("for (int64_t task = begin; task < end; task++) {")
    p.line("const int64_t block_first = task % c->blocks * c->block_size;")
    p.line(f"const int64_t block_end = npc_min(block_first + c->block_size, {size_text(blocks.size)});")
    if blocks.stack:
        p.line("int64_t rest = task / c->blocks;")
    for axis, n in reversed(blocks.stack):
        p.line(f"const int64_t {axis} = rest % ({size_text(n)});")
        p.line(f"rest /= {size_text(n)};")
    start: Size = 0
    for buffer, row in blocks.own.items():
        place = f"c->block_size * ({size_text(start)}) - block_first * ({size_text(row)})"
        p.line(f"char* const {buffer} = {OWN} + ({place}); /* where row 0 would be */")
        start = start + row
    for part in blocks.parts:
        p.limits = {blocks.axis: ("block_first", "block_end")}
        p.open("{")
        for statement in part:
            if isinstance(statement, Product):
                print_rows(p, statement)
            else:
                p.statement(statement)
        p.close()
    p.limits = {}
    p.close()


def print_rows(p: Printer, s: Product) -> None:
    """The rows of a product that are those of the block."""
    result, left, right = (
        f"{x.buffer} + {size_text(x.offset)}{f' + block_first * {size_text(x.row)}' if x is not s.right else ''}, "
        f"{size_text(x.row)}, {size_text(x.column)}"
        for x in s.matrices
    )
    _, n, k = map(size_text, s.sizes)
    sizes = f"block_end - block_first, {n}, {k}, {k if s.block is None else s.block}, c->is_alone"
    p.line(f"const int failed = rt->rows_product_{short(s.dtype)}({result}, {left}, {right}, {sizes});")
    p.line("if (failed) { NPC_TELL(c->failed, failed); goto done; }")


def blocks_call(name: str, way: RowBlocks) -> list[str]:
    """Statements that run the kernel with the context `c`."""
    blocks, multiplied = way.blocks, way.products
    right = " + ".join(size_text(s.sizes[1] * s.sizes[2] * s.dtype.itemsize) for s in multiplied)
    products = " + ".join(f"{size_text(s.sizes[1] * s.sizes[2])} / {PER_NANOSECOND[short(s.dtype)]}" for s in multiplied)
    rest = " + ".join(f"{size_text(tenths)} / 10" for tenths in way.tenths) or "0"
    return [
        f"const int64_t n = {size_text(blocks.size)}, stack = {size_text(product([n for _, n in blocks.stack]))};",
        f"const int64_t all = n * stack, products = {products}, rest = {rest}, each = npc_max(1, products + rest);",
        f"const int64_t threads = npc_max(1, npc_min(rt->threads(), all * each / {SERIAL_NANOSECONDS // PIECES}));",
        f"const int64_t most = npc_max({FEWEST_ROWS}, npc_min({MOST_ROWS}, {BLOCK} / npc_max(1, {size_text(blocks.bytes)})));",
        f"const int64_t least = {right} > {NEAR} ? {MANY} : {FEWEST_ROWS};",
        "const int64_t share = (all + threads - 1) / threads, rounds = npc_max(1, (share + most - 1) / most);",
        "c.block_size = npc_min(npc_max(1, n), (npc_max(least, (share + rounds - 1) / rounds) + 7) / 8 * 8);",
        "c.blocks = (n + c.block_size - 1) / c.block_size;",
        f"c.is_alone = {ENOUGH} * c.blocks * stack >= threads || products < rest;",
        "if (!c.is_alone) c.block_size = n, c.blocks = 1;",
        f"const int64_t tasks = c.blocks * stack, grain = {SERIAL_NANOSECONDS} / npc_max(1, c.block_size * each);",
        f"const int is_stopped = c.is_alone ? rt->parallel_in_pieces({name}, &c, tasks, grain, grain / {PIECES})",
        f"                                  : rt->parallel({name}, &c, tasks, tasks);",
        "if (is_stopped) goto failed;",
    ]
