"""The stance "eager_then_compile": the first call with each kind of arguments runs as it is, and tells which sizes it had."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.switch import runs_first_calls_plain
from npcompile.tensor_core.source import Name

WHAT = "kind of a call"


def is_first_of_kind(point: Any, state: tuple[Any, ...]) -> bool:
    """Is this the first call of a function with values of these types, dtypes and numbers of dimensions? It runs as it is."""
    if not point.is_start or not runs_first_calls_plain():
        return False
    key = WHAT, Name(str(point.kind(state)))
    if key in point.seen:
        return False
    point.seen[key] = []
    for name, x in zip(point.parameters, state):
        if isinstance(x, np.ndarray):
            point.seen.setdefault(("sizes of", Name(name)), []).append((x.shape, x.strides))
    return True
