"""What one attempt at a capture finds and the next one knows: where to stop, what not to inline, and why."""

from __future__ import annotations

import types
from dataclasses import dataclass, field

from npcompile.tensor_core.graph import Location


class Restart(Exception):
    """Capture again with one more decision."""


@dataclass(frozen=True, slots=True)
class Levels:
    """That sizes are such that a function is often inside itself."""

    guards: tuple[str, ...]
    symbols: dict[str, str]  # names in them -> their sources


@dataclass(slots=True)
class Decisions:
    """What earlier attempts at the same capture found: where not to inline, which loops not to unroll, where to stop."""

    native_calls: dict[int, Break] = field(default_factory=dict)  # instruction of the outermost frame -> why
    levels: dict[int, Levels] = field(default_factory=dict)  # of those: how deep a function is in itself, as sizes decide
    rolled_loops: set[int] = field(default_factory=set)  # loop headers of the outermost frame
    short_loops: set[int] = field(default_factory=set)  # those of few enough iterations for one graph
    stops: dict[int, Break] = field(default_factory=dict)  # instructions of the outermost frame that end the graph
    branches: dict[tuple[types.CodeType, int], str] = field(default_factory=dict)  # on data, that are no node -> why
    declined: dict[str, None] = field(default_factory=dict)  # guards: of which kinds was what is not captured
    halt: tuple[int, Break] | None = None  # after how many instructions the graph ends: the next one declined


@dataclass(frozen=True, slots=True)
class Break:
    """Why a graph ended: `reason` and what the user may do, at a line of the user's program."""

    reason: str
    hint: str
    location: Location
    callers: tuple[Location, ...] = ()  # of inlined functions, outermost first

    @property
    def user_location(self) -> Location:
        """The line of the compiled function itself."""
        return self.callers[0] if self.callers else self.location

    def __str__(self) -> str:
        via = "".join(f", called from {c}" for c in reversed(self.callers))
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.reason} ({self.location}{via}).{hint}"
