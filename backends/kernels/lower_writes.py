"""Writes to parts of memory to kernels: concatenations, updates of slices and at places that are data, copies."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.kernels.body import Lowering, nest
from npcompile.backends.kernels.finish import finish
from npcompile.backends.kernels.groups import axis_order
from npcompile.backends.kernels.index import Index, axis_variable, is_one
from npcompile.backends.kernels.kernel import Kernel, Scattered
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.lower_maps import accesses
from npcompile.backends.kernels.regions import Box
from npcompile.backends.kernels.schedule import Buffer, Group, Schedule, identity
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import contiguous_strides, product

MOST_CUT = 3  # axes along which what an update leaves as it was is cut in parts


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
