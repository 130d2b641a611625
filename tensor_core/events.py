"""What happens while functions are compiled, and where compiled code is left: counted, and told to those who watch.

A call that runs what is compiled comes to none of this. Counts need no lock: CPython lets no other thread in between the reading
of a number and the storing of its sum, because nothing is called there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from time import perf_counter
from typing import Any, Protocol

from npcompile.tensor_core.graph import Location
from npcompile.tensor_core.user_warnings import PACKAGE

COUNTS: dict[str, float] = {
    "functions": 0,
    "captures": 0,
    "capture_seconds": 0.0,
    "variants": 0,
    "recompiles": 0,
    "graphs": 0,
    "kernels": 0,
    "loop_programs": 0,
    "units_compiled": 0,
    "c_compiler_seconds": 0.0,
    "units_from_disk": 0,
    "units_in_memory": 0,
    "side_exits": 0,
    "steps_aside": 0,
}
BREAKS: dict[str, int] = {}  # by reason


@dataclass(slots=True)
class Event:
    """Something that took from `began` to `ended`, by `time.perf_counter`; a moment where these are the same."""

    name: str  # "capture", "schedule", "C compiler", "break"
    what: str = ""  # the function, the pass, the graph
    at: str = ""  # file:line of the user's
    began: float = field(default_factory=perf_counter)
    ended: float = 0.0
    thread: int = field(default_factory=get_ident)
    is_beside: bool = False  # is it a process beside the thread, which does something else meanwhile?
    about: Mapping[str, str] = field(default_factory=dict)
    subject: Any = None  # what it is about itself, for those who know it by the event's name


class Watcher(Protocol):
    """Who is told of events, in the thread of each. What it raises is the program's error."""

    def begin(self, event: Event, /) -> None: ...  # of a stretch of time of this thread
    def end(self, event: Event, /) -> None: ...  # of the same
    def meet(self, event: Event, /) -> None: ...  # a moment, or a process that has ended


WATCHERS: list[Watcher] = []


@contextmanager
def stretch(name: str, what: str = "", at: Location | None = None, subject: Any = None) -> Iterator[None]:
    """Tell those who watch how long the block takes."""
    if not WATCHERS:
        yield
        return
    watchers, event = [*WATCHERS], Event(name, what, text_of(at), subject=subject)
    for each in watchers:
        each.begin(event)
    try:
        yield
    finally:
        event.ended = perf_counter()
        for each in reversed(watchers):
            each.end(event)


def moment(name: str, what: str = "", at: Location | None = None, subject: Any = None) -> None:
    """Tell those who watch that something has happened."""
    if WATCHERS:
        event = Event(name, what, text_of(at), subject=subject)
        tell(event, event.began)


def tell(event: Event, ended: float) -> None:
    event.ended = ended
    for each in [*WATCHERS]:
        each.meet(event)


def text_of(at: Location | None) -> str:
    """A line of the user's."""
    return "" if at is None or at.filename.startswith(PACKAGE) else str(at)
