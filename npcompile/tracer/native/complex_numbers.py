"""Complex numbers in a native loop: powers, attributes, and functions of Python's, `cmath`'s and NumPy's. NoForm for others."""

from __future__ import annotations

import cmath
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from npcompile.backends.cpu.elements import PART_OF_COMPLEX
from npcompile.backends.cpu.loops import complex_numbers as c
from npcompile.backends.cpu.loops import elementwise
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops, is_complex
from npcompile.backends.cpu.primitives import KNOWN_EXPONENTS
from npcompile.tracer.native.types import Items, Scalar, promoted

LITERAL = re.compile(r"INT64_C\(-?\d+\)|-?0x.*")  # a number that the program knows
LARGEST_EXPONENT = 708  # cmath.exp computes in another way beyond
SMALLEST = "0x1p-1022"  # of the numbers that have all digits


def require_rounding() -> None:
    if not c.rounds_products():
        raise NoForm("complex numbers where it is not known how products are rounded")


def is_complex_number(value: Any) -> TypeGuard[Scalar]:
    return isinstance(value, Scalar) and is_complex(value.kind)


def complex_of(code: ScalarLoops, value: Any, fail: Fail) -> tuple[Scalar, str, str]:
    """A complex number and its parts. A real number is Python's, as functions of `cmath` take it."""
    if not isinstance(value, Scalar):
        raise NoForm("a complex number is needed")
    x = value if is_complex(value.kind) else Scalar("complex", code.converted(value.text, value.kind, "complex", fail))
    return x, *c.parts(code, x.text, x.kind)


def power(code: ScalarLoops, base: Scalar, exponent: Scalar, fail: Fail) -> Scalar:
    """By a whole number that the program knows."""
    require_rounding()
    digits = exponent.text.removeprefix("INT64_C(").removesuffix(")")
    if exponent.kind != "int" or not digits.isdigit() or not 1 <= int(digits) <= c.LARGEST_POWER:
        raise NoForm("a power of a complex number")
    return Scalar(base.kind, c.power(code, base.kind, base.text, int(digits), fail))


def of_numpys(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """np.power, of which the operator is another function. To a known small exponent it multiplies."""
    base, exponent = map(as_numpy, arguments)
    kinds, result = promoted(np.power, (base.kind, exponent.kind))
    x, y = (code.converted(v.text, v.kind, k, fail) for v, k in zip((base, exponent), kinds))
    if code.is_bitwise or not LITERAL.fullmatch(exponent.text):
        return Scalar(result, elementwise.applied(code, "power", kinds, result, (x, y), fail))
    known = exponent.text.removeprefix("INT64_C(").removesuffix(")")
    if known not in map(str, KNOWN_EXPONENTS[np.dtype(result).itemsize]):
        raise NoForm("a known power of a complex number")
    return Scalar(result, elementwise.power(code, x, result, int(known), fail))


def as_pythons(a: Scalar, b: Scalar) -> tuple[Scalar, Scalar]:
    """The operands: what Python's complex numbers have on their right is theirs, also if it is a float64, which is a float."""
    return a, Scalar("float", b.text) if (a.kind, b.kind) == ("complex", "f8") else b


def part_of(code: ScalarLoops, x: Scalar, name: str) -> Scalar:
    """Its attribute `real` or `imag`."""
    re, im = c.parts(code, x.text, x.kind)
    return Scalar(PART_OF_COMPLEX[x.kind], re if name == "real" else im)


def conjugate(code: ScalarLoops, x: Scalar, fail: Fail) -> Scalar:
    """Its method."""
    return Scalar(x.kind, c.conjugate(code, x.kind, x.text, fail))


def as_numpy(x: Scalar) -> Scalar:
    return Scalar("c16" if x.kind == "complex" else x.kind, x.text)


def one_of(arguments: Sequence[Any]) -> Scalar:
    if len(arguments) != 1 or not is_complex_number(arguments[0]):
        raise NoForm("a function of several numbers, one of them complex")
    found: Scalar = arguments[0]
    return found


def attribute(name: str) -> Callable[..., Scalar]:
    return lambda code, arguments, fail: part_of(code, one_of(arguments), name)


def absolute(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """abs()"""
    x = one_of(arguments)
    return Scalar(PART_OF_COMPLEX[x.kind], c.modulus(code, x.kind, x.text, fail))


def of_numpy(meaning: Callable[..., str]) -> Callable[..., Scalar]:
    """A ufunc whose result is complex too."""

    def made(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        x = as_numpy(one_of(arguments))
        return Scalar(x.kind, meaning(code, x.kind, x.text, fail))

    return made


def tested(name: str, operator: str, result: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        _, re, im = complex_of(code, arguments[0], fail)
        return Scalar(result, code.new("bool", f"__builtin_{name}({re}) {operator} __builtin_{name}({im})"))

    return meaning


def of_type(kind: str) -> Callable[..., Scalar]:
    """A scalar of NumPy's."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        if len(arguments) != 1 or not isinstance(arguments[0], Scalar):
            raise NoForm("a complex scalar of other than one number")
        return Scalar(kind, code.stored(arguments[0].text, arguments[0].kind, kind, fail))

    return meaning


# --- Python's


def made_of(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """complex(x), complex(re, im)"""
    if not 1 <= len(arguments) <= 2 or not all(isinstance(x, Scalar) for x in arguments):
        raise NoForm("complex() of other than one or two numbers")
    if len(arguments) == 2:
        re, im = (code.converted(x.text, x.kind, "float", fail) for x in arguments)
        return Scalar("complex", c.paired(code, "complex", re, im))
    (x,) = arguments
    return Scalar("complex", code.converted(x.text, x.kind, "complex", fail))


def exponential(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """cmath.exp, as Modules/cmathmodule.c has it, which the next functions follow too."""
    (value,) = arguments
    _, re, im = complex_of(code, as_python(code, value, fail), fail)
    code.leave_if(f"!({re} <= {LARGEST_EXPONENT}.0)", fail)
    size = code.function("exp", "float", [re], fail)
    return rotated(code, size, im, fail)


def rotated(code: ScalarLoops, size: str, angle: str, fail: Fail) -> Scalar:
    cos, sin = (code.function(name, "float", [angle], fail) for name in ("cos", "sin"))
    return Scalar("complex", c.paired(code, "complex", *(code.new("float", f"{size} * {x}") for x in (cos, sin))))


def as_python(code: ScalarLoops, value: Any, fail: Fail) -> Scalar:
    if not isinstance(value, Scalar):
        raise NoForm("a number is needed")
    return Scalar("complex", code.converted(value.text, value.kind, "complex", fail))


def root(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """cmath.sqrt of what is not so small that it has fewer digits."""
    (value,) = arguments
    _, re, im = complex_of(code, as_python(code, value, fail), fail)
    x, y = (code.new("float", f"fabs({v})") for v in (re, im))
    code.leave_if(f"!({x} >= {SMALLEST} || {y} >= {SMALLEST})", fail)
    size = code.function("hypot", "float", [code.new("float", f"{x} / 8"), code.new("float", f"{y} / 8")], fail)
    s = code.new("float", f"2 * sqrt({x} / 8 + {size})")
    d = code.new("float", f"{y} / (2 * {s})")
    is_right = code.new("bool", f"{re} >= 0")
    made = [code.new("float", f"{is_right} ? {s} : {d}"), code.new("float", f"copysign({is_right} ? {d} : {s}, {im})")]
    return Scalar("complex", c.paired(code, "complex", *made))


def angle(code: ScalarLoops, x: Scalar, fail: Fail) -> tuple[str, str]:
    """The imaginary part, and the angle."""
    _, re, im = complex_of(code, x, fail)
    return im, code.function("atan2", "float", [im, re], fail)


def phase(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """cmath.phase, which takes a result that has fewer digits for an error."""
    (value,) = arguments
    im, found = angle(code, as_python(code, value, fail), fail)
    code.leave_if(f"{im} && fabs({found}) < {SMALLEST}", fail)
    return Scalar("float", found)


def polar(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Items:
    (value,) = arguments
    x = as_python(code, value, fail)
    return Items((Scalar("float", c.modulus(code, "complex", x.text, fail)), Scalar("float", angle(code, x, fail)[1])))


def rect(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """cmath.rect of a size and an angle that is not zero."""
    size, turn = (code.converted(as_real(x).text, x.kind, "float", fail) for x in arguments)
    code.leave_if(f"{turn} == 0 || !__builtin_isfinite({size})", fail)
    return rotated(code, size, turn, fail)


def as_real(value: Any) -> Scalar:
    if not isinstance(value, Scalar) or is_complex(value.kind):
        raise NoForm("a real number is needed")
    return value


MADE_OF_NUMBERS: dict[Any, Callable[..., Any]] = {  # of real ones too
    complex: made_of,
    np.complex64: of_type("c8"),
    np.complex128: of_type("c16"),
    cmath.exp: exponential,
    cmath.sqrt: root,
    cmath.phase: phase,
    cmath.polar: polar,
    cmath.rect: rect,
    cmath.isnan: tested("isnan", "||", "bool"),
    cmath.isinf: tested("isinf", "||", "bool"),
    cmath.isfinite: tested("isfinite", "&&", "bool"),
}
FUNCTIONS_OF_COMPLEX: dict[Any, Callable[..., Any]] = {
    **MADE_OF_NUMBERS,
    abs: absolute,
    np.power: of_numpys,
    np.real: attribute("real"),
    np.imag: attribute("imag"),
    np.conjugate: of_numpy(c.conjugate),
    np.negative: of_numpy(c.negative),
    np.positive: of_numpy(lambda code, kind, text, fail: text),
    np.isnan: tested("isnan", "||", "b1"),
    np.isinf: tested("isinf", "||", "b1"),
    np.isfinite: tested("isfinite", "&&", "b1"),
}
