"""What Python's operators and functions do to numbers and elements in a native loop. NoForm where they do something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.scalar_loops import LIMITS, Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native.kinds import (
    MATH,
    UFUNCS,
    Elements,
    Items,
    Known,
    Scalar,
    Span,
    promoted,
)

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
COMPARISONS: dict[str, np.ufunc] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def number(value: Any) -> Scalar:
    if not isinstance(value, Scalar):
        raise NoForm(f"a number is needed, not {type(value).__name__}")
    return value


def as_python_int(x: Scalar) -> Scalar:
    """Booleans count as integers in arithmetic."""
    return Scalar("int", x.text) if x.kind == "bool" else x


def binary(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Scalar:
    a, b = number(left), number(right)
    ufunc = OPERATORS[sign]
    name = ufunc.__name__
    if a.is_numpy or b.is_numpy:
        (one, other), _ = promoted(ufunc, (a.kind, b.kind))
        if one != other:
            raise NoForm(f"{sign} of {one} and {other}")
        x, y = code.converted(a.text, a.kind, one, fail), code.converted(b.text, b.kind, one, fail)
        if name == "power" and not is_float(one):
            raise NoForm("powers of NumPy's integers")
        kind, made = code.binary(name, one, x, y, fail)
        return Scalar(kind, made)
    if a.kind == b.kind == "bool" and name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return Scalar(*code.binary(name, "bool", a.text, b.text, fail))
    a, b = as_python_int(a), as_python_int(b)
    kind = "float" if "float" in (a.kind, b.kind) else "int"
    if kind == "float":
        a, b = as_float(code, a, fail), as_float(code, b, fail)
    return Scalar(*code.binary(name, kind, a.text, b.text, fail))


def as_float(code: ScalarLoops, x: Scalar, fail: Fail) -> Scalar:
    return Scalar("float", code.converted(x.text, x.kind, "float", fail))


def compare(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Scalar:
    a, b = number(left), number(right)
    name = COMPARISONS[sign].__name__
    if not (a.is_numpy or b.is_numpy):
        a, b = as_python_int(a), as_python_int(b)
        if a.kind != b.kind:  # Python compares an integer and a float exactly
            (whole_number,) = (v for v in (a, b) if v.kind == "int")
            code.require_exact([whole_number.text], fail)
            a, b = as_float(code, a, fail), as_float(code, b, fail)
        return Scalar("bool", code.compare(name, a.kind, a.text, b.text))
    whole = [v.kind for v in (a, b) if not is_float(v.kind)]
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


def negative(code: ScalarLoops, value: Any, fail: Fail) -> Scalar:
    x = as_python_int(number(value))
    return Scalar(x.kind, code.negative(x.kind, x.text, fail))


def invert(code: ScalarLoops, value: Any) -> Scalar:
    x = number(value)
    return Scalar(x.kind, code.invert(x.kind, x.text))


def truth(code: ScalarLoops, value: Any) -> str:
    x = number(value)
    return code.truth(x.text, x.kind)


# --- elements


def index_texts(index: Any) -> list[str]:
    found = index.items if isinstance(index, Items) else (index,)
    texts = []
    for each in found:
        x = number(each)
        if x.kind not in ("int", *(k for k in LIMITS if k != "u8")):
            raise NoForm(f"an index of kind {x.kind}")
        texts.append(f"(int64_t){x.text}" if x.kind[0] == "u" else x.text)
    return texts


def element(code: ScalarLoops, owner: Any, index: Any, fail: Fail) -> Any:
    if isinstance(owner, Items):
        (text,) = index_texts(index)
        place = constant_integer(text)
        if not -len(owner.items) <= place < len(owner.items):
            raise NoForm("an item that a tuple does not have")
        return owner.items[place]
    if not isinstance(owner, Elements):
        raise NoForm(f"an item of {type(owner).__name__}")
    places = index_texts(index)
    if len(places) != owner.input.ndim:
        raise NoForm("a part of an array")
    return Scalar(owner.input.kind, code.load(owner.input, places, fail))


def set_element(code: ScalarLoops, owner: Any, index: Any, value: Any, fail: Fail) -> None:
    if not isinstance(owner, Elements):
        raise NoForm(f"an item of {type(owner).__name__} is set")
    places = index_texts(index)
    if len(places) != owner.input.ndim:
        raise NoForm("a part of an array")
    x = number(value)
    code.store(owner.input, places, code.stored(x.text, x.kind, owner.input.kind, fail), fail)


def shape(owner: Elements) -> Items:
    return Items(tuple(Scalar("int", f"{owner.input.name}_n{axis}") for axis in range(owner.input.ndim)))


def attribute(code: ScalarLoops, owner: Any, name: str) -> Any:
    if isinstance(owner, Elements) and name == "shape":
        return shape(owner)
    if isinstance(owner, Elements) and name == "size":
        sizes = [s.text for s in shape(owner).items]
        return Scalar("int", code.new("int", " * ".join(sizes) or "1"))
    if isinstance(owner, Elements) and name == "ndim":
        return Scalar("int", code.constant("int", owner.input.ndim))
    raise NoForm(f"attribute {name!r} of {type(owner).__name__}")


# --- functions


def call(code: ScalarLoops, function: Any, arguments: Sequence[Any], fail: Fail) -> Any:
    if not isinstance(function, Known):
        raise NoForm("a call of something that is computed")
    try:
        meaning = FUNCTIONS.get(function.value)
    except TypeError:  # not hashable
        meaning = None
    if meaning is None:
        raise NoForm(f"a call of {getattr(function.value, '__name__', function.value)}")
    return meaning(code, arguments, fail)


def range_of(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Span:
    values = [as_integer(code, a) for a in arguments]
    if not 1 <= len(values) <= 3:
        raise NoForm("range() of other arguments")
    start = Scalar("int", code.constant("int", 0)) if len(values) == 1 else values[0]
    stop = values[0] if len(values) == 1 else values[1]
    step = constant_integer(values[2].text) if len(values) == 3 else 1
    if not step or abs(step) >= 2**31:
        raise NoForm("range() with such a step")
    # Beyond these, the next item of an exhausted range could not be counted.
    limit = "INT64_C(4611686018427387904)"
    for x in (start, stop):
        if not x.text.startswith("INT64_C"):
            code.leave_if(f"{x.text} > {limit} || {x.text} < -{limit}", fail)
    return Span(start, stop, step)


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


def to_float(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = map(number, arguments)
    return as_float(code, x, fail)


def to_bool(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = arguments
    return Scalar("bool", truth(code, x))


def length(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = arguments
    if not isinstance(x, Elements) or not x.input.ndim:
        raise NoForm("len() of something else")
    return shape(x).items[0]  # type: ignore[no-any-return]


def of_math(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        values = [as_float(code, number(a), fail).text for a in arguments]
        if len(values) != (2 if name in ("pow", "atan2") else 1):
            raise NoForm(f"math.{name} of {len(values)} arguments")
        return Scalar("float", code.function(name, "float", values, fail))

    return meaning


def of_numpy(ufunc: np.ufunc, name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        (x,) = map(number, arguments)
        if x.kind == "bool":
            raise NoForm(f"{ufunc.__name__} of a boolean")
        (kind,), result = promoted(ufunc, (x.kind if x.is_numpy or x.kind == "float" else "i8",))
        if not is_float(kind):
            raise NoForm(f"{ufunc.__name__} in {kind}")
        return Scalar(result, code.function(name, kind, [code.converted(x.text, x.kind, kind, fail)], fail))

    return meaning


def extreme(ufunc: np.ufunc) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        a, b = map(number, arguments)
        if not (a.is_numpy or b.is_numpy):
            raise NoForm(f"np.{ufunc.__name__} of Python's numbers")
        (one, other), _ = promoted(ufunc, (a.kind, b.kind))
        if one != other or not is_float(one):
            raise NoForm(f"np.{ufunc.__name__} in {one}")
        x, y = code.converted(a.text, a.kind, one, fail), code.converted(b.text, b.kind, one, fail)
        return Scalar(*code.binary(ufunc.__name__, one, x, y, fail))

    return meaning


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    range: range_of,
    min: least("<"),
    max: least(">"),
    abs: absolute,
    int: to_int,
    float: to_float,
    bool: to_bool,
    len: length,
    np.maximum: extreme(np.maximum),
    np.minimum: extreme(np.minimum),
    **{function: of_math(name) for function, name in MATH.items()},
    **{ufunc: of_numpy(ufunc, name) for ufunc, name in UFUNCS.items()},
}
assert math.log not in FUNCTIONS  # of integers it is not a float's logarithm, and it takes a base
