"""What a pass says of a program: how often it fired, where, and why not elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

from npcompile.tensor_core.loop_ir.ops import NOWHERE, Place

CARRIED = "iterations that need what others computed"


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
