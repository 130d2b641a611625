"""Where the time of one call went: compiling, compiled programs, Python. How much memory its graphs read and write."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from npcompile.profiling import ASIDE, CALL, NATIVE, PYTHON, Profile
from npcompile.tensor_core.dim import hint_of
from npcompile.tensor_core.events import Event
from npcompile.tensor_core.graph import Graph, Node

CALLS = (CALL, ASIDE, NATIVE, PYTHON)
COPIED = 32 << 20  # bytes: more than processors' caches hold, mostly
LARGE = 1 << 20  # bytes that a program reads and writes: less stays in the caches


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a call: how often it ran, and its seconds in all."""

    name: str  # "graph 0", "compiled loop", "Python"
    line: int | None
    seconds: float
    times: int = 1
    traffic: int = 0  # bytes that it reads and writes at least, in all

    @property
    def rate(self) -> float:
        """Bytes a second; 0 where so few are read and written that they stay in the processor's caches."""
        return self.traffic / self.seconds if self.traffic >= LARGE * self.times and self.seconds else 0.0

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line is not None else ""
        often = f", {self.times} times" if self.times > 1 else ""
        text = f"{self.name}{where}{often}: {1e3 * self.seconds:.3f} ms"
        if self.rate:
            text += f"; {self.traffic / 1e6:.1f} MB at {self.rate / 1e9:.1f} GB/s"
            text += f" ({copy_rate() / 1e9:.1f} GB/s when NumPy copies a large array)"
        return text


def timed(call: Callable[[], Any]) -> tuple[Any, float, list[Event]]:
    """Call. The result, the seconds, and what happened in this thread, unless another profiler is at work."""
    thread = threading.get_ident()
    if sys.getprofile() is not None or threading.getprofile() is not None:
        began = perf_counter()
        return call(), perf_counter() - began, []
    with Profile() as profile:
        began = perf_counter()
        result = call()
        seconds = perf_counter() - began
    return result, seconds, [event for event in profile.events if event.thread == thread and not event.is_beside]


def parts_of(
    events: Iterable[Event], function: str, programs: Mapping[str, tuple[str, int, int]], seconds: float
) -> tuple[Part, ...]:
    """What a call of `function` took, in the order in which its parts began.

    `programs` has the name, the line and the bytes of a program, by the name of its code. Compiling in between counts once.
    """
    events = sorted(events, key=lambda event: event.began)
    compiling = outermost([event for event in events if event.name not in CALLS and event.ended > event.began])
    found: dict[tuple[str, int | None], Part] = {}

    def add(name: str, line: int | None, seconds: float, traffic: int = 0) -> None:
        known = found.get((name, line), Part(name, line, 0.0, 0))
        found[name, line] = replace(
            known, seconds=known.seconds + seconds, times=known.times + 1, traffic=known.traffic + traffic
        )

    for event in outermost([event for event in events if event.name in (NATIVE, PYTHON)]):
        inside = sum(overlap(event, each) for each in compiling)
        if event.name == NATIVE and event.what == function and event.subject in programs:
            name, line, traffic = programs[event.subject]
            add(name, line, event.ended - event.began - inside, traffic)
        elif event.name == PYTHON:
            digits = event.at.rpartition(":")[2]
            add(PYTHON, int(digits) if digits.isdigit() else None, event.ended - event.began - inside)
    spent = sum(event.ended - event.began for event in compiling)
    parts = [*([Part("compiling", None, spent)] if compiling else []), *found.values()]
    return (*parts, Part("guards, calls and the rest", None, max(0.0, seconds - sum(part.seconds for part in parts))))


def outermost(events: Sequence[Event]) -> list[Event]:
    """Those that are in no other; `events` are in the order of their beginnings."""
    kept: list[Event] = []
    for event in events:
        if not kept or event.began >= kept[-1].ended:
            kept.append(event)
    return kept


def overlap(one: Event, other: Event) -> float:
    return max(0.0, min(one.ended, other.ended) - max(one.began, other.began))


def traffic_of(graph: Graph) -> int:
    """Bytes of what a graph is given and of what it makes: each is read or written once at least."""
    return sum(map(bytes_of, {*graph.inputs, *graph.results}))


def bytes_of(node: Node) -> int:
    if node.meta.dtype is None or not isinstance(node.shape, tuple):
        return 0
    return int(np.prod([hint_of(size) for size in node.shape], dtype=np.float64)) * node.dtype.itemsize


@cache
def copy_rate() -> float:
    """Bytes a second that NumPy reads and writes when it copies a large array on one thread; measured once."""
    source = np.ones(COPIED // 8)
    target = np.empty_like(source)
    best = np.inf
    for _ in range(4):
        began = perf_counter()
        np.copyto(target, source)
        best = min(best, perf_counter() - began)
    return 2 * COPIED / best
