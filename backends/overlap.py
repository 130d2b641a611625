"""Do arrays share memory? Programs that write to their arguments ask at every call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def are_disjoint(written: int, *arrays: np.ndarray) -> bool:
    """Does none of the first `written` arrays overlap another of `arrays`? By the bytes between first and last element."""
    return not any(np.may_share_memory(arrays[i], arrays[j]) for i in range(written) for j in range(i + 1, len(arrays)))


@dataclass(slots=True)
class Overlap:
    """Holds the quickest function there is: a backend may put its own in place of NumPy's."""

    are_disjoint: Callable[..., bool] = are_disjoint


OVERLAP = Overlap()
