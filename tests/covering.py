"""Few of many combinations: those in which every two values of different parameters meet at least once.

A fault depends on one or two of a test's parameters nearly always (a dtype and a layout, a length and an axis), while their full
product grows with each one and costs a compiled unit a case.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["pairs"]


def pairs(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows with one value of each parameter. The first row has all first values, and the order is the same in every run."""
    places = list(combinations(range(len(parameters)), 2))
    left = {(i, a, j, b) for i, j in places for a in range(len(parameters[i])) for b in range(len(parameters[j]))}
    candidates = list(product(*(range(len(values)) for values in parameters)))
    chosen = []
    while left:
        best = max(candidates, key=lambda row: sum((i, row[i], j, row[j]) in left for i, j in places))
        left -= {(i, best[i], j, best[j]) for i, j in places}
        chosen.append(best)
    rows = chosen or candidates  # of fewer than two parameters nothing meets
    return [tuple(values[i] for values, i in zip(parameters, row, strict=True)) for row in rows]
