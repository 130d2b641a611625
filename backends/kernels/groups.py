"""Which anchors are computed together in one kernel, and in which order the kernels run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from npcompile.backends.kernels.index import Index, is_one, split_linear
from npcompile.backends.kernels.layouts import estimate
from npcompile.backends.kernels.operations import is_costly
from npcompile.backends.kernels.product import is_product
from npcompile.backends.kernels.schedule import (
    REDUCTIONS,
    UPDATES,
    Group,
    Result,
    identity,
    index_key,
    is_long_join,
    readers_of,
    reads_of,
    same_shape,
    space_of,
)
from npcompile.backends.kernels.summation import has_order, is_in_runs, key_of, lanes_of, run_of
from npcompile.tensor_core.dim import Dim, Size, hint_of
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.meta import product

MOST_REDUCTIONS = 8  # in one kernel: compilers take more than linear time over more
MOST_MEMBERS, MOST_ARRAYS = 32, 64  # results of one kernel, and arrays that it reads: the same
NEAR = 64  # groups before a node that it may join: with all it would take as long as their square
MOST_PARTS = 12  # of a concatenation
SHORT, MOST_UNROLLED = 32, 16  # elements of rows that are no loops, for one reduction and for several
MOST_PRODUCTS, MOST_SUMMED = 16, 160  # sums of products in one kernel that are no loops, and of how many products in all
SHORT_ROW = 512  # elements: as long to sum up as a scalar call of exp, at least
SMALL = 4096  # elements: a whole reduction of fewer runs as one row, with what follows it


@dataclass(slots=True)
class Grouping:
    graph: Graph
    anchors: set[Node]
    strides: dict[Node, tuple[Size, ...]]
    readers: dict[Node, list[Node]]
    abreast: bool = False  # are many rows computed at once, as a GPU does? Then short ones are as good as long ones
    groups: list[Group] = field(default_factory=list)
    home: dict[Node, Group] = field(default_factory=dict)
    reads: dict[Node, list[tuple[Node, Index]]] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        self.reads[node] = reads_of(node, self.anchors)
        if node.op not in (*UPDATES, "scan") and not is_product(node) and not self.is_joined(node):
            latest = max((self.home[x].position for x, _ in self.reads[node] if x in self.home), default=-1)
            for group in reversed(self.groups[max(latest, len(self.groups) - NEAR, 0) :]):
                if self.join(node, group):
                    return
        space, reduced = space_of(node)
        read = {x for x, _ in self.reads[node]}
        group = Group(space, reduced, self.mode(node, space, reduced), [node], {node: 0}, read, len(self.groups))
        self.groups.append(group)
        self.home[node] = group

    def is_joined(self, node: Node) -> bool:
        """Is this a concatenation with one kernel for each part? Of some more parts one kernel selects from all of them."""
        is_long = is_long_join(node) and not self.abreast
        return node.op == "concatenate" and (len(node.inputs) <= MOST_PARTS or is_long)

    def mode(self, node: Node, space: tuple[Size, ...], reduced: frozenset[int]) -> str:
        if node.op in UPDATES:
            return "update"
        if node.op == "scan" or self.is_joined(node):
            return node.op
        if is_product(node):
            return "product"
        if not reduced:
            return "rows" if node.op in REDUCTIONS else "map"
        if all(is_one(n) or a in reduced for a, n in enumerate(space)):
            is_small = not isinstance(size := product(space), Dim) and size <= SMALL
            return "rows" if is_small or node.op == "arg_reduce" else "whole"
        is_few = (
            node.op != "einsum" and not self.abreast and is_short(space, reduced) and not goes_well_in_rows(node, space, reduced)
        )
        if has_order(node) and not self.abreast:
            return "columns" if not is_in_runs(node) or (is_few and run_of(node).size is not None) else "rows"
        return "columns" if self.innermost(node, space) not in reduced or is_few else "rows"

    def innermost(self, node: Node, space: tuple[Size, ...]) -> int:
        """The axis along which most reads are contiguous."""
        return axis_order([(self.strides_of(x), i, x.dtype.itemsize) for x, i in self.reads[node]], space)[-1]

    def strides_of(self, node: Node) -> tuple[Size, ...]:
        return self.strides[node] if node in self.strides else node.meta.strides

    def join(self, node: Node, group: Group) -> bool:
        if group.mode in ("scan", "concatenate", "update", "product") or (node.op == "input" and group.mode != "map"):
            return False
        if not self.may_be_called(node, group):
            return False
        read = {x for x, _ in self.reads[node]}
        if len(group.members) >= MOST_MEMBERS or len(group.read | read) > max(MOST_ARRAYS, len(group.read)):
            return False
        space, reduced = space_of(node)
        inside = [(x, i) for x, i in self.reads[node] if self.home.get(x) is group]
        is_reduction = node.op in REDUCTIONS
        most = MOST_PRODUCTS if not self.abreast and is_unrolled_products(group) else MOST_REDUCTIONS
        if is_reduction and sum(m.op in REDUCTIONS for m in group.members) >= most:
            return False
        is_kept = False
        if is_reduction:
            if node.op == "arg_reduce" and group.mode == "whole":
                return False
            if group.mode == "columns" and not self.abreast and is_long_unrolled(group):
                return False
            if not same_shape(space, group.space) or (group.mode != "map" and reduced != group.reduced):
                return False
            if not inside and not self.lies_alike(node, group):
                return False
            if not self.abreast and not self.is_added_alike(node, group):
                return False
        elif not same_shape(space, group.space):
            is_kept = bool(group.reduced) and group.mode in ("rows", "columns") and same_shape(space, group.kept)
            if not is_kept or (group.mode == "columns" and self.abreast):
                return False
            if group.mode == "rows" and self.is_scalar_work(node, group) and not self.is_read_in(node, group.space):
                return False
        is_beside = is_reduction and group.mode == "rows" == self.mode(node, space, reduced)  # rows of the same number
        is_called = node.op == "by_numpy" and any(m.op == "by_numpy" for m in group.members)
        if not inside and not is_beside and not is_called and group.read.isdisjoint(read):
            return False
        mode = group.mode
        if is_reduction and mode == "map":
            mode = self.mode(node, space, reduced)
            if mode == "columns" or any(m.op == "input" for m in group.members):
                return False
        if mode == "columns" and not is_kept and (inside or not is_reduction):
            return False
        phase = 0
        own = identity(space)
        for x, index in inside:
            if x.op in REDUCTIONS:
                if mode == "whole":
                    return False
                phase = max(phase, group.phase[x] + 1)
            else:
                phase = max(phase, group.phase[x])
            if not self.is_aligned(x, index, own, group, is_kept):
                return False
        if is_reduction:
            group.reduced, group.mode = frozenset(reduced), mode
        group.members.append(node)
        group.read |= read
        group.phase[node] = phase
        self.home[node] = group
        return True

    def may_be_called(self, node: Node, group: Group) -> bool:
        """Functions that take a strip at once are called in maps alone, where strips are: what they give lies in memory then."""
        is_called = any(n.op == "by_numpy" for n in (node, *group.members))
        return not is_called or group.mode == "map" and node.op not in REDUCTIONS

    def is_aligned(self, x: Node, index: Index, own: Index, group: Group, is_kept: bool) -> bool:
        """Is the element of `x`, a member, that is read made in the same row, or at the same place, of the kernel?"""
        shape = x.shape
        x_is_kept = x.op in REDUCTIONS or not same_shape(shape, group.space)
        if x_is_kept:
            kept = own if is_kept else tuple(i for a, i in enumerate(own) if a not in group.reduced)
            return index_key(index) == index_key(kept) if len(kept) == len(index) else False
        return not is_kept and index_key(index) == index_key(own)

    def is_scalar_work(self, node: Node, group: Group) -> bool:
        """Would computing `node` once a row, without vectors, take about as long as the row?"""
        if self.abreast:
            return False
        row = product([estimate(n) for a, n in enumerate(group.space) if a in group.reduced])
        if row > SHORT_ROW:
            return False
        stack, seen = [node], {node}
        while stack:
            n = stack.pop()
            if is_costly(n.op):
                return True
            found = [i for i in n.inputs if i not in self.anchors and i not in seen]
            seen.update(found)
            stack += found
        return False

    def is_read_in(self, node: Node, space: tuple[Size, ...]) -> bool:
        """Is it repeated along the axes of `space`, as in x - log(sum(exp(x)))?"""
        stack, seen = [node], {node}
        while stack:
            for reader in self.readers.get(stack.pop(), []):
                if reader in seen or reader.op in (*REDUCTIONS, *UPDATES, "scan"):
                    continue
                if same_shape(reader.shape, space):
                    return True
                seen.add(reader)
                stack.append(reader)
        return False

    def is_added_alike(self, node: Node, group: Group) -> bool:
        """Do the loops of the group add numbers up in NumPy's order, and in the same lanes?"""
        members = (node, *group.members)
        if len({lanes_of(m) for m in members} - {None}) > 1:
            return False
        keys = {key_of(m) for m in members} - {None}
        return not has_order(node) or len(keys) == 1 and group.mode in ("map", self.mode(node, *space_of(node)))

    def lies_alike(self, node: Node, group: Group) -> bool:
        """Are the reduced elements side by side for both or for none? A @ x and x @ A would each cross the other's memory."""
        others = [m for m in group.members if m.op in REDUCTIONS]
        if len(group.space) < 2:
            return True
        return len({self.innermost(m, group.space) in group.reduced for m in (node, *others)}) == 1


def is_short(space: tuple[Size, ...], reduced: frozenset[int]) -> bool:
    """Are there many results, each of too few elements to fill vectors with?"""
    count = product([n for a, n in enumerate(space) if a in reduced])
    results = [estimate(n) for a, n in enumerate(space) if a not in reduced]
    return not isinstance(count, Dim) and 1 < count <= SHORT and max(results, default=1) >= 64


def goes_well_in_rows(node: Node, space: tuple[Size, ...], reduced: frozenset[int]) -> bool:
    """Are short rows quickly combined where each is a loop? Compilers read some columns of such as vectors."""
    count = product([n for a, n in enumerate(space) if a in reduced])
    if not isinstance(count, int):
        return False
    if node.op == "arg_reduce":
        return node.inputs[0].dtype.itemsize >= 4 and count > 4 and count != 8
    return node.op == "reduce" and node.params["reducer"] in ("logical_or", "logical_and") and count >= 16


def is_long_unrolled(group: Group) -> bool:
    """Would another reduction of short rows, which are no loops, take the compiler long? It takes more than linear time."""
    count = product([n for a, n in enumerate(group.space) if a in group.reduced])
    made = sum(m.op in REDUCTIONS for m in group.members)
    most = MOST_SUMMED if is_unrolled_products(group) else MOST_UNROLLED
    return not isinstance(count, Dim) and count <= SHORT and count * (made + 1) > most


def is_unrolled_products(group: Group) -> bool:
    """Are its reductions sums of a few products, which compilers make nothing but multiplications and additions of?"""
    count = product([n for a, n in enumerate(group.space) if a in group.reduced])
    is_few = group.mode == "columns" and isinstance(count, int) and count <= SHORT
    return is_few and all(m.op == "einsum" and m.dtype.kind == "f" for m in group.members if m.op in REDUCTIONS)


def axis_order(accesses: Sequence[tuple[tuple[Size, ...], Index, int]], space: Sequence[Size]) -> list[int]:
    """Axes of the space from the outermost loop to the innermost, for these (strides, index, itemsize)."""
    penalty = [0.0] * len(space)
    strides = [0.0] * len(space)
    for buffer_strides, index, itemsize in accesses:
        offset: Size = 0
        for i, s in zip(index, buffer_strides):
            offset = offset + i * s
        for axis in range(len(space)):
            linear = split_linear(offset, f"v{axis}")
            step = itemsize * 8 if linear is None else abs(estimate(linear[0]))
            penalty[axis] += 0 if step == 0 else 1 if step <= itemsize else 8
            strides[axis] += step
    long_axes = [a for a in range(len(space)) if not is_one(space[a])]
    if not long_axes:
        return list(range(len(space)))
    used = [a for a in long_axes if strides[a] > 0] or long_axes
    last = min(used, key=lambda a: (penalty[a] if hint_of(space[a]) > 3 else penalty[a] + 4, -a))
    rest = sorted((a for a in range(len(space)) if a != last), key=lambda a: (-strides[a], a))
    return [*rest, last]


def form_groups(
    graph: Graph, anchors: Sequence[Node], strides: dict[Node, tuple[Size, ...]], *, abreast: bool = False
) -> Grouping:
    grouping = Grouping(graph, set(anchors), strides, readers_of(graph.nodes), abreast)
    for node in sorted(anchors, key=lambda n: n.op == "input"):  # old contents go out where the new ones are made
        grouping.add(node)
    return grouping


def producers_of(grouping: Grouping) -> dict[Group, set[Group]]:
    """The groups whose results each one reads."""
    return {
        g: {grouping.home[x] for m in g.members for x in depends_on(m, grouping) if x in grouping.home} - {g}
        for g in grouping.groups
    }


def units_of(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups of one tiling, which run together, and the others one by one."""
    units: dict[object, list[Group]] = {}
    for g in groups:
        units.setdefault(g.tiling or g, []).append(g)
    return list(units.values())


@dataclass(slots=True)
class Waiting:
    """Units that wait for what they read. Each is told when the last of it is made."""

    units: list[list[Group]]
    missing: list[int] = field(default_factory=list)  # of each unit: how many others it waits for
    following: list[list[int]] = field(default_factory=list)  # of each unit: those that wait for it

    @classmethod
    def of(cls, groups: Sequence[Group], producers: dict[Group, set[Group]]) -> Waiting:
        units = units_of(groups)
        number = {g: k for k, unit in enumerate(units) for g in unit}
        waiting = cls(units, [], [[] for _ in units])
        for k, unit in enumerate(units):
            needed = {number[p] for g in unit for p in producers[g]} - {k}
            waiting.missing.append(len(needed))
            for other in needed:
                waiting.following[other].append(k)
        return waiting

    def first(self) -> list[int]:
        return [k for k, count in enumerate(self.missing) if not count]

    def after(self, unit: int) -> list[int]:
        """The units that may run once this one has."""
        for k in self.following[unit]:
            self.missing[k] -= 1
        return [k for k in self.following[unit] if not self.missing[k]]


def is_orderable(groups: Sequence[Group], producers: dict[Group, set[Group]]) -> bool:
    """Is there an order in which every group, those of a tiling at once, comes after what it reads?"""
    waiting = Waiting.of(groups, producers)
    ready, count = waiting.first(), 0
    while ready:
        count += 1
        ready += waiting.after(ready.pop())
    return count == len(waiting.units)


def order_groups(grouping: Grouping, results: Sequence[Result]) -> list[Group]:
    """A topological order with what overwrites memory as late as possible, and what can fail before that."""
    written = {r.node: grouping.graph.inputs[r.written] for r in results if r.written is not None}
    overwritten = {g: overwritten_by(g, written) for g in grouping.groups}
    readers: dict[Node, set[Group]] = {}  # those that have not run yet
    read: dict[Group, set[Node]] = {}
    for g in grouping.groups:
        read[g] = {x for m in g.members for x in everything_read(m, grouping)}
        for x in read[g]:
            readers.setdefault(x, set()).add(g)
    waiting = Waiting.of(grouping.groups, producers_of(grouping))
    harmless: list[int] = []  # heaps of the units that may run: the first is the least
    harmful: list[int] = []

    def add(ready: Iterable[int]) -> None:
        for k in ready:
            heappush(harmful if any(overwritten[g] for g in waiting.units[k]) else harmless, k)

    def others_have_read(k: int) -> bool:
        """Does nobody else need what the unit overwrites?"""
        return all(readers.get(x, set()) <= {g} for g in waiting.units[k] for x in overwritten[g])

    order: list[Group] = []
    add(waiting.first())
    while harmless or harmful:
        if harmless:
            chosen = heappop(harmless)
        elif others_have_read(harmful[0]):
            chosen = heappop(harmful)
        else:
            chosen = next((k for k in sorted(harmful) if others_have_read(k)), harmful[0])
            harmful.remove(chosen)
            heapify(harmful)
        for group in waiting.units[chosen]:
            group.position = len(order)
            order.append(group)
            for x in read[group]:
                readers[x].discard(group)
        add(waiting.after(chosen))
    return order


def overwritten_by(group: Group, written: dict[Node, Node]) -> list[Node]:
    """What the group overwrites. `written`: results to the inputs that are to hold them."""
    return [m.inputs[0] for m in group.members if m.op in UPDATES] + [written[m] for m in group.members if m in written]


def everything_read(node: Node, grouping: Grouping) -> list[Node]:
    return [x for x, _ in grouping.reads[node]] + ([node.inputs[0]] if node.op in UPDATES else [])


def depends_on(node: Node, grouping: Grouping) -> list[Node]:
    """What is computed before. Inputs that are given out are read from where they are."""
    return [x for x in everything_read(node, grouping) if x.op != "input"]


def can_fail(node: Node, anchors: set[Node]) -> bool:
    """Does computing this anchor check indices?"""
    stack = list(node.inputs) if node not in anchors or node.op != "gather" else [node]
    if node.op in ("scatter", "gather"):
        return True
    seen = set()
    while stack:
        n = stack.pop()
        if n in seen or n in anchors:
            continue
        seen.add(n)
        if n.op == "gather":
            return True
        stack.extend(n.inputs)
    return False
