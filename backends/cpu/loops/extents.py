"""How many elements the statements of a native loop go over, as far as the sizes of the arrays that are given decide it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

SMALL = 4096  # elements: graphs of whole arrays gain more than they cost, by threads and by fusion
COUNTED = 1 << 16  # where np.bincount, whose size is data, ends a graph in each iteration of a loop
# Of a matrix that is multiplied several times: elements that stay in a cache, so that reading its rows once for all products, as
# graphs do, gains nothing; and of its axes, as short rows are quicker there.
NEAR, SHORT = 1 << 16, 32
UNKNOWN = 1 << 62  # elements of an axis


@dataclass(frozen=True, slots=True)
class Extent:
    """One statement's: the product of `sizes`, which are C expressions."""

    loop: int  # the header of the outermost loop around it, -1 where there is none
    instruction: int  # the bytecode that it is
    sizes: tuple[str, ...]
    matrix: str = ""  # the array that owns the matrix, where the statement is its product with a vector


def bounds_of(
    extents: Sequence[Extent], loops: Iterable[int], examples: Mapping[str, int], small: int = SMALL
) -> dict[str, int] | None:
    """Products of sizes -> the most that they may be, so that the statements in these loops are small. None if one is not.

    `examples`: the sizes of the arrays that are given, in the call that the program is made for. The product of a matrix and a
    vector has a vector's size: nothing that is as large as the matrix is fused with it.
    """
    asked = [e for e in extents if e.loop in set(loops)]
    products = Counter((matrix, loop) for matrix, loop, _ in {(e.matrix, e.loop, e.instruction) for e in asked})
    bounds: dict[str, int] = {}
    for extent in asked:
        if extent.matrix and products[extent.matrix, extent.loop] == 1:
            continue
        sizes: list[int] = [int(n) if n.isdigit() else examples.get(n, UNKNOWN) for n in extent.sizes]
        most = NEAR if extent.matrix and min(sizes) >= SHORT else small
        if prod(sizes) > most:
            return None
        if not all(n.isdigit() for n in extent.sizes):
            bounds[" * ".join(extent.sizes)] = most
    return bounds
