"""Medians, quantiles and variances that leave NaN out: NumPy runs them whole, and their results lie as its own do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, axes_of, flag, unbox
from npcompile.numpy_shim.data_sizes import whole
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.manipulation import permute
from npcompile.numpy_shim.registry import implements
from npcompile.numpy_shim.ufunc_methods import NoValue
from npcompile.numpy_shim.whole import constants, only
from npcompile.tensor_core.array import Array, fresh, transpose
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
            raise Decline(f"what {function.__name__} asks for is no vector of numbers")
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


for _function in (np.nanvar, np.nanstd, np.nanmedian):
    implements(_function)(statistic(_function))
for _function in (np.nanpercentile, np.nanquantile):
    implements(_function)(quantiles(_function))
