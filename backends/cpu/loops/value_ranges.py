"""What is known of an integer while the program that computes it is written: its bounds, and what it is a sum of.

Bounds say which overflows cannot happen. A sum of variables that stay as they are while a loop runs, and of the loop's own
variable, is an index whose values are all known before the loop begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SMALL = 2**48  # variables in sums are no larger, or the sums are not relied on: with these factors they need no more than 64 bits
LARGEST_FACTOR = 2**12
LARGEST_CONSTANT = 2**60


@dataclass(frozen=True, slots=True)
class Integer:
    """`least` to `most`. With `terms` it is a sum: of `constant` and of C variables times factors."""

    least: int
    most: int
    terms: tuple[tuple[str, int], ...] | None = None
    constant: int = 0
    checks: frozenset[int] = frozenset()  # lines that test additions for overflow: none can, where all variables are small
    is_reduced: bool = False  # by a mask or a remainder: its bounds are those that the user meant

    def fits(self, least: int, most: int) -> bool:
        return least <= self.least and self.most <= most


def constant(value: int) -> Integer:
    return Integer(value, value, (), value)


def summed(a: Integer, b: Integer, sign: int) -> Integer:
    ends = (b.least, b.most) if sign > 0 else (-b.most, -b.least)
    made = Integer(a.least + ends[0], a.most + ends[1])
    if a.terms is None or b.terms is None:
        return made
    terms = dict(a.terms)
    for name, factor in b.terms:
        terms[name] = terms.get(name, 0) + sign * factor  # one that is 0 now stays: its variable has to be small all the same
    return sum_of(made, terms, a.constant + sign * b.constant, a.checks | b.checks)


def sum_of(bounds: Integer, terms: dict[str, int], constant: int, checks: frozenset[int]) -> Integer:
    if abs(constant) > LARGEST_CONSTANT or sum(map(abs, terms.values())) > LARGEST_FACTOR:
        return bounds
    return Integer(bounds.least, bounds.most, tuple(sorted(terms.items())), constant, checks)


def multiplied(a: Integer, b: Integer) -> Integer:
    ends = [x * y for x in (a.least, a.most) for y in (b.least, b.most)]
    made = Integer(min(ends), max(ends))
    if a.terms is None or b.terms is None or a.terms and b.terms:
        return made
    many, one = (a, b) if a.terms else (b, a)
    return sum_of(made, {n: f * one.constant for n, f in many.terms or ()}, many.constant * one.constant, many.checks)


def floor_divided(a: Integer, b: Integer) -> Integer | None:
    if b.least < 0 or b.most == 0:
        return None
    ends = [x // y for x in (a.least, a.most) for y in (max(b.least, 1), b.most)]
    return Integer(min(ends), max(ends))


def remainder(a: Integer, b: Integer) -> Integer | None:
    if b.least < 0 or b.most == 0:  # by 0 there is none
        return None
    most = min(a.most, b.most - 1) if a.least >= 0 else b.most - 1
    return Integer(0, most, is_reduced=b.least == b.most)


def masked(a: Integer, b: Integer) -> Integer | None:
    most = [x.most for x in (a, b) if x.least >= 0]
    return Integer(0, min(most), is_reduced=min(most) < 2**32) if most else None


def joined(a: Integer, b: Integer) -> Integer | None:
    """The bits of either: `|` and `^`."""
    if a.least < 0 or b.least < 0:
        return None
    return Integer(0, 2 ** max(a.most.bit_length(), b.most.bit_length()) - 1, is_reduced=a.is_reduced and b.is_reduced)


def shifted_left(a: Integer, b: Integer) -> Integer | None:
    if not 0 <= b.least <= b.most < 64:
        return None
    ends = [x << y for x in (a.least, a.most) for y in (b.least, b.most)]
    return Integer(min(ends), max(ends))


def shifted_right(a: Integer, b: Integer) -> Integer | None:
    if not 0 <= b.least <= b.most < 64:
        return None
    ends = [x >> y for x in (a.least, a.most) for y in (b.least, b.most)]
    return Integer(min(ends), max(ends), is_reduced=b.least > 0 and a.fits(0, 2**32 - 1))


RULES: dict[str, Callable[[Integer, Integer], Integer | None]] = {
    "add": lambda a, b: summed(a, b, 1),
    "subtract": lambda a, b: summed(a, b, -1),
    "multiply": multiplied,
    "floor_divide": floor_divided,
    "remainder": remainder,
    "bitwise_and": masked,
    "bitwise_or": joined,
    "bitwise_xor": joined,
    "left_shift": shifted_left,
    "right_shift": shifted_right,
}


def divided(op: str, a: str, b: str, x: Integer, y: Integer, is_near: bool = False) -> str:
    """A quotient or remainder, rounded down; x and y are what is known of a and b, and b is not 0.

    `is_near`: it is a remainder, and a is likely at most one b away from it.
    """
    if y.least == y.most > 0 and y.least & (y.least - 1) == 0:  # bits round down, whatever the sign
        return f"{a} >> {y.least.bit_length() - 1}" if op == "floor_divide" else f"{a} & INT64_C({y.least - 1})"
    if is_near:
        return f"npc_near_mod({a}, {b})"
    if x.least >= 0 and y.least >= 0:
        return f"{a} {'/' if op == 'floor_divide' else '%'} {b}"
    return f"{'npc_floordiv' if op == 'floor_divide' else 'npc_mod'}({a}, {b})"
