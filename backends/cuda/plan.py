"""Which programs a kernel needs, and their tiles: few sizes of each, so that new shapes seldom mean a new compile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npcompile.backends.cuda.printer import (
    Context,
    Nest,
    can_split,
    columns_of,
    is_along_memory,
    nest_of,
    partial_names,
    print_column_parts,
    print_columns,
    print_map,
    print_row_parts,
    print_rows,
    print_scan,
    reduce_of,
    scan_of,
)
from npcompile.backends.cuda.program import (
    Launch,
    NotPrintable,
    Plan,
    Scratch,
    Tile,
    Values,
    ceil_divide,
    number_of,
    power_of_two,
    warps_for,
)
from npcompile.backends.kernels.index import is_number, split_linear
from npcompile.backends.kernels.kernel import Columns, Kernel, Let, Load, Product, Reduce, Scan, ScratchRow, Store, walk
from npcompile.backends.kernels.operations import EXPENSIVE
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.meta import product

MAP_WARPS = 4
EACH = 256  # elements of a map for one warp: enough loads at once to keep memory busy
EACH_EXPENSIVE = {4: 128, 8: 64}  # by itemsize, where functions need the registers
NARROW = 32  # columns: with fewer, all loops are counted as one
ON_CHIP = 16384  # elements of a row that stay in registers
PASS = 4096  # elements of a block of a longer row
PART_BLOCK = 2048  # elements of a block of a part of a row
PROGRAMS = 1056  # enough to fill the device: eight for each of 132 multiprocessors
NOTHING: frozenset[str] = frozenset()
PART = 16384  # elements: the least that a part of a row is worth


def plan_kernel(kernel: Kernel, types: dict[str, np.dtype], symbols: Sequence[str], on_device: frozenset[str] = NOTHING) -> Plan:
    """The programs of one kernel. `on_device`: 0-D inputs that are read from memory. Raises NotPrintable."""
    context = Context(kernel, types, frozenset(symbols), on_device)
    statements = list(walk(kernel.body))
    if kernel.is_serial or any(isinstance(s, Product) for s in statements):
        raise NotPrintable(kernel.name)
    if any(isinstance(s, Columns) for s in statements):
        return plan_columns(context)
    if any(isinstance(s, Scan) for s in statements):
        return plan_scan(context)
    if any(isinstance(s, Reduce) for s in statements):
        return plan_rows(context)
    return plan_map(context)


def plan_map(context: Context) -> Plan:
    nest = nest_of(context.kernel.body)
    flat = print_map(context, is_flat=True)
    each = each_of(context.kernel)

    def launch_flat(values: Values) -> list[Launch]:
        total = number_of(nest.count, values)
        block = min(MAP_WARPS * each, power_of_two(total))
        return [Launch(flat, Tile(ceil_divide(total, block), block, warps=warps_for(block, each)))] if total else []

    if len(nest.axes) < 2 or is_at_most(nest.axes[-1][1], NARROW):
        return Plan(context.kernel, launch_flat, [flat])
    tiled = print_map(context, is_flat=False)
    turns = reads_across(context.kernel, nest)

    def launches(values: Values) -> list[Launch]:
        columns, total = number_of(nest.axes[-1][1], values), number_of(nest.count, values)
        if columns <= NARROW:
            return launch_flat(values)
        return [Launch(tiled, map_tile(total // columns, columns, turns, each))] if total else []

    is_fixed = not isinstance(nest.axes[-1][1], Dim)
    return Plan(context.kernel, launches, [tiled] if is_fixed else [tiled, flat])


def each_of(kernel: Kernel) -> int:
    """How many elements of a map a warp takes."""
    sizes = [s.target.dtype.itemsize for s in walk(kernel.body) if isinstance(s, Let) and s.op in EXPENSIVE]
    return EACH_EXPENSIVE.get(min(max(sizes, default=0), 8), EACH if not sizes else 128)


def map_tile(rows: int, columns: int, turns: bool, each: int) -> Tile:
    """Few columns outside of the array; square where memory is read along both."""
    if turns:
        block = height = 32
    else:
        elements = MAP_WARPS * each
        block = min((elements // 4, elements // 2, elements), key=lambda b: (ceil_divide(columns, b) * b, -b))
        block = min(block, power_of_two(columns))
        height = min(max(elements // block, 1), power_of_two(rows))
    grid = ceil_divide(rows, height) * ceil_divide(columns, block)
    return Tile(grid, block, height, warps=warps_for(block * height, each))


def is_at_most(size: Size, n: int) -> bool:
    return not isinstance(size, Dim) and size <= n


def reads_across(kernel: Kernel, nest: Nest) -> bool:
    """Is something side by side along another loop than the innermost?"""
    inner = nest.axes[-1][0]
    for s in walk(kernel.body):
        if isinstance(s, (Load, Store)):
            itemsize = (s.target if isinstance(s, Load) else s.value).dtype.itemsize
            for axis, _ in nest.axes[:-1]:
                found, own = split_linear(s.offset, axis), split_linear(s.offset, inner)
                if found and own and is_number(found[0], itemsize) and not is_at_most(own[0], itemsize):
                    return True
    return False


def plan_rows(context: Context) -> Plan:
    kernel = context.kernel
    outer = nest_of(kernel.body, is_parallel=False)
    counts = [s.count for s in walk(kernel.body) if isinstance(s, Reduce)]
    fixed = counts[0] if not isinstance(counts[0], Dim) else None
    near = print_rows(context, is_on_chip=True) if fixed is None or fixed <= ON_CHIP else None
    far = print_rows(context, is_on_chip=False) if fixed is None or fixed > ON_CHIP else None
    parts = print_row_parts(context) if can_split(kernel) and (fixed is None or fixed > PART) else None
    itemsize = (
        max(np.dtype(s.target.dtype).itemsize for s in walk(kernel.body) if isinstance(s, Load)) if has_loads(kernel) else 8
    )
    scratch = [s for s in walk(kernel.body) if isinstance(s, ScratchRow)]

    def launches(values: Values) -> list[Launch]:
        rows, count = number_of(outer.count, values), number_of(counts[0], values)
        if not rows:
            return []
        split = min(ceil_divide(count, PART), ceil_divide(PROGRAMS, rows), PROGRAMS)
        if parts is not None and split > 1:
            return split_rows(rows, count, split)
        if near is not None and count <= ON_CHIP:
            return [Launch(near, near_tile(rows, count, itemsize))]
        assert far is not None, (kernel.name, count)
        room = tuple(Scratch(s.buffer, rows * number_of(s.bytes, values)) for s in scratch)
        return [Launch(far, Tile(rows, PASS, warps=16), room)]

    def split_rows(rows: int, count: int, split: int) -> list[Launch]:
        assert parts is not None
        block = PART_BLOCK
        steps = ceil_divide(ceil_divide(count, split), block)
        split = ceil_divide(count, steps * block)
        _, reduce, _ = reduce_of(outer.body)
        room = tuple(Scratch(p.name, rows * split * 8) for a in reduce.accumulators for p in partial_names(a))
        first = Tile(rows * split, block, split=split, steps=steps, warps=8)
        second = Tile(rows, power_of_two(split), split=split, warps=warps_for(power_of_two(split)))
        return [Launch(parts[0], first, room), Launch(parts[1], second, room)]

    return Plan(kernel, launches, [p for p in (near, far, *(parts or ())) if p is not None])


def has_loads(kernel: Kernel) -> bool:
    return any(isinstance(s, Load) for s in walk(kernel.body))


def near_tile(rows: int, count: int, itemsize: int) -> Tile:
    """Rows in registers: several short ones in a program."""
    block = power_of_two(count)
    height = min(max(1024 // block, 1), power_of_two(rows))
    return Tile(ceil_divide(rows, height), block, height, warps=warps_for(block * height, 128 if itemsize == 8 else 256))


def plan_columns(context: Context) -> Plan:
    kernel = context.kernel
    outer, _, columns = columns_of(kernel)
    whole, (first, second) = print_columns(context), print_column_parts(context)
    count = product([n for _, n in columns.loops])

    def launches(values: Values) -> list[Launch]:
        outers, size, n = (number_of(s, values) for s in (outer.count, columns.size, count))
        if not outers or not size:
            return []
        block = min(64, power_of_two(size))
        height = min(max(2048 // block, 1), power_of_two(n), 64)
        blocks = ceil_divide(size, block)
        split = min(ceil_divide(n, 4 * height), ceil_divide(PROGRAMS, outers * blocks), 256)
        if split <= 1:
            return [Launch(whole, Tile(outers * blocks, block, height, warps=warps_for(block * height)))]
        steps = ceil_divide(ceil_divide(n, split), height)
        split = ceil_divide(n, steps * height)
        room = tuple(Scratch(p.name, outers * split * size * 8) for a in columns.accumulators for p in partial_names(a))
        tile = Tile(outers * split * blocks, block, height, split, steps, warps_for(block * height))
        parts = power_of_two(split)
        return [
            Launch(first, tile, room),
            Launch(second, Tile(outers * blocks, block, parts, split, warps=warps_for(block * parts)), room),
        ]

    return Plan(kernel, launches, [whole, first, second])


def plan_scan(context: Context) -> Plan:
    kernel = context.kernel
    outer, _, _, nest = scan_of(kernel)
    ((_, size),) = nest.axes
    is_across = not is_along_memory(kernel)
    across = print_scan(context, is_across=True)
    along = print_scan(context, is_across=False)

    def launches(values: Values) -> list[Launch]:
        rows, n = number_of(outer.count, values), number_of(size, values)
        if not rows or not n:
            return []
        if is_across and rows >= PROGRAMS:
            block = 64
            return [Launch(across, Tile(ceil_divide(rows, block), block, warps=2))]
        block = min(2048, power_of_two(n))
        return [Launch(along, Tile(rows, block, warps=warps_for(block)))]

    return Plan(kernel, launches, [along, across] if is_across else [along])
