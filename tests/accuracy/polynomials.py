"""The polynomials of backends/cpu/vector_math.py: `python -m tests.accuracy.polynomials` fits them and prints their coefficients.

They have the least squares of the function's relative error at Chebyshev's points, which is near the least maximum. Coefficients
are rounded one after another, the first first, and those that remain are fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
from mpmath import mp, mpf

mp.prec = 240
DIGITS = {"f8": 53, "f4": 24}  # of a number's significand
HALF_LN2 = mpmath.log(2) / 2 * mpf("1.0001")
HALF_OCTAVE = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1) * mpf("1.0001")


@dataclass(frozen=True)
class Wanted:
    """P(x) for which `whole(x, P(x))` is the function, where `whole` is linear in P: a + P b."""

    function: Callable[[mpf], mpf]
    rest: Callable[[mpf], tuple[mpf, mpf]]  # x -> a, b
    first: mpf
    last: mpf
    terms: dict[str, int]  # dtype -> how many
    of_square: bool = False  # is P one of x^2?


def powers_of(x: mpf, wanted: Wanted, terms: int) -> list[mpf]:
    base = x * x if wanted.of_square else x
    return [base**k for k in range(terms)]


WANTED = {
    # exp(r) = 1 + r + r^2 P(r)
    "EXP": Wanted(mpmath.exp, lambda r: (1 + r, r * r), -HALF_LN2, HALF_LN2, {"f8": 10, "f4": 5}),
    # exp(r) - 1 = r + r^2 P(r)
    "EXPM1": Wanted(mpmath.expm1, lambda r: (r, r * r), -HALF_LN2, HALF_LN2, {"f8": 11, "f4": 6}),
    # 2^r = 1 + r P(r)
    "EXP2": Wanted(lambda r: mpf(2) ** r, lambda r: (mpf(1), r), mpf("-0.5001"), mpf("0.5001"), {"f8": 12, "f4": 7}),
    # log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2)
    "LOG": Wanted(
        lambda s: 2 * mpmath.atanh(s), lambda s: (2 * s, s**3), mpf(0), HALF_OCTAVE, {"f8": 7, "f4": 4}, of_square=True
    ),
    # the same, less 2/3 s^3: 2 s + 2/3 s^3 + s^5 P(s^2), for powers, to 68 bits
    "POW": Wanted(
        lambda s: 2 * mpmath.atanh(s), lambda s: (2 * s + 2 * s**3 / 3, s**5), mpf(0), HALF_OCTAVE, {"f8": 8}, of_square=True
    ),
    # sin(r) = r + r^3 P(r^2)
    "SIN": Wanted(mpmath.sin, lambda r: (r, r**3), mpf(0), mp.pi / 4 * mpf("1.0001"), {"f8": 6, "f4": 3}, of_square=True),
    # cos(r) = 1 - r^2 / 2 + r^4 P(r^2)
    "COS": Wanted(
        mpmath.cos, lambda r: (1 - r * r / 2, r**4), mpf(0), mp.pi / 4 * mpf("1.0001"), {"f8": 6, "f4": 3}, of_square=True
    ),
}


def rounded(x: mpf, digits: int) -> mpf:
    with mp.workprec(digits):
        return +x


def relative(wanted: Wanted, x: mpf, value: mpf) -> mpf:
    a, b = wanted.rest(x)
    return (a + b * value) / wanted.function(x) - 1


def grid(wanted: Wanted, count: int) -> list[mpf]:
    """Without 0 itself, where the function or what P is multiplied by may vanish."""
    middle, half = (wanted.first + wanted.last) / 2, (wanted.last - wanted.first) / 2
    points = [middle - half * mpmath.cos(mp.pi * (k + mpf(1) / 2) / count) for k in range(count)]
    return [x for x in points if abs(x) > mpf(2) ** -40]


def least_squares(wanted: Wanted, known: Sequence[mpf], terms: int) -> list[mpf]:
    """The coefficients after those that are known."""
    points = grid(wanted, 8 * terms)
    matrix, right = mpmath.matrix(len(points), terms - len(known)), mpmath.matrix(len(points), 1)
    for k, x in enumerate(points):
        (a, b), f, powers = wanted.rest(x), wanted.function(x), powers_of(x, wanted, terms)
        right[k] = 1 - (a + b * sum(c * p for c, p in zip(known, powers))) / f
        for j, p in enumerate(powers[len(known) :]):
            matrix[k, j] = b * p / f
    return list(mpmath.lu_solve(matrix, right))


def fitted(name: str, dtype: str) -> list[mpf]:
    wanted = WANTED[name]
    known: list[mpf] = []
    while len(known) < wanted.terms[dtype]:
        known.append(rounded(least_squares(wanted, known, wanted.terms[dtype])[0], DIGITS[dtype]))
    return known


def error_of(name: str, coefficients: Sequence[mpf]) -> mpf:
    """The largest relative error of the function that a polynomial makes, were it computed exactly."""
    wanted = WANTED[name]
    points = grid(wanted, 2000)
    values = [sum(c * p for c, p in zip(coefficients, powers_of(x, wanted, len(coefficients)))) for x in points]
    return max(abs(relative(wanted, x, value)) for x, value in zip(points, values))


def main() -> None:
    for name, wanted in WANTED.items():
        for dtype in wanted.terms:
            found = fitted(name, dtype)
            texts = " ".join(float(c).hex() for c in found)
            print(f"{name} {dtype}  # 2^{mpmath.nstr(mpmath.log(error_of(name, found), 2), 4)}\n    {texts}", flush=True)


if __name__ == "__main__":
    main()
