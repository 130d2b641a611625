"""What Python's operators and functions do to numbers and elements in a native loop. NoForm where they do something else."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.loops.scalar_loops import LIMITS, Fail, NoForm, ScalarLoops
from npcompile.tracer.native import arrays, lists, powers, reductions, selecting, sequences, views
from npcompile.tracer.native.builtin_reductions import GOING_OVER
from npcompile.tracer.native.complex_numbers import FUNCTIONS_OF_COMPLEX, MADE_OF_NUMBERS, conjugate, is_complex_number, part_of
from npcompile.tracer.native.creation import MAKERS, astype, bincount, cumulative, full_like, roll
from npcompile.tracer.native.diagonals import diag, diagonal, trace, triangle
from npcompile.tracer.native.functions_of_numbers import FUNCTIONS_OF_NUMBERS, of_numpy
from npcompile.tracer.native.joining import JOINING
from npcompile.tracer.native.nonzero import argwhere, flatnonzero, nonzero
from npcompile.tracer.native.norms import cross, inner, norm
from npcompile.tracer.native.numbers import (
    COMPARISONS,
    OPERATORS,
    as_integer,
    calculated,
    compared,
    constant_integer,
    inverted,
    negated,
    number,
)
from npcompile.tracer.native.polynomials import polyval
from npcompile.tracer.native.sorting import median, sort
from npcompile.tracer.native.statistics import average, deviation, nanmean, variance, width, without_nan
from npcompile.tracer.native.tables import positional
from npcompile.tracer.native.types import Elements, Formula, Items, Known, Listed, Method, Scalar, Slice, Span, Tied
from npcompile.tracer.values import is_hashable

LARGEST_STEP = 2**61  # of a range: after its end there is another integer
MOST_COUNTED = 2**62  # items of enumerate(): the end of the range that stands for its numbers


def binary(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    """An operator with two operands."""
    if not (arrays.is_array(left) or arrays.is_array(right)):
        return calculated(code, sign, left, right, fail)
    if sign == "@":
        return arrays.product(code, left, right, fail)
    return operated(code, sign, left, right, fail)


def operated(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Formula:
    """The elements that an operator gives."""
    if sign == "**":
        return powers.raised(code, left, right, fail)
    return arrays.elementwise(code, OPERATORS[sign], [left, right], fail)


def compare(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    if arrays.is_array(left) or arrays.is_array(right):
        return arrays.elementwise(code, COMPARISONS[sign], [left, right], fail)
    return compared(code, sign, left, right, fail)


def negative(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    return arrays.elementwise(code, np.negative, [value], fail) if arrays.is_array(value) else negated(code, value, fail)


def invert(code: ScalarLoops, value: Any, fail: Fail) -> Any:
    return arrays.elementwise(code, np.invert, [value], fail) if arrays.is_array(value) else inverted(code, value)


def in_place(code: ScalarLoops, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    """An operator such as +=."""
    if not arrays.is_array(left):
        return binary(code, sign, left, right, fail)
    if sign == "@":
        raise NoForm("a product in place")
    return arrays.in_place(code, lambda owner, value: operated(code, sign, owner, value, fail), left, right, fail)


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
    if selects(code, owner, index):
        return selecting.getitem(code, owner, index, fail)
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


def selects(code: ScalarLoops, owner: Any, index: Any) -> bool:
    """Is the index a mask?"""
    is_mask = arrays.is_array(owner) and arrays.is_array(index) and arrays.kind_of(index) == "b1"
    return is_mask and code.pointwise is None


def set_element(code: ScalarLoops, owner: Any, index: Any, value: Any, fail: Fail) -> None:
    if isinstance(index, Listed) and arrays.is_array(owner):
        note_index(code, Items(index.items))
        lists.setitem(code, owner, index, value, fail)
        return
    note_index(code, index)
    if not arrays.is_array(owner):
        raise NoForm(f"an item of {type(owner).__name__} is set")
    if selects(code, owner, index):
        selecting.setitem(code, owner, index, value, fail)
        return
    if isinstance(value, Items | Listed) and isinstance(owner, Elements):
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
    if is_complex_number(owner) and name in ("real", "imag"):
        return part_of(code, owner, name)
    if is_complex_number(owner) and name == "conjugate":
        return Method(owner, name)
    if not arrays.is_array(owner):
        raise NoForm(f"attribute {name!r} of {type(owner).__name__}")
    if arrays.is_complex_array(owner) and name in ("real", "imag"):
        return arrays.part_of_complex(code, owner, name, fail)
    if name in ("shape", "size", "ndim"):
        owner = arrays.reported(code, owner, fail)
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
    given = [*arguments, *keywords.values()]
    require_complex_form(function, given)
    if isinstance(function, Method):
        if isinstance(function.owner, Known):
            return views.outer_of(code, [function.owner, *arguments], keywords, fail)
        if is_complex_number(function.owner):
            if arguments or keywords:
                raise NoForm("a method of a number with arguments")
            return conjugate(code, function.owner, fail)
        return METHODS[function.name](code, [function.owner, *arguments], keywords, fail)
    if not isinstance(function, Known):
        raise NoForm("a call of something that is computed")
    table: dict[Any, Callable[..., Any]] = {}
    if any(map(arrays.is_array, given)) or is_known(function.value, MADE):
        if isinstance(function.value, np.ufunc) and not keywords and function.value.nout == 1:
            if len(arguments) != function.value.nin:
                raise NoForm(f"np.{function.value.__name__} with an output")
            if function.value is np.matmul:
                return arrays.product(code, arguments[0], arguments[1], fail)
            if function.value is np.power:
                return powers.power(code, arguments[0], arguments[1], fail)
            return arrays.elementwise(code, function.value, arguments, fail)
        table = OF_ARRAYS
    if function.value in (enumerate, zip, reversed):
        return tied(function.value)(code, arguments, dict(keywords), fail)
    if is_known(function.value, table):
        require_count(function.value, len(arguments), (1, 255))
        return table[function.value](code, arguments, keywords, fail)
    functions = OF_COMPLEX if any(map(is_complex_number, given)) else FUNCTIONS
    if keywords or not is_known(function.value, functions):
        raise NoForm(f"a call of {getattr(function.value, '__name__', function.value)}")
    require_count(function.value, len(arguments), (1, 1))
    return functions[function.value](code, arguments, fail)


def require_count(function: Any, count: int, usual: tuple[int, int]) -> None:
    """NoForm for so many arguments: Python refuses them, or means something else. `usual`: the fewest and the most."""
    fewest, most = (function.nin, function.nin) if isinstance(function, np.ufunc) else COUNTS.get(function, usual)
    if not fewest <= count <= most:
        raise NoForm(f"{function.__name__}() of {count} arguments")


def require_complex_form(function: Any, given: Sequence[Any]) -> None:
    """NoForm for other functions of arrays of complex numbers than those that only hold them, or go over them one by one."""
    items = [item for x in given for item in (x.items if isinstance(x, Items | Listed) else (x,))]
    if isinstance(function, Method):
        items.append(function.owner)
    name = function.name if isinstance(function, Method) else getattr(getattr(function, "value", None), "__name__", "")
    if name not in OF_COMPLEX_ARRAYS and any(map(arrays.is_complex_array, items)):
        raise NoForm(f"{name} of an array of complex numbers")


def is_known(function: Any, table: dict[Any, Any]) -> bool:
    return is_hashable(function) and function in table


def reducing(name: str) -> Callable[..., Any]:
    return lambda code, arguments, keywords, fail: views.reduced(code, name, arguments, keywords, fail)


def like(value: str | None) -> Callable[..., Any]:
    def made(code: ScalarLoops, x: Any, fail: Fail) -> Any:
        if isinstance(x, arrays.Formula) or not arrays.is_dense(arrays.part_of(x)):
            raise NoForm("an array like one in another order than C's")
        return arrays.filled(code, arrays.kind_of(x), arrays.tree_of(x)[1], value, fail)

    return made


def take(code: ScalarLoops, x: Any, places: Any, fail: Fail) -> Any:
    """np.take of elements of a vector."""
    if len(arrays.tree_of(x)[1]) != 1 or isinstance(places, Items) or arrays.is_array(places) and arrays.kind_of(places) == "b1":
        raise NoForm("np.take of other than a vector, or with these places")
    return element(code, x, places, fail)


def type_of_array(kind: str) -> Callable[..., Any]:
    """np.float32(x) and its kind. Of an array of that type it is a view."""

    def meaning(code: ScalarLoops, x: Any, fail: Fail) -> Any:
        if arrays.kind_of(x) == kind:
            raise NoForm("an array made of one of the same type")
        return arrays.converted(x, np.dtype(kind))

    return positional(meaning, 1)


def conjugated(code: ScalarLoops, x: Any, fail: Fail) -> Any:
    """The method. Of real numbers it gives the array itself."""
    return arrays.elementwise(code, np.conjugate, [x], fail) if arrays.is_complex_array(x) else x


METHODS: dict[str, Callable[..., Any]] = {
    **{name: reducing(name) for name in reductions.REDUCTIONS},
    **dict.fromkeys(("conj", "conjugate"), positional(conjugated, 1)),
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
    "astype": positional(astype, 2),
    "std": deviation,
    "var": variance,
    "trace": positional(trace, 1),
    "diagonal": positional(diagonal, 1),
    "repeat": JOINING[np.repeat],
    "take": positional(lambda code, x, places, fail: take(code, x, places, fail), 2),
}
OF_COMPLEX_ARRAYS = (
    *("zeros_like", "ones_like", "empty_like", "full_like", "copy", "transpose"),
    *("len", "enumerate", "zip", "reversed", "matmul", "where", "sum", "conj", "take", "count_nonzero", "outer"),
    *("reshape", "ravel", "flatten"),
    *(ufunc.__name__ for ufunc in arrays.OF_COMPLEX),
)
MADE: dict[Any, Callable[..., Any]] = {**MAKERS, **JOINING, np.asarray: sequences.array}
OF_ARRAYS: dict[Any, Callable[..., Any]] = {
    **MADE,
    **GOING_OVER,
    **{getattr(np, name): reducing(name) for name in reductions.REDUCTIONS},
    np.dot: positional(arrays.product, 2),
    np.roll: roll,
    np.bincount: bincount,
    np.sort: positional(sort, 1),
    np.median: positional(median, 1),
    np.inner: positional(inner, 2),
    np.vdot: positional(inner, 2),
    np.linalg.norm: norm,
    np.cross: positional(cross, 2),
    np.polyval: positional(polyval, 2),
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
    np.full_like: positional(full_like, 2),
    np.copy: positional(arrays.copied, 1),
    np.count_nonzero: positional(selecting.count_nonzero, 1),
    np.argwhere: positional(argwhere, 1),
    np.take: positional(lambda code, x, places, fail: take(code, x, places, fail), 2),
    np.std: deviation,
    np.var: variance,
    np.ptp: width,
    np.average: average,
    np.trace: positional(trace, 1),
    np.diag: positional(diag, 1),
    np.diagonal: positional(diagonal, 1),
    np.tril: triangle(is_lower=True),
    np.triu: triangle(is_lower=False),
    np.nanmean: nanmean,
    **{getattr(np, f"nan{name}"): without_nan(name) for name in ("sum", "max", "min")},
    **{np.dtype(kind).type: type_of_array(kind) for kind in ("b1", "f4", "f8", *LIMITS)},
    len: lambda code, arguments, keywords, fail: length(code, arguments, fail),
}


def range_of(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Span:
    values = [as_integer(code, a) for a in arguments]
    start = Scalar("int", code.constant("int", 0)) if len(values) == 1 else values[0]
    stop = values[0] if len(values) == 1 else values[1]
    step = values[2] if len(values) == 3 else Scalar("int", code.constant("int", 1))
    known = code.integer(step.text)
    if known.least <= 0 <= known.most:
        code.leave_if(f"{step.text} == 0", fail)
    if not known.fits(-LARGEST_STEP, LARGEST_STEP):
        code.leave_if(f"{step.text} > {LARGEST_STEP} || {step.text} < -{LARGEST_STEP}", fail)
    # Beyond these, the next item of an exhausted range could not be counted.
    limit = "INT64_C(4611686018427387904)"
    for x in (start, stop):
        if not x.text.startswith("INT64_C"):
            code.leave_if(f"{x.text} > {limit} || {x.text} < -{limit}", fail)
    return Span(start, stop, step)


def tied(function: type) -> Callable[..., Tied]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Tied:
        """enumerate(x), zip(x, y ...), or reversed(x)."""
        given = [*arguments]
        if function is enumerate:
            start = given.pop() if len(given) == 2 else keywords.pop("start", Scalar("int", code.constant("int", 0)))
            if len(given) != 1:
                raise NoForm("enumerate() of other arguments")
            counted = range_of(code, [start, Scalar("int", code.constant("int", MOST_COUNTED))], fail)
            given.insert(0, counted)
        allowed = (Span, *arrays.Array) if function is reversed else (Span, Tied, *arrays.Array)
        if keywords or not given or not all(isinstance(x, allowed) for x in given) or function is reversed and len(given) != 1:
            raise NoForm(f"{function.__name__}() of these")
        return Tied(Known(function), tuple(arrays.settled(code, x, fail) for x in given))

    return meaning


def length(code: ScalarLoops, arguments: Sequence[Any], fail: Fail) -> Scalar:
    (x,) = arguments
    if not arrays.is_array(x) or not shape(x).items:
        raise NoForm("len() of something else")
    found: Scalar = shape(arrays.reported(code, x, fail)).items[0]
    return found


# The fewest and the most arguments, where these are not the usual ones.
COUNTS: dict[Any, tuple[int, int]] = dict.fromkeys((divmod, pow, math.pow, math.atan2, math.copysign, cmath.rect), (2, 2))
COUNTS |= dict.fromkeys((math.log, np.round, complex), (1, 2)) | dict.fromkeys((min, max), (1, 255))
COUNTS |= {len: (1, 1), range: (1, 3), np.roll: (2, 255), np.clip: (3, 3)}
FUNCTIONS: dict[Any, Callable[..., Any]] = {range: range_of, len: length, **FUNCTIONS_OF_NUMBERS, **MADE_OF_NUMBERS}
OPERATORS_OF_COMPLEX = (np.add, np.subtract, np.equal, np.not_equal)  # np.multiply and np.divide round in another way
ELEMENTWISE_OF_COMPLEX = "absolute multiply divide square reciprocal sqrt exp exp2 expm1 log log2 log10 log1p rint"
ELEMENTWISE_OF_COMPLEX += " sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh"
OF_COMPLEX = {
    **FUNCTIONS_OF_COMPLEX,
    **{f: FUNCTIONS_OF_NUMBERS[f] for f in (bool, pow, *OPERATORS_OF_COMPLEX)},
    **{ufunc: of_numpy(ufunc) for name in ELEMENTWISE_OF_COMPLEX.split() if (ufunc := getattr(np, name))},
}
