"""collections.deque made in captured code: its methods."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import containers, iteration
from npcompile.tracer.python.calls import Arguments, Keywords, captures
from npcompile.tracer.raising import raises
from npcompile.tracer.values import Deque


@captures(collections.deque)
def make(frame: Frame, positional: Arguments, keywords: Keywords) -> Deque:
    if len(positional) > 1 or keywords:
        raise Decline("a deque with a maximum length")
    return Deque(iteration.iterate(frame.capture, positional[0]) if positional else [])


def changing(change: Callable[..., Any]) -> Callable[..., Any]:
    def method(capture: Capture, owner: Deque, *arguments: Any) -> Any:
        containers.change(capture, owner, "")
        return change(capture, owner.items, *arguments)

    return method


def pop(position: int) -> Callable[..., Any]:
    def taken(capture: Capture, items: list[Any]) -> Any:
        if not items:
            raise raises(IndexError, "pop from an empty deque")
        return items.pop(position)

    return taken


def put_before(capture: Capture, items: list[Any], added: Any) -> None:
    items[:0] = reversed(iteration.iterate(capture, capture.realize(added)))


containers.METHODS[collections.deque] = {
    "append": changing(lambda capture, items, value: items.append(value)),
    "appendleft": changing(lambda capture, items, value: items.insert(0, value)),
    "extend": changing(lambda capture, items, added: items.extend(iteration.iterate(capture, capture.realize(added)))),
    "extendleft": changing(put_before),
    "pop": changing(pop(-1)),
    "popleft": changing(pop(0)),
    "clear": changing(lambda capture, items: items.clear()),
    "copy": lambda capture, owner: Deque(list(owner.items)),
}
