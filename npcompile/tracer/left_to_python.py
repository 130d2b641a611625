"""A Point at which nothing was worth compiling, for many calls: Python runs what follows, and asks no guards.

That is so for code that computes nothing with arrays, and where each call breaks at once. Values of kinds that were not met
before are captured all the same, and so is a call now and then: an object may come to hold arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from npcompile.tracer.argument_kinds import kinds_of
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.profitability import FIRST_SPAN, GROWTH

MOST_KINDS = 64  # of arguments that are told apart


@dataclass(slots=True, eq=False)
class LeftToPython:
    """What a Point found nothing to compile for, and how it is left to Python after that."""

    run: Callable[..., Any] | None = None  # the user's code from there to where something is worth compiling, or all of it
    is_whole: bool = False  # is that all of the function?
    span: int = FIRST_SPAN
    calls: Iterator[int] = field(default_factory=lambda: repeat(0, FIRST_SPAN))  # those until capture is tried again
    types: set[tuple[type, ...]] = field(default_factory=set)  # of what was met, without arrays
    kinds: set[tuple[Any, ...]] = field(default_factory=set)  # of all that was met

    def meet(self, state: tuple[Any, ...]) -> None:
        """Capture found nothing to compile for these values."""
        self.kinds.add(kinds_of(state))
        if not any(isinstance(v, np.ndarray) for v in state):
            self.types.add(tuple(map(type, state)))

    def is_to_be_tried(self, state: tuple[Any, ...]) -> bool:
        """Is capture to be tried for these values?"""
        if kinds_of(state) not in self.kinds and len(self.kinds) < MOST_KINDS:
            return True
        if not next(self.calls, 1):
            return False
        self.span *= GROWTH
        self.calls = repeat(0, self.span)
        return True


def leave(idle: LeftToPython, point: Any) -> bool:
    """Leave a Point to Python, up to the next that runs something compiled. Not where it calls functions that do."""
    function = point.function
    if point.place is not None or function.options.fullgraph or function.options.has_own_backend:
        return False
    callees = [known for c in function.callees.values() if (known := compiled_function(c)) is not function]
    if any(known is not None and has_programs(known) for known in callees):
        return False
    working = {p.layout.index for p in function.points.values() if p is not point and any(v.computes for v in p.variants)}
    is_whole = point.is_start and not working
    if point.is_start and working and function.has_cells:  # which the entry makes, and parts of it need
        return False
    others = frozenset(range(len(function.program.instructions))) - working
    if is_whole:
        names = ", ".join(point.parameters)
        run = function.execute(f"def run({names}):\n    return {function.call_of_user(point.parameters)}\n", "run")
    else:
        run = function.segment(point.layout, None, inside=others)
    idle.run, idle.is_whole = run, is_whole
    return True


def has_programs(function: Any) -> bool:
    return any(v.computes for p in function.points.values() for v in p.variants)
