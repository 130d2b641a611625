"""Integers of a program as sums of others with constant factors, and between which such sums they lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEAST, GREATEST = -(2**63), 2**63 - 1


@dataclass(slots=True)
class Affine:
    """`constant` and the sum of `factor * atom`; an atom is a value of the program. Nobody changes one."""

    constant: int
    factors: Mapping[int, int] = field(default_factory=dict)

    def __add__(self, other: Affine) -> Affine:
        if not other.factors:
            return Affine(self.constant + other.constant, self.factors)
        factors = dict(self.factors)
        for atom, factor in other.factors.items():
            total = factors.pop(atom, 0) + factor
            if total:
                factors[atom] = total
        return Affine(self.constant + other.constant, factors)

    def __mul__(self, factor: int) -> Affine:
        if factor == 1:
            return self
        return Affine(self.constant * factor, {atom: f * factor for atom, f in self.factors.items()} if factor else {})

    def __sub__(self, other: Affine) -> Affine:
        if not other.factors:
            return Affine(self.constant - other.constant, self.factors)
        return self + other * -1

    def plus(self, constant: int) -> Affine:
        return Affine(self.constant + constant, self.factors)

    def without(self, atom: int) -> Affine:
        return Affine(self.constant, {other: factor for other, factor in self.factors.items() if other != atom})


WORD = (Affine(LEAST), Affine(GREATEST))  # between what a 64-bit word is


def atom_of(value: int) -> Affine:
    return Affine(0, {value: 1})


@dataclass(slots=True)
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
            found = self.atom(value, *WORD)
        return found

    def atom(self, value: int, low: Affine, high: Affine) -> Affine:
        self.bounds[value] = Bounds(low, high, len(self.bounds))
        form = self.forms[value] = atom_of(value)
        return form

    def least(self, form: Affine, after: int = 0) -> Affine:
        """A sum of atoms made before the `after`-th that `form` is never below: later atoms are replaced by their bounds."""
        bounds = self.bounds
        while form.factors:
            latest, depth = -1, -1
            for atom in form.factors:
                if bounds[atom].depth > depth:
                    latest, depth = atom, bounds[atom].depth
            if depth < after:
                break
            factor, found = form.factors[latest], bounds[latest]
            form = form.without(latest) + (found.low if factor > 0 else found.high) * factor
        return form
