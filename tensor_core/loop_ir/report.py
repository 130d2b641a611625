"""What a pass says of a program: how often it fired, where, and why not elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir import ops
from npcompile.tensor_core.loop_ir.ops import NOWHERE, Op, Place

CARRIED = "iterations that need what others computed"
WORDS: dict[type[Op], str] = {
    **dict.fromkeys((ops.Constant, ops.Let, ops.Splat), "an operation"),
    **dict.fromkeys((ops.Size, ops.Load, ops.Gather), "something that is read"),
    **dict.fromkeys((ops.Alloc, ops.Scratch, ops.Room), "a new array"),
    **dict.fromkeys((ops.FrameState, ops.SideExit), "a step after which Python may have to go on"),
    **dict.fromkeys((ops.Speculate, ops.Guard), "a step that may have to be done again"),
    **dict.fromkeys((ops.FpClear, ops.FpCheck), "a look at floating-point errors"),
    **dict.fromkeys((ops.NewList, ops.Append), "a list"),
    **dict.fromkeys((ops.Jump, ops.Branch, ops.Cfg), "a jump"),
    **dict.fromkeys((ops.Threads, ops.Disjoint), "a question about memory or threads"),
    ops.Store: "an array that is written",
    ops.View: "a view",
    ops.Call: "a call",
    ops.Routine: "a product or a sum of arrays",
    ops.Check: "a check that may leave it",
    ops.Poll: "a look for signals",
    ops.Return: "a return",
    ops.Yield: "a result",
    ops.Break: "a break",
    ops.Again: "a continue",
    ops.If: "a condition",
    ops.For: "another loop",
    ops.While: "a loop that ends by a condition",
    ops.Scope: "a block that may be left",
}


@dataclass(frozen=True, slots=True)
class Said:
    """Of the loop at a place: an empty reason where the pass fired."""

    at: Place
    reason: str = ""


class Declined(Exception):
    """A pass leaves a loop as it is."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason

    @classmethod
    def for_op(cls, op: Op) -> Declined:
        """Because of what is in the loop."""
        return cls(f"it has {WORDS[type(op)]}")


@dataclass(slots=True)
class Report:
    fired: int = 0
    said: list[Said] = field(default_factory=list)

    def fire(self, at: Place) -> None:
        self.fired += 1
        self.decline(at, "")

    def decline(self, at: Place, reason: str) -> None:
        if at != NOWHERE:
            self.said.append(Said(at, reason))
