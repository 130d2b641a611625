"""Groups that pass over the same rows together: a tile of rows goes through all of them while the cache holds it.

After `r = f(X @ w)` by rows of X, `X.T @ r` reads X again, for sums over these rows. Row k of X meets element k of r alone, so a
tile of rows can go through both products, and what is between them, before the next is read. What a reduction over the rows
gives is known after the last tile only: its readers are not in the tiling. This is loop fusion after strip-mining.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from npcompile.backends.kernels.groups import Grouping, can_fail, is_orderable, producers_of
from npcompile.backends.kernels.index import Index, axis_variable, is_one
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.schedule import REDUCTIONS, Group, Result, Tiling, index_key, same_shape
from npcompile.backends.kernels.summation import has_order
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import product
from npcompile.tensor_core.ops.reduction import is_ordered

WORTH = 1 << 20  # bytes not read again from behind a processor's own cache: fewer may still be there
MOST_IN_ROW = 1 << 16  # bytes of an array for one index of the axis: a few rows have to fit in the cache
FEWEST_ROWS = 64
MOST_COLUMNS = 4096  # running results that each thread keeps
MOST_GROUPS = 8
NEAR = 32  # groups after the first one that may join it

Walk = tuple[Node, int]  # an array, and which of its dimensions the tiles cut


def form_tilings(grouping: Grouping, results: Sequence[Result]) -> None:
    """Put groups that save enough memory traffic into tilings."""
    written = {r.node for r in results if r.written is not None}
    candidates = {g for g in grouping.groups if may_be_tiled(g, written, grouping)}
    producers = producers_of(grouping)
    for group in grouping.groups:
        if group not in candidates or group.tiling:
            continue
        grown = [grow(grouping, producers, candidates, group, axis) for axis in tile_axes(group)]
        best = max(grown, key=Growing.saved, default=None)
        if best is None or best.saved() < WORTH:
            continue
        tiling = Tiling(best.size, best.axes, list(best.walked))
        for member in best.axes:
            member.tiling = tiling
        if not is_orderable(grouping.groups, producers):  # two tilings that each need what the other makes
            for member in best.axes:
                member.tiling = None
    for group in grouping.groups:
        if group.tiling and is_flat_row(group):
            group.mode = "whole"


def may_be_tiled(group: Group, written: set[Node], grouping: Grouping) -> bool:
    """Can it run on some elements of an axis, and the rest later? Nothing may stop it midway, nor overwrite what others read."""
    if group.mode not in ("map", "rows", "whole", "columns") or any(m.op == "input" for m in group.members):
        return False
    if group.mode == "map" and written & set(group.members):
        return False
    if any(m.op == "reduce" and is_ordered(m) for m in group.members):
        return False
    return not any(can_fail(m, grouping.anchors) or m.op == "arg_reduce" for m in group.members)


def is_flat_row(group: Group) -> bool:
    """Is it a reduction of everything, which runs as one row because it is small?"""
    return group.mode == "rows" and not [n for n in group.kept if not is_one(n)]


def tile_axes(group: Group) -> Iterator[int]:
    """Axes of its space that may be the outermost loop, and long enough."""
    kept = [a for a, n in enumerate(group.space) if a not in group.reduced and not is_one(n)]
    is_flat = is_flat_row(group)
    if group.mode == "columns" and (len(kept) != 1 or estimate(group.space[kept[0]]) > MOST_COLUMNS):
        return
    if (is_flat or group.mode in ("whole", "columns")) and any(map(has_order, group.members)):
        return
    if is_flat and (any(group.phase.values()) or not all(m in group.members_of_space() for m in group.members)):
        return
    from_rows = group.mode == "rows" and not is_flat
    for axis, n in enumerate(group.space):
        is_cut = group.mode == "map" or (axis not in group.reduced) == from_rows
        if is_cut and not is_one(n) and estimate(n) >= FEWEST_ROWS:
            yield axis


@dataclass(slots=True)
class Growing:
    """A tiling that groups are added to, in the order in which they need each other."""

    grouping: Grouping
    size: Size
    axes: dict[Group, int] = field(default_factory=dict)
    walked: dict[Walk, int] = field(default_factory=dict)  # how many groups read or make it

    def saved(self) -> int:
        """Bytes that need not come from memory again, about."""
        return sum(bytes_of(x) * (count - 1) for (x, _), count in self.walked.items())

    def reads(self, group: Group) -> list[tuple[Node, Index]]:
        return [read for m in group.members for read in self.grouping.reads[m] if self.grouping.home.get(read[0]) is not group]

    def add(self, group: Group, axis: int) -> None:
        self.axes[group] = axis
        for walk in self.walks(group, axis):
            self.walked[walk] = self.walked.get(walk, 0) + 1

    def walks(self, group: Group, axis: int) -> set[Walk]:
        """What the group reads and makes along the axis."""
        found = {(x, d) for x, index in self.reads(group) for d, i in enumerate(index) if is_axis(i, axis)}
        return found | {(m, d) for m in group.members if (d := dimension(m, group, axis)) is not None}

    def axis_for(self, group: Group) -> int | None:
        """The axis along which the group can go with the others, and reads most of what they do."""
        found = []
        for axis in tile_axes(group):
            if same(group.space[axis], self.size) and self.is_aligned(group, axis):
                walks = self.walks(group, axis)
                shared = sum(bytes_of(x) for x, d in walks if (x, d) in self.walked)
                if shared and all(bytes_of(x) <= MOST_IN_ROW * estimate(self.size) for x, _ in walks):
                    found.append((shared, axis))
        return max(found)[1] if found else None

    def is_aligned(self, group: Group, axis: int) -> bool:
        """Does each of its tiles read no more of the others' results than they have made in the same tile?"""
        for x, index in self.reads(group):
            home = self.grouping.home.get(x)
            if home in self.axes:
                d = dimension(x, home, self.axes[home])
                if d is None or not is_axis(index[d], axis):
                    return False
        return True


def grow(grouping: Grouping, producers: dict[Group, set[Group]], candidates: set[Group], first: Group, axis: int) -> Growing:
    """All groups that can go with `first` along an axis of it, and share arrays with those before them."""
    growing = Growing(grouping, first.space[axis])
    growing.add(first, axis)
    outside: set[Group] = set()  # of what depends on the tiling
    start = grouping.groups.index(first) + 1
    for group in grouping.groups[start : start + NEAR]:
        may_join = group in candidates and not group.tiling and not producers[group] & outside
        chosen = growing.axis_for(group) if may_join and len(growing.axes) < MOST_GROUPS else None
        if chosen is not None:
            growing.add(group, chosen)
        elif producers[group] & (outside | growing.axes.keys()):
            outside.add(group)
    return growing


def dimension(node: Node, group: Group, axis: int) -> int | None:
    """Which dimension of a member's value an axis of the group's space is; None where it is combined."""
    if node.op not in REDUCTIONS and same_shape(node.shape, group.space):
        return axis
    kept = [a for a in range(len(group.space)) if a not in group.reduced]
    return kept.index(axis) if axis in kept else None


def is_axis(index: Size, axis: int) -> bool:
    return index_key((index,)) == index_key((axis_variable(f"v{axis}"),))


def bytes_of(node: Node) -> int:
    return node.dtype.itemsize * product([estimate(n) for n in node.shape])
