"""Loops that are entered at several blocks, made to be entered at one: other ways in get a copy of the first iteration.

Versions of a loop's blocks share what follows them, so such loops arise where a variable's type changes inside.
"""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.clone import Cloner
from npcompile.tensor_core.loop_ir.flow import Edge, Flow, edges_of, flow_of
from npcompile.tensor_core.loop_ir.ops import Block, Branch, Cfg, Jump, Program

MOST_GROWTH = 4  # times the blocks that there were


def peel(program: Program) -> int:
    """Make loops reducible in place, while that does not grow too much. How many blocks were copied: they read only arguments."""
    (cfg,) = program.body
    assert isinstance(cfg, Cfg), cfg
    before, copied = len(cfg.blocks), 0
    while (flow := flow_of(cfg)).irreducible:
        first = first_iteration(flow)
        if len(cfg.blocks) + len(first.labels) > MOST_GROWTH * before:
            break
        cfg.blocks = [*(flow.blocks[label] for label in flow.order), *copies(program, flow, first)]
        copied += len(first.labels)
    if copied:
        flow = flow_of(cfg)
        cfg.blocks = [flow.blocks[label] for label in flow.order]
    return copied


@dataclass(frozen=True, slots=True)
class Iteration:
    """Blocks to copy, and the edges that then lead to the copies."""

    labels: list[int]
    entering: list[Edge]


def components(flow: Flow, labels: set[int]) -> list[set[int]]:
    """The strongly connected components of these blocks that are loops (Tarjan)."""
    numbers: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    found: list[set[int]] = []

    def visit(label: int) -> None:
        numbers[label] = lowest[label] = len(numbers)
        path.append(label)
        for edge in edges_of(flow.blocks[label]):
            if edge.target in labels and edge.target not in numbers:
                visit(edge.target)
            if edge.target in path:
                lowest[label] = min(lowest[label], lowest[edge.target])
        if lowest[label] == numbers[label]:
            group = set(path[path.index(label) :])
            del path[path.index(label) :]
            if len(group) > 1 or any(edge.target == label for edge in edges_of(flow.blocks[label])):
                found.append(group)

    for label in flow.order:
        if label in labels and label not in numbers:
            visit(label)
    return found


def first_iteration(flow: Flow) -> Iteration:
    """What is run from all but one of the entries of a loop that has several, until its header."""
    pending = components(flow, set(flow.order))
    while pending:
        group = pending.pop()
        entering = {label: [e for e in flow.edges_to[label] if e.source not in group] for label in group}
        entries = [label for label in sorted(group, key=flow.number.__getitem__) if entering[label] or label == flow.entry]
        if len(entries) == 1:
            pending += components(flow, group - set(entries))
            continue
        # The header stays the block that most ways inside lead to.
        header = max(entries, key=lambda label: len(flow.edges_to[label]) - len(entering[label]))
        others = [label for label in entries if label != header]
        return Iteration(reached_before(flow, group, header, others), [edge for label in others for edge in entering[label]])
    raise AssertionError("no loop has several entries")


def reached_before(flow: Flow, group: set[int], header: int, entries: list[int]) -> list[int]:
    found: set[int] = set()
    pending = list(entries)
    while pending:
        label = pending.pop()
        if label not in found and label != header and label in group:
            found.add(label)
            pending += [edge.target for edge in edges_of(flow.blocks[label])]
    return sorted(found, key=flow.number.__getitem__)


def copies(program: Program, flow: Flow, first: Iteration) -> list[Block]:
    cloner = Cloner(program, program)
    for label in first.labels:
        cloner.labels[label] = program.new_label()
    made = [cloner.block(flow.blocks[label]) for label in first.labels]
    for edge in first.entering:
        retarget(flow.blocks[edge.source], edge.target, cloner.labels[edge.target])
    return made


def retarget(block: Block, old: int, new: int) -> None:
    match block.ops[-1]:
        case Jump() as jump:
            jump.target = new
        case Branch() as branch:
            branch.then = new if branch.then == old else branch.then
            branch.orelse = new if branch.orelse == old else branch.orelse
