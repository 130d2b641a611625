"""How far numbers lie apart, means with weights, and sums without NaN, in native programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.backends.cpu.loops.loop_nest import known_product
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native.arrays import (
    Formula,
    converted,
    elementwise,
    is_array,
    kind_of,
    memory,
    require_same,
    tree_of,
    where,
)
from npcompile.tracer.native.norms import root
from npcompile.tracer.native.reductions import axis_of, reduce
from npcompile.tracer.native.types import Items, Known, Scalar
from npcompile.tracer.native.views import EVERYTHING, reduced, view, with_axes

Axis = dict[str, Any]  # the keyword, or nothing


def bound(names: Sequence[str], arguments: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names; what is None is as if it were not given. The first is an array."""
    given = dict(zip(names, arguments)) | keywords
    if len(given) != len(arguments) + len(keywords) or set(given) - set(names) or not is_array(given.get(names[0])):
        raise NoForm("a function with these arguments")
    return {k: v for k, v in given.items() if not (isinstance(v, Known) and v.value is None)}


def as_floats(x: Any) -> Any:
    return x if is_float(kind_of(x)) else converted(x, np.dtype(np.float64))


def along(code: ScalarLoops, x: Any, given: dict[str, Any]) -> tuple[Axis, str]:
    """(the keyword, how many elements there are along the axis, or of all)."""
    sizes = tree_of(x)[1]
    axis = axis_of(given.get("axis"), len(sizes))
    if axis is None or len(sizes) == 1:
        return {}, f"({known_product(sizes)})"
    return {"axis": Scalar("int", code.constant("int", axis))}, sizes[axis]


def divided(code: ScalarLoops, x: Any, count: str, fail: Fail) -> Any:
    """By an integer, which float64 numbers can be."""
    if is_array(x):
        return elementwise(code, np.divide, [x, Scalar("float", f"(double){count}")], fail)
    return Scalar(x.kind, code.new(x.kind, f"{x.text} / (double){count}"))


def variance(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.var: the mean of the squares of what is left when the mean is taken away (numpy/_core/_methods.py)."""
    given = bound(("a", "axis", "dtype", "out", "ddof", "keepdims"), arguments, keywords)
    ddof = given.get("ddof", Scalar("int", code.constant("int", 0)))
    if {"dtype", "out"} & set(given) or not isinstance(ddof, Scalar) or ddof.kind != "int":
        raise NoForm("np.var with these arguments")
    x = memory(code, as_floats(given["a"]), fail)
    axis, size = along(code, x, given)
    size = code.new("int", size)
    code.leave_if(f"{ddof.text} < 0 || {size} <= {ddof.text}", fail)  # there is a warning
    middle = reduce(code, "mean", [x if is_float(kind_of(given["a"])) else given["a"]], axis, fail)
    if axis:
        middle = with_axes(code, middle, x.sizes, axis["axis"], fail)
    apart = elementwise(code, np.subtract, [x, middle], fail)
    total = reduced(code, "sum", [elementwise(code, np.square, [apart], fail)], {**axis, **kept(axis, given)}, fail)
    return divided(code, total, f"({size} - {ddof.text})", fail)


def kept(axis: Axis, given: dict[str, Any]) -> dict[str, Any]:
    """`keepdims` if it was given."""
    if "keepdims" in given and not axis:
        raise NoForm("a reduction to one number that keeps its axes")
    return {"keepdims": given["keepdims"]} if "keepdims" in given else {}


def deviation(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.std."""
    return root(code, variance(code, arguments, keywords, fail), fail)


def width(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.ptp: the distance of the greatest and the least."""
    given = bound(("a", "axis"), arguments, keywords)
    x = memory(code, given["a"], fail)
    if x.dtype.kind == "b":
        raise NoForm("np.ptp of booleans")
    axis, _ = along(code, x, given)
    most, least = reduce(code, "max", [x], axis, fail), reduce(code, "min", [x], axis, fail)
    if is_array(most):
        return elementwise(code, np.subtract, [most, least], fail)
    return Scalar(*code.binary("subtract", most.kind, most.text, least.text, fail))


def average(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    """np.average, with a weight for each element, or for each along the axis."""
    given = bound(("a", "axis", "weights"), arguments, keywords)
    x = given["a"]
    if "weights" not in given:
        return reduce(code, "mean", [x], {k: v for k, v in given.items() if k == "axis"}, fail)
    x, weights = memory(code, x, fail), given["weights"]
    if not is_array(weights):
        raise NoForm("weights that are not an array")
    weights = memory(code, weights, fail)
    kind = np.promote_types(kind_of(as_floats(x)), weights.dtype).str[1:]
    if kind not in ("f4", "f8"):
        raise NoForm(f"a mean of {kind}")
    axis, _ = along(code, x, given)
    sizes = x.sizes
    if axis and weights.ndim == 1:
        at = axis_of(axis["axis"], x.ndim)
        sizes = (x.sizes[at or 0],)
    if len(sizes) != weights.ndim:
        raise NoForm("weights of another number of axes")
    for size, other in zip(sizes, weights.sizes):
        require_same(code, size, other, fail)
    total = reduce(code, "sum", [converted(weights, np.dtype(kind))], axis if weights.ndim == x.ndim else {}, fail)
    if axis and weights.ndim == 1 and x.ndim > 1:
        none = Known(None)
        weights = view(code, weights, Items(tuple(EVERYTHING if k == at else none for k in range(x.ndim))), fail)
    terms = elementwise(code, np.multiply, [converted(x, np.dtype(kind)), converted(weights, np.dtype(kind))], fail)
    found = reduce(code, "sum", [terms], axis, fail)
    leave_where_any(code, total, Scalar("float", "0.0"), fail)
    if is_array(found):
        return elementwise(code, np.divide, [found, total], fail)
    return Scalar(*code.binary("divide", kind, found.text, total.text, fail))


# --- NaN left out


def without_nan(name: str) -> Callable[..., Any]:
    """np.nansum, np.nanmax and np.nanmin: another number in place of each NaN."""
    text = {"sum": "0.0", "max": "-__builtin_inf()", "min": "__builtin_inf()"}[name]

    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
        given = bound(("a", "axis"), arguments, keywords)
        x = given["a"]
        axis, _ = along(code, x, given)
        if not is_float(kind_of(x)):
            return reduce(code, name, [x], axis, fail)
        instead = Scalar("float", text)
        numbers = where(code, [elementwise(code, np.isnan, [x], fail), instead, x], fail)
        found = reduce(code, name, [numbers], axis, fail)
        if name != "sum":  # there may have been NaN only, of which there is a warning
            leave_where_any(code, found, instead, fail)
        return found

    return meaning


def leave_where_any(code: ScalarLoops, found: Any, number: Scalar, fail: Fail) -> None:
    if isinstance(found, Scalar):
        code.leave_if(f"{found.text} == {number.text}", fail)
        return
    flags = elementwise(code, np.equal, [found, number], fail)
    code.leave_if(reduce(code, "any", [flags], {}, fail).text, fail)


def nanmean(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Any:
    given = bound(("a", "axis"), arguments, keywords)
    x = given["a"]
    axis, _ = along(code, x, given)
    if not is_float(kind_of(x)):
        return reduce(code, "mean", [x], axis, fail)
    x = memory(code, x, fail)
    total = without_nan("sum")(code, [x], axis, fail)
    flags = elementwise(code, np.isnan, [x], fail)
    numbers: Formula = elementwise(code, np.logical_not, [flags], fail)
    count = reduce(code, "sum", [numbers], axis, fail)
    if isinstance(count, Scalar):
        code.leave_if(f"{count.text} == 0", fail)
        return divided(code, total, count.text, fail)
    made = elementwise(code, np.divide, [total, converted(count, np.dtype(np.float64))], fail)  # 0 / 0 is noted
    return converted(made, np.dtype(kind_of(x)))
