"""Values as keys: what params of nodes are compared by."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np


def freeze(value: Any) -> Any:
    """A hashable key that tells -0.0 from 0.0, 1 from 1.0 from True, and a NaN from one of another sign alone."""
    if type(value) in KEYS:  # most of them
        return KEYS[type(value)](value)
    if isinstance(value, np.dtype):
        return (value, value.char)  # of C's long and long long, which are equal
    if isinstance(value, np.ndarray):
        return (value.dtype, value.dtype.char, value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return (type(value), value.tobytes())
    if isinstance(value, (float, complex)):
        return (type(value), struct.pack("dd", value.real, value.imag))
    return next((key(value) for kind, key in KEYS.items() if isinstance(value, kind)), value)


KEYS: dict[type, Callable[[Any], Any]] = {
    dict: lambda value: tuple((k, freeze(v)) for k, v in sorted(value.items())) if value else (),
    tuple: lambda value: tuple(map(freeze, value)),
    list: lambda value: tuple(map(freeze, value)),
    int: lambda value: (type(value), value),
    str: lambda value: value,
}
