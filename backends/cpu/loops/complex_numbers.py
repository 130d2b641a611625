"""Complex numbers of native loops: pairs of floating-point numbers, calculated as CPython and NumPy's scalars do it, to the bit.

Both multiply and divide by formulas of their own, which C compilers' `*` and `/` are not: these look for infinities. What is not
finite is left to Python, where something is to be reported or may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import numpy as np

from npcompile.backends.cpu.elements import PART_OF_COMPLEX
from npcompile.backends.cpu.loops.speculation import Strip

Fail = Callable[[], str]
ONE_PLUS, ONE_MINUS = 1 + 2.0**-52, 1 - 2.0**-53
LARGEST_POWER = 16  # that is written out
SUFFIXES = {"f4": "f", "c8": "f"}  # of libm's names and of literals


class Code(Protocol):
    """The program that is written."""

    parts: dict[str, tuple[str, str]]
    strip: Strip | None

    def new(self, kind: str, text: str) -> str: ...
    def converted(self, value: str, kind: str, to: str, fail: Fail) -> str: ...
    def stored(self, value: str, kind: str, to: str, fail: Fail) -> str: ...
    def leave_if(self, condition: str, fail: Fail) -> None: ...
    def float_binary(self, op: str, kind: str, a: str, b: str, fail: Fail) -> str: ...
    def negative(self, kind: str, a: str, fail: Fail) -> str: ...
    def choose(self, kind: str, condition: str, a: str, b: str) -> str: ...
    def function(self, name: str, kind: str, arguments: Sequence[str], fail: Fail) -> str: ...


@cache
def rounds_products() -> bool:
    """Do CPython and NumPy's scalars round both products before they add them? Compilers fuse them for some processors."""
    x, y = complex(ONE_PLUS, ONE_MINUS), complex(ONE_PLUS, ONE_PLUS)
    wanted = complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)
    return x * y == wanted and complex(np.complex128(x) * np.complex128(y)) == wanted


def parts(code: Code, text: str, kind: str) -> tuple[str, str]:
    """(real, imaginary)"""
    known = code.parts.get(text)
    if known is not None:
        return known
    part = PART_OF_COMPLEX[kind]
    return code.new(part, f"__real__ {text}"), code.new(part, f"__imag__ {text}")


def paired(code: Code, kind: str, re: str, im: str) -> str:
    made = code.new(kind, f"__builtin_complex({re}, {im})")
    code.parts[made] = re, im
    return made


def zero(kind: str) -> str:
    return f"0x0p+0{SUFFIXES.get(kind, '')}"


def one(kind: str) -> str:
    return f"0x1p+0{SUFFIXES.get(kind, '')}"


def of_parts(code: Code, kind: str, part: str, re: str, im: str, fail: Fail, is_stored: bool = False) -> str:
    """A number of that kind, of parts of another. Cast as an assignment does, or as an operator."""
    to = PART_OF_COMPLEX[kind]
    cast = code.stored if is_stored else code.converted
    return paired(code, kind, cast(re, part, to, fail), cast(im, part, to, fail))


def converted(code: Code, text: str, kind: str, to: str, fail: Fail, is_stored: bool = False) -> str:
    if kind == to:
        return text
    if kind in PART_OF_COMPLEX:
        return of_parts(code, to, PART_OF_COMPLEX[kind], *parts(code, text, kind), fail, is_stored)
    part = PART_OF_COMPLEX[to]
    re = code.stored(text, kind, part, fail) if is_stored else code.converted(text, kind, part, fail)
    return paired(code, to, re, zero(part))


def require_finite(code: Code, values: Sequence[str], part: str, carried: Sequence[str], fail: Fail) -> None:
    """Leave where one of them is not finite. That is so wherever one of `carried` is not."""
    if code.strip is not None:
        for value in values:
            code.strip.not_finite(value, part, carried)
    else:
        code.leave_if(" || ".join(f"!__builtin_isfinite({value})" for value in values), fail)


def by_parts(op: str) -> Callable[[Code, str, str, str, Fail], str]:
    def meaning(code: Code, kind: str, a: str, b: str, fail: Fail) -> str:
        part, pairs = PART_OF_COMPLEX[kind], zip(parts(code, a, kind), parts(code, b, kind))
        return paired(code, kind, *(code.float_binary(op, part, x, y, fail) for x, y in pairs))

    return meaning


def rounded(a: str, b: str) -> str:
    """A product that compilers do not fuse with what is added in one part, and subtracted in the other."""
    return f"NPC_ROUNDED({a} * {b})"


def product(code: Code, kind: str, a: str, b: str, fail: Fail) -> str:
    part, (ar, ai), (br, bi) = PART_OF_COMPLEX[kind], parts(code, a, kind), parts(code, b, kind)
    re = code.new(part, f"{rounded(ar, br)} - {rounded(ai, bi)}")
    im = code.new(part, f"{rounded(ar, bi)} + {rounded(ai, br)}")
    if kind != "complex":  # of Python's nothing is reported
        require_finite(code, [re, im], part, [ar, ai, br, bi], fail)
    return paired(code, kind, re, im)


def quotient(code: Code, kind: str, a: str, b: str, fail: Fail) -> str:
    """Smith's algorithm. Python divides by the denominator (Objects/complexobject.c), NumPy multiplies by its reciprocal."""
    part, (ar, ai), (br, bi) = PART_OF_COMPLEX[kind], parts(code, a, kind), parts(code, b, kind)
    s = SUFFIXES.get(part, "")
    is_real = code.new("bool", f"fabs{s}({br}) >= fabs{s}({bi})")
    if code.strip is None:
        code.leave_if(f"{br} == 0 && {bi} == 0", fail)
    larger, smaller = (code.new(part, f"{is_real} ? {x} : {y}") for x, y in ((br, bi), (bi, br)))
    u, v = (code.new(part, f"{is_real} ? {x} : {y}") for x, y in ((ar, ai), (ai, ar)))
    ratio = code.new(part, f"{smaller} / {larger}")  # NaN where the divisor is zero, and so is the result
    denominator = code.new(part, f"{larger} + {rounded(smaller, ratio)}")
    re, scaled = code.new(part, f"{u} + {rounded(v, ratio)}"), code.new(part, rounded(u, ratio))
    im = code.new(part, f"{is_real} ? {v} - {scaled} : {scaled} - {v}")
    if kind == "complex":
        divided = [code.new(part, f"{x} / {denominator}") for x in (re, im)]
    else:
        scale = code.new(part, f"{one(part)} / {denominator}")
        divided = [code.new(part, f"{x} * {scale}") for x in (re, im)]
    require_finite(code, [*divided, denominator], part, [], fail)
    return paired(code, kind, *divided)


OPERATIONS = {"add": by_parts("add"), "subtract": by_parts("subtract"), "multiply": product, "divide": quotient}


def power(code: Code, kind: str, a: str, exponent: int, fail: Fail) -> str:
    """As c_powi in CPython's complexobject.c, and npy_cpow in numpy/_core/src/npymath/npy_math_complex.c.src."""
    assert 1 <= exponent <= LARGEST_POWER
    part = PART_OF_COMPLEX[kind]
    unit = paired(code, kind, one(part), zero(part))
    made, square, mask = unit, a, 1
    if kind != "complex" and exponent <= 3:
        made = a
        for _ in range(exponent - 1):
            made = product(code, kind, a, made, fail)
    else:
        while mask <= exponent:
            if exponent & mask:
                made = product(code, kind, made, square, fail)
            mask <<= 1
            if mask <= exponent:
                square = product(code, kind, square, square, fail)
    re, im = parts(code, made, kind)
    if kind == "complex":  # an OverflowError
        require_finite(code, [re, im], part, [], fail)
        return made
    x, y = parts(code, a, kind)  # zero is zero, whatever its signs
    is_zero = code.new("bool", f"{x} == 0 && {y} == 0")
    return paired(code, kind, *(code.new(part, f"{is_zero} ? {zero(part)} : {v}") for v in (re, im)))


def negative(code: Code, kind: str, a: str, fail: Fail) -> str:
    return paired(code, kind, *(code.negative(PART_OF_COMPLEX[kind], x, fail) for x in parts(code, a, kind)))


def conjugate(code: Code, kind: str, a: str, fail: Fail) -> str:
    re, im = parts(code, a, kind)
    return paired(code, kind, re, code.negative(PART_OF_COMPLEX[kind], im, fail))


def choose(code: Code, kind: str, condition: str, a: str, b: str) -> str:
    """By parts: compilers make vectors of these."""
    pairs = zip(parts(code, a, kind), parts(code, b, kind))
    return paired(code, kind, *(code.choose(PART_OF_COMPLEX[kind], condition, x, y) for x, y in pairs))


def modulus(code: Code, kind: str, a: str, fail: Fail) -> str:
    """abs()"""
    return code.function("hypot", PART_OF_COMPLEX[kind], parts(code, a, kind), fail)
