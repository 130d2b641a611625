"""Memory for the values of a schedule: temporaries, what is updated or written in place, and what is copied at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.backends.kernels.groups import Grouping, can_fail, form_groups, order_groups
from npcompile.backends.kernels.index import Index
from npcompile.backends.kernels.row_tiling import form_row_tilings
from npcompile.backends.kernels.schedule import (
    REDUCTIONS,
    UPDATES,
    Buffer,
    Group,
    Schedule,
    choose_anchors,
    identity,
    index_key,
    layouts_of,
    reads_elsewhere,
    results_of,
    same_shape,
)
from npcompile.backends.kernels.tiling import form_tilings
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Graph, Node
from npcompile.tensor_core.meta import contiguous_strides


def build_schedule(graph: Graph, *, tiled: bool = False, by_rows: bool = False, abreast: bool = False) -> Schedule:
    """What is stored where and computed with what.

    With `tiled`, groups may run in tiles: Tiles is then among the kernels. With `by_rows`, products and what is made of them may
    run in blocks of rows: Blocks is. With `abreast`, many rows are computed at once.
    """
    results = results_of(graph)
    layouts = layouts_of(results)
    reports = bool(graph.checks) and not abreast  # a GPU has no flags
    anchors = choose_anchors(graph, results, layouts, reports=reports, abreast=abreast)
    strides = {n: layouts[n] for n in anchors if n.op != "input"}
    for r in reversed(results):
        if r.node.op != "input":  # an input that is given out is read where it is
            strides[r.node] = r.strides
    grouping = form_groups(graph, anchors, strides, abreast=abreast)
    if by_rows:
        form_row_tilings(grouping, results)
    if tiled:
        form_tilings(grouping, results)
    groups = order_groups(grouping, results)
    schedule = Schedule(graph, results, groups, [], {}, {}, set(), [], abreast=abreast)
    Memory(schedule, grouping, layouts, set(anchors)).assign()
    return schedule


@dataclass(slots=True)
class Memory:
    schedule: Schedule
    grouping: Grouping
    layouts: dict[Node, tuple[Size, ...]]
    anchors: set[Node]
    readers: dict[Node, list[tuple[Node, Index]]] = field(default_factory=dict)
    updates: dict[Node, list[Node]] = field(default_factory=dict)  # of each base
    results: set[Node] = field(init=False)

    def assign(self) -> None:
        schedule, graph = self.schedule, self.schedule.graph
        self.results, written = {r.node for r in schedule.results}, {k for k, _ in graph.writes}
        for k, n in enumerate(graph.inputs):
            if n.meta.ndim or k in written:
                schedule.memory[n] = self.new(Buffer(f"x{k}", n.dtype, n.shape, n.meta.strides, "input", k))
        for m, reads in self.grouping.reads.items():
            for x, index in reads:
                self.readers.setdefault(x, []).append((m, index))
        for m in self.grouping.home:
            if m.op in UPDATES:
                self.updates.setdefault(m.inputs[0], []).append(m)
        self.outputs()
        self.writes()
        for group in schedule.groups:
            for node in group.members:
                if node not in schedule.memory and node.op != "input":
                    self.place(node, group)

    def new(self, buffer: Buffer) -> Buffer:
        self.schedule.buffers.append(buffer)
        return buffer

    def outputs(self) -> None:
        for r in self.schedule.results:
            if r.output is not None:
                buffer = self.new(Buffer(f"out{r.output}", r.node.dtype, r.node.shape, r.strides, "output", r.output))
                self.give(r.node, buffer)
        for r in self.schedule.results:
            if r.output is not None:
                self.share_down(r.node)

    def share_down(self, node: Node) -> None:
        """What an output updates is made in the output's memory."""
        memory, is_result = self.schedule.memory, self.results
        for update in reversed(update_chain(node)):
            base = update.inputs[0]
            if base.op == "input" or base in is_result or base in memory or not self.is_dead(base, update):
                return
            self.give(base, memory[node])
            self.schedule.in_place.add(update)

    def give(self, node: Node, buffer: Buffer) -> None:
        self.schedule.stores.setdefault(node, []).append(buffer)
        if node.op != "input":
            self.schedule.memory.setdefault(node, buffer)

    def position(self, node: Node) -> int:
        return self.grouping.home[node].position

    def writes(self) -> None:
        schedule = self.schedule
        last_failure = max((g.position for g in schedule.groups if any(can_fail(m, self.anchors) for m in g.members)), default=-1)
        for r in schedule.results:
            if r.written is None:
                continue
            target = schedule.graph.inputs[r.written]
            chain = update_chain(r.node)
            buffer = schedule.memory[target]
            is_output = any(x.node in chain for x in schedule.results if x is not r)
            if r.node is target:
                continue
            if chain and chain[0].inputs[0] is target and not is_output and self.chain_is_free(chain, target, last_failure):
                for u in chain:
                    schedule.memory[u] = buffer
                    schedule.stores[u] = [buffer]
                    schedule.in_place.add(u)
            elif not chain and self.may_store(r.node, target, last_failure):
                self.give(r.node, buffer)
            else:
                schedule.copies.append((r.node, self.temporary(r.node), buffer))

    def temporary(self, node: Node) -> Buffer:
        """Memory that the value of `node` is stored to, and that nothing overwrites."""
        if node.op != "input" and node in self.schedule.memory:
            return self.schedule.memory[node]
        # Dense: the strides in the grouping may be those of an argument that the value is copied to.
        buffer = self.new(Buffer(f"b{len(self.schedule.buffers)}", node.dtype, node.shape, self.layouts[node], "temporary"))
        self.give(node, buffer)
        return buffer

    def chain_is_free(self, chain: list[Node], target: Node, last_failure: int) -> bool:
        if self.position(chain[0]) <= last_failure:
            return False
        return all(self.is_dead(base, update) for base, update in zip([target, *chain], chain))

    def is_dead(self, base: Node, update: Node) -> bool:
        """Nothing reads `base` once `update` has begun, but the update itself at the places it overwrites."""
        if reads_elsewhere(update, base, self.grouping.reads[update]):
            return False
        is_read_before = all(self.position(m) < self.position(update) or m is update for m, _ in self.readers.get(base, []))
        return is_read_before and self.updates_of(base) == [update]

    def may_store(self, node: Node, target: Node, last_failure: int) -> bool:
        """May the kernel of `node` store straight into `target`, although it or others read the old contents?"""
        home = self.grouping.home[node]
        if any(self.position(u) >= home.position for u in self.updates_of(target)):
            return False
        if home.position <= last_failure or home.mode != "map":
            return home.position > last_failure and not self.readers.get(target)
        own = index_key(identity(node.shape))
        for m, index in self.readers.get(target, []):
            where = self.position(m)
            if where > home.position or (where == home.position and index_key(index) != own):
                return False
        return True

    def place(self, node: Node, group: Group) -> None:
        """Memory for an anchor that is not a result, when somebody needs to load it."""
        schedule = self.schedule
        if node.op in UPDATES:
            base = node.inputs[0]
            is_result = base in self.results
            if base.op != "input" and not is_result and self.is_dead(base, node) and base in schedule.memory:
                schedule.in_place.add(node)
                self.give(node, schedule.memory[base])
                return
        elsewhere = [m for m, _ in self.readers.get(node, []) if self.grouping.home[m] is not group]
        later = [m for m, _ in self.readers.get(node, []) if group.phase.get(m, 0) > group.phase.get(node, 0)]
        is_kept = group.reduced and (node.op in REDUCTIONS or not same_shape(node.shape, group.space))
        if self.needs_memory(node, elsewhere):
            if self.is_in_block(node, group):
                self.give(node, self.replaced(node, group) or self.new(self.block_of(node, group)))
            else:
                self.temporary(node)
        elif later and not is_kept:
            inner = [n for a, n in enumerate(group.space) if a in group.reduced]
            steps = iter(contiguous_strides(tuple(inner), node.dtype.itemsize))
            strides = tuple(next(steps) if a in group.reduced else 0 for a in range(len(group.space)))
            self.give(node, self.new(Buffer(f"row{len(schedule.buffers)}", node.dtype, node.shape, strides, "row")))

    def is_in_block(self, node: Node, group: Group) -> bool:
        """Do only groups that run on the same block of rows read it?"""
        if group.tiling is None or not group.tiling.by_rows or self.is_base(node):
            return False
        dense = contiguous_strides(node.shape, node.dtype.itemsize)
        is_dense = all(map(same, self.layouts[node], dense))
        return is_dense and all(self.grouping.home[m].tiling is group.tiling for m, _ in self.readers.get(node, []))

    def block_of(self, node: Node, group: Group) -> Buffer:
        assert group.tiling
        stack = len(group.tiling.stack)
        strides = (*[0] * stack, *contiguous_strides(node.shape[stack:], node.dtype.itemsize))
        return Buffer(f"b{len(self.schedule.buffers)}", node.dtype, node.shape, strides, "block")

    def replaced(self, node: Node, group: Group) -> Buffer | None:
        """The block that a map may overwrite, element by element: one that nothing reads afterwards."""
        if group.mode != "map" or not same_shape(node.shape, group.space):
            return None
        taken = {b.name for m in group.members for b in self.schedule.stores.get(m, ())}
        for x, _ in self.grouping.reads[node]:
            buffer = self.schedule.memory.get(x)
            if buffer is None or buffer.kind != "block" or buffer.name in taken or buffer.dtype != node.dtype:
                continue
            read = self.readers[x]
            own = index_key(identity(node.shape))
            is_last = all(self.position(m) <= group.position for m, _ in read)
            is_same = all(index_key(i) == own for m, i in read if self.grouping.home[m] is group)
            if is_last and is_same and same_shape(x.shape, node.shape):
                return buffer
        return None

    def updates_of(self, base: Node) -> list[Node]:
        return self.updates.get(base, [])

    def is_base(self, node: Node) -> bool:
        return bool(self.updates_of(node))

    def needs_memory(self, node: Node, elsewhere: list[Node]) -> bool:
        return bool(elsewhere) or self.is_base(node) or node.op in (*UPDATES, "scan")


def update_chain(node: Node) -> list[Node]:
    """The updates that end in `node`, first to last; empty when it is none."""
    chain: list[Node] = []
    while node.op in UPDATES:
        chain.append(node)
        node = node.inputs[0]
    return chain[::-1]
