"""Which values are computed whole though only parts of them are read: NumPy reports the errors of all elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import Shape
from npcompile.tensor_core.op import OPS

MOST_REGIONS = 32  # of one node; of more it is not asked whether they are all of it
MOST_PERIOD = 64  # after so many elements, at most, the same regions hold an element again


@dataclass(frozen=True, slots=True)
class Range:
    """The elements start + step * (0 .. length-1) of one axis."""

    start: Size
    step: Size
    length: Size

    @property
    def ends(self) -> tuple[Size, Size]:
        """The first element in memory, and the one after the last."""
        last = self.start + self.step * (self.length - 1)
        return (self.start, last + 1) if self.step > 0 else (last, self.start + 1)

    def holds(self, place: Size) -> bool:
        """Is the element certainly one of these?"""
        low, high = self.ends
        if not (is_at_least(place - low, 0) and is_at_least(high - place, 1)):
            return False
        offset = place - self.start
        return abs(self.step) == 1 or (not isinstance(offset, Dim) and offset % self.step == 0)


Region = tuple[Range, ...]  # one for each axis


def is_at_least(size: Size, least: int) -> bool:
    """For all values of the symbols? Nothing is asked."""
    if isinstance(size, Dim):
        bound = size.env.bound(size)
        return bound is not None and bound >= least
    return size >= least


def is_some(shape: Shape) -> bool:
    """Has it certainly elements?"""
    return all(is_at_least(n, 1) for n in shape)


def are_all(regions: Sequence[Region], shape: Shape) -> bool:
    """Is every element certainly in one of these regions?"""
    if any(same(n, 0) for n in shape):
        return True
    regions = tuple(r for r in regions if not any(isinstance(each.step, Dim) for each in r))
    return len(regions) <= MOST_REGIONS and cover(regions, shape, 0)


def cover(regions: tuple[Region, ...], shape: Shape, axis: int) -> bool:
    if not regions or axis == len(shape):
        return bool(regions)
    places = list(places_of([r[axis] for r in regions], shape[axis]))
    found = {tuple(r for r in regions if r[axis].holds(p)) for p in places}
    return bool(places) and all(cover(some, shape, axis + 1) for some in found)


def places_of(ranges: Sequence[Range], length: Size) -> Iterator[Size]:
    """Places of one axis such that each other is in just the ranges that one of these is in."""
    period = math.lcm(*(r.step for r in ranges))
    if period > MOST_PERIOD:
        return
    begins = dict.fromkeys([0, *(end for r in ranges for end in r.ends)])
    for place in dict.fromkeys(b + k for b in begins for k in range(period)):
        if is_at_least(place, 0) and not is_at_least(place - length, 0):
            yield place


@dataclass(slots=True)
class Coverage:
    """Of which elements of each node others are computed."""

    whole: set[Node]
    parts: dict[Node, list[Region]] = field(default_factory=dict)

    def is_whole(self, node: Node) -> bool:
        return node in self.whole or are_all(self.parts.get(node, []), node.shape)

    def read(self, reader: Node) -> None:
        """Take in what `reader` reads; all who read it have been taken in."""
        if self.is_whole(reader):
            self.whole |= {reader, *read_whole(reader)}
            if reader.op == "slice":
                ranges = zip(reader.params["start"], reader.params["step"], reader.params["shape"])
                self.parts.setdefault(reader.inputs[0], []).append(tuple(Range(*r) for r in ranges))
        elif reader in self.parts and (OPS[reader.op].kind == "elementwise" or reader.op == "permute"):
            regions = self.parts[reader]
            if reader.op == "permute":
                axes = sorted(range(reader.meta.ndim), key=reader.params["axes"].__getitem__)
                regions = [tuple(r[a] for a in axes) for r in regions]
            for x in reader.inputs:
                self.parts.setdefault(x, []).extend(regions)


# Their results have no elements only where there are none of these operands.
MADE_OF_ALL = ("permute", "reshape", "concatenate", "reduce", "scan", "arg_reduce")


def read_whole(reader: Node) -> Iterator[Node]:
    """The operands of which every element is read where all of `reader` is made."""
    for k, x in enumerate(reader.inputs):
        match reader.op:
            case "slice":
                continue
            case "gather" if k == 0:
                continue
            case "einsum":
                axes = reader.params["inputs"][k]
                is_read = len(set(axes)) == len(axes) and all(is_some(i.meta.shape) for i in reader.inputs)
            case "slice_update" | "scatter" if k > 0:
                is_read = True
            case op:
                is_read = op in MADE_OF_ALL or OPS[op].kind == "elementwise" or is_some(reader.shape)
        if is_read:
            yield x


def demanded_whole(nodes: Sequence[Node], whole: Collection[Node], has_errors: Callable[[Node], bool]) -> set[Node]:
    """The nodes to be computed whole beside these, of all that are computed, each after what it uses."""
    erring = {node for node in nodes if node.op != "input" and has_errors(node)}
    if not erring:
        return set()
    coverage = Coverage(set(whole))
    added = set()
    for node in reversed(nodes):
        if node in erring and not coverage.is_whole(node):
            coverage.whole.add(node)
            added.add(node)
        coverage.read(node)
    return added
