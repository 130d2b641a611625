"""How often a function that calls itself is inside itself in one graph, where sizes decide that."""

from __future__ import annotations

import types

from npcompile.tracer.frame import Frame
from npcompile.tracer.restarts import Levels

MOST_BY_SIZE = 3  # calls of a function inside itself, each for sizes that are not known: deeper, every depth is a program


def levels_by_size(frame: Frame | None, code: types.CodeType) -> list[Frame]:
    """The frames of a function inside itself in this graph, each called by what a size decided: the innermost first."""
    levels = []
    while frame is not None and frame.parent is not None:
        if frame.is_by_size and frame.program.code is code:
            levels.append(frame)
        frame = frame.parent
    return levels


def asked_of(levels: list[Frame]) -> Levels:
    """For which sizes there are these levels. Where other values decide too: nothing is asked."""
    guards = tuple(guard for frame in reversed(levels) for guard in frame.size_guards)
    symbols = levels[0].capture.symbols
    names = {name for guard in guards for name in guard.names()}
    return Levels(guards, {name: symbols[name] for name in names}) if names <= symbols.keys() else Levels((), {})
