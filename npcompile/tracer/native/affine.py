"""Sums of sizes and of integers that a program is given: what says that an index is within the bounds of an array.

A name stands for what the size, or the variable, was when the program began, which stays whatever happens to the variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_TERMS = 3
LARGEST = 2**32  # factors and constants
MOST_KNOWN = 6  # sums between which a value is known to be
STOPS = (-2, -1, 0, 1)  # constants where sums that loops widen come to a stop


@dataclass(frozen=True, slots=True, order=True)
class Linear:
    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0


Sums = frozenset[Linear]


def size(array: str, axis: int) -> Linear:
    return Linear(((f"{array}#{axis}", 1),))


def given(variable: str) -> Linear:
    """An integer, of either sign."""
    return Linear(((variable, 1),))


def added(a: Linear, b: Linear, sign: int = 1) -> Linear:
    terms = dict(a.terms)
    for name, factor in b.terms:
        terms[name] = terms.get(name, 0) + sign * factor
    return Linear(tuple(sorted((n, f) for n, f in terms.items() if f)), a.constant + sign * b.constant)


def is_at_most(a: Linear, b: Linear) -> bool:
    """Whatever the sizes are?"""
    rest = added(b, a, -1)
    return rest.constant >= 0 and all("#" in name and factor > 0 for name, factor in rest.terms)


def least_of(a: Linear) -> int | None:
    """What it is at least."""
    return a.constant if is_at_most(Linear((), a.constant), a) else None


def most_of(a: Linear) -> int | None:
    return a.constant if is_at_most(a, Linear((), a.constant)) else None


def kept(sums: Iterable[Linear], sign: int) -> Sums:
    """A few of them, those of the fewest terms. `sign`: 1 where they are above a value, -1 below it. Constants are left out."""
    closest: dict[tuple[tuple[str, int], ...], int] = {}
    for a in sums:
        if a.terms and len(a.terms) <= MOST_TERMS and all(abs(x) <= LARGEST for x in (a.constant, *(f for _, f in a.terms))):
            closest[a.terms] = sign * min(sign * a.constant, sign * closest.get(a.terms, a.constant))
    found = sorted((Linear(*a) for a in closest.items()), key=lambda a: (len(a.terms), a))
    return frozenset(found[:MOST_KNOWN])


def in_both(one: Iterable[Linear], other: Iterable[Linear], sign: int) -> Sums:
    """Those of either that are known of both."""

    def are_known(wanted: Linear, sums: list[Linear]) -> bool:
        return any(is_at_most(*((a, wanted) if sign > 0 else (wanted, a))) for a in sums)

    first, second = [*one], [*other]
    if not first or not second or not any(a.terms for a in (*first, *second)):
        return frozenset()
    return kept((a for a in {*first, *second} if are_known(a, first) and are_known(a, second)), sign)


def widened(old: Sums, new: Sums, sign: int) -> Sums:
    """The new sums, which change only so often while loops are followed."""

    def stop(a: Linear) -> Linear | None:
        ends = [c for c in STOPS if sign * a.constant <= c]
        is_small = all(abs(factor) <= 2 for _, factor in a.terms)
        return Linear(a.terms, sign * ends[0]) if ends and is_small else None

    found = (a if a in old else stop(a) for a in new)
    return kept((a for a in found if a is not None), sign)


def scaled(a: Linear, by: int) -> Linear:
    return Linear(tuple((name, factor * by) for name, factor in a.terms), a.constant * by)


def divided(a: Linear, by: int) -> Linear | None:
    """The sum divided by a positive number and rounded down, if that is such a sum."""
    if any(factor % by for _, factor in a.terms):
        return None
    return Linear(tuple((name, factor // by) for name, factor in a.terms), a.constant // by)
