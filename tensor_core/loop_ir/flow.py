"""Control flow between blocks: predecessors, order, dominators (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm",
2001), natural loops."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.ops import Block, Branch, Cfg, Jump


@dataclass(slots=True)
class Edge:
    """One way from a block to another, with the arguments that it gives."""

    source: int
    target: int
    args: list[int]


@dataclass(slots=True)
class Loop:
    """A natural loop: it is entered at its header alone."""

    header: int
    body: set[int]
    parent: Loop | None = None


@dataclass(slots=True)
class Flow:
    """Facts about the blocks that are reached, by label."""

    blocks: dict[int, Block]
    order: list[int] = field(default_factory=list)  # reverse postorder
    number: dict[int, int] = field(default_factory=dict)  # in this order
    edges_to: dict[int, list[Edge]] = field(default_factory=dict)
    dominator: dict[int, int] = field(default_factory=dict)  # the immediate one; the entry's is itself
    loop_of: dict[int, Loop | None] = field(default_factory=dict)  # the innermost
    irreducible: bool = False  # may a loop be entered at several blocks?

    def find_edges(self) -> None:
        """Also where ops have got other lists of arguments since."""
        self.edges_to = {label: [] for label in self.order}
        for label in self.order:
            for edge in edges_of(self.blocks[label]):
                self.edges_to[edge.target].append(edge)

    @property
    def entry(self) -> int:
        return self.order[0]

    def dominates(self, one: int, other: int) -> bool:
        while self.number[other] > self.number[one]:
            other = self.dominator[other]
        return one == other

    def is_back(self, edge: Edge) -> bool:
        return self.number[edge.target] <= self.number[edge.source]

    def forward(self, label: int) -> list[Edge]:
        return [edge for edge in self.edges_to[label] if not self.is_back(edge)]

    def sees(self, user: int, definer: int) -> bool:
        """Are values of `definer`, which dominates `user`, in scope there once loops are regions?"""
        loop = self.loop_of[definer]
        return loop is None or user in loop.body


def edges_of(block: Block) -> list[Edge]:
    """The edges that leave a block. An arm's arguments are the op's own list, so they can be changed in place."""
    end = block.ops[-1]
    if type(end) is Jump:
        return [Edge(block.label, end.target, end.args)]
    if type(end) is Branch:
        return [Edge(block.label, end.then, end.then_args), Edge(block.label, end.orelse, end.else_args)]
    return []


def targets_of(block: Block) -> tuple[int, ...]:
    end = block.ops[-1]
    return (end.target,) if type(end) is Jump else (end.then, end.orelse) if type(end) is Branch else ()


def flow_of(cfg: Cfg) -> Flow:
    """The facts of a Cfg's blocks. Blocks that are not reached are in `blocks` alone."""
    flow = Flow({block.label: block for block in cfg.blocks})
    flow.order = reverse_postorder(flow, cfg.blocks[0].label)
    flow.number = {label: k for k, label in enumerate(flow.order)}
    flow.find_edges()
    find_dominators(flow)
    find_loops(flow)
    return flow


def reverse_postorder(flow: Flow, entry: int) -> list[int]:
    found: list[int] = []
    seen = {entry}
    stack = [(entry, iter(targets_of(flow.blocks[entry])))]
    while stack:
        label, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(targets_of(flow.blocks[target]))))
                break
        else:
            found.append(label)
            stack.pop()
    return found[::-1]


def find_dominators(flow: Flow) -> None:
    dominator, number = flow.dominator, flow.number
    dominator[flow.entry] = flow.entry
    changed = True
    while changed:
        changed = False
        for label in flow.order[1:]:
            known = [edge.source for edge in flow.edges_to[label] if edge.source in dominator]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    if number[new] > number[other]:
                        new = dominator[new]
                    else:
                        other = dominator[other]
            if dominator.get(label) != new:
                dominator[label], changed = new, True


def find_loops(flow: Flow) -> None:
    loops: dict[int, Loop] = {}
    for label in flow.order:
        for edge in flow.edges_to[label]:
            if not flow.is_back(edge):
                continue
            if not flow.dominates(label, edge.source):
                flow.irreducible = True
                continue
            body = loops.setdefault(label, Loop(label, {label})).body
            pending = [edge.source]
            while pending:
                inside = pending.pop()
                if inside not in body:
                    body.add(inside)
                    pending += [each.source for each in flow.edges_to[inside]]
    flow.loop_of = dict.fromkeys(flow.order)
    for loop in sorted(loops.values(), key=lambda loop: -len(loop.body)):
        loop.parent = flow.loop_of[loop.header]
        flow.loop_of |= dict.fromkeys(loop.body, loop)
