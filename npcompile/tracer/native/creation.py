"""Arrays that NumPy makes in native programs: of constants, of ranges, of another type, rolled ones, and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, Read, parts_of
from npcompile.backends.cpu.loops import array_scatters
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native.arrays import (
    as_index,
    cast,
    converted,
    filled,
    index_items,
    is_array,
    is_dense,
    kind_of,
    known,
    memory,
    part_of,
    require_order,
    require_same,
    statements,
    tree_of,
)
from npcompile.tracer.native.reductions import axis_of
from npcompile.tracer.native.types import Formula, Known, Scalar

DEFAULT_KINDS = {"int": np.dtype(int).str[1:], "float": "f8", "bool": "b1"}
MOST_COUNTED = 2**40  # elements: NumPy has an error of its own for arrays that no memory holds


def dtype_asked_for(dtype: Any) -> str:
    """The kind of elements that an argument asks for."""
    if not isinstance(dtype, Known):
        raise NoForm("a dtype that is computed")
    try:
        found = np.dtype(dtype.value)
    except TypeError as error:
        raise NoForm(str(error)) from None
    kind = found.str[1:]
    if kind not in C_OF_KIND or found is not np.dtype(kind):  # another byte order, or a C type of the same size
        raise NoForm(f"an array of {found}")
    return kind


def dtype_of(name: str, count: int, arguments: Sequence[Any], keywords: dict[str, Any], otherwise: str) -> str:
    """The kind of elements, asked for by the argument after the first `count`, or by keyword."""
    others = arguments[count:]
    if len(arguments) < count or len(others) + len(keywords) > 1 or set(keywords) - {"dtype"}:
        raise NoForm(f"np.{name} with these arguments")
    dtype = others[0] if others else keywords.get("dtype")
    is_given = dtype is not None and not (isinstance(dtype, Known) and dtype.value is None)
    return dtype_asked_for(dtype) if is_given else otherwise


def sizes_of(code: ScalarLoops, shape: Any, fail: Fail) -> list[str]:
    sizes = []
    for n in index_items(shape):
        if not isinstance(n, Scalar):
            raise NoForm("a shape of other than integers")
        text = as_index(n)
        if known(text) is None:
            text = code.new("int", text)
        code.leave_if(f"{text} < 0", fail)
        sizes.append(text)
    return sizes


def constant_array(name: str, value: str | None) -> Callable[..., Part]:
    """np.zeros, np.ones, np.empty."""

    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
        kind = dtype_of(name, 1, arguments, keywords, "f8")
        return filled(code, kind, sizes_of(code, arguments[0], fail), value, fail)

    return meaning


def full(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    if len(arguments) < 2 or not isinstance(arguments[1], Scalar):
        raise NoForm("np.full of other than a number")
    value = arguments[1]
    kind = dtype_of("full", 2, arguments, keywords, DEFAULT_KINDS.get(value.kind, value.kind))
    sizes = sizes_of(code, arguments[0], fail)
    return filled(code, kind, sizes, code.stored(value.text, value.kind, kind, fail), fail)


def arange(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    if not 1 <= len(arguments) <= 3 or set(keywords) - {"dtype"} or not all(isinstance(x, Scalar) for x in arguments):
        raise NoForm("np.arange with these arguments")
    first, last = (Scalar("int", code.constant("int", 0)), arguments[0]) if len(arguments) == 1 else arguments[:2]
    step = arguments[2] if len(arguments) == 3 else Scalar("int", code.constant("int", 1))
    is_whole = all(x.kind in ("int", "i8") for x in arguments)
    kind = dtype_of("arange", 0, (), keywords, "i8" if is_whole else "f8")
    if kind not in ("i8", "f8") or (kind == "i8" and not is_whole):
        raise NoForm(f"np.arange as {kind}")
    if is_whole:
        return whole_numbers(code, as_index(first), as_index(last), as_index(step), kind, fail)
    if not all(x.kind in ("int", "i8", "float", "f8") for x in arguments):
        raise NoForm("np.arange of other than integers and float64")
    numbers = [number_of(code, x, fail) for x in (first, last, step)]
    return equal_steps(code, *numbers, fail=fail)


def whole_numbers(code: ScalarLoops, first: str, last: str, step: str, kind: str, fail: Fail) -> Part:
    """np.arange of integers, whose sums are exact in both types."""
    count = code.new("int", last)
    if first not in ("0", "INT64_C(0)"):
        code.line(f"int64_t {count}_n = 0;")
        code.leave_if(f"__builtin_sub_overflow({last}, (int64_t){first}, &{count}_n)", fail)
        count = code.new("int", f"{count}_n")
    by = known(step)
    if by != 1:
        code.leave_if(f"{step} == 0 || {step} > INT64_C({MOST_COUNTED}) || {step} < -INT64_C({MOST_COUNTED})", fail)
        code.leave_if(f"{count} > INT64_C({MOST_COUNTED}) || {count} < -INT64_C({MOST_COUNTED})", fail)
        forward, backward = (f"({count} {rest}) / {step} + 1" for rest in ("- 1", "+ 1"))
        forward, backward = f"{count} > 0 ? {forward} : 0", f"{count} < 0 ? {backward} : 0"
        count = code.new("int", f"{step} > 0 ? ({forward}) : ({backward})")
    code.leave_if(f"{count} > INT64_C({MOST_COUNTED})", fail)
    if kind == "f8":
        code.leave_if(f"{first} > INT64_C({MOST_COUNTED}) || {first} < -INT64_C({MOST_COUNTED})", fail)
    term = "k" if by == 1 else f"k * {step}"
    return counted(code, f"npc_max({count}, 0)", kind, f"{first} + {term}")


def equal_steps(code: ScalarLoops, first: str, last: str, step: str, *, fail: Fail) -> Part:
    """np.arange of numbers: from the third on they are computed of the distance between the first two, as NumPy does."""
    quotient = code.new("f8", f"({last} - {first}) / {step}")
    code.leave_if(f"!__builtin_isfinite({first}) || !__builtin_isfinite({step}) || {step} == 0", fail)
    code.leave_if(f"!(__builtin_fabs({quotient}) < {MOST_COUNTED}.0) || ({quotient} == 0 && {last} != {first})", fail)
    whole = code.new("int", f"(int64_t){quotient}")
    second = code.new("f8", f"{first} + {step}")
    distance = code.new("f8", f"{second} - {first}")
    code.leave_if(f"!__builtin_isfinite({distance})", fail)
    values = f"k > 1 ? {first} + (double)k * {distance} : k ? {second} : {first}"
    return counted(code, f"npc_max({whole} + ({quotient} > (double){whole}), 0)", "f8", values)


def counted(code: ScalarLoops, count: str, kind: str, value: str) -> Part:
    """An array of so many elements, each computed of its place `k`."""
    size = code.new("int", count)
    statements(code).work([size], is_plain=True)
    made = statements(code).fresh(np.dtype(kind), [size])
    c = C_OF_KIND[kind]
    code.line(f"for (int64_t k = 0; k < {size}; k++) (({c}*){made.data})[k] = {value};")
    return made


def number_of(code: ScalarLoops, x: Scalar, fail: Fail) -> str:
    """A number as float64, which can hold it."""
    if x.kind in ("int", "i8"):
        code.leave_if(f"{x.text} > INT64_C({MOST_COUNTED}) || {x.text} < -INT64_C({MOST_COUNTED})", fail)
    return code.new("f8", code.converted(x.text, x.kind, "f8", fail))


def full_like(code: ScalarLoops, x: Any, value: Any, fail: Fail) -> Part:
    if not isinstance(value, Scalar) or not is_array(x) or isinstance(x, Formula) or not is_dense(part_of(x)):
        raise NoForm("np.full_like of an array in another order than C's, or with other than a number")
    kind = kind_of(x)
    return filled(code, kind, tree_of(x)[1], code.stored(value.text, value.kind, kind, fail), fail)


def astype(code: ScalarLoops, x: Any, dtype: Any, fail: Fail) -> Any:
    """A copy of another type, or of the same."""
    tree, sizes = tree_of(x)
    kind = dtype_asked_for(dtype)
    if tree.dtype.str[1:] != kind:
        return Formula(cast(tree, kind), sizes)
    if code.pointwise is not None:
        return code.pointwise.fresh(Formula(tree, sizes))
    require_order(tree, len(sizes))
    return statements(code).make(tree, sizes, fail)


def linspace(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.linspace from one number to another, at least two: as NumPy's a view of an np.arange."""
    names = ("start", "stop", "num")
    given = dict(zip(names, arguments)) | keywords
    if len(given) != len(arguments) + len(keywords) or set(given) - set(names) or {"start", "stop"} - set(given):
        raise NoForm("np.linspace with these arguments")
    start, stop, num = (given.get(name, Scalar("int", code.constant("int", 50))) for name in names)
    if not all(isinstance(x, Scalar) and x.kind in ("int", "float", "f8", "i8") for x in (start, stop, num)):
        raise NoForm("np.linspace of other than Python's numbers or float64")
    count = code.new("int", as_index(num))
    code.leave_if(f"{count} < 2 || {count} > {MOST_COUNTED}", fail)
    first, last = (code.new("f8", code.converted(x.text, x.kind, "f8", fail)) for x in (start, stop))
    width = code.new("f8", f"{last} - {first}")
    step = code.new("f8", f"{width} / (double)({count} - 1)")
    code.leave_if(f"!__builtin_isfinite({first}) || !(__builtin_fabs({width}) < 1e307) || {step} == 0", fail)
    statements(code).work([count])
    made = statements(code).fresh(np.dtype(np.float64), [count])
    code.line(f"for (int64_t k = 0; k < {count}; k++) ((double*){made.data})[k] = (double)k * {step} + {first};")
    code.line(f"((double*){made.data})[{count} - 1] = {last};")
    return replace(made, is_whole=False)


def eye(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """np.eye and np.identity of a size."""
    kind = dtype_of("eye", 1, arguments, keywords, "f8")
    (size,) = sizes_of(code, arguments[0], fail)
    made = filled(code, kind, (size, size), "0", fail)
    code.line(f"for (int64_t k = 0; k < {size}; k++) (({C_OF_KIND[kind]}*){made.data})[k * {size} + k] = 1;")
    return made


def cumulative(sign: str) -> Callable[..., Part]:
    """np.cumsum and np.cumprod of a vector: one element after the other, as NumPy does."""

    def meaning(code: ScalarLoops, x: Any, fail: Fail) -> Part:
        part = memory(code, x, fail)
        kind = part.dtype.str[1:]
        if part.ndim != 1 or kind not in ("f8", "f4", "i8"):
            raise NoForm(f"cumulative sums and products of {part.ndim} axes of {kind}")
        c, (size,) = C_OF_KIND[kind], part.sizes
        made = statements(code).fresh(part.dtype, [size])
        if code.accesses is not None:
            code.accesses.memory(part.data)
        code.line(f"NPC_COMPUTED({size});")
        step = f"total = k ? total {sign} x : x; (({c}*){made.data})[k] = total;"
        code.line(f"{c} {made.data}_last = 0;")
        loop = f"for (int64_t k = 0; k < {size}; k++) {{ const {c} x = *({c}*)({part.data} + k * {part.strides[0]}); {step} }}"
        code.line(f"{{ {c} total = 0; {loop} {made.data}_last = total; }}")
        if is_float(kind):  # what has overflowed, or is invalid, stays so to the end
            code.leave_if(f"!__builtin_isfinite({made.data}_last)", fail)
        return made

    return meaning


def roll(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part | Formula:
    """What comes after the end is at the beginning: two copies into a new array, or elements that are read elsewhere."""
    x, shift, *others = arguments
    if not is_array(x) or len(others) + len(keywords) > 1 or set(keywords) - {"axis"} or not isinstance(shift, Scalar):
        raise NoForm("np.roll with these arguments")
    value = x if code.pointwise is not None else memory(code, x, fail)
    tree, sizes = tree_of(value)
    axis = axis_of(others[0] if others else keywords.get("axis"), len(sizes))
    if axis is None and len(sizes) != 1 or not all(map(is_dense, parts_of(tree))):
        raise NoForm("np.roll of an array as one row, or in another order than C's")
    axis = axis or 0
    size = sizes[axis]
    front = code.new("int", f"npc_mod({as_index(shift)}, {size})")
    if code.pointwise is not None:
        moved: Formula = code.pointwise.roll(Formula(tree, sizes), axis, front)
        return moved
    part, rest = part_of(value), code.new("int", f"{size} - {front}")

    def some(whole: Part, start: str, count: str) -> Part:
        data = whole.data if start == "0" else code.new("data", f"{whole.data} + {start} * {whole.strides[axis]}")
        sizes = (*whole.sizes[:axis], count, *whole.sizes[axis + 1 :])
        return replace(whole, data=data, sizes=sizes, is_whole=False, is_dense=False)

    made = statements(code).fresh(part.dtype, part.sizes)
    for target, source in ((some(made, front, rest), some(part, "0", rest)), (some(made, "0", front), some(part, rest, front))):
        statements(code).store(target, Read(source), fail, is_new=True)
    return made


def bincount(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Part:
    """One number after the other, as NumPy adds them. Large arrays are better off in graphs."""
    names = ("x", "weights", "minlength")
    given = dict(zip(names, arguments)) | keywords
    if len(given) != len(arguments) + len(keywords) or set(given) - set(names) or "x" not in given:
        raise NoForm("np.bincount with these arguments")
    weights, least = given.get("weights"), given.get("minlength", Scalar("int", "INT64_C(0)"))
    if isinstance(weights, Known) and weights.value is None:
        weights = None
    is_counted = is_array(given["x"]) and (weights is None or is_array(weights)) and isinstance(least, Scalar)
    if not is_counted or not code.are_small:
        raise NoForm("np.bincount of other than small arrays")
    code.asks_small = True
    places = memory(code, given["x"], fail)
    if places.ndim != 1 or places.dtype.kind not in "iu" or places.dtype == np.uint64:
        raise NoForm(f"np.bincount of {places.dtype}")
    if code.accesses is not None:
        code.accesses.memory(places.data)
    value = None
    if weights is not None:
        value, sizes = tree_of(converted(weights, np.dtype("f8")))
        if len(sizes) != 1:
            raise NoForm("np.bincount with weights of other than one axis")
        require_same(code, sizes[0], places.sizes[0], fail)
    return array_scatters.bincount(statements(code), places, value, as_index(least), MOST_COUNTED, fail)


MAKERS: dict[Any, Callable[..., Any]] = {
    **{getattr(np, name): constant_array(name, value) for name, value in (("zeros", "0"), ("ones", "1"), ("empty", None))},
    np.full: full,
    np.eye: eye,
    np.identity: eye,
    np.arange: arange,
    np.linspace: linspace,
}
