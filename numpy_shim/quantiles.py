"""Where NumPy's own code for medians and quantiles asks whether there are NaN: the graph computes both answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib import _function_base_impl, _utils_impl

from npcompile.numpy_shim.arguments import array_of, axis_of, known, scalar
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.methods import copyto
from npcompile.numpy_shim.operators import binary
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, implements
from npcompile.numpy_shim.sorting import partition_in_place
from npcompile.tensor_core.array import Array, reshape, transpose
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline


@implements(_function_base_impl._median)
def median(builder: Builder, a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False) -> Array:
    """The mean of the middle elements, which are one or two: for a size that changes, of as many as it says."""
    count = None if not isinstance(a, Array) else a.meta.size if axis is None else a.shape[axis_of(axis, a.ndim)]
    if not isinstance(count, Dim) or out is not None or overwrite_input is not False:
        raise Decline("a median of a known number of elements, or into an array")
    may_be_nan = np.issubdtype(a.dtype, np.inexact)
    first, last = (count - 1) // 2, count // 2
    data = FUNCTIONS[np.partition](builder, a, [first, last, *([-1] if may_be_nan else [])], axis=axis)
    place = 0 if axis is None else axis_of(axis, a.ndim)
    middle = getitem(builder, data, (*(slice(None),) * place, slice(first, last + 1)))
    result = METHODS["mean"](builder, middle, axis=place)
    return median_nancheck(builder, data, result, place) if may_be_nan else result


@implements(_utils_impl._median_nancheck)
def median_nancheck(builder: Builder, data: Any, result: Any, axis: Any) -> Array:
    """The medians, or NaN where the sorted data end in one."""
    if not all(isinstance(x, Array) for x in (data, result)) or any(n == 0 for n in data.shape):
        raise Decline("a median of no data")
    return nan_where(builder, result, FUNCTIONS[np.take](builder, data, -1, axis=axis))


def nan_where(builder: Builder, result: Array, last: Array) -> Array:
    """`result`, with those of `last` that are NaN in their places."""
    are_nan = FUNCTIONS[np.isnan](builder, last)
    if result.meta.boxed:
        copyto(builder, result, last, where=are_nan)
        return result
    if last.dtype != result.dtype or last.ndim:
        raise Decline("the dtype of a quantile is decided by whether there are NaN")
    return scalar(builder, builder.apply("where", are_nan.node, last.node, result.node))


@implements(_function_base_impl._quantile)
def quantile(
    builder: Builder,
    arr: Any,
    quantiles: Any,
    axis: Any = -1,
    method: Any = "linear",
    out: Any = None,
    weights: Any = None,
    weak_q: Any = False,
) -> Array:
    """Quantiles that are known: NumPy computes which elements to take and how to weigh them, for this size."""
    wanted = known(array_of(builder, quantiles))
    if wanted is None or changes(arr, axis):
        if weights is None and out is None and method == "linear" and isinstance(arr, Array):
            return linear_quantile(builder, arr, array_of(builder, quantiles), axis_of(axis, arr.ndim), weak_q)
        raise Decline("quantiles that are array data", "Give them as Python numbers.")
    if weights is not None or method not in _function_base_impl._QuantileMethods or not isinstance(arr, Array):
        raise Decline("weighted quantiles")
    axis = axis_of(axis, arr.ndim)
    arr = transpose(arr, (axis, *(a for a in range(arr.ndim) if a != axis)))
    if any(n == 0 for n in arr.shape):
        raise Decline("quantiles of no data")
    rule = _function_base_impl._QuantileMethods[method]
    count = arr.shape[0].__index__()  # another size is another program
    places = np.asanyarray(rule["get_virtual_index"](count, wanted))
    may_be_nan = np.issubdtype(arr.dtype, np.inexact)
    is_exact = np.issubdtype(places.dtype, np.integer) and method == "linear"
    if rule["fix_gamma"] is None or is_exact:
        partition_in_place(builder, arr, np.concatenate((places.ravel(), [-1] if may_be_nan else [])).astype(np.intp), 0)
        result = FUNCTIONS[np.take](builder, arr, places, axis=0, out=out)
    else:
        lower, upper = _function_base_impl._get_indexes(np.empty(0, arr.dtype), places, count)
        partition_in_place(builder, arr, np.unique(np.concatenate(([0, -1], lower.ravel(), upper.ravel()))), 0)
        weight = _function_base_impl._get_gamma(places, lower, rule)
        weight = float(weight) if weak_q else weight.reshape(places.shape + (1,) * (arr.ndim - 1))
        result = between(builder, getitem(builder, arr, lower), getitem(builder, arr, upper), weight, out)
    return nan_where(builder, result, getitem(builder, arr, (-1, ...)[: arr.ndim])) if may_be_nan else result


@implements(_function_base_impl._quantile_is_valid)
def are_quantiles(builder: Builder, q: Any) -> Any:
    """Are all from 0 to 1?"""
    q = array_of(builder, q)
    bounds = (FUNCTIONS[np.greater_equal](builder, q, 0.0), FUNCTIONS[np.less_equal](builder, q, 1.0))
    return FUNCTIONS[np.all](builder, FUNCTIONS[np.logical_and](builder, *bounds))


def changes(arr: Any, axis: Any) -> bool:
    """Are there as many elements as an integer that changes from call to call?"""
    count = arr.shape[axis_of(axis, arr.ndim)] if isinstance(arr, Array) else 0
    return isinstance(count, Dim) and not count.env.changing.isdisjoint(count.symbols())


def linear_quantile(builder: Builder, arr: Array, q: Array, axis: int, weak_q: Any) -> Array:
    """Quantiles of other places at each call: all elements are sorted."""
    arr = transpose(arr, (axis, *(a for a in range(arr.ndim) if a != axis)))
    if arr.dtype.kind != "f" or any(n == 0 for n in arr.shape) or (weak_q and arr.dtype != q.dtype):
        raise Decline("such quantiles that are array data")
    functions = (np.add, np.subtract, np.multiply, np.floor, np.minimum, np.take)
    add, subtract, multiply, floor, minimum, take = (FUNCTIONS[f] for f in functions)
    data, last = FUNCTIONS[np.sort](builder, arr, axis=0), arr.shape[0] - 1
    places = multiply(builder, q, last)
    lower = minimum(builder, floor(builder, places), last)
    upper = minimum(builder, add(builder, lower, 1), last)
    weight = subtract(builder, places, lower)
    weight = reshape(weight, (*weight.shape, *(1 for _ in arr.shape[1:])))
    a, b = (take(builder, data, METHODS["astype"](builder, x, np.intp), axis=0) for x in (lower, upper))
    result = interpolated(builder, a, b, weight)
    if not result.ndim and arr.ndim == 1:
        result = getitem(builder, result, ())
    return nan_where(builder, result, getitem(builder, data, (-1, ...)[: arr.ndim]))


def interpolated(builder: Builder, a: Array, b: Array, weight: Array) -> Array:
    """a + (b - a) * weight, computed from the nearer end."""
    functions = (np.add, np.subtract, np.multiply, np.where, np.greater_equal)
    add, subtract, multiply, where, at_least = (FUNCTIONS[f] for f in functions)
    difference = subtract(builder, b, a)
    near = add(builder, a, multiply(builder, difference, weight))
    far = subtract(builder, b, multiply(builder, difference, subtract(builder, 1, weight)))
    return where(builder, at_least(builder, weight, 0.5), far, near)  # type: ignore[no-any-return]


def between(builder: Builder, a: Array, b: Array, t: Any, out: Any) -> Array:
    """a + (b - a) * t, computed from the nearer end (numpy.lib's _lerp)."""
    add, subtract, multiply = (FUNCTIONS[f] for f in (np.add, np.subtract, np.multiply))
    difference = binary(np.subtract, builder, b, a)  # an operator there: of integer scalars it reports what overflows
    result = add(builder, a, multiply(builder, difference, t), out=... if out is None else out)
    rest = multiply(builder, difference, 1 - t)
    subtract(builder, b, rest, out=result, where=t >= 0.5, casting="unsafe", dtype=result.dtype)
    return getitem(builder, result, ()) if not result.ndim and out is None else result
