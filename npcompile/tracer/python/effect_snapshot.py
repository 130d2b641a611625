"""What the program could see of something that was done while capturing, and that may not have happened when it runs."""

from __future__ import annotations

from typing import Any

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.source import Source
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.values import Iterator, Lazy, children


def seen_by(frame: Frame) -> tuple[list[Any], list[Any]]:
    """All that the frame and its callers can reach, as it is now: equal while none of it changes.

    The values are kept beside it, so that their ids stay theirs.
    """
    capture = frame.capture
    found: list[Any] = [len(capture.effects)]
    pending: list[Any] = []
    above: Frame | None = frame
    while above is not None:
        pending += [*above.locals.values(), *above.stack, *above.cells.values()]
        above = above.parent
    kept: dict[Any, Any] = {}
    while pending:
        value = pending.pop()
        key = name(value)
        if key in kept:
            continue
        kept[key] = value
        held = list(children(known(capture, value)))
        found.append((key, content(known(capture, value)), *map(name, held)))
        pending += held
    return found, list(kept.values())


def known(capture: Capture, value: Any) -> Any:
    return capture.realized.get(value.source, value) if isinstance(value, Lazy) else value


def name(value: Any) -> Any:
    """What comes from outside is the same, whether it was looked at or not."""
    if isinstance(value, Array):
        source = value.storage.source if not value.steps else None
    else:
        source = getattr(value, "source", None)
    return source if isinstance(source, Source) else id(value)


def content(value: Any) -> Any:
    match value:
        case Array():
            return id(value.storage.node) if value.storage.is_written else None
        case Iterator():
            return value.position
    return None
