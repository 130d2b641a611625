"""From blocks to structured control flow, by the dominator tree (Ramsey, "Beyond Relooper", 2022).

A block that several others jump to follows a Scope, which they leave by Break. A loop's header begins a While. Blocks after a
loop follow it instead of standing inside it, so what leaves the loop are the arguments of these blocks. Then tidy.py makes an If
with results of a Scope, and a For of a While, where they are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.flow import Edge, Flow, Loop, flow_of
from npcompile.tensor_core.loop_ir.forms import substitute_final
from npcompile.tensor_core.loop_ir.ops import Again, Branch, Break, Cfg, If, Jump, Op, Program, Region, Scope, While
from npcompile.tensor_core.loop_ir.tidy import tidy


def structure(program: Program) -> bool:
    """Structure a program of blocks in place. False where a loop is entered at several blocks: then it stays as it is."""
    (cfg,) = program.body
    assert isinstance(cfg, Cfg), cfg
    flow = flow_of(cfg)
    if flow.irreducible:
        return False
    program.body = Structuring(program, flow).run()
    tidy(program)
    return True


@dataclass(slots=True)
class Structuring:
    program: Program
    flow: Flow
    after: dict[int, list[int]] = field(default_factory=dict)  # block -> those that follow it
    new: dict[int, int] = field(default_factory=dict)  # arguments that have one value

    def run(self) -> Region:
        for label in self.flow.order[1:]:
            self.after.setdefault(self.anchor(label), []).append(label)
        region = self.tree(self.flow.entry, [])
        substitute_final(region, self.new)
        return region

    def anchor(self, label: int) -> int:
        """The block that `label` follows: its immediate dominator, or the header of the outermost loop that it is after."""
        above = self.flow.dominator[label]
        found, loop = above, self.flow.loop_of[above]
        while loop is not None:
            if label not in loop.body:
                found = loop.header
            loop = loop.parent
        return found

    def header_of(self, label: int) -> Loop | None:
        """The loop that a block is the header of."""
        loop = self.flow.loop_of[label]
        return loop if loop is not None and loop.header == label else None

    def is_followed(self, label: int) -> bool:
        """Is it reached by Break, from a Scope that it follows?"""
        forward = self.flow.forward(label)
        return len(forward) > 1 or self.anchor(label) != forward[0].source or self.is_after_loop(label)

    def is_after_loop(self, label: int) -> bool:
        loop = self.header_of(self.anchor(label))
        return loop is not None and label not in loop.body

    def tree(self, label: int, given: list[int]) -> Region:
        """The region of a block that is entered with these arguments, and of all that it dominates."""
        block, loop = self.flow.blocks[label], self.header_of(label)
        following = sorted(
            (each for each in self.after.get(label, []) if self.is_followed(each)), key=self.flow.number.__getitem__
        )
        if loop is None:
            self.new |= {arg: value for arg, value in zip(block.args, given, strict=True) if arg != value}
            return self.within(label, following)
        inside = self.within(label, [each for each in following if each in loop.body])
        made = While(label, block.args, given, inside, block.ops[0].at)  # type: ignore[attr-defined]
        return self.followed([made], [each for each in following if each not in loop.body])

    def within(self, label: int, following: list[int]) -> Region:
        """The block's own ops, then its end inside Scopes for those that follow."""
        *ops, end = self.flow.blocks[label].ops
        return [*ops, *self.followed(self.leave(label, end), following)]

    def followed(self, region: Region, following: list[int]) -> Region:
        for label in following:
            args = self.flow.blocks[label].args
            values = args if self.header_of(label) is None else [self.program.copy(arg) for arg in args]
            region = [Scope(label, region, list(values)), *self.tree(label, list(values))]
        return region

    def leave(self, label: int, end: Op) -> Region:
        match end:
            case Jump(target, args):
                return self.go(Edge(label, target, args), end)
            case Branch(condition, then, then_args, orelse, else_args, at):
                arms = (self.go(Edge(label, then, then_args), end), self.go(Edge(label, orelse, else_args), end))
                return [If(condition, *arms, [], at)]
        return [end]

    def go(self, edge: Edge, end: Jump | Branch) -> Region:
        if self.flow.is_back(edge):
            return [Again(edge.target, list(edge.args), end.at)]
        if self.is_followed(edge.target):
            return [Break(edge.target, list(edge.args), end.at)]
        return self.tree(edge.target, list(edge.args))
