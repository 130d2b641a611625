"""Arrays that were computed from Tensors which require a gradient, and lost it at a graph break."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from npcompile.tracer.restarts import Break

_lost: dict[int, tuple[weakref.ref[np.ndarray], str]] = {}


def remember_lost(array: np.ndarray, message: str) -> None:
    """`array` was computed from Tensors that require a gradient, and left the graph."""
    key = id(array)
    _lost[key] = weakref.ref(array, lambda _: _lost.pop(key, None)), message


def lost_message(array: Any) -> str | None:
    found = _lost.get(id(array))
    return found[1] if found is not None and found[0]() is array else None


def message_of(reason: Break) -> str:
    return (
        f"this Tensor was computed from arrays that lost their gradient at a graph break: {reason} "
        "With fullgraph=True compiling stops there, instead of losing it."
    )
