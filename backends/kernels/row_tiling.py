"""Products by blocks of rows: a block goes through what its rows are made of, and what is made of them, while a cache holds it.

In `np.maximum(x @ W + b, 0) @ V` a row of each array needs one row of the array before it, and all of the weights. So threads
need nothing of each other, and what only the next step reads is never as large as the whole.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from npcompile.backends.kernels.groups import Grouping, axis_order, is_orderable, producers_of
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.schedule import Group, Result, Tiling, identity
from npcompile.backends.kernels.tiling import MOST_GROUPS, NEAR, bytes_of, dimension, is_axis, may_be_tiled
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import product

Producers = dict[Group, set[Group]]

FEWEST_ROWS = 64
MOST_IN_ROW = 1 << 17  # bytes: eight rows have to fit in the second-level cache
LONG = 16  # times as many summands as rows and columns: such sums are better cut in slices


def form_row_tilings(grouping: Grouping, results: Sequence[Result]) -> None:
    """Put products, and groups that read them row by row, into tilings."""
    written = {r.node for r in results if r.written is not None}
    stored = [r.node for r in results]
    candidates = {g for g in grouping.groups if may_be_tiled(g, written, grouping)}
    candidates |= {g for g in grouping.groups if is_tileable_product(g, written, stored, grouping)}
    producers = producers_of(grouping)
    for group in grouping.groups:
        if group not in candidates or group.mode != "product" or group.tiling:
            continue
        axes = with_group(grouping, producers, candidates, group)
        if len(axes) < 2:
            continue
        depth = axes[group]
        made = [(m, depth) for g in axes for m in g.members]
        read = [(x, depth) for g in axes for m in g.members for x, i in grouping.reads[m] if has_rows(i, depth)]
        tiling = Tiling(group.space[depth], axes, list(dict.fromkeys([*made, *read])), stack=group.space[:depth], by_rows=True)
        for member in axes:
            member.tiling = tiling
        if not is_orderable(grouping.groups, producers):
            for member in axes:
                member.tiling = None


def is_tileable_product(group: Group, written: set[Node], stored: Sequence[Node], grouping: Grouping) -> bool:
    """Is it a product of many rows, which no other way of making it suits better?"""
    if group.mode != "product":
        return False
    (node,) = group.members
    rows, columns, summed = (estimate(n) for n in group.space[-3:])
    read = {x for x, _ in grouping.reads[node]}
    if node.dtype.kind != "f" or node in written or stored.count(node) > 1:
        return False
    if len(read) == 1 or summed >= LONG * max(rows, columns):  # half of a symmetric result is enough
        return False
    return product([estimate(n) for n in group.space[:-2]]) >= FEWEST_ROWS and columns * node.dtype.itemsize <= MOST_IN_ROW


def with_group(grouping: Grouping, producers: Producers, candidates: set[Group], first: Group) -> dict[Group, int]:
    """All groups that can go with a product by its rows, and which axis of their space these are."""
    depth = len(first.space) - 3
    rows = first.space[: depth + 1]
    axes = {first: depth}
    outside: set[Group] = set()  # of what depends on these
    start = grouping.groups.index(first)
    for k in range(start - 1, max(0, start - NEAR) - 1, -1):
        group = grouping.groups[k]
        may_join = group in candidates and group.mode != "product" and not group.tiling and len(axes) < MOST_GROUPS
        if may_join and is_made_by_rows(grouping, group, rows) and is_read_by_rows(grouping, axes, group, depth):
            others = dependents(producers, group, grouping.groups[k + 1 : start + 1], axes.keys())
            if not any(producers[g] & others for g in axes):
                axes[group] = depth
                outside |= others
    for group in grouping.groups[start + 1 : start + 1 + NEAR]:
        may_join = group in candidates and not group.tiling and not producers[group] & outside and len(axes) < MOST_GROUPS
        if may_join and is_made_by_rows(grouping, group, rows) and reads_by_rows(grouping, axes, group, depth):
            axes[group] = depth
        elif producers[group] & (outside | axes.keys()):
            outside.add(group)
    return axes


def dependents(producers: Producers, group: Group, others: Sequence[Group], axes: Set[Group]) -> set[Group]:
    """Which of the others, in order, need what a group makes, and are not in the tiling."""
    found = {group}
    for g in others:
        if g not in axes and producers[g] & found:
            found.add(g)
    return found - {group}


def is_made_by_rows(grouping: Grouping, group: Group, rows: Sequence[Size]) -> bool:
    """Can it be made for some rows, along memory, of which a few are not too long?"""
    depth = len(rows) - 1
    if group.mode not in ("map", "rows", "product") or not has_these_rows(group, rows):
        return False
    if group.mode == "map" and innermost(grouping, group) <= depth:
        return False
    most = MOST_IN_ROW * product([estimate(n) for n in rows])
    return all(is_by_rows(m, group, depth) and bytes_of(m) <= most for m in group.members)


def reads_by_rows(grouping: Grouping, axes: dict[Group, int], group: Group, depth: int) -> bool:
    """Does it read some of the others' results, each of its rows only the same row of these?"""
    read = [(x, i, home) for m in group.members for x, i in grouping.reads[m] if (home := grouping.home.get(x)) in axes and home]
    return bool(read) and all(has_rows(i, depth) and is_by_rows(x, home, depth) for x, i, home in read)


def is_read_by_rows(grouping: Grouping, axes: dict[Group, int], group: Group, depth: int) -> bool:
    """Do some of the others read it, and all that do so only the same rows?"""
    indices = [i for g in axes for m in g.members for x, i in grouping.reads[m] if grouping.home.get(x) is group]
    return bool(indices) and all(has_rows(i, depth) for i in indices)


def has_these_rows(group: Group, rows: Sequence[Size]) -> bool:
    """Are these the leading axes of its space, and no reduction's?"""
    depth = len(rows) - 1
    return len(group.space) > len(rows) and all(map(same, rows, group.space)) and not group.reduced & set(range(depth + 1))


def is_by_rows(node: Node, group: Group, depth: int) -> bool:
    """Are the leading axes of a member's value those of its group's space?"""
    return all(dimension(node, group, d) == d for d in range(depth + 1))


def has_rows(index: Sequence[Size], depth: int) -> bool:
    """Is an element in the same row as that of the space which reads it?"""
    if len(index) <= depth or not is_axis(index[depth], depth):
        return False
    return all(is_axis(i, d) or (isinstance(i, int) and i == 0) for d, i in enumerate(index[:depth]))


def innermost(grouping: Grouping, group: Group) -> int:
    """The axis of a map that lies side by side in memory."""
    read = [(grouping.strides_of(x), i, x.dtype.itemsize) for m in group.members for x, i in grouping.reads[m]]
    made = [(grouping.strides_of(m), identity(m.shape), m.dtype.itemsize) for m in group.members]
    return axis_order([*read, *made, *made], group.space)[-1]
