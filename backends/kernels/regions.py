"""A space cut where the parts of concatenations meet: in each region an element of one is an element of a known part.

`np.roll(u, 1, axis=0) + np.roll(u, -1, axis=0)` reads of each of its operands one part in the first row, in the last, and
between these. Loops over a region choose nothing, and the largest has nearly all elements.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise, product

from npcompile.backends.kernels.index import Index, split_linear, symbols_in
from npcompile.backends.kernels.schedule import Reads, concatenated, identity, index_key, ranges_of
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Node

Box = tuple[tuple[Size, ...], tuple[Size, ...]]  # where it starts, and its shape

MOST_REGIONS = 9
WORTH = 1 << 14  # elements: a kernel for each region takes the compiler longer


def regions_of(space: Sequence[Size], members: Sequence[Node], leaves: Set[Node]) -> list[Box]:
    """The regions of a map, the largest first; one where there is nothing to cut or sizes are not known."""
    whole: list[Box] = [((0,) * len(space), tuple(space))]
    sizes = [n for n in space if isinstance(n, int)]
    if len(sizes) < len(space):
        return whole
    elements = 1
    for n in sizes:
        elements *= n
    cuts = cuts_of(sizes, members, leaves) if elements >= WORTH else None
    if not cuts:
        return whole
    intervals = [list(pairwise(sorted({0, n, *cuts.get(a, ())}))) for a, n in enumerate(sizes)]
    boxes: list[Box] = []
    for chosen in product(*intervals):
        boxes.append((tuple(first for first, _ in chosen), tuple(end - first for first, end in chosen)))
    return whole if len(boxes) > MOST_REGIONS else sorted(boxes, key=volume, reverse=True)


def volume(box: Box) -> int:
    total = 1
    for n in box[1]:
        assert isinstance(n, int)
        total *= n
    return total


def cuts_of(space: Sequence[int], members: Sequence[Node], leaves: Set[Node]) -> dict[int, set[int]] | None:
    """Per axis the places inside where another part begins. None where elements are looked up: their order would change."""
    reads = Reads(set(leaves), ranges_of(space))
    cuts: dict[int, set[int]] = {}
    stack: list[tuple[Node, Index]] = [(m, identity(space)) for m in members]
    seen, roots = set(), set(members)
    while stack:
        node, index = stack.pop()
        key = (node, index_key(index))
        is_root = node in roots and index_key(index) == index_key(identity(space))
        if key in seen or node.op == "input" or (node in leaves and not is_root):
            continue
        seen.add(key)
        if node.op == "gather":
            return None
        if node.op == "concatenate":
            for axis, place in meetings(node, index):
                if 0 < place < space[axis]:
                    cuts.setdefault(axis, set()).add(place)
        stack += reads.operands(node, index)
    return cuts


def meetings(node: Node, index: Index) -> list[tuple[int, int]]:
    """The axes of the space, and the places along them, where parts of a concatenation that is read at `index` meet."""
    along = index[node.params["axis"]]
    names = symbols_in(along)
    if len(names) != 1:
        return []
    (name,) = names
    linear = split_linear(along, name)
    if linear is None or linear[0] not in (1, -1) or not isinstance(linear[1], int):
        return []
    step, start = linear
    assert isinstance(step, int) and isinstance(start, int)
    found: list[tuple[int, int]] = []
    for _, part in list(concatenated(node, index))[1:]:
        here = split_linear(part[node.params["axis"]], name)
        if here is None or not isinstance(here[1], int):
            return []
        begin = start - here[1]  # of the part, along the concatenation: step * place + start == begin
        found.append((int(name[1:]), begin - start if step == 1 else start - begin + 1))
    return found


def bounds(index: Size, ranges: dict[str, Size]) -> tuple[int, int] | None:
    """The least and the largest value of an index, where that is known."""
    low = high = 0
    rest = index
    for name in symbols_in(index):
        linear, size = split_linear(rest, name), ranges.get(name)
        if linear is None or not isinstance(linear[0], int) or not isinstance(size, int):
            return None
        far, rest = linear[0] * (size - 1), linear[1]
        low, high = low + min(far, 0), high + max(far, 0)
    return (low + rest, high + rest) if isinstance(rest, int) else None
