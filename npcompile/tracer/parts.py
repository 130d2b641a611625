"""Which parts of a function pay: where a program is slower than the user's own code, a Point is left to Python.

A function that is compiled in parts goes from Point to Point. In some calls all parts run compiled, in as many all run as they
are, and the seconds from a Point to the next are compared, for each kind of values that a Point meets. What is found is kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from npcompile.tracer.bytecode.tracebacks import uncounted

FEW = 3  # calls each way
SIZED = frozenset((np.ndarray, list))  # types of values of which the size is part of the kind
ASKED = 1e-6  # seconds, about, that it takes to ask whether a Point is left to Python

Types = tuple[type, ...]  # of a call's arguments


def kind_of(state: tuple[Any, ...]) -> Any:
    """The types of values, about how many elements they have (powers of 4, of which the lowest are one), and the dtypes."""
    size, dtypes = 0, []
    for value in state:
        if type(value) is np.ndarray:
            size += value.size
            dtypes.append(value.dtype)
        elif type(value) is list:
            size += len(value)
    return (*map(type, state),), max(size.bit_length() + 1 >> 1, 3), *dtypes


@uncounted
def where_it_pays(enter: Callable[..., Any], left: Callable[..., Any], pays: dict[Any, bool]) -> Callable[..., Any]:
    """What enters a Point, but for kinds of values that are left to Python."""
    return lambda *state: (enter if pays.get(kind_of(state), True) else left)(*state)


def middle(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def shares(ours: list[float], theirs: list[float]) -> list[float]:
    """The least and the middle of some times over those of others."""
    return [of(ours) / max(of(theirs), 1e-9) for of in (min, middle)]


class Stretches:
    """The seconds from each of some Points to the next, inside of a `with` block and this thread.

    `others` is what they are to run instead of what they enter, None where that is to stay.
    """

    def __init__(self, points: Sequence[Any], others: Sequence[Callable[..., Any] | None] | None = None):
        self.points, self.others, self.is_plain = points, others or [None] * len(points), others is not None
        self.seconds: dict[tuple[Any, Any], float] = {}  # of a Point and the kind of the values that it met
        self.open: tuple[Any, Any] | None = None
        self.began = 0.0
        self.before: list[tuple[Any, Any, Any]] = []  # Points, what they entered, what they enter meanwhile

    def __enter__(self) -> Stretches:
        self.thread = threading.get_ident()
        for point, other in zip(self.points, self.others):
            self.before.append((point, point.enter, self.around(point, point.enter, other or point.enter)))
        for point, _, around in self.before:
            point.enter = around
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        for point, before, around in self.before:
            if point.enter is around:  # else something was compiled there
                point.enter = before

    @uncounted
    def around(self, point: Any, before: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
        def enter(*state: Any) -> Any:
            if threading.get_ident() != self.thread:
                return before(*state)
            self.close()
            self.open = point, kind_of(state)
            self.began = perf_counter()
            return run(*state)

        return enter

    def close(self) -> None:
        now = perf_counter()
        if self.open is not None:
            took = self.took(self.open[0], now - self.began) + (ASKED if self.is_plain else 0.0)
            self.seconds[self.open] = self.seconds.get(self.open, 0.0) + took
        self.open = None

    def took(self, point: Any, seconds: float) -> float:
        """What counts for a Point."""
        return seconds


@dataclass(slots=True, eq=False)
class Parts:
    """The times of a function's Points, compiled and as they are, of some calls of one kind."""

    points: list[Any]
    apart: list[Any] = field(default_factory=list)  # what runs the user's own code from them to the next
    compiled: list[dict[tuple[Any, Any], float]] = field(default_factory=list)
    plain: list[dict[tuple[Any, Any], float]] = field(default_factory=list)

    @property
    def is_enough(self) -> bool:
        return min(len(self.compiled), len(self.plain)) >= FEW

    def next(self) -> Stretches:
        """What the next call is to run in."""
        if len(self.compiled) <= len(self.plain):
            return Stretches(self.points)
        if not self.apart:
            indices = frozenset(p.layout.index for p in self.points)
            self.apart = [point.apart(indices) for point in self.points]
        return Stretches(self.points, self.apart)

    def keep(self, stretches: Stretches) -> None:
        (self.plain if stretches.is_plain else self.compiled).append(stretches.seconds)

    def settle(self) -> bool:
        """Leave Points that do not pay to Python, if others do; tell whether there are some."""
        keys = {key for each in (*self.compiled, *self.plain) for key in each}
        found = {}
        for key in keys:
            ours, theirs = ([each[key] for each in way if key in each] for way in (self.compiled, self.plain))
            if min(len(ours), len(theirs)) >= FEW:
                found[key] = min(shares(ours, theirs)) < 1
        if all(found.values()) or not any(found.values()):
            return False
        for (point, kind), pays in found.items():
            point.pays.setdefault(kind, pays)
        kept = frozenset(p.layout.index for p in self.points if any(p.pays.values()) or not p.pays)
        for point in self.points:
            point.leave_what_does_not_pay(kept)
        return True


def parts_of(function: Any) -> Parts | None:
    """The Points at which something compiled is entered; None where they are not several, which are told from each other."""
    points = [
        p for p in [*function.points.values()] if p.place is None and not p.is_native and any(v.computes for v in p.variants)
    ]
    return Parts(points) if len(points) > 1 else None
