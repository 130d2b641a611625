"""Functions of single numbers in a native loop: Python's own, those of `math`, ufuncs of NumPy's. NoForm for all others.

A ufunc gives a scalar of NumPy's, whatever it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import has_form
from npcompile.backends.cpu.loops import elementwise
from npcompile.backends.cpu.loops.scalar_loops import LIMITS, Fail, NoForm, ScalarLoops, is_complex, is_float
from npcompile.tensor_core.op import OPS
from npcompile.tracer.native.numbers import (
    COMPARISONS,
    OPERATORS,
    as_float,
    as_integer,
    as_python_int,
    calculated,
    compared,
    constant_integer,
    number,
    truth,
)
from npcompile.tracer.native.types import Items, Scalar, promoted


def least(sign: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        """The first of the least, or greatest, as comparisons say: they say of NaN that it is neither."""
        found, *others = map(number, arguments)
        if not others or any(x.kind != found.kind for x in others):
            raise NoForm("min() or max() of values of several types")
        for x in others:
            is_better = code.compare(COMPARISONS[sign].__name__, x.kind, x.text, found.text)
            found = Scalar(x.kind, code.choose(x.kind, is_better, x.text, found.text))
        return found

    return meaning


def absolute(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = map(as_python_int, map(number, arguments))
    return Scalar(x.kind, code.absolute(x.kind, x.text, fail))


def to_int(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = map(number, arguments)
    if is_float(x.kind):
        return Scalar("int", code.truncated(x.kind, x.text, fail))
    return as_integer(code, Scalar("int", x.text) if x.kind == "b1" else x)


def rounded(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        """math.floor and its kind: an integer of Python's."""
        (x,) = map(number, arguments)
        if name == "trunc" and x.kind not in ("float", "f8", "int", "bool"):
            raise NoForm(f"{x.kind} has no __trunc__")
        if name != "trunc" and x.kind not in ("int", "bool"):  # NumPy's numbers are asked for a float
            x = as_float(code, x, fail)
            x = Scalar("float", code.function(name, "float", [x.text], fail))
        return to_int(code, [x], fail)

    return meaning


def to_float(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = map(number, arguments)
    return as_float(code, x, fail)


def to_bool(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = arguments
    return Scalar("bool", truth(code, x))


def nearest(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """round(x): an integer of Python's, of two that are as near the even one."""
    x = number(arguments[0])
    if is_float(x.kind):
        return to_int(code, [Scalar(x.kind, code.function("rint", x.kind, [x.text], fail))], fail)
    if x.kind != "int":
        raise NoForm(f"round() of {x.kind}")
    return x


def divided(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Items:
    """divmod(a, b)."""
    a, b = map(number, arguments)
    return Items((calculated(code, "//", a, b, fail), calculated(code, "%", a, b, fail)))


def powered(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """pow(a, b)."""
    return calculated(code, "**", arguments[0], arguments[1], fail)


# --- math


def of_math(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        return Scalar("float", code.function(name, "float", [as_float(code, number(a), fail).text for a in arguments], fail))

    return meaning


def logarithm(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """math.log, of a base perhaps."""
    made, *base = (of_math("log")(code, [x], fail) for x in arguments)
    return calculated(code, "/", made, base[0], fail) if base else made


def tested(name: str, result: str, whole: str = "") -> Callable[..., Scalar]:
    """A question about a float. Integers have one answer, if any."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        (x,) = map(number, arguments)
        if is_float(x.kind):
            return Scalar(result, code.new("bool", f"!!__builtin_{name}({x.text})"))
        if not whole:
            raise NoForm(f"{name}() of an integer")
        return Scalar(result, whole)

    return meaning


def in_another_unit(numerator: float, denominator: float) -> Callable[..., Scalar]:
    """Angles: floats of Python's, whose overflow is reported."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        (x,) = map(number, arguments)
        value = as_float(code, x, fail).text
        made = code.new("float", f"{value} * ({numerator!r} / {denominator!r})")
        code.leave_if_new(made, "float", f"!__builtin_isfinite({made})", fail)
        return Scalar("float", made)

    return meaning


# --- ufuncs, and types of NumPy's


def of_type(kind: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        """A scalar of NumPy's, made of a number that it can hold."""
        (x,) = map(number, arguments)
        return Scalar(kind, code.stored(x.text, x.kind, kind, fail))

    return meaning


def as_numpy(x: Scalar) -> Scalar:
    """A number of Python's as NumPy takes it where there is nothing else."""
    return Scalar({"int": "i8", "float": "f8", "bool": "b1", "complex": "c16"}.get(x.kind, x.kind), x.text)


def numbers_of(arguments: Sequence[Any]) -> list[Scalar]:
    """The arguments of a ufunc: of NumPy's kinds, but for numbers of Python's that follow the kind of another."""
    found = [*map(number, arguments)]
    return found if any(x.is_numpy for x in found) else [*map(as_numpy, found)]


def by_sign(operation: Callable[..., Scalar], sign: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        a, b = numbers_of(arguments)
        return operation(code, sign, a, b, fail)

    return meaning


def combined(operator: str) -> Callable[..., Scalar]:
    """np.logical_and and its kind, by an operator of C's."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        return Scalar("b1", code.new("bool", f" {operator} ".join(truth(code, x) for x in numbers_of(arguments))))

    return meaning


def is_not(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = numbers_of(arguments)
    return Scalar("b1", code.new("bool", f"!{truth(code, x)}"))


def of_one(meaning_of: Callable[[ScalarLoops, Scalar, Fail], str]) -> Callable[..., Scalar]:
    """Of a number that is no boolean, with a result of its kind."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        (x,) = numbers_of(arguments)
        if x.kind == "b1":
            raise NoForm("a function of a boolean that is another for numbers")
        return Scalar(x.kind, meaning_of(code, x, fail))

    return meaning


def sign_of(code: ScalarLoops, x: Scalar, fail: Fail) -> str:
    negative = "0" if x.kind[0] == "u" else f"{x.text} < 0 ? -1 : 0"
    return code.new(x.kind, f"{x.text} > 0 ? 1 : {x.text} != {x.text} ? {x.text} : {negative}")


def of_numpy(ufunc: np.ufunc) -> Callable[..., Scalar]:
    """What kernels compute of the elements of arrays, to the bit."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        given = numbers_of(arguments)
        kinds, result = promoted(ufunc, tuple(x.kind for x in given))
        if not (is_float(result) or is_complex(result)) or not has_form(ufunc.__name__, [np.dtype(k) for k in kinds]):
            raise NoForm(f"{ufunc.__name__} in {result}")
        values = [code.converted(x.text, x.kind, k, fail) for x, k in zip(given, kinds)]
        return Scalar(result, elementwise.applied(code, ufunc.__name__, kinds, result, values, fail))

    return meaning


def clipped(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """np.clip of a number between numbers of its type, or of Python's."""
    x, low, high = map(number, arguments)
    x = as_numpy(x)
    if x.kind == "b1" or any(b.kind not in (x.kind, "int", "float" if is_float(x.kind) else "int") for b in (low, high)):
        raise NoForm("np.clip between numbers of another type")
    for sign, bound in (("<", low), (">", high)):
        if is_float(x.kind):
            limit = code.converted(bound.text, bound.kind, x.kind, fail)
            code.leave_if(f"{limit} != {limit}", fail)
        else:
            limit = code.stored(bound.text, bound.kind, x.kind, fail)
        x = Scalar(x.kind, code.choose(x.kind, code.compare(COMPARISONS[sign].__name__, x.kind, x.text, limit), limit, x.text))
    return x


def rounded_to(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    """np.round of a float, to digits that are known."""
    x, *digits = map(number, arguments)
    x = as_numpy(x)
    count = constant_integer(digits[0].text) if digits else 0
    if not is_float(x.kind) or len(digits) > 1 or not 0 <= count <= 15:
        raise NoForm("np.round of an integer, or to such digits")
    if not count:
        return Scalar(x.kind, code.function("rint", x.kind, [x.text], fail))
    power = Scalar("float", code.constant("float", 10.0**count))
    larger = calculated(code, "*", x, power, fail)
    return calculated(code, "/", Scalar(x.kind, code.function("rint", x.kind, [larger.text], fail)), power, fail)


LIBM_OF_MATH = (
    "sqrt exp sin cos tan tanh atan fabs exp2 expm1 log2 log10 log1p sinh cosh asin acos asinh acosh atanh cbrt erf erfc"
)
FUNCTIONS_OF_NUMBERS: dict[Any, Callable[..., Any]] = {
    **{op.numpy: of_numpy(op.numpy) for op in OPS.values() if isinstance(op.numpy, np.ufunc) and op.has_loop("d")},
    min: least("<"),
    max: least(">"),
    abs: absolute,
    int: to_int,
    float: to_float,
    bool: to_bool,
    round: nearest,
    divmod: divided,
    pow: powered,
    math.floor: rounded("floor"),
    math.ceil: rounded("ceil"),
    math.trunc: rounded("trunc"),
    math.log: logarithm,
    math.degrees: in_another_unit(180.0, math.pi),
    math.radians: in_another_unit(math.pi, 180.0),
    **{getattr(math, n): of_math(n) for n in LIBM_OF_MATH.split()},
    **{getattr(math, n): of_math(n) for n in ("pow", "atan2", "copysign")},
    **{np.dtype(kind).type: of_type(kind) for kind in ("b1", "f4", "f8", *LIMITS)},
    **{ufunc: by_sign(calculated, sign) for sign, ufunc in OPERATORS.items()},
    **{ufunc: by_sign(compared, sign) for sign, ufunc in COMPARISONS.items()},
    np.logical_and: combined("&&"),
    np.logical_or: combined("||"),
    np.logical_xor: combined("!="),
    np.logical_not: is_not,
    np.negative: of_one(lambda code, x, fail: code.negative(x.kind, x.text, fail)),
    np.positive: of_one(lambda code, x, fail: x.text),
    np.conjugate: of_one(lambda code, x, fail: x.text),
    np.absolute: of_one(lambda code, x, fail: code.absolute(x.kind, x.text, fail)),
    np.square: of_one(lambda code, x, fail: code.binary("multiply", x.kind, x.text, x.text, fail)[1]),
    np.sign: of_one(sign_of),
    **{getattr(np, n): tested(n, "b1", "0") for n in ("isnan", "isinf")},
    np.signbit: tested("signbit", "b1"),
    **{getattr(math, n): tested(n, "bool", "0") for n in ("isnan", "isinf")},
    np.isfinite: tested("isfinite", "b1", "1"),
    math.isfinite: tested("isfinite", "bool", "1"),
    np.power: of_numpy(np.power),  # in another way than the operator
    np.clip: clipped,
    np.round: rounded_to,
}
