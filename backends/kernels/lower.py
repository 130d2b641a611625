"""From a schedule to kernels: loops in a good order, for each mode of a group by the file of that mode."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set

import numpy as np

from npcompile.backends.kernels.body import Lowering
from npcompile.backends.kernels.finish import finish
from npcompile.backends.kernels.groups import units_of
from npcompile.backends.kernels.index import is_one
from npcompile.backends.kernels.kernel import Blocks, Columns, Kernel, Let, Loop, Product, Reduce, Scan, Statement, Tiles, walk
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.lower_maps import lower_map, lower_regions
from npcompile.backends.kernels.lower_products import lower_product, product_of
from npcompile.backends.kernels.lower_reductions import lower_columns, lower_rows, lower_scan, lower_whole
from npcompile.backends.kernels.lower_writes import copy_kernel, lower_concatenate, lower_update
from npcompile.backends.kernels.operations import short
from npcompile.backends.kernels.schedule import Group, Schedule, Tiling
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.meta import product


def lower(schedule: Schedule, first: int = 0) -> list[Kernel]:
    """The kernels, in order, numbered from `first`; those of `schedule.copies` come last."""
    kernels: list[Kernel] = []
    for unit in units_of(schedule.groups):
        name = f"k{len(kernels)}"
        tiling = unit[0].tiling
        if tiling:
            kernels.append((lower_blocks if tiling.by_rows else lower_tiles)(schedule, tiling, unit, name))
        else:
            kernels += lower_group(schedule, unit[0], name)
    for node, source, target in schedule.copies:
        kernels.append(copy_kernel(schedule, f"k{len(kernels)}", node, target, source))
    for number, kernel in enumerate(kernels, first):
        kernel.name = kernel_name(kernel, number)
    return kernels


def kernel_name(kernel: Kernel, number: int) -> str:
    """What it does, its dtype and a digest: `npc_multiply_sin_add_f8_3a9c`."""
    operations: dict[str, None] = {}
    dtype = "copy"
    for s in walk(kernel.body):
        if isinstance(s, Let) and s.op not in ("constant", "cast"):
            operations[str(dict(s.params).get("operation", s.op))] = None
            dtype = short(s.target.dtype)
        if isinstance(s, Product):
            operations["product"] = None
            dtype = short(s.dtype)
        for a in [s.accumulator] if isinstance(s, Scan) else s.accumulators if isinstance(s, (Reduce, Columns)) else []:
            operations[{"add": "sum"}.get(a.reducer, a.reducer)] = None
            dtype = short(a.result.dtype)
    digest = hashlib.sha256(f"{number} {kernel}".encode()).hexdigest()[:4]
    return "_".join(["npc", *list(operations)[:5], dtype, f"{number}{digest}"])


def lower_group(schedule: Schedule, group: Group, name: str) -> list[Kernel]:
    lowering = Lowering(schedule, name)
    match group.mode:
        case "map":
            return lower_regions(schedule, group, name)
        case "rows":
            kernels = [lower_rows(lowering, group)]
        case "whole":
            kernels = [lower_whole(lowering, group)]
        case "columns":
            kernels = [lower_columns(lowering, group)]
        case "scan":
            kernels = [lower_scan(lowering, group)]
        case "concatenate":
            return lower_concatenate(schedule, group, name)
        case "product":
            return lower_product(lowering, group)
        case "update":
            return lower_update(lowering, group)
    for kernel in kernels:
        finish(kernel, schedule, lowering)
    return kernels


def lower_tiles(schedule: Schedule, tiling: Tiling, groups: Sequence[Group], name: str) -> Kernel:
    """The kernels of all these groups as parts of one. Names are of the whole."""
    whole = Lowering(schedule, name)
    parts = [(f"v{tiling.axes[g]}", lowered_part(whole, g, [tiling.axes[g]])) for g in groups]
    elements = [product([n for a, n in enumerate(g.space) if a != tiling.axes[g]]) for g in groups]
    rows = [row_bytes(x.shape, d, x.dtype) for x, d in tiling.arrays if x in schedule.memory]
    whole.scopes[0].statements.append(Tiles(tiling.size, parts, max(elements, key=estimate), sum(rows, start=0)))
    return finished(whole)


def lower_blocks(schedule: Schedule, tiling: Tiling, groups: Sequence[Group], name: str) -> Kernel:
    """The kernels of all these groups as parts of one, a block of rows at a time."""
    whole = Lowering(schedule, name)
    depth = len(tiling.stack)
    stack = [(f"v{a}", n) for a, n in enumerate(tiling.stack) if not is_one(n)]
    parts = [inside(lowered_part(whole, g, range(depth + 1)), {axis for axis, _ in stack}) for g in groups]
    buffers = {schedule.memory[x].name: (schedule.memory[x], d) for x, d in tiling.arrays if x in schedule.memory}
    rows = {name: row_bytes(b.shape[depth:], 0, b.dtype) for name, (b, _) in buffers.items()}
    own = {name: rows[name] for name, (b, _) in buffers.items() if b.kind == "block"}
    whole.scopes[0].statements.append(Blocks(f"v{depth}", tiling.size, stack, parts, own, sum(rows.values(), start=0)))
    return finished(whole)


def lowered_part(whole: Lowering, group: Group, leading: Sequence[int]) -> list[Statement]:
    """The statements of a group that is a part of a kernel, with loops over these axes outside of the others."""
    modes = {"map": lower_map, "rows": lower_rows, "whole": lower_whole, "columns": lower_columns, "product": product_of}
    lowering = Lowering(whole.schedule, whole.name, literals=whole.literals, made=whole.made)
    modes[group.mode](lowering, group, leading)
    whole.made = lowering.made
    whole.places |= lowering.places
    return lowering.scopes[0].statements


def inside(statements: list[Statement], axes: Set[str]) -> list[Statement]:
    """The statements with loops over these axes taken off: something else runs them."""
    last = statements[-1]
    if isinstance(last, Loop) and last.axis in axes:
        return [*statements[:-1], *inside(last.body, axes)]
    return statements


def row_bytes(shape: Sequence[Size], axis: int, dtype: np.dtype) -> Size:
    """Of an array, for one index of an axis."""
    return product([n for a, n in enumerate(shape) if a != axis]) * dtype.itemsize


def finished(whole: Lowering) -> Kernel:
    kernel = Kernel(whole.name, [], [])
    finish(kernel, whole.schedule, whole)
    return kernel
