"""Integers of a program as sums of others with constant factors, and between which such sums they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEAST, GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` and the sum of `factor * atom`; an atom is a value of the program."""

    constant: int
    factors: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Affine) -> Affine:
        factors = dict(self.factors)
        for atom, factor in other.factors.items():
            factors[atom] = factors.get(atom, 0) + factor
        return Affine(self.constant + other.constant, {atom: factor for atom, factor in factors.items() if factor})

    def __mul__(self, factor: int) -> Affine:
        return Affine(self.constant * factor, {atom: f * factor for atom, f in self.factors.items()} if factor else {})

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1

    def plus(self, constant: int) -> Affine:
        return Affine(self.constant + constant, self.factors)

    def without(self, atom: int) -> Affine:
        return Affine(self.constant, {other: factor for other, factor in self.factors.items() if other != atom})


def atom_of(value: int) -> Affine:
    return Affine(0, {value: 1})


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which sums of earlier atoms an atom lies. `depth`: how many atoms there were before it."""

    low: Affine
    high: Affine
    depth: int


@dataclass(slots=True)
class Ranges:
    """What is known of the integers of a program, where a pass stands."""

    forms: dict[int, Affine] = field(default_factory=dict)
    bounds: dict[int, Bounds] = field(default_factory=dict)

    def form(self, value: int) -> Affine:
        """The sum that a value is: itself, where nothing else is known."""
        found = self.forms.get(value)
        if found is None:
            found = self.atom(value, Affine(LEAST), Affine(GREATEST))
        return found

    def atom(self, value: int, low: Affine, high: Affine) -> Affine:
        self.bounds[value] = Bounds(low, high, len(self.bounds))
        form = self.forms[value] = atom_of(value)
        return form

    def least(self, form: Affine, after: int = 0) -> Affine:
        """A sum of atoms made before the `after`-th that `form` is never below: later atoms are replaced by their bounds."""
        while True:
            latest = max(form.factors, key=lambda atom: self.bounds[atom].depth, default=None)
            if latest is None or self.bounds[latest].depth < after:
                return form
            factor, bounds = form.factors[latest], self.bounds[latest]
            form = form.without(latest) + (bounds.low if factor > 0 else bounds.high) * factor
