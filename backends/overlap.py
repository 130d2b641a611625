"""Do arrays, or the elements of one, share memory? Programs that write to their arguments ask at every call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


def overlaps_itself(x: Any) -> bool:
    """Do elements of the array share memory, as those of sliding windows do?

    By its strides: from the smallest on, each has to pass what the axes before it take. That is so of every view that NumPy makes
    by indices and transposing. Where it is not so and yet no elements meet, as by strides of 2 and 3, the answer is yes too.
    """
    extent = x.itemsize
    for stride, n in sorted((abs(s), n) for n, s in zip(x.shape, x.strides)) if x.size else ():
        if n > 1 and stride < extent:
            return True
        extent += (n - 1) * stride
    return False


def are_disjoint(written: int, *arrays: np.ndarray) -> bool:
    """Does none of the first `written` arrays overlap itself or another? Of two by the bytes between first and last element."""
    if any(map(overlaps_itself, arrays[:written])):
        return False
    return not any(np.may_share_memory(arrays[i], arrays[j]) for i in range(written) for j in range(i + 1, len(arrays)))


@dataclass(slots=True)
class Overlap:
    """Holds the quickest function there is: a backend may put its own in place of NumPy's."""

    are_disjoint: Callable[..., bool] = are_disjoint


OVERLAP = Overlap()
