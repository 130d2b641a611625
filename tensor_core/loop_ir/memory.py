"""Arrays that each iteration of a loop makes anew: where nobody has one of an iteration before, its memory is taken again."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.activity import handed_on, yielded
from npcompile.tensor_core.loop_ir.forms import regions, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    For,
    FrameState,
    Policy,
    Program,
    Region,
    Return,
    View,
    While,
)

MOST_TURNS = 4


def take_again(program: Program) -> int:
    """Mark the Allocs in loops whose arrays are gone some iterations later. How many there are."""
    ops = walk(program.body)
    base = {op.result: op.array for op in ops if isinstance(op, View)}
    takers: dict[int, list[int]] = {}
    for given, taken in (*handed_on(ops), *((array, view) for view, array in base.items())):
        takers.setdefault(given, []).append(taken)
    kept = {given for given, _ in handed_on(ops)}
    kept |= {value for op in ops if isinstance(op, Return | FrameState) for value in uses(op)}
    for value in list(kept):
        while value in base:
            value = base[value]
            kept.add(value)
    pass_ = Marking(kept, takers, program.policy is Policy.RESUME)
    pass_.region(program.body, None, False)
    return pass_.marked


@dataclass(slots=True)
class Marking:
    kept: set[int]  # arrays that something else than loads and stores has
    takers: dict[int, list[int]]  # value -> those that have the same array
    has_turns: bool
    marked: int = 0

    def region(self, region: Region, loop: For | While | None, is_nested: bool) -> None:
        """`loop`: the innermost one around, which `is_nested` in another."""
        for op in region:
            if isinstance(op, Alloc) and loop is not None:
                op.again = op.result not in self.kept
                if not op.again and self.has_turns:
                    op.turns = self.turns(op.result, loop, is_nested)
                self.marked += op.again or op.turns > 0
            for part in regions(op):
                if isinstance(op, For | While):
                    self.region(part, op, loop is not None)
                else:
                    self.region(part, loop, is_nested)

    def turns(self, array: int, loop: For | While, is_nested: bool) -> int:
        """In how many iterations of the loop somebody has an array, from the one that makes it on. 0 where no one knows."""
        ways = Ways(self.takers, loop)
        found = 1 + ways.longest(array)
        return 0 if found > MOST_TURNS or is_nested and ways.leaves else found


@dataclass(slots=True)
class Ways:
    """Where an array goes in a loop and out of it."""

    takers: dict[int, list[int]]
    loop: For | While
    inside: set[int] = field(init=False)
    next: set[tuple[int, int]] = field(init=False)  # from one iteration to the next
    found: dict[int, int] = field(default_factory=dict)
    leaves: bool = False

    def __post_init__(self) -> None:
        loop, ops = self.loop, walk(self.loop.body)
        self.inside = {*loop.args, *(value for op in ops for value in uses(op))}
        ends = [yielded(loop.body)] if isinstance(loop, For) else []
        if isinstance(loop, While):
            ends = [op.values for op in ops if isinstance(op, Again) and op.target == loop.label]
        self.next = {pair for values in ends for pair in zip(values, loop.args)}

    def longest(self, value: int) -> int:
        """How many iterations later, at most, somebody in the loop has it."""
        if value not in self.found:
            self.found[value] = MOST_TURNS  # where it comes back to itself
            most = 0
            for taken in self.takers.get(value, ()):
                if taken in self.inside:
                    most = max(most, self.longest(taken) + ((value, taken) in self.next))
                else:
                    self.leaves = True
            self.found[value] = most
        return self.found[value]
