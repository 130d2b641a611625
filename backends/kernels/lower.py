"""From a group of the schedule to a kernel: loops in a good order. One function for each mode."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

import numpy as np

from npcompile.backends.kernels.body import Lowering, Scope, nest
from npcompile.backends.kernels.finish import finish
from npcompile.backends.kernels.groups import axis_order, units_of
from npcompile.backends.kernels.index import Index, axis_variable, is_one, source_index, split_linear, symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    Blocks,
    Columns,
    Kernel,
    Let,
    Loop,
    Matrix,
    Product,
    Reduce,
    Scan,
    Scattered,
    ScratchRow,
    Statement,
    Tiles,
    Value,
    walk,
)
from npcompile.backends.kernels.operations import short
from npcompile.backends.kernels.regions import Box, regions_of, volume
from npcompile.backends.kernels.schedule import (
    REDUCTIONS,
    Buffer,
    Group,
    Schedule,
    Tiling,
    element_operands,
    estimate,
    identity,
    offset_of,
    ranges_of,
    reads_of,
    same_shape,
)
from npcompile.backends.kernels.summation import has_order, is_in_runs, order_of, run_of
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import contiguous_strides, product

SMALL_REGION = 16  # times as much has the whole
MOST_CUT = 3  # axes along which what an update leaves as it was is cut in parts
ARG_REDUCERS = {"max": "arg_max", "min": "arg_min"}


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
            operations[s.op] = None
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


def leaves_of(schedule: Schedule) -> set[Node]:
    """What is not computed on the way. Memory is assigned before the first kernel is made."""
    if not schedule.leaves:
        schedule.leaves = {*schedule.memory, *(m for group in schedule.groups for m in group.members)}
    return schedule.leaves


def accesses(schedule: Schedule, nodes: Sequence[Node], *, with_stores: bool) -> list[tuple[tuple[Size, ...], Index, int]]:
    """(strides, index, itemsize) of all that these anchors read and write, over axes v0, v1, ..."""
    leaves = leaves_of(schedule)
    found = []
    for node in nodes:
        for x, index in reads_of(node, leaves):
            if x in schedule.memory:
                found.append((schedule.memory[x].strides, index, x.dtype.itemsize))
        for buffer in schedule.stores.get(node, ()):
            if with_stores:
                found += [(buffer.strides, identity(node.shape), node.dtype.itemsize)] * 2
    return found


def outermost(axes: Sequence[int], order: Sequence[int]) -> list[int]:
    """The order of loops in which those over `axes` come first."""
    return [*(a for a in axes if a in order), *(a for a in order if a not in axes)]


def lower_regions(schedule: Schedule, group: Group, name: str) -> list[Kernel]:
    """A kernel for each region of a map, of which the smaller ones are seldom worth the compiler's time."""
    leaves = leaves_of(schedule)
    boxes = [None] if schedule.abreast else regions_of(group.space, group.members, leaves)
    kernels = []
    for number, box in enumerate(boxes):
        lowering = Lowering(schedule, f"{name}_{number}" if number else name)
        kernel = lower_map(lowering, group, box=box)
        kernel.is_small = number > 0 and box is not None and SMALL_REGION * volume(box) < volume(((), group.space))
        finish(kernel, schedule, lowering)
        kernels.append(kernel)
    return kernels


def lower_map(lowering: Lowering, group: Group, tiled: Sequence[int] = (), box: Box | None = None) -> Kernel:
    starts, space = box or ((0,) * len(group.space), group.space)
    order = outermost(tiled, axis_order(accesses(lowering.schedule, group.members, with_stores=True), group.space))
    own = tuple(first + i for first, i in zip(starts, identity(space)))
    body = nest(
        lowering,
        [(f"v{a}", space[a]) for a in order if not is_one(space[a])],
        lambda: compute_members(lowering, group.members, own),
    )
    return Kernel(lowering.name, [], body)


def compute_members(lowering: Lowering, members: Sequence[Node], own: Index) -> None:
    """Values first, stores last: a store may overwrite what another value is read from."""
    stores = []
    for node in members:
        value = lowering.compute(node, own)
        lowering.remember(node, own, value)
        stores += [lowering.store(buffer, own, value) for buffer in lowering.schedule.stores.get(node, ())]
    lowering.scopes[-1].statements.extend(stores)


def element(lowering: Lowering, node: Node, own: Index) -> Value:
    """What a reduction combines, at one place of its space."""
    if node.op != "einsum":
        return lowering.value(node.inputs[0], own)
    result: Value | None = None
    for x, index in element_operands(node, own):
        value = lowering.value(x, index)
        if value.dtype == np.float16:  # NumPy's sums of products of float16 are in float32
            value = lowering.let(np.dtype(np.float32), "cast", value, dtype=np.dtype(np.float32))
        result = value if result is None else lowering.let(value.dtype, "multiply", result, value)
    assert result is not None
    return result


def reducer_of(node: Node) -> str:
    if node.op == "einsum":
        return "add"
    return node.params["reducer"] if node.op in ("reduce", "scan") else ARG_REDUCERS[node.params["which"]]


def accumulator(lowering: Lowering, node: Node) -> Accumulator:
    made = lowering.fresh(node.dtype)
    dtype = node.inputs[0].dtype
    if dtype == np.float16 if reducer_of(node) in ("add", "multiply") else is_bfloat16(dtype):
        dtype = np.dtype(np.float32)  # rounded once, at the end; sums of bfloat16 are rounded after each step
    doubt, is_numpys = doubted(node, lowering.schedule.graph.checks), has_order(node) and not lowering.schedule.abreast
    return Accumulator(f"a{made.name[1:]}", reducer_of(node), dtype, made, doubt, is_numpys=is_numpys)


def doubted(node: Node, checks: Set[str]) -> str:
    """In which results another order may note an invalid operation.

    Infinities of both signs do so where they meet; not where NaN has come before. NumPy makes sums of products by BLAS, which
    multiplies infinities by what is beyond the end of a row too, and decides which half of a complex number is NaN.
    """
    if "invalid" not in checks or node.dtype.kind not in "fc" or node.op not in ("reduce", "einsum"):
        return ""
    return "not finite" if node.op == "einsum" else "NaN" if node.params["reducer"] in ("add", "multiply") else ""


def accumulate(lowering: Lowering, node: Node, own: Index, acc: Accumulator) -> Accumulate:
    """The statement that combines one element; a position for arg_max counts along the reduced axis."""
    position: Size = own[node.params["axis"]] if node.op == "arg_reduce" else 0
    return Accumulate(acc.name, element(lowering, node, own), position)


def inner_order(lowering: Lowering, group: Group) -> list[int]:
    order = loop_order(lowering, group)
    return [a for a in order if a in group.reduced and not is_one(group.space[a])]


def loop_order(lowering: Lowering, group: Group) -> list[int]:
    """The axes of a group that reduces, outermost first. Those that sums go over keep NumPy's order."""
    order = axis_order(accesses(lowering.schedule, group.members_of_space(), with_stores=False), group.space)
    if (summed := summed_by(lowering, group.members)) is None:
        return order
    reduced = iter(a for a in order_of(summed) if a in group.reduced)
    return [next(reduced) if a in group.reduced and not is_one(group.space[a]) else a for a in order]


def summed_by(lowering: Lowering, members: Sequence[Node]) -> Node | None:
    """One of the sums whose order is NumPy's: all of a group have the same."""
    return None if lowering.schedule.abreast else next(filter(has_order, members), None)


def lower_rows(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    schedule, space = lowering.schedule, group.space
    own = identity(space)
    kept_axes = [a for a in range(len(space)) if a not in group.reduced]
    kept = tuple(own[a] for a in kept_axes)
    inner = [(f"v{a}", space[a]) for a in inner_order(lowering, group)]
    count = product([space[a] for a in sorted(group.reduced)])
    rows = {schedule.memory[n].name: n for n in group.members if n in schedule.memory and schedule.memory[n].kind == "row"}

    def row() -> None:
        for phase in range(max(group.phase.values()) + 1):
            here = [n for n in group.members if group.phase[n] == phase]
            compute_members(lowering, [n for n in here if is_row_value(n, group)], kept)
            full = [n for n in here if not is_row_value(n, group)]
            if full:
                reduce_pass(lowering, full, inner, own, kept, count)

    def body() -> None:
        if not rows:
            return row()
        with scratch_rows(
            lowering, [(name, product([space[a] for a in group.reduced]) * n.dtype.itemsize) for name, n in rows.items()]
        ):
            row()

    loops = [(f"v{a}", space[a]) for a in outermost(tiled, kept_axes) if not is_one(space[a])]
    statements = nest(lowering, loops, body, is_parallel=False)
    return Kernel(lowering.name, [], statements)


@contextmanager
def scratch_rows(lowering: Lowering, rows: list[tuple[str, Size]]) -> Iterator[None]:
    if not rows:
        yield
        return
    (name, size), *rest = rows
    with lowering.block(lambda statements: ScratchRow(name, size, statements)), scratch_rows(lowering, rest):
        yield


def is_row_value(node: Node, group: Group) -> bool:
    return node.op not in REDUCTIONS and not (same_shape(node.shape, group.space))


def reduce_pass(lowering: Lowering, members: Sequence[Node], inner, own: Index, kept: Index, count: Size) -> None:  # type: ignore[no-untyped-def]
    """One pass over the reduced axes: values and stores of full size, and reductions."""
    reductions = {n: accumulator(lowering, n) for n in members if n.op in REDUCTIONS}

    def body() -> None:
        stores: list[Statement] = []
        for node in members:
            if node in reductions:
                stores.append(accumulate(lowering, node, own, reductions[node]))
            else:
                value = lowering.remember(node, own, lowering.compute(node, own))
                stores += [lowering.store(buffer, own, value) for buffer in lowering.schedule.stores.get(node, ())]
        lowering.scopes[-1].statements.extend(stores)

    if not reductions:
        nest(lowering, inner, body)
        return
    summed = summed_by(lowering, members)
    run = run_of(summed) if summed else None
    with lowering.block(lambda statements: Reduce(list(reductions.values()), count, statements, run)):
        nest(lowering, inner, body)
    for node, acc in reductions.items():
        finish_reduction(lowering, node, acc, kept)


def finish_reduction(lowering: Lowering, node: Node, acc: Accumulator, kept: Index) -> None:
    lowering.depths[acc.result.name] = len(lowering.scopes) - 1
    lowering.remember(node, kept, acc.result)
    stores = [lowering.store(buffer, kept, acc.result) for buffer in lowering.schedule.stores.get(node, ())]
    lowering.scopes[-1].statements.extend(stores)


def lower_whole(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    space = group.space
    own = identity(space)
    kept = tuple(own[a] for a in range(len(space)) if a not in group.reduced)
    inner = [(f"v{a}", space[a]) for a in outermost(tiled, inner_order(lowering, group))]
    reduce_pass(lowering, group.members, inner, own, kept, product(space))
    statements = lowering.scopes[0].statements
    is_ordered = any(a.is_ordered for s in walk(statements) if isinstance(s, Reduce) for a in s.accumulators)
    return Kernel(lowering.name, [], statements, is_whole=not is_ordered)


def lower_columns(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    space = group.space
    own = identity(space)
    order = loop_order(lowering, group)
    others = [a for a in order if a not in group.reduced]
    column = ([a for a in others if not is_one(space[a])] or others)[-1]
    kept = tuple(own[a] for a in range(len(space)) if a not in group.reduced)
    outer = [(f"v{a}", space[a]) for a in range(len(space)) if a not in group.reduced and a != column and not is_one(space[a])]
    reduced = [(f"v{a}", space[a]) for a in outermost(tiled, order) if a in group.reduced and not is_one(space[a])]
    accumulators = {n: accumulator(lowering, n) for n in group.members if n.op in REDUCTIONS}
    axis = f"v{column}"
    summed = summed_by(lowering, group.members)
    run = run_of(summed).size if summed and is_in_runs(summed) else 1
    assert isinstance(run, int)

    def body() -> None:
        for name, size in [*reduced, (axis, space[column])]:
            lowering.scopes.append(Scope(name))
            lowering.depths[name] = len(lowering.scopes) - 1
            lowering.ranges[name] = size
        combined = [accumulate(lowering, n, own, acc) for n, acc in accumulators.items()]
        lowering.scopes[-1].statements.extend(combined)
        inside: list[Statement] = []
        for _ in range(len(reduced) + 1):  # what is known further out stays inside: the compiler moves it out again
            inside = [*lowering.scopes.pop().statements, *inside]
        lowering.scopes.append(Scope(axis))
        lowering.depths[axis] = len(lowering.scopes) - 1
        for node, acc in accumulators.items():
            finish_reduction(lowering, node, acc, kept)
        compute_members(lowering, [n for n in group.members if n not in accumulators], kept)
        finish_statements = lowering.scopes.pop().statements
        made = Columns(axis, space[column], list(accumulators.values()), reduced, inside, finish_statements, run=run)
        lowering.scopes[-1].statements.append(made)

    return Kernel(lowering.name, [], nest(lowering, outer, body, is_parallel=False))


def lower_scan(lowering: Lowering, group: Group) -> Kernel:
    (node,) = group.members
    space = group.space
    own = identity(space)
    axis = node.params["axis"]
    order = axis_order(accesses(lowering.schedule, group.members, with_stores=True), space)
    acc = accumulator(lowering, node)
    if acc.reducer in ("add", "multiply"):  # rounded after each step
        acc = Accumulator(acc.name, acc.reducer, node.dtype, acc.result)

    def step() -> None:
        lowering.scopes[-1].statements.append(Accumulate(acc.name, lowering.value(node.inputs[0], own)))
        lowering.depths[acc.result.name] = len(lowering.scopes) - 1
        stores = [lowering.store(buffer, own, acc.result) for buffer in lowering.schedule.stores.get(node, ())]
        lowering.scopes[-1].statements.extend(stores)

    def body() -> None:
        with lowering.block(lambda statements: Scan(acc, statements)), lowering.loop(f"v{axis}", space[axis]):
            step()

    outer = [(f"v{a}", space[a]) for a in order if a != axis and not is_one(space[a])]
    return Kernel(lowering.name, [], nest(lowering, outer, body, is_parallel=False))


def lower_product(lowering: Lowering, group: Group) -> list[Kernel]:
    (node,) = group.members
    schedule = lowering.schedule
    first, *others = schedule.stores[node]
    kernel = product_of(lowering, group)
    finish(kernel, schedule, lowering)
    return [kernel, *(copy_kernel(schedule, f"{lowering.name}_copy{i}", node, b, first) for i, b in enumerate(others))]


def product_of(lowering: Lowering, group: Group, tiled: Sequence[int] = ()) -> Kernel:
    (node,) = group.members
    schedule, space = lowering.schedule, group.space
    target = schedule.stores[node][0]
    *stack, m, n, k = identity(space)
    ranges = ranges_of(space)
    made = Product(
        node.dtype,
        matrix(target, lowering.offset(target, (*stack, m, n)), m, n),
        matrix(*strided_view(schedule, node.inputs[0], (*stack, m, k), ranges), m, k),
        matrix(*strided_view(schedule, node.inputs[1], (*stack, k, n), ranges), k, n),
        (space[-3], space[-2], space[-1]),
        node.params.get("block"),
    )
    loops = [(f"v{a}", space[a]) for a in range(len(stack)) if not is_one(space[a])]
    body = nest(lowering, loops, lambda: lowering.scopes[-1].statements.append(made), is_parallel=False)
    return Kernel(lowering.name, [], body)


def strided_view(schedule: Schedule, node: Node, index: Index, ranges: dict[str, Size]) -> tuple[Buffer, Size]:
    """The memory that `node` is a view of, and the offset there of its element `index`."""
    while node not in schedule.memory:
        index = source_index(node, index, ranges)
        (node,) = node.inputs
    buffer = schedule.memory[node]
    return buffer, offset_of(index, buffer.strides)


def matrix(buffer: Buffer, offset: Size, row: Size, column: Size) -> Matrix:
    """Rows and columns, which `offset` names by these axes."""
    steps: list[Size] = []
    for axis in (row, column):
        (name,) = symbols_in(axis)
        found = split_linear(offset, name)
        assert found is not None, (buffer, offset)
        step, offset = found
        steps.append(step)
    return Matrix(buffer.name, offset, *steps)


def lower_concatenate(schedule: Schedule, group: Group, name: str) -> list[Kernel]:
    """Each part is stored to its place by a kernel of its own."""
    (node,) = group.members
    axis = node.params["axis"]
    kernels = []
    start: Size = 0
    for number, x in enumerate(node.inputs):
        lowering = Lowering(schedule, f"{name}_{number}")
        own = identity(x.shape)
        place = (*own[:axis], own[axis] + start, *own[axis + 1 :])
        start = start + x.shape[axis]
        buffers = schedule.stores[node]
        order = axis_order([(b.strides, own, node.dtype.itemsize) for b in buffers], x.shape)

        def body(lowering: Lowering = lowering, x: Node = x, own: Index = own, place: Index = place) -> None:
            value = lowering.value(x, own)
            lowering.scopes[-1].statements.extend(lowering.store(b, place, value) for b in schedule.stores[node])

        loops = [(f"v{a}", x.shape[a]) for a in order if not is_one(x.shape[a])]
        kernel = Kernel(lowering.name, [], nest(lowering, loops, body))
        finish(kernel, schedule, lowering)
        kernels.append(kernel)
    return kernels


def lower_update(lowering: Lowering, group: Group) -> list[Kernel]:
    (node,) = group.members
    schedule = lowering.schedule
    base, value = node.inputs[:2]
    target = schedule.memory[node]
    kernels = []
    if node not in schedule.in_place:
        for k, box in enumerate([None] if schedule.abreast else not_overwritten(node)):
            kernels.append(copy_kernel(schedule, f"{lowering.name}_base{k}", base, target, box=box))
    space = group.space
    own = identity(space)
    if node.op == "slice_update":
        place = tuple(a + s * i for a, s, i in zip(node.params["start"], node.params["step"], own))
        found = accesses(schedule, [node], with_stores=False)
        order = axis_order(
            [*found, (tuple(s * b for s, b in zip(node.params["step"], target.strides)), own, value.dtype.itemsize)], space
        )

        def body() -> None:
            if node in schedule.kept:
                old = lowering.value(base, place)
                lowering.scopes[-1].statements.append(lowering.store(schedule.kept[node], own, old))
            stored = lowering.value(value, own)
            lowering.scopes[-1].statements.append(lowering.store(target, place, stored))

        loops = [(f"v{a}", space[a]) for a in order if not is_one(space[a])]
        update = Kernel(lowering.name, [], nest(lowering, loops, body))
    else:
        update = scatter_kernel(lowering, node, target, own)
    finish(update, schedule, lowering)
    kernels.append(update)
    kernels += [
        copy_kernel(schedule, f"{lowering.name}_copy{k}", node, more, target) for k, more in enumerate(schedule.stores[node][1:])
    ]
    return kernels


def scatter_kernel(lowering: Lowering, node: Node, target: Buffer, own: Index) -> Kernel:
    base, value, *indices = node.inputs
    n = indices[0].meta.ndim
    mode = node.params["mode"]

    def body() -> None:
        mask = lowering.has_elements(indices[0].shape)
        checked = [lowering.checked(i, own[:n], axis, base.shape[axis], mask) for axis, i in enumerate(indices)]
        place = (*(axis_variable(c.name) for c in checked), *own[n:])
        stored = lowering.value(value, own)
        if mode != "set":
            stored = lowering.let(node.dtype, mode, lowering.load_here(target, place), stored)
        lowering.scopes[-1].statements.append(lowering.store(target, place, stored))

    loops = [(f"v{a}", size) for a, size in enumerate(value.shape) if not is_one(size)]
    kernel = Kernel(lowering.name, [], nest(lowering, loops, body, is_parallel=False), is_serial=True)
    dense = contiguous_strides(target.shape, target.dtype.itemsize)
    if mode != "set" and all(map(same, target.strides, dense)):
        kernel.scattered = Scattered(target.name, mode, target.dtype, product(target.shape))
    return kernel


def not_overwritten(update: Node) -> Sequence[Box | None]:
    """The parts of the base that it needs: around the slice that is overwritten where that is most of it, else everything."""
    base, value = update.inputs[:2]
    steps = update.params.get("step", ())
    is_most = 2 * product(list(map(estimate, value.shape))) >= product(list(map(estimate, base.shape)))
    if update.op != "slice_update" or base.meta.ndim > MOST_CUT or not is_most or any(not is_one(s) for s in steps):
        return [None]
    boxes: list[Box] = []
    starts: tuple[Size, ...] = (0,) * base.meta.ndim
    shape = base.shape
    for axis, (first, size) in enumerate(zip(update.params["start"], value.shape)):
        for start, count in ((0, first), (first + size, base.shape[axis] - first - size)):
            if not (isinstance(count, int) and count == 0):
                boxes.append(((*starts[:axis], start, *starts[axis + 1 :]), (*shape[:axis], count, *shape[axis + 1 :])))
        starts, shape = (*starts[:axis], first, *starts[axis + 1 :]), (*shape[:axis], size, *shape[axis + 1 :])
    return boxes


def copy_kernel(
    schedule: Schedule, name: str, node: Node, target: Buffer, source: Buffer | None = None, box: Box | None = None
) -> Kernel:
    """target[...] = node, whose value is in `source`, or cheap. Only that part of both."""
    lowering = Lowering(schedule, name)
    starts, shape = box or ((0,) * node.meta.ndim, node.shape)
    own = tuple(first + i for first, i in zip(starts, identity(shape)))
    found = [(b.strides, own, node.dtype.itemsize) for b in (target, target, source) if b]
    order = axis_order(found, shape)

    def body() -> None:
        value = lowering.load(source, own, None) if source else lowering.value(node, own)
        lowering.scopes[-1].statements.append(lowering.store(target, own, value))

    kernel = Kernel(name, [], nest(lowering, [(f"v{a}", shape[a]) for a in order if not is_one(shape[a])], body))
    finish(kernel, schedule, lowering)
    return kernel
