"""Device arrays as programs meet them: their types, the device they are on, their memory. No library is imported for this."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.backends.overlap import overlaps_itself


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """How arrays of one type answer what NumPy's answer otherwise."""

    type: type
    device: str  # the first part of the names of devices that have such arrays
    number: Callable[[Any], int]  # of the device that an array is on
    number_text: str  # the same as an expression of a guard, with {} for the array
    contiguous_text: str  # likewise: is it C-contiguous?
    address: Callable[[Any], int]  # of the first element
    view: Callable[[Any, int, Sequence[int], np.dtype, Sequence[int]], Any]  # (array, bytes from there, shape, dtype, strides)


ARRAY_KINDS: dict[type, ArrayKind] = {}
# Library -> what tells of the type `ndarray` that it has: backends fill it, and it is asked once the library is imported.
LIBRARIES: dict[str, Callable[[Any], ArrayKind]] = {}


def array_kind(kind: type) -> ArrayKind | None:
    """What is known of a type of device arrays; None for other types."""
    found = ARRAY_KINDS.get(kind)
    if found is None:
        for name, tell in LIBRARIES.items():
            if (library := sys.modules.get(name)) is not None and kind is getattr(library, "ndarray", None):
                found = ARRAY_KINDS[kind] = tell(library)
    return found


def array_types() -> Mapping[type, ArrayKind]:
    """The types of device arrays that there can be in this process."""
    if not ARRAY_KINDS:
        for name in LIBRARIES.keys() & sys.modules.keys():
            array_kind(getattr(sys.modules[name], "ndarray", type(None)))
    return ARRAY_KINDS


def bounds(x: Any, kind: ArrayKind) -> tuple[int, int]:
    """Addresses of the first byte of the memory that an array sees, and after the last."""
    low = high = kind.address(x)
    if not x.size:
        return low, low
    for n, s in zip(x.shape, x.strides):
        low, high = low + min(s, 0) * (n - 1), high + max(s, 0) * (n - 1)
    return low, high + x.dtype.itemsize


def is_repeated(x: Any) -> bool:
    """Are its elements the same memory, as those of what np.broadcast_to gives? NumPy has such arrays read-only."""
    return bool(x.size) and any(n > 1 and s == 0 for n, s in zip(x.shape, x.strides))


def are_disjoint(written: int, *arrays: Any) -> bool:
    """As backends.overlap.are_disjoint, of arrays on devices, each of which has addresses of its own."""
    spans = []
    if any(map(overlaps_itself, arrays[:written])):
        return False
    for x in arrays:
        kind = array_kind(type(x))
        assert kind is not None, x
        spans.append(bounds(x, kind))
    return not any(
        spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1] for i in range(written) for j in range(i + 1, len(spans))
    )
