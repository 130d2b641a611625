"""Which elements of arrays an iteration of a loop reads and writes, and whether other iterations touch none that it writes.

Indices are sums of the loop's own variables and of what stays as it is while the loop runs, where that is known. Of each array
that is written, all that the loop reads or writes must then have one and the same index on some axis, another one in each
iteration. What it reads of that array at an index that stays must lie elsewhere: that is asked when the loop begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npcompile.backends.cpu.elements import ArrayInput
from npcompile.backends.cpu.integers import Integer


@dataclass(frozen=True, slots=True)
class Index:
    """The sum of a constant and of C variables times factors."""

    terms: tuple[tuple[str, int], ...]
    constant: int

    def moves(self, moving: Sequence[str]) -> bool:
        return any(name in moving for name, _ in self.terms)

    def text(self, values: dict[str, str]) -> str:
        """As C, where some of the variables have these values."""
        terms = [f"{factor} * ({values.get(name, name)})" for name, factor in self.terms]
        return " + ".join([*terms, f"INT64_C({self.constant})"])


Places = tuple[Index | None, ...]  # on each axis of an array; None is anywhere


@dataclass(frozen=True, slots=True)
class Written:
    """An array that is written, `axis` the one on which iterations are apart."""

    array: ArrayInput
    axis: int
    places: Places  # of all that is written
    others: tuple[Index, ...]  # where it is read besides, on that axis

    @property
    def index(self) -> Index:
        found = self.places[self.axis]
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class Origin:
    """Of memory: which elements of which array it is. An array without a name is one that the iteration made for itself."""

    array: str
    places: Places


OWN = Origin("", ())


@dataclass(slots=True)
class Accesses:
    """What the loop's body was seen to read and write while it was written. `moving` are the loop's own variables."""

    arrays: list[ArrayInput]
    moving: tuple[str, ...]
    found: dict[str, set[tuple[Places, bool]]] = field(default_factory=dict)  # array -> where, and is it written there?
    origins: dict[str, Origin | None] = field(default_factory=dict)  # of memory: C variables of its first byte
    are_known: bool = True  # was all memory that is read or written some part of an array?

    def element(self, array: ArrayInput, indices: Sequence[Integer], is_written: bool) -> None:
        self.note(Origin(array.name, tuple(map(index_of, indices))), is_written)

    def note(self, origin: Origin, is_written: bool) -> None:
        if origin is not OWN:
            self.found.setdefault(origin.array, set()).add((origin.places, is_written))

    def view(self, data: str, of: str, indices: Sequence[Integer | None] | None) -> None:
        """`data` is a part of the memory `of`: on the axes of its array at these indices, if `of` is that array as it is."""
        if indices is not None:
            self.origins[data] = Origin(of, tuple(None if index is None else index_of(index) for index in indices))
        else:
            self.origins[data] = self.origin(of)

    def origin(self, data: str) -> Origin | None:
        given = next((a for a in self.arrays if a.name == data), None)
        return Origin(data, (None,) * given.ndim) if given is not None else self.origins.get(data)

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

    def written(self) -> list[Written] | None:
        """The arrays that are written; None where iterations may touch what others write."""
        made = []
        given = {a.name for a in self.arrays}
        if any(is_written for name, found in self.found.items() if name not in given for _, is_written in found):
            return None
        for a in self.arrays:
            found = self.found.get(a.name, set())
            if any(is_written for _, is_written in found):
                proved = next((w for axis in range(a.ndim) if (w := self.apart_on(a, axis, found)) is not None), None)
                if proved is None:
                    return None
                made.append(proved)
        return made if self.are_known else None

    def apart_on(self, array: ArrayInput, axis: int, found: set[tuple[Places, bool]]) -> Written | None:
        writes = [places for places, is_written in found if is_written]
        index = writes[0][axis]
        if index is None or not index.moves(self.moving) or any(places[axis] != index for places in writes):
            return None
        read = [places[axis] for places, is_written in found if not is_written and places[axis] != index]
        others = [i for i in dict.fromkeys(read) if i is not None and not i.moves(self.moving)]
        if len(others) < len(set(read)):
            return None
        common = tuple(places[0] if len(set(places)) == 1 else None for places in zip(*writes))
        return Written(array, axis, common, tuple(others))


def index_of(integer: Integer) -> Index | None:
    if integer.terms is None:
        return None
    return Index(tuple((name, factor) for name, factor in integer.terms if factor), integer.constant)
