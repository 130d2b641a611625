"""Which programs a kernel needs, and their tiles: few sizes of each, so that new shapes seldom mean a new compile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npcompile.backends.cuda.programs.checks import checked_axes, print_checks, rows_and_columns
from npcompile.backends.cuda.programs.primitives import part_of
from npcompile.backends.cuda.programs.printer import Context, Nest, map_of, nest_of, print_map, print_turned_map
from npcompile.backends.cuda.programs.products import with_reductions
from npcompile.backends.cuda.programs.program import (
    Launch,
    NotPrintable,
    Plan,
    Program,
    Scratch,
    Tile,
    Values,
    ceil_divide,
    number_of,
    power_of_two,
    warps_for,
)
from npcompile.backends.cuda.programs.reductions import (
    columns_of,
    partial_names,
    print_column_parts,
    print_columns,
    print_rows,
    print_split_rows,
    rows_of,
)
from npcompile.backends.cuda.programs.scans import print_scan, print_scan_in_order, scan_of
from npcompile.backends.cuda.programs.scatters import (
    COPIES,
    WINNERS,
    Scatter,
    copies_of,
    identity_of,
    is_uniform,
    memory_type,
    print_copies_combined,
    print_fill,
    print_in_order,
    print_positions,
    scatter_of,
)
from npcompile.backends.cuda.programs.tile_printer import COLUMN, ROW
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import Columns, Kernel, Let, Load, Loop, Product, Reduce, Scan, ScratchRow, Store, walk
from npcompile.backends.kernels.operations import is_costly
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.meta import product

MAP_WARPS = 4
EACH = 256  # elements of a map for one warp: enough loads at once to keep memory busy
EACH_EXPENSIVE = {4: 128, 8: 64}  # by itemsize, where functions need the registers
NARROW = 32  # columns: with fewer, all loops are counted as one
SQUARE = 256  # bytes of a side of a tile that is read along both axes
TURN_EACH = 512  # elements of such a tile for a warp
NEAR_EACH = {4: 512, 8: 256}  # elements of rows on the chip for a warp, by itemsize
ON_CHIP = 16384  # elements of a row that stay in registers
PASS_BYTES = 32768  # of a block of a longer row, or of a part of one: enough loads at once for a whole multiprocessor
MOST_EACH = 32  # elements of a block that a thread takes
PART = 16384  # elements: the least that a part of a row is worth
PROCESSORS = 132  # of an H100 or H200; others have about as many
PROGRAMS = 8 * PROCESSORS  # enough to fill the device with short programs
PARTS = 4 * PROCESSORS  # as many programs of eight warps run at once
ROW_PARTS = 2 * PARTS  # of long rows: where the last ones end late, less waits for them
SCANNED = 2048  # elements of a block of scans
TURNS = 64  # positions of a block of a scatter in order
COPIED = 2**28  # bytes of copies of a scatter's target
COPY_COST = 4096  # about how many elements of a copy are made and read while one position is scattered
NOTHING: frozenset[str] = frozenset()


def plan_kernel(
    kernel: Kernel,
    types: dict[str, np.dtype],
    symbols: Sequence[str],
    on_device: frozenset[str] = NOTHING,
    *,
    is_fast: bool = False,
) -> Plan:
    """The programs of one kernel. Raises NotPrintable.

    `on_device`: 0-D inputs that are read from memory; `is_fast`: results may be rounded otherwise than NumPy's.
    """
    context = Context(kernel, types, frozenset(symbols), on_device, is_fast)
    plan = plan_form(context)
    return with_checks(plan, context) if kernel.can_fail else plan


def plan_form(context: Context) -> Plan:
    kernel = context.kernel
    statements = list(walk(kernel.body))
    if any(isinstance(s, Product) for s in statements):
        return plan_rows(replace(context, kernel=with_reductions(kernel)))
    if kernel.is_serial:
        return plan_scatter(context)
    if any(isinstance(s, Columns) for s in statements):
        return plan_columns(context)
    if any(isinstance(s, Scan) for s in statements):
        return plan_scan(context)
    if any(isinstance(s, Reduce) for s in statements):
        return plan_rows(context)
    return plan_map(context)


def with_checks(plan: Plan, context: Context) -> Plan:
    """The same, with its indices checked where there is nothing to compute but indices."""
    nest = nest_of(context.kernel.body)
    axes = checked_axes(nest)
    if axes is None:
        return plan
    program = print_checks(context, nest, axes)
    count = product([n for _, n in axes])

    def launches(values: Values) -> list[Launch]:
        number = number_of(count, values)
        return plan.launches(values) or ([flat_launch(program, number, ())] if number else [])

    return Plan(plan.kernel, launches, [*plan.programs, program])


def plan_map(context: Context) -> Plan:
    nest = map_of(context.kernel)
    flat = print_map(context, nest, is_flat=True)
    each = each_of(context.kernel)

    def launch_flat(values: Values) -> list[Launch]:
        total = number_of(nest.count, values)
        if not total:
            return []
        tile, *others = (flat_tile(total, n) for n in (each, each // 2, each * 2, each * 4))
        return [Launch(flat, tile, others=tuple(others))]

    if len(nest.axes) < 2 or is_at_most(nest.axes[-1][1], NARROW):
        return Plan(context.kernel, launch_flat, [flat])
    across = read_across(context.kernel, nest)
    if across is not None:
        return plan_turned_map(context, nest, *across)
    tiled = print_map(context, nest, is_flat=False)

    def launches(values: Values) -> list[Launch]:
        columns, total = number_of(nest.axes[-1][1], values), number_of(nest.count, values)
        if columns <= NARROW:
            return launch_flat(values)
        if not total:
            return []
        tile, *others = (map_tile(total // columns, columns, n) for n in (each, each // 2, each * 2, each * 4))
        return [Launch(tiled, tile, others=tuple(others))]

    is_fixed = not isinstance(nest.axes[-1][1], Dim)
    return Plan(context.kernel, launches, [tiled] if is_fixed else [tiled, flat])


def plan_turned_map(context: Context, nest: Nest, across: str, itemsize: int) -> Plan:
    """Square tiles, so that memory is read in whole lines along both axes."""
    turned = print_turned_map(context, nest, across)
    sizes = dict(nest.axes)
    inner = nest.axes[-1][1]

    def launches(values: Values) -> list[Launch]:
        total, columns, rows = (number_of(n, values) for n in (nest.count, inner, sizes[across]))
        if not total:
            return []
        block, height = (min(max(SQUARE // itemsize, 16), power_of_two(n)) for n in (columns, rows))
        grid = total // (columns * rows) * ceil_divide(columns, block) * ceil_divide(rows, height)
        return [Launch(turned, Tile(grid, block, height, warps=min(warps_for(block * height, TURN_EACH), 8)))]

    return Plan(context.kernel, launches, [turned])


def each_of(kernel: Kernel) -> int:
    """How many elements of a map a warp takes."""
    sizes = [s.target.dtype.itemsize for s in walk(kernel.body) if isinstance(s, Let) and is_costly(s.op)]
    return EACH_EXPENSIVE.get(min(max(sizes, default=0), 8), EACH if not sizes else 128)


def flat_tile(total: int, each: int) -> Tile:
    block = min(MAP_WARPS * each, power_of_two(total))
    return Tile(ceil_divide(total, block), block, warps=warps_for(block, each))


def map_tile(rows: int, columns: int, each: int) -> Tile:
    """As few columns outside of the array as possible."""
    elements = MAP_WARPS * each
    block = min((elements // 4, elements // 2, elements), key=lambda b: (ceil_divide(columns, b) * b, -b))
    block = min(block, power_of_two(columns))
    height = min(max(elements // block, 1), power_of_two(rows))
    grid = ceil_divide(rows, height) * ceil_divide(columns, block)
    return Tile(grid, block, height, warps=warps_for(block * height, each))


def is_at_most(size: Size, n: int) -> bool:
    return not isinstance(size, Dim) and size <= n


def read_across(kernel: Kernel, nest: Nest) -> tuple[str, int] | None:
    """Another loop than the innermost along which elements are side by side somewhere, and their size."""
    inner = nest.axes[-1][0]
    for s in walk(kernel.body):
        if isinstance(s, (Load, Store)):
            itemsize = (s.target if isinstance(s, Load) else s.value).dtype.itemsize
            for axis, size in nest.axes[:-1]:
                found, own = split_linear(s.offset, axis), split_linear(s.offset, inner)
                if is_at_most(size, 3) or not found or not own:
                    continue
                if is_number(found[0], itemsize) and not is_at_most(own[0], itemsize):
                    return axis, itemsize
    return None


def least_itemsize(kernel: Kernel) -> int:
    return min((part_of(s.target.dtype).itemsize for s in walk(kernel.body) if isinstance(s, Load)), default=8)


def pass_tile(itemsize: int, warps: int) -> tuple[int, int]:
    """(elements of a block, how many of them are folded): each thread reads whole 16 bytes some times at once."""
    lanes = 32 * warps * (16 // itemsize)
    block = max(min(PASS_BYTES // itemsize, 32 * warps * MOST_EACH), lanes)
    return block, block // lanes


def plan_rows(context: Context) -> Plan:
    kernel = context.kernel
    form = rows_of(kernel)
    outer, body = form.outer, form.body
    reduces = [s for s in body if isinstance(s, Reduce)]
    if not reduces:
        raise NotPrintable(kernel.name)
    fixed = None if isinstance(reduces[0].count, Dim) else reduces[0].count
    near = print_rows(context, form, is_on_chip=True) if fixed is None or fixed <= ON_CHIP else None
    far = print_rows(context, form, is_on_chip=False) if fixed is None or fixed > ON_CHIP else None
    split_programs = print_split_rows(context, form) if form.can_split and (fixed is None or fixed > PART) else []
    widest = max((s.target.dtype.itemsize for s in walk(kernel.body) if isinstance(s, Load)), default=8)
    itemsize = least_itemsize(kernel)
    scratch = [s for s in walk(kernel.body) if isinstance(s, ScratchRow)]
    passes = sum(isinstance(s, (Reduce, Loop)) for s in body)

    def launches(values: Values) -> list[Launch]:
        rows, count = number_of(outer.count, values), number_of(reduces[0].count, values)
        if not rows:
            return []
        room = tuple(Scratch(s.buffer, rows * number_of(s.bytes, values)) for s in scratch)
        split = min(ceil_divide(count, PART), ceil_divide(ROW_PARTS, rows))
        if split_programs and split > 1 and (passes == 1 or (count > ON_CHIP and rows < PROCESSORS)):
            return split_rows(rows, count, split, room)
        if near is not None and count <= ON_CHIP:
            return [Launch(near, near_tile(rows, count, widest))]
        assert far is not None, (kernel.name, count)
        block, fold = pass_tile(itemsize, 16)
        return [Launch(far, Tile(rows, block, warps=16, fold=fold), room)]

    def split_rows(rows: int, count: int, split: int, room: tuple[Scratch, ...]) -> list[Launch]:
        block, fold = pass_tile(itemsize, 8)
        steps = ceil_divide(ceil_divide(count, split), block)
        split = ceil_divide(count, steps * block)
        room += tuple(Scratch(p.name, rows * split * 8) for s in reduces for a in s.accumulators for p in partial_names(a))
        tile = Tile(rows * split, block, split=split, steps=steps, warps=8, fold=fold)
        tiles = [tile] * len(split_programs)
        if len(split_programs) > passes:  # the last one combines
            tiles[-1] = Tile(rows, 1, split=split, warps=warps_for(power_of_two(split)))
        return [Launch(program, t, room) for program, t in zip(split_programs, tiles)]

    return Plan(kernel, launches, [p for p in (near, far, *split_programs) if p is not None])


def near_tile(rows: int, count: int, itemsize: int) -> Tile:
    """Rows in registers: several short ones in a program."""
    block = power_of_two(count)
    height = min(max(1024 // block, 1), power_of_two(rows))
    return Tile(ceil_divide(rows, height), block, height, warps=warps_for(block * height, NEAR_EACH[4 if itemsize < 8 else 8]))


def plan_columns(context: Context) -> Plan:
    kernel = context.kernel
    sums = columns_of(kernel)
    outer, columns, count = sums.outer, sums.columns, sums.count
    whole, (first, second) = print_columns(context, sums), print_column_parts(context, sums)
    itemsize = least_itemsize(kernel)

    def launches(values: Values) -> list[Launch]:
        outers, size, n = (number_of(s, values) for s in (outer.count, columns.size, count))
        if not outers or not size:
            return []
        elements, fold = pass_tile(itemsize, 8)
        block = min(max(256 // itemsize, elements // power_of_two(n)), elements // fold, power_of_two(size))
        height = min(max(elements // block, 1), power_of_two(n))
        fold = max(height // max(elements // fold // block, 1), 1)
        warps = warps_for(block * height, 32 * MOST_EACH)
        blocks = ceil_divide(size, block)
        split = min(ceil_divide(n, 2 * height), ceil_divide(PARTS, outers * blocks))
        if split <= 1:
            return [Launch(whole, Tile(outers * blocks, block, height, warps=warps, fold=fold))]
        steps = ceil_divide(ceil_divide(n, split), height)
        split = ceil_divide(n, steps * height)
        room = tuple(Scratch(p.name, outers * split * size * 8) for a in columns.accumulators for p in partial_names(a))
        tile = Tile(outers * split * blocks, block, height, split, steps, warps, fold)
        narrow = min(block, max(2048 // power_of_two(split), 16), power_of_two(size))
        parts = Tile(outers * ceil_divide(size, narrow), narrow, split=split, warps=warps_for(narrow * power_of_two(split)))
        return [Launch(first, tile, room), Launch(second, parts, room)]

    return Plan(kernel, launches, [whole, first, second])


def plan_scan(context: Context) -> Plan:
    kernel = context.kernel
    scanned = scan_of(kernel)
    outer, nest, a = scanned.outer, scanned.nest, scanned.scan.accumulator
    along = COLUMN if scanned.is_along_memory else ROW
    whole, parts = (print_scan(context, scanned, along, in_parts=in_parts) for in_parts in (False, True))
    is_rounded = a.reducer in ("add", "multiply") and a.dtype.kind in "fc"
    in_order = [print_scan_in_order(context, scanned)] if along == ROW and is_rounded else []
    itemsize = least_itemsize(kernel)

    def launches(values: Values) -> list[Launch]:
        rows, n = number_of(outer.count, values), number_of(nest.count, values)
        if not rows or not n:
            return []
        if in_order and rows >= PROGRAMS:
            return [Launch(in_order[0], Tile(ceil_divide(rows, 32), 32, warps=1))]
        block = 1 if along == COLUMN else min(64, power_of_two(rows))
        step = min(SCANNED // block, power_of_two(n))
        blocks = ceil_divide(rows, block)
        split = min(ceil_divide(n, 4 * step), ceil_divide(PARTS, blocks))
        steps = ceil_divide(ceil_divide(n, split), step)
        split = ceil_divide(n, steps * step)
        shape = {"block": step, "rows": 1} if along == COLUMN else {"block": block, "rows": step}
        tile = Tile(split * blocks, **shape, split=split, steps=steps, warps=warps_for(step * block))
        if split == 1:
            return [Launch(whole[0], tile)]
        fold = max(min(step, step * block // (32 * tile.warps * (16 // itemsize))), 1)
        room = tuple(Scratch(p.name, rows * split * 8) for p in partial_names(a))
        return [Launch(parts[0], replace(tile, fold=fold), room), Launch(parts[1], tile, room)]

    return Plan(kernel, launches, [*whole, *parts, *in_order])


def plan_scatter(context: Context) -> Plan:
    s = scatter_of(context.kernel)
    count, reach = s.nest.count, s.reach
    flat = each_once(context, s)
    if flat is None:
        return plan_scatter_in_order(context, s)

    def launches(values: Values) -> list[Launch]:
        positions, size = number_of(count, values), max(number_of(reach, values), 1)
        room = (Scratch(WINNERS.name, 8 * size),) if len(flat) > 1 else ()
        counts = [size, positions, positions] if len(flat) > 1 else [positions]
        return [flat_launch(p, n, room) for p, n in zip(flat, counts)] if positions else []

    return Plan(context.kernel, launches, flat)


def each_once(context: Context, s: Scatter) -> list[Program] | None:
    """Programs that take positions in any order, where the result does not depend on it."""
    if s.is_atomic:
        return [print_positions(context, s, "atomic")]
    if s.mode != "set":
        return None
    if is_uniform(context, s):
        return [print_positions(context, s, "all")]
    fill = print_fill(context, WINNERS, s.reach, "-1", "tl.int64")
    return [fill, *(print_positions(context, s, step) for step in ("mark", "set"))]


def flat_launch(program: Program, count: int, room: tuple[Scratch, ...], split: int = 1) -> Launch:
    block = min(1024, power_of_two(count * split))
    return Launch(program, Tile(ceil_divide(count * split, block), block, split=split, warps=warps_for(block)), room)


def plan_scatter_in_order(context: Context, s: Scatter) -> Plan:
    """Directly, or in as many parts that combining their copies takes about as long as making them."""
    rows, columns = (product([n for _, n in axes]) for axes in rows_and_columns(s.nest))
    dtype = part_of(s.dtype)
    direct = print_in_order(context, s, in_parts=False)
    in_parts: list[Program] = []
    if s.can_be_cut:
        fill = print_fill(context, copies_of(s), s.reach, identity_of(s), memory_type(dtype))
        in_parts = [fill, print_in_order(context, s, in_parts=True), print_copies_combined(context, s)]

    def launches(values: Values) -> list[Launch]:
        height, width, reach = number_of(rows, values), number_of(columns, values), max(number_of(s.reach, values), 1)
        if not height or not width:
            return []
        block = min(64, power_of_two(width))
        chunk, warps = (TURNS, 2) if block <= 8 else (TURNS // 2, 4)
        blocks = ceil_divide(width, block)
        most = min(COPIED // (reach * dtype.itemsize), ceil_divide(PARTS, blocks), ceil_divide(height, 8 * chunk))
        split = min(most, math.isqrt(COPY_COST * height * width // reach)) if in_parts else 1
        steps = ceil_divide(ceil_divide(height, max(split, 1)), chunk)
        if split <= 1:
            return [Launch(direct, Tile(blocks, block, chunk, steps=steps, warps=warps))]
        split = ceil_divide(height, steps * chunk)
        room = (Scratch(COPIES, split * reach * dtype.itemsize),)
        fill, parts, combined = in_parts
        tile = Tile(split * blocks, block, chunk, split, steps, warps)
        made = replace(flat_launch(combined, reach, room), tile=replace(flat_launch(combined, reach, ()).tile, split=split))
        return [flat_launch(fill, reach, room, split), Launch(parts, tile, room), made]

    return Plan(context.kernel, launches, [direct, *in_parts])
