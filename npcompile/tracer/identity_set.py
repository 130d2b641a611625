"""What arrays are known for, by identity, while they live."""

from __future__ import annotations

import weakref
from typing import Any


class Known:
    """A set of arrays, which it does not keep alive."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, array: Any) -> None:
        key, references = id(array), self._references
        references[key] = weakref.ref(array, lambda _: references.pop(key, None))

    def __contains__(self, array: Any) -> bool:
        found = self._references.get(id(array))
        return found is not None and found() is array


SCALARS = Known()  # arrays of a device, of no dimensions, that stand for NumPy scalars: nobody changes them
MADE_NATIVELY = Known()  # NumPy's arrays that native code made in a call whose arrays came on a device


def is_scalar(array: Any) -> bool:
    return array in SCALARS


def remember_scalar(array: Any) -> Any:
    SCALARS.add(array)
    return array
