"""Groups of elementwise nodes to kernels: parallel loops over their space, of each of its regions."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.kernels.body import Lowering, nest
from npcompile.backends.kernels.finish import finish
from npcompile.backends.kernels.groups import axis_order
from npcompile.backends.kernels.index import Index, is_one
from npcompile.backends.kernels.kernel import Kernel
from npcompile.backends.kernels.regions import Box, regions_of, volume
from npcompile.backends.kernels.schedule import Group, Schedule, identity, reads_of
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Node

SMALL_REGION = 16  # times as much has the whole


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
    """A kernel for each region of a map, of which the smaller ones are unlikely to be worth the compiler's time."""
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
