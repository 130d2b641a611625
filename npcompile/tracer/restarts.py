"""What one attempt at a capture finds and the next one knows: where to stop, what not to inline, and why."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from npcompile.logs import log
from npcompile.tensor_core.events import BREAKS, moment
from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.guards import Guard
from npcompile.tensor_core.source import Source

MOST_FAILURES = 3  # calls that take another arm of a branch than was assumed
OURS = f"{Path(__file__).parents[1]}/"  # begins the file names of this package


class BegunIterator(Exception):
    """An iterator is needed outside of the program, or sees how it is forgotten, that cannot be made there as it is.

    That is a generator that has given items, and an iterator over a container that the program has changed. `index` is the
    instruction that made it.
    """

    def __init__(self, index: int):
        self.index = index


class Restart(Exception):
    """Capture again with one more decision."""


BranchKey = tuple[types.CodeType, int]  # of a branch: the code, and which of its instructions


@dataclass(frozen=True, slots=True)
class Levels:
    """That sizes are such that a function is often inside itself."""

    guards: tuple[Guard, ...]
    symbols: dict[str, Source]  # names in them -> their sources


@dataclass(slots=True)
class Decisions:
    """What earlier attempts at the same capture found: where not to inline, which loops not to unroll, where to stop."""

    native_calls: dict[int, Break] = field(default_factory=dict)  # instruction of the outermost frame -> why
    levels: dict[int, Levels] = field(default_factory=dict)  # of those: how deep a function is in itself, as sizes decide
    rolled_loops: set[int] = field(default_factory=set)  # loop headers of the outermost frame
    short_loops: set[int] = field(default_factory=set)  # those of few enough iterations for one graph
    unrolled: set[tuple[types.CodeType, int]] = field(default_factory=set)  # long loops of inlined functions that are no node
    stops: dict[int, Break] = field(default_factory=dict)  # instructions of the outermost frame that end the graph
    branches: dict[BranchKey, str] = field(default_factory=dict)  # on data, that are no node -> why
    with_effects: set[BranchKey] = field(default_factory=set)  # those of them an arm of which does more than a node may
    known_texts: set[Source] = field(default_factory=set)  # sources of strings that are constants: more is captured so
    declined: dict[Guard, None] = field(default_factory=dict)  # guards: of which kinds was what is not captured
    halt: tuple[int, Break] | None = None  # after how many instructions the graph ends: the next one declined


@dataclass(slots=True, eq=False)
class Arms:
    """Which arms the calls of a function have taken that were captured, and in how many calls others were."""

    taken: dict[BranchKey, bool] = field(default_factory=dict)
    varying: set[BranchKey] = field(default_factory=set)  # branches both of whose arms are taken
    failures: Counter[BranchKey] = field(default_factory=Counter)

    def take(self, key: BranchKey, truth: bool) -> bool:
        """Is this the arm that was taken before, if one was?"""
        if self.taken.setdefault(key, truth) is not truth:
            self.varying.add(key)
        return key not in self.varying

    def fail(self, keys: Iterable[BranchKey]) -> bool:
        """A call took another arm than was assumed at one of these branches. Is that so too often?"""
        failed = {*keys}
        self.failures.update(failed)
        often = {key for key in failed if self.failures[key] >= MOST_FAILURES}
        self.varying |= often
        return bool(often)


@dataclass(frozen=True, slots=True)
class Break:
    """Why a graph ended: `reason` and what the user may do, at a line of the user's program."""

    reason: str
    hint: str
    location: Location
    callers: tuple[Location, ...] = ()  # of inlined functions, outermost first
    misuse: type[Exception] | None = None  # of a transform, which is a TypeError or a ValueError too

    @property
    def user_location(self) -> Location:
        """The line of the compiled function itself."""
        return self.callers[0] if self.callers else self.location

    def __str__(self) -> str:
        return self.text(self.location)

    def text(self, known: Location) -> str:
        """What happened, on which of the user's lines, and what to do; `known` is one where no line of the user's is."""
        places = [c for c in (*self.callers, self.location) if not c.filename.startswith(OURS)] or [known]
        via = ", called from ".join(map(str, reversed(places)))
        return f"{self.reason} ({via}).{f' {self.hint}' if self.hint else ''}"

    def count(self) -> None:
        """A graph of a program that is kept ends so."""
        BREAKS[self.reason] = BREAKS.get(self.reason, 0) + 1
        moment("break", self.reason, self.user_location)
        log("graph_breaks", lambda: str(self))
