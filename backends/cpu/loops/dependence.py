"""Which elements of arrays an iteration of a loop reads and writes, and whether other iterations touch none that it writes.

Indices are sums of the loop's own variables and of what stays as it is while the loop runs, where that is known. Of each array
that is written, all that the loop reads or writes must then have one and the same index on some axis, another one in each
iteration. What it reads of that array at an index that stays must lie elsewhere: that is asked when the loop begins. Or the
array is one of pairs, `D[i, j]` and `D[j, i]`, and `j` goes on from `i`: then the less of both indices is the iteration's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.loops.value_ranges import Integer


@dataclass(frozen=True, slots=True)
class Index:
    """The sum of a constant and of C variables times factors."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def step(self, moving: Mapping[str, int]) -> int:
        """From one iteration to the next."""
        return sum(factor * moving.get(name, 0) for name, factor in self.terms)

    def stays(self, moving: Mapping[str, int]) -> bool:
        return not any(name in moving for name, _ in self.terms)

    def text(self, values: dict[str, str]) -> str:
        """As C, where some of the variables have these values."""
        terms = [f"{factor} * ({values.get(name, name)})" for name, factor in self.terms]
        return " + ".join([*terms, f"INT64_C({self.constant})"])


@dataclass(frozen=True, slots=True)
class Inner:
    """The variable of a loop inside, which goes up from `start`."""

    name: str
    start: Index


Places = tuple[Index | Inner | None, ...]  # on each axis of an array; None is anywhere


@dataclass(frozen=True, slots=True)
class Written:
    """An array that is written, and the axes on which each iteration has an index of its own. Of pairs it is the less of two."""

    array: ArrayInput
    own: dict[int, Index]
    places: tuple[Index | None, ...]  # of all that is written
    others: tuple[Index, ...]  # where it is read besides, on the first of those axes

    @property
    def is_of_pairs(self) -> bool:
        return len(self.own) > 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Of memory: which elements of which array it is. An array without a name is one that the iteration made for itself."""

    array: str
    places: Places


OWN = Origin("", ())
MADE_BEFORE = "made before"  # some array that the program has made, under a name that tells nothing of which


@dataclass(slots=True)
class Accesses:
    """What the loop's body was seen to read and write while it was written. `moving`: its own variables, their steps."""

    arrays: list[ArrayInput]
    moving: dict[str, int]
    found: dict[str, set[tuple[Places, bool]]] = field(default_factory=dict)  # array -> where, and is it written there?
    origins: dict[str, Origin | None] = field(default_factory=dict)  # of memory: C variables of its first byte
    inner: dict[str, Inner] = field(default_factory=dict)  # C variables that are variables of loops inside
    are_known: bool = True  # was all memory that is read or written some part of an array?
    columns: frozenset[str] = frozenset()  # matrices that are read from a copy by columns
    in_lanes: set[str] = field(default_factory=set)  # those of which lanes of a vector read columns
    indexed: dict[str, set[tuple[bool, ...]]] = field(default_factory=dict)  # of an array's views: which axes have an index?

    def element(self, array: ArrayInput, indices: Sequence[tuple[str, Integer]], is_written: bool) -> None:
        """Of indices: (C variable, what is known of it)"""
        places = tuple(self.inner.get(text) or index_of(known) for text, known in indices)
        self.indexed.setdefault(array.name, set()).add((True,) * array.ndim)
        self.note(Origin(array.name, places), is_written)

    def note(self, origin: Origin, is_written: bool) -> None:
        if origin is not OWN:
            self.found.setdefault(origin.array, set()).add((origin.places, is_written))

    def view(self, data: str, of: str, indices: Sequence[Integer | None] | None) -> None:
        """`data` is a part of the memory `of`: on the axes of its array at these indices, if `of` is that array as it is."""
        if indices is not None:
            self.indexed.setdefault(of, set()).add(tuple(index is not None for index in indices))
            self.origins[data] = Origin(of, tuple(None if index is None else index_of(index) for index in indices))
        else:
            self.origins[data] = self.origin(of)

    def origin(self, data: str) -> Origin | None:
        given = next((a for a in self.arrays if a.name == data), None)
        if given is None:
            return self.origins.get(data)
        self.indexed.setdefault(data, set()).add((False,) * given.ndim)
        return Origin(data, (None,) * given.ndim)

    def memory(self, data: str, is_written: bool = False) -> None:
        """A part of an array is read or written."""
        origin = self.origin(data)
        self.are_known &= origin is not None
        if origin is not None:
            self.note(origin, is_written)

    def moved(self, target: str, data: str) -> None:
        """A C variable is set to where some memory is: always the same part of an array, or it is not known."""
        origin = self.origin(data)
        self.are_known &= self.origins.get(target, origin) == origin
        self.origins[target] = origin

    def in_columns(self) -> list[ArrayInput]:
        """The matrices of which the loop only reads columns, or lanes do, whose elements do not lie side by side."""
        seen = {a.name: self.indexed.get(a.name) for a in self.arrays if a.is_contiguous and not a.made}
        return [
            a
            for a in self.arrays
            if seen.get(a.name) == {(False, True)} or a.name in self.in_lanes and seen.get(a.name) == {(True, True)}
            if not any(is_written for _, is_written in self.found.get(a.name, ()))
        ]

    def reads_what_it_writes(self) -> bool:
        """Is anything read of an array that is written?"""
        return any(len({is_written for _, is_written in places}) > 1 for places in self.found.values())

    def written(self) -> list[Written] | None:
        """The arrays that are written; None where iterations may touch what others write."""
        made = []
        if any(is_written for _, is_written in self.found.get(MADE_BEFORE, ())):
            return None
        for a in self.arrays:
            found = self.found.get(a.name, set())
            if any(is_written for _, is_written in found):
                axes = range(a.ndim)
                proved = next((w for axis in axes if (w := self.apart_on(a, axis, found)) is not None), None)
                proved = proved or next((w for p in combinations(axes, 2) if (w := self.pairs(a, p, found)) is not None), None)
                if proved is None or a.made and MADE_BEFORE in self.found:
                    return None
                made.append(proved)
        return made if self.are_known else None

    def apart_on(self, array: ArrayInput, axis: int, found: set[tuple[Places, bool]]) -> Written | None:
        writes = [places for places, is_written in found if is_written]
        index = writes[0][axis]
        if not isinstance(index, Index) or not index.step(self.moving) or any(places[axis] != index for places in writes):
            return None
        read = [places[axis] for places, is_written in found if not is_written and places[axis] != index]
        others = [i for i in dict.fromkeys(read) if isinstance(i, Index) and i.stays(self.moving)]
        if len(others) < len(set(read)):
            return None
        common = tuple(at[0] if len(set(at)) == 1 and isinstance(at[0], Index) else None for at in zip(*writes))
        return Written(array, {axis: index}, common, tuple(others))

    def pairs(self, array: ArrayInput, axes: tuple[int, int], found: set[tuple[Places, bool]]) -> Written | None:
        """Every element has a pair of indices on these axes: the iteration's, and it again or one that goes on from there."""
        pairs = [{places[axis] for axis in axes} for places, _ in found]
        own = [i for pair in pairs for i in pair if isinstance(i, Index)]
        index = own[0] if own else None
        if index is None or not index.step(self.moving) or any(i != index for i in own):
            return None
        for other in (i for pair in pairs for i in pair if i != index):
            if not isinstance(other, Inner) or other.start.terms != index.terms or other.start.constant < index.constant:
                return None
        if not all(index in pair for pair in pairs):
            return None
        return Written(array, dict.fromkeys(axes, index), (None,) * array.ndim, ())


def index_of(integer: Integer) -> Index | None:
    if integer.terms is None:
        return None
    return Index(tuple((name, factor) for name, factor in integer.terms if factor), integer.constant)
