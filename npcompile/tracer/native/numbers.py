"""What Python's operators do to numbers in a native loop, and to scalars of NumPy's. NoForm where they do something else."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.backends.cpu.loops import elementwise
from npcompile.backends.cpu.loops.scalar_loops import LIMITS, Fail, NoForm, ScalarLoops, is_complex, is_float
from npcompile.tracer.bytecode.versions import RUNNING
from npcompile.tracer.native.complex_numbers import as_pythons, power, require_rounding
from npcompile.tracer.native.types import Scalar, promoted

OPERATORS: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "**": np.power,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}
COMPARISONS: dict[str, np.ufunc] = dict(
    zip(("<", "<=", "==", "!=", ">", ">="), (np.less, np.less_equal, np.equal, np.not_equal, np.greater, np.greater_equal))
)


def number(value: Any) -> Scalar:
    if not isinstance(value, Scalar):
        raise NoForm(f"a number is needed, not {type(value).__name__}")
    return value


def as_python_int(x: Scalar) -> Scalar:
    """Booleans count as integers in arithmetic."""
    return Scalar("int", x.text) if x.kind == "bool" else x


def as_float(code: ScalarLoops, x: Scalar, fail: Fail) -> Scalar:
    return Scalar("float", code.converted(x.text, x.kind, "float", fail))


def calculated(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Scalar:
    """An operator with two operands."""
    if sign == "@":
        raise NoForm("a product of numbers")
    a, b = number(left), number(right)
    ufunc = OPERATORS[sign]
    name = ufunc.__name__
    if is_complex(a.kind) and name == "power":
        return power(code, a, b, fail)
    if is_complex(a.kind) or is_complex(b.kind):
        require_rounding()
        a, b = as_pythons(a, b)
    if a.is_numpy or b.is_numpy:
        (one, other), _ = promoted(ufunc, (a.kind, b.kind))
        if one != other:
            raise NoForm(f"{sign} of {one} and {other}")
        x, y = code.converted(a.text, a.kind, one, fail), code.converted(b.text, b.kind, one, fail)
        if name == "power" and not is_float(one):
            raise NoForm("powers of NumPy's integers")
        if name == "power" and one not in (a.kind, b.kind):  # where both are converted NumPy takes its ufunc
            return Scalar(one, elementwise.applied(code, name, (one, one), one, (x, y), fail))
        kind, made = code.binary(name, one, x, y, fail)
        return Scalar(kind, made)
    if a.kind == b.kind == "bool" and name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return Scalar(*code.binary(name, "bool", a.text, b.text, fail))
    a, b = as_python_int(a), as_python_int(b)
    kind = next(k for k in ("complex", "float", "int") if k in (a.kind, b.kind))
    if kind == "complex" and a.kind != b.kind and not RUNNING.makes_complex:
        raise NoForm("a complex number beside a real one")
    x, y = (code.converted(v.text, v.kind, kind, fail) for v in (a, b))
    return Scalar(*code.binary(name, kind, x, y, fail))


def compared(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Scalar:
    a, b = number(left), number(right)
    a, b = as_pythons(a, b)
    name = COMPARISONS[sign].__name__
    if not (a.is_numpy or b.is_numpy):
        a, b = as_python_int(a), as_python_int(b)
        if a.kind != b.kind:  # Python compares an integer and a float exactly
            code.require_exact([v.text for v in (a, b) if v.kind == "int"], fail)
            kind = "complex" if "complex" in (a.kind, b.kind) else "float"
            a, b = (Scalar(kind, code.converted(v.text, v.kind, kind, fail)) for v in (a, b))
        return Scalar("bool", code.compare(name, a.kind, a.text, b.text))
    whole = [v.kind for v in (a, b) if not is_float(v.kind) and not is_complex(v.kind)]
    if len(whole) == 2 and "u8" in whole and whole != ["u8", "u8"]:
        raise NoForm("a comparison of uint64 and another integer")
    if len(whole) == 2:  # by value, whatever their dtypes
        return Scalar("b1", code.compare(name, "i8", a.text, b.text) if "u8" in whole else compared_wide(code, name, a, b))
    (one, other), _ = promoted(COMPARISONS[sign], (a.kind, b.kind))
    assert one == other, (one, other)
    left_text, right_text = code.converted(a.text, a.kind, one, fail), code.converted(b.text, b.kind, one, fail)
    return Scalar("b1", code.compare(name, one, left_text, right_text))


def compared_wide(code: ScalarLoops, name: str, a: Scalar, b: Scalar) -> str:
    return code.compare(name, "i8", f"(int64_t){a.text}", f"(int64_t){b.text}")


def negated(code: ScalarLoops, value: Any, fail: Fail) -> Scalar:
    x = as_python_int(number(value))
    return Scalar(x.kind, code.negative(x.kind, x.text, fail))


def inverted(code: ScalarLoops, value: Any) -> Scalar:
    x = number(value)
    return Scalar(x.kind, code.invert(x.kind, x.text))


def truth(code: ScalarLoops, value: Any) -> str:
    x = number(value)
    return code.truth(x.text, x.kind)


def as_integer(code: ScalarLoops, value: Any) -> Scalar:
    """What __index__ gives."""
    x = number(value)
    if x.kind in ("int", "bool"):
        return Scalar("int", x.text)
    if x.kind not in LIMITS or x.kind == "u8":
        raise NoForm(f"{x.kind} as an integer")
    return Scalar("int", code.new("int", x.text))


def constant_integer(text: str) -> int:
    digits = text.removeprefix("INT64_C(").removesuffix(")")
    if not digits.lstrip("-").isdigit():
        raise NoForm("an integer that is computed, where the program must know it")
    return int(digits)
