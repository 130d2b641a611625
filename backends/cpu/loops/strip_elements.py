"""Elements that a strip of iterations reads and stores: what is known of their places before it begins."""

from __future__ import annotations

from dataclasses import dataclass

from npcompile.backends.cpu.elements import ArrayInput


@dataclass(slots=True, eq=False)
class Group:
    """Indices of an axis that differ by constants: `low` to `high` are added to the value of `terms`."""

    name: str  # of C variables: {name}_at is the value of the terms in the first iteration, {name}_from what is added to all
    size: str
    terms: tuple[tuple[str, int], ...]
    moves: int  # from one iteration to the next
    low: int
    high: int
    least: str = ""  # what loops inside add, as C: from this
    most: str = ""  # to that

    @property
    def lowest(self) -> str:
        """The least position in the first iteration."""
        return f"{self.name}_at{self.least} + INT64_C({self.low})"

    @property
    def highest(self) -> str:
        return f"{self.name}_at{self.most} + INT64_C({self.high})"

    @property
    def may_count_from_the_end(self) -> bool:
        return self.moves <= 0 if self.terms else self.low < 0

    @property
    def begin(self) -> str:
        """What is added to an index."""
        return f" + {self.name}_from" if self.may_count_from_the_end else ""


@dataclass(frozen=True, slots=True)
class Outer:
    """The loop around that of a strip, which does nothing but begin it again: its iterations are rows."""

    variable: str  # the C variable that holds the row, if there is one
    next: str
    stop: str
    step: int
    start: str  # the C variable that holds where the loop inside begins, which is the same in all rows

    def moves(self, group: Group) -> int:
        """How far indices go from one row to the next."""
        return dict(group.terms).get(self.variable, 0) * self.step


@dataclass(frozen=True, slots=True)
class Place:
    """A position on an axis that is known of every iteration."""

    group: Group
    constant: int

    def at(self, k: str) -> str:
        """The position in iteration k of the strip."""
        g = self.group
        moved = f" + {k} * {g.moves}" if g.moves else ""
        return f"({g.name}_at + INT64_C({self.constant}){g.begin}{moved})"

    def follows(self, other: Place) -> bool:
        """Is it where the other is an iteration later?"""
        return self.group is other.group and self.constant == other.constant + other.group.moves

    def is_never(self, other: Place) -> bool:
        """Are they different positions that stay?"""
        return self.group is other.group and not self.group.moves and self.constant != other.constant


@dataclass(slots=True)
class Load:
    """Where the program reads an element at known places: `value` is the C variable for it."""

    line: int
    value: str
    kind: str
    array: ArrayInput
    places: list[Place]

    @property
    def first(self) -> str:
        """The element in the first iteration of the strip."""
        return self.array.element([place.at("0") for place in self.places])

    def follows(self, other: Load) -> bool:
        """Does it read what the other reads an iteration later?"""
        moves = any(place.group.moves for place in self.places)
        return moves and self.array is other.array and all(new.follows(old) for new, old in zip(self.places, other.places))


@dataclass(slots=True)
class Store:
    """Where the program stores: the element, and the same as each iteration of the strip has it, if that is known."""

    line: int
    element: str
    kind: str
    value: str
    array: ArrayInput
    places: list[Place] | None

    def iteration(self, k: str) -> str:
        """The element in an iteration of the strip."""
        assert self.places is not None
        return self.array.at([place.at(k) for place in self.places])

    def is_never_at(self, load: Load) -> bool:
        """Are they in different rows, or columns, in all iterations?"""
        return self.places is not None and any(new.is_never(old) for new, old in zip(self.places, load.places))

    @property
    def stays(self) -> bool:
        """Is it the same element in all iterations? It is kept once."""
        return self.places is not None and not any(place.group.moves for place in self.places)
