"""Medians, quantiles and variances that leave NaN out: NumPy runs them whole, and their results lie as its own do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import _nanfunctions_impl

from npcompile.numpy_shim.arguments import array_of, axes_of, axis_of, flag, unbox
from npcompile.numpy_shim.data_sizes import require_none, whole
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.manipulation import permute
from npcompile.numpy_shim.numpy_calls import constants, only
from npcompile.numpy_shim.quantiles import interpolated
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, implements
from npcompile.numpy_shim.ufunc_methods import NoValue
from npcompile.tensor_core.array import Array, fresh, reshape, transpose
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, contiguous_strides, is_contiguous, product
from npcompile.tensor_core.number import Number

LONG = 600  # elements along an axis, from which on nanmedian goes another way


@dataclass(frozen=True, slots=True)
class Quiet:
    """A function whose warnings are errors: the program then runs natively, which warns at the user's line."""

    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, *arrays: Any, **keywords: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return self.function(*arrays, **keywords)


def statistic(function: Callable[..., Any]) -> Callable[..., Array]:
    """Medians, variances and standard deviations. Of medians the axes that keepdims keeps are added to the result."""

    def captured(builder: Builder, a: Any, axis: Any = None, *, keepdims: Any = NoValue, **keywords: Any) -> Array:
        x = real_array(builder, function, a, keywords, {"ddof"})
        keeps = keepdims is not NoValue and flag(keepdims)
        axes = axis if axis is None else axes_of(axis, x.ndim)
        if function is not np.nanmedian and x.dtype.kind == "f" and not builder.is_plain_here:
            return spread(builder, x, axes, keeps, keywords.get("ddof", 0), function is np.nanstd)
        dtype = function(np.ones(1, x.dtype)).dtype
        adds = keeps and function is np.nanmedian
        keeps = keeps and not adds
        shape = reduced(x.shape, axes, keeps)
        strides = None if len(shape) < 2 else strides_of_result(function, x, axes, keeps, dtype)
        given = constants(**keywords) | {"axis": axes, "keepdims": keeps}
        found = only(whole(builder, Quiet(function), [x], ((shape, dtype),), **given))
        found = found if strides is None else fresh(builder, found.node, TensorMeta(shape, dtype, strides))
        return with_axes(builder, found, axes, x.ndim) if adds else unbox(found)

    return captured


def quantiles(function: Callable[..., Any]) -> Callable[..., Array]:
    """Along an axis each row's quantiles are written one after the other (np.apply_along_axis); the result is a view of these."""

    def captured(builder: Builder, a: Any, q: Any, axis: Any = None, *, keepdims: Any = NoValue, **keywords: Any) -> Array:
        x = real_array(builder, function, a, keywords, {"method"})
        keeps = keepdims is not NoValue and flag(keepdims)
        if isinstance(q, (Dim, Number)):
            raise Decline(f"{function.__name__} at a place that changes")
        if isinstance(q, (int, float)):  # its dtype does not count
            keywords["q"], places = q, []
        else:
            places = [array_of(builder, q)]
        if any(v.ndim > 1 or v.meta.weak for v in places):
            raise Decline(f"what {function.__name__} asks for is not a vector of numbers")
        axes = axis if axis is None else axes_of(axis, x.ndim)
        known = {"q": keywords["q"]} if not places else {}
        try:
            dtype = function(np.ones(1, x.dtype), *(np.ones((), v.dtype) for v in places), **known).dtype
        except (TypeError, ValueError) as error:
            raise Decline(str(error)) from None
        wanted, outer = tuple(n for v in places for n in v.shape), reduced(x.shape, axes, False)
        given = constants(**keywords) | {"axis": axes}
        found = only(whole(builder, Quiet(function), [x, *places], (((*wanted, *outer), dtype),), **given))
        if outer:
            last = (*range(len(wanted), len(wanted) + len(outer)), *range(len(wanted)))
            rows = fresh(builder, permute(builder, found.node, last), TensorMeta((*outer, *wanted), dtype))
            found = transpose(rows, (*range(len(outer), rows.ndim), *range(len(outer))))
        return with_axes(builder, found, axes, x.ndim) if keeps else unbox(found)

    return captured


def with_axes(builder: Builder, found: Array, axes: Any, ndim: int) -> Array:
    """A view with axes of length 1 in place of those that were reduced."""
    return getitem(builder, found, (..., *(None if axes is None or k in axes else slice(None) for k in range(ndim))))


def real_array(builder: Builder, function: Any, a: Any, keywords: dict[str, Any], taken: set[str]) -> Array:
    x = array_of(builder, a)
    if x.dtype.kind not in "iuf" or set(keywords) - taken:
        raise Decline(f"{function.__name__} with more arguments, or of other numbers")
    return x


def reduced(shape: Shape, axes: Any, keepdims: bool) -> Shape:
    axes = tuple(range(len(shape))) if axes is None else axes
    return tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)


def strides_of_result(function: Any, x: Array, axes: Any, keeps: bool, dtype: np.dtype) -> Shape:
    """Found by a small array in the same order: the result's axes lie as that array's, without gaps."""
    if any(n == 0 for n in x.shape):
        raise Decline(f"{function.__name__} of no elements")
    order = next((o for o in "CF" if is_contiguous(x.meta, o)), None)
    lengths = [x.shape[k] for k in axes or range(x.ndim)]
    is_joined = function is np.nanmedian and len(lengths) > 1  # several axes made one, whose length counts
    if order is None or is_joined and not product(lengths) < LONG:
        raise Decline(f"{function.__name__} of an array that has gaps, or its axes in another order")
    sizes = [3 if isinstance(n, Dim) or n > 3 else n for n in x.shape]
    if len(lengths) == 1 and not lengths[0] < LONG:
        sizes[axes[0]] = LONG
    small = function(np.ones(sizes, x.dtype, order), axis=axes, keepdims=keeps)
    for made in "CF":
        if small.flags[f"{made}_CONTIGUOUS"]:
            return contiguous_strides(reduced(x.shape, axes, keeps), dtype.itemsize, made)
    raise Decline(f"{function.__name__} whose result has its axes in another order")


# --- where derivatives are taken


def spread(builder: Builder, x: Array, axes: Any, keepdims: bool, ddof: Any, is_root: bool) -> Array:
    """The steps of NumPy's nanvar, or nanstd. The root is taken of a sum of squares, before NaN is: it has a gradient at 0."""
    functions = (np.where, np.sum, np.subtract, np.multiply, np.divide)
    where, add_up, subtract, multiply, divide = (FUNCTIONS[f] for f in functions)
    are_nan = FUNCTIONS[np.isnan](builder, x)
    count = add_up(builder, FUNCTIONS[np.logical_not](builder, are_nan), axis=axes, keepdims=True)
    numbers = where(builder, are_nan, 0, x)
    mean = cast_like(builder, divide(builder, add_up(builder, numbers, axis=axes, keepdims=True), count), x)
    differences = where(builder, are_nan, 0, subtract(builder, numbers, mean))
    total = add_up(builder, multiply(builder, differences, differences), axis=axes, keepdims=keepdims)
    freedom = subtract(builder, count if keepdims else add_up(builder, count, axis=axes), ddof)
    are_bad = FUNCTIONS[np.less_equal](builder, freedom, 0)
    require_none(builder, are_bad)
    found = cast_like(builder, divide(builder, total, freedom), x)
    found = FUNCTIONS[np.sqrt](builder, found) if is_root else found
    return unbox(where(builder, are_bad, cast_like(builder, array_of(builder, np.nan), x), found))


def cast_like(builder: Builder, found: Array, x: Array) -> Array:
    return found if found.dtype == x.dtype else METHODS["astype"](builder, found, x.dtype)  # type: ignore[no-any-return]


@implements(_nanfunctions_impl._nanmedian)
def median(builder: Builder, a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False) -> Array:
    """The mean of the two middle elements of those that are numbers. They are one where their number is odd."""
    if out is not None:
        raise Decline("nanmedian into an array")
    rows = Numbers.of(builder, a, axis)
    add, subtract, divide, floor_divide = (FUNCTIONS[f] for f in (np.add, np.subtract, np.divide, np.floor_divide))
    middle = [rows.at(floor_divide(builder, subtract(builder, rows.count, k), 2)) for k in (1, 0)]
    return rows.result(divide(builder, add(builder, *middle), 2.0), ())


@implements(_nanfunctions_impl._nanquantile_ureduce_func)
def quantile(
    builder: Builder,
    a: Any,
    q: Any,
    weights: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = False,
    method: Any = "linear",
    weak_q: Any = False,
) -> Array:
    """Interpolated between elements that are numbers, whose count is another in each row."""
    if weights is not None or out is not None or method != "linear":
        raise Decline("weighted quantiles, those into an array, or those of another method")
    rows, q = Numbers.of(builder, a, axis), array_of(builder, q)
    add, subtract, multiply, floor = (FUNCTIONS[f] for f in (np.add, np.subtract, np.multiply, np.floor))
    last = subtract(builder, rows.count, 1)
    places = multiply(builder, reshape(q, (*q.shape, 1)), last)
    lower = floor(builder, places)
    upper = FUNCTIONS[np.minimum](builder, add(builder, lower, 1), last)
    weight = subtract(builder, places, lower)
    weight = cast_like(builder, weight, rows.data) if weak_q else weight
    one, other = (rows.at(METHODS["astype"](builder, x, np.intp)) for x in (lower, upper))
    return rows.result(interpolated(builder, one, other, weight), q.shape)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The rows of an array along an axis, which leave NaN out."""

    builder: Builder
    data: Array  # a column for each row, sorted: NaN stand last
    count: Array  # of numbers in each
    outer: Shape  # of the other axes

    @classmethod
    def of(cls, builder: Builder, a: Any, axis: Any) -> Numbers:
        x = array_of(builder, a)
        if x.dtype.kind != "f" or any(n == 0 for n in x.shape):
            raise Decline("what leaves NaN out, of no floating-point numbers")
        axes = tuple(range(x.ndim)) if axis is None else (axis_of(axis, x.ndim),)
        others = [k for k in range(x.ndim) if k not in axes]
        outer = tuple(x.shape[k] for k in others)
        columns = (product(tuple(x.shape[k] for k in axes)), product(outer))
        data = FUNCTIONS[np.sort](builder, reshape(transpose(x, (*axes, *others)), columns), axis=0)
        are_numbers = FUNCTIONS[np.logical_not](builder, FUNCTIONS[np.isnan](builder, data))
        count = FUNCTIONS[np.sum](builder, are_numbers, axis=0)
        require_none(builder, FUNCTIONS[np.equal](builder, count, 0))
        return cls(builder, data, count, outer)

    def at(self, places: Array) -> Array:
        """Of each column the elements at places."""
        columns = FUNCTIONS[np.arange](self.builder, self.data.shape[1])
        return getitem(self.builder, self.data, (places, columns))

    def result(self, found: Array, wanted: Shape) -> Array:
        made = reshape(found, (*wanted, *self.outer))
        return made if made.ndim else getitem(self.builder, made, ())


for _function in (np.nanvar, np.nanstd, np.nanmedian):
    implements(_function)(statistic(_function))
for _function in (np.nanpercentile, np.nanquantile):
    implements(_function)(quantiles(_function))
