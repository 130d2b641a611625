"""The pass that looks at floating-point flags once after a loop instead of in each iteration.

Where a loop does nothing that Python must not do twice, Python can do all of it again: its Checks leave at the frame state before
it, and its flags are looked at when it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.tensor_core.loop_ir.exactness import has_effect, write_only
from npcompile.tensor_core.loop_ir.forms import all_regions, regions, walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Break,
    Check,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Poll,
    Program,
    Region,
    Return,
    Routine,
    Scope,
    SideExit,
    While,
)


def sink_flag_checks(program: Program) -> int:
    """Move looks at flags out of loops, in place. How many loops."""
    pass_ = Sinking(write_only(program))
    pass_.region(program.body, None)
    return pass_.loops


def look_once(program: Program, state: int) -> None:
    """Look at flags before a structured program returns and nowhere else, in place. `state`: where all that leaves aborts.

    Not where flags are cleared in between, or some errors are ignored.
    """
    ops = walk(program.body)
    errors = {op.errors for op in ops if isinstance(op, FpCheck)}
    if len(errors) != 1 or any(isinstance(op, FpClear) for op in ops):
        return
    (asked,) = errors
    for region in all_regions(program.body):
        kept = [op for op in region if not isinstance(op, FpCheck)]
        region[:] = [x for op in kept for x in ((FpCheck(state, asked, op.at), op) if isinstance(op, Return) else (op,))]


@dataclass(slots=True)
class Sinking:
    only_written: set[int]
    loops: int = 0

    def region(self, region: Region, state: int | None) -> None:
        """`state`: a frame state that Python may go on at, where the region begins."""
        made: Region = []
        for op in region:
            if isinstance(op, For) and state is not None and (errors := self.sunk(op, state)) is not None:
                made += [op, FpCheck(state, errors, op.at)]
                self.loops += 1
                continue
            made.append(op)
            if isinstance(op, FrameState):
                state = op.name
            effect = has_effect([op], self.only_written)
            for part in regions(op):
                self.region(part, None if effect and isinstance(op, For | While) else state)
            state = None if effect else state
        region[:] = made

    def sunk(self, op: For, state: int) -> int | None:
        """Let a loop leave at the state before it. The errors to look for after it; None where that cannot be."""
        inside = list(walk(op.body))
        own = {each.label for each in inside if isinstance(each, Scope | While)}
        leaves = any(isinstance(each, Break | Again) and each.target not in own for each in inside)
        ends = any(isinstance(each, FpClear | Return | SideExit) for each in inside)
        if leaves or ends or has_effect(op.body, self.only_written):
            return None
        found = {each.errors for each in inside if isinstance(each, FpCheck)}
        if len(found) != 1:
            return None
        strip(op.body, state)
        return found.pop()


def strip(region: Region, state: int) -> None:
    """Without frame states and looks at flags; what leaves, leaves at `state`."""
    region[:] = [op for op in region if not isinstance(op, FrameState | FpCheck)]
    for op in region:
        if isinstance(op, Check | Poll | Routine):
            op.state = state
        for part in regions(op):
            strip(part, state)
