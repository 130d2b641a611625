"""What Python's operators and functions do to numbers and elements in a native loop. NoForm where they do something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.scalar_loops import LIMITS, Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native import arrays, lists, sequences, views
from npcompile.tracer.native.kinds import (
    MATH,
    UFUNCS,
    Elements,
    Items,
    Known,
    Listed,
    Method,
    Scalar,
    Slice,
    Span,
    Tied,
    promoted,
)
from npcompile.tracer.native.lengths import inner, norm
from npcompile.tracer.native.making import MAKERS, bincount, cumulative, roll
from npcompile.tracer.native.places import flatnonzero, nonzero
from npcompile.tracer.native.sorting import median, sort

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


MOST_COUNTED = 2**62  # items of enumerate(): the end of the range that stands for its numbers


def number(value: Any) -> Scalar:
    if not isinstance(value, Scalar):
        raise NoForm(f"a number is needed, not {type(value).__name__}")
    return value


def as_python_int(x: Scalar) -> Scalar:
    """Booleans count as integers in arithmetic."""
    return Scalar("int", x.text) if x.kind == "bool" else x


def binary(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    if arrays.is_array(left) or arrays.is_array(right):
        if sign == "@":
            return arrays.product(code, left, right, fail)
        if sign == "**":
            return arrays.power(code, left, right, fail)
        return arrays.elementwise(code, OPERATORS[sign], [left, right], fail)
    if sign == "@":
        raise NoForm("a product of numbers")
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


def in_place(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    """An operator such as +=."""
    if not arrays.is_array(left):
        return binary(code, sign, left, right, fail)
    if sign == "@":
        raise NoForm("a product in place")
    return arrays.in_place(code, OPERATORS[sign], left, right, fail)


def as_float(code: ScalarLoops, x: Scalar, fail: Fail) -> Scalar:
    return Scalar("float", code.converted(x.text, x.kind, "float", fail))


def compare(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    if arrays.is_array(left) or arrays.is_array(right):
        return arrays.elementwise(code, COMPARISONS[sign], [left, right], fail)
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


def negative(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    if arrays.is_array(value):
        return arrays.elementwise(code, np.negative, [value], fail)
    x = as_python_int(number(value))
    return Scalar(x.kind, code.negative(x.kind, x.text, fail))


def invert(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    if arrays.is_array(value):
        return arrays.elementwise(code, np.invert, [value], fail)
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


def note_index(code: ScalarLoops, index: Any) -> None:
    """Remember whether an index may be another one in each iteration."""
    parts = [p for i in arrays.index_items(index) for p in ((i.start, i.stop, i.step) if isinstance(i, Slice) else (i,))]
    if any(isinstance(p, Scalar) and arrays.known(arrays.integer_text(p)) is None for p in parts):
        code.indexed.add(code.loop)


def element(code: ScalarLoops, owner: Any, index: Any, fail: Fail) -> Any:
    if isinstance(index, Listed) and arrays.is_array(owner):
        note_index(code, Items(index.items))
        return lists.getitem(code, owner, index, fail)
    note_index(code, index)
    if isinstance(owner, Items):
        (text,) = index_texts(index)
        place = constant_integer(text)
        if not -len(owner.items) <= place < len(owner.items):
            raise NoForm("an item that a tuple does not have")
        return owner.items[place]
    if not arrays.is_array(owner):
        raise NoForm(f"an item of {type(owner).__name__}")
    if not isinstance(owner, Elements) or arrays.is_partial(owner, index):
        return arrays.getitem(code, owner, index, fail)
    places = index_texts(index)
    return Scalar(owner.input.kind, code.load(owner.input, places, fail))


def set_element(code: ScalarLoops, owner: Any, index: Any, value: Any, fail: Fail) -> None:
    if isinstance(index, Listed) and arrays.is_array(owner):
        note_index(code, Items(index.items))
        lists.setitem(code, owner, index, value, fail)
        return
    note_index(code, index)
    if not arrays.is_array(owner):
        raise NoForm(f"an item of {type(owner).__name__} is set")
    if isinstance(value, Items) and isinstance(owner, Elements):
        sequences.store_row(code, owner, index_texts(index), value.items, fail)
        return
    if not isinstance(owner, Elements) or arrays.is_partial(owner, index):
        arrays.setitem(code, owner, index, value, fail)
        return
    places = index_texts(index)
    x = number(value)
    code.store(owner.input, places, code.stored(x.text, x.kind, owner.input.kind, fail), fail)


def shape(owner: Any) -> Items:
    return Items(tuple(Scalar("int", f"INT64_C({n})" if n.isdigit() else n) for n in arrays.tree_of(owner)[1]))


def attribute(code: ScalarLoops, owner: Any, name: str, fail: Fail) -> Any:
    if name == "outer" and isinstance(owner, Known) and isinstance(owner.value, np.ufunc):
        return Method(owner, name)
    if not arrays.is_array(owner):
        raise NoForm(f"attribute {name!r} of {type(owner).__name__}")
    if name == "shape":
        return shape(owner)
    if name == "size":
        return Scalar("int", code.new("int", " * ".join(s.text for s in shape(owner).items) or "1"))
    if name == "ndim":
        return Scalar("int", code.constant("int", len(shape(owner).items)))
    if name == "T":
        return arrays.transposed(arrays.memory(code, owner, fail))
    if name in METHODS:
        return Method(owner, name)
    raise NoForm(f"attribute {name!r} of an array")


# --- functions


def call(code: ScalarLoops, function: Any, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    if isinstance(function, Method):
        if isinstance(function.owner, Known):
            return views.outer_of(code, [function.owner, *arguments], keywords, fail)
        return METHODS[function.name](code, [function.owner, *arguments], keywords, fail)
    if not isinstance(function, Known):
        raise NoForm("a call of something that is computed")
    given = [*arguments, *keywords.values()]
    table: dict[Any, Callable[..., Any]] = {}
    if any(map(arrays.is_array, given)) or is_known(function.value, MADE):
        if isinstance(function.value, np.ufunc) and not keywords and function.value.nout == 1:
            if len(arguments) != function.value.nin:
                raise NoForm(f"np.{function.value.__name__} with an output")
            if function.value is np.matmul:
                return arrays.product(code, arguments[0], arguments[1], fail)
            return arrays.elementwise(code, function.value, arguments, fail)
        table = OF_ARRAYS
    if function.value in (enumerate, zip):
        return tied(function.value)(code, arguments, dict(keywords), fail)
    if is_known(function.value, table):
        return table[function.value](code, arguments, keywords, fail)
    if keywords or not is_known(function.value, FUNCTIONS):
        raise NoForm(f"a call of {getattr(function.value, '__name__', function.value)}")
    return FUNCTIONS[function.value](code, arguments, fail)


def is_known(function: Any, table: dict[Any, Any]) -> bool:
    try:
        return function in table
    except TypeError:  # not hashable
        return False


def positional(meaning: Callable[..., Any], count: int) -> Callable[..., Any]:
    def called(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
        if keywords or len(arguments) != count:
            raise NoForm("a function with other arguments")
        return meaning(code, *arguments, fail)

    return called


def reducing(name: str) -> Callable[..., Any]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
        others = {k: v for k, v in keywords.items() if k != "keepdims"}
        made = arrays.reduce(code, name, arguments, others, fail)
        kept = keywords.get("keepdims", Scalar("bool", "0"))
        if kept not in (Scalar("bool", "0"), Scalar("bool", "1")):
            raise NoForm("keepdims that is computed")
        if kept.text == "0":
            return made
        return views.with_axes(code, made, arrays.tree_of(arguments[0])[1], others.get("axis", *arguments[1:]), fail)

    return meaning


def like(value: str | None) -> Callable[..., Any]:
    def made(code: ScalarLoops, x: Any, fail: Fail) -> Any:
        if isinstance(x, arrays.Formula) or not arrays.is_dense(arrays.part_of(x)):
            raise NoForm("an array like one in another order than C's")
        return arrays.filled(code, arrays.kind_of(x), arrays.tree_of(x)[1], value, fail)

    return made


METHODS: dict[str, Callable[..., Any]] = {
    **{name: reducing(name) for name in arrays.REDUCTIONS},
    "dot": positional(arrays.product, 2),
    "copy": positional(arrays.copied, 1),
    "nonzero": positional(nonzero, 1),
    "transpose": positional(views.transpose, 1),
    "cumsum": positional(cumulative("+"), 1),
    "cumprod": positional(cumulative("*"), 1),
    "ravel": positional(views.ravel, 1),
    "flatten": positional(views.flatten, 1),
    "reshape": views.reshape,
    "clip": positional(views.clip, 3),
}
MADE: dict[Any, Callable[..., Any]] = {**MAKERS, np.array: sequences.array, np.asarray: sequences.array}
OF_ARRAYS: dict[Any, Callable[..., Any]] = {
    **MADE,
    **{getattr(np, name): reducing(name) for name in arrays.REDUCTIONS},
    np.dot: positional(arrays.product, 2),
    np.roll: roll,
    np.bincount: bincount,
    np.sort: positional(sort, 1),
    np.median: positional(median, 1),
    np.inner: positional(inner, 2),
    np.vdot: positional(inner, 2),
    np.linalg.norm: norm,
    np.cumsum: positional(cumulative("+"), 1),
    np.cumprod: positional(cumulative("*"), 1),
    np.nonzero: positional(nonzero, 1),
    np.flatnonzero: positional(flatnonzero, 1),
    np.outer: positional(views.outer, 2),
    np.flip: views.flip,
    np.flipud: positional(views.flipped(0), 1),
    np.fliplr: positional(views.flipped(1), 1),
    np.transpose: positional(views.transpose, 1),
    np.ravel: positional(views.ravel, 1),
    np.reshape: positional(lambda code, x, shape, fail: views.reshape(code, [x, shape], {}, fail), 2),
    np.diff: positional(views.diff, 1),
    np.clip: positional(views.clip, 3),
    np.where: positional(lambda code, a, b, c, fail: arrays.where(code, [a, b, c], fail), 3),
    np.zeros_like: positional(like("0"), 1),
    np.ones_like: positional(like("1"), 1),
    np.empty_like: positional(like(None), 1),
    np.copy: positional(arrays.copied, 1),
    len: lambda code, arguments, keywords, fail: length(code, arguments, fail),
}


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


def tied(function: type) -> Callable[..., Tied]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Tied:
        """enumerate(x), or zip(x, y ...)."""
        given = [*arguments]
        if function is enumerate:
            start = given.pop() if len(given) == 2 else keywords.pop("start", Scalar("int", code.constant("int", 0)))
            if len(given) != 1:
                raise NoForm("enumerate() of other arguments")
            counted = range_of(code, [start, Scalar("int", code.constant("int", MOST_COUNTED))], fail)
            given.insert(0, counted)
        if keywords or not given or not all(isinstance(x, (Span, Tied, *arrays.Array)) for x in given):
            raise NoForm(f"{function.__name__}() of these")
        return Tied(Known(function, function.__name__), tuple(arrays.settled(code, x, fail) for x in given))

    return meaning


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


def rounded(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        """math.floor and its kind: an integer of Python's."""
        (x,) = map(number, arguments)
        if is_float(x.kind) and name != "trunc":
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


def length(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = arguments
    if not arrays.is_array(x) or not shape(x).items:
        raise NoForm("len() of something else")
    return shape(x).items[0]  # type: ignore[no-any-return]


def of_math(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        values = [as_float(code, number(a), fail).text for a in arguments]
        if len(values) != (2 if name in ("pow", "atan2") else 1):
            raise NoForm(f"math.{name} of {len(values)} arguments")
        return Scalar("float", code.function(name, "float", values, fail))

    return meaning


def of_type(kind: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
        """A scalar of NumPy's, made of a number that it can hold."""
        (x,) = map(number, arguments)
        return Scalar(kind, code.stored(x.text, x.kind, kind, fail))

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
    math.floor: rounded("floor"),
    math.ceil: rounded("ceil"),
    math.trunc: rounded("trunc"),
    **{np.dtype(kind).type: of_type(kind) for kind in ("b1", "f4", "f8", *LIMITS)},
    np.maximum: extreme(np.maximum),
    np.minimum: extreme(np.minimum),
    **{function: of_math(name) for function, name in MATH.items()},
    **{ufunc: of_numpy(ufunc, name) for ufunc, name in UFUNCS.items()},
}
assert math.log not in FUNCTIONS  # of integers it is not a float's logarithm, and it takes a base
