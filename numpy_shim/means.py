"""np.mean, np.var and np.std, step by step as NumPy's own Python does them (numpy/_core/_methods.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import copy_of, scalar
from npcompile.numpy_shim.reductions import default, method_out
from npcompile.numpy_shim.registry import METHODS, implements
from npcompile.numpy_shim.ufunc_methods import NoValue, read_axes, read_out, reduce, source_array
from npcompile.numpy_shim.ufuncs import call_ufunc
from npcompile.tensor_core.array import Array, broadcast_to, cast, fresh, result_meta, size_node
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, product
from npcompile.tensor_core.number import Number

FLOAT16, FLOAT32, FLOAT64 = map(np.dtype, (np.float16, np.float32, np.float64))


@implements(np.mean, method="mean")
def mean(
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Array:
    array = source_array(builder, a)
    keepdims, where, out = default(keepdims, False), default(where, True), read_out(method_out(a, out))
    narrow = dtype is None and array.dtype == FLOAT16
    total = reduce(builder, np.add, array, axis, mean_dtype(array, dtype), out, keepdims, NoValue, where)
    require_elements(builder, array, axis, where, 0)
    divisor = count(builder, array, axis, where, keepdims)
    result = divide_unsafe(builder, total, divisor, out)
    if out is not None or not narrow:
        return result
    narrowed = copy_of(result, dtype=FLOAT16)
    return narrowed if result.meta.boxed else scalar(builder, narrowed.node)


def mean_dtype(array: Array, dtype: Any) -> Any:
    if dtype is None and array.dtype.kind in "biu":
        return FLOAT64
    return FLOAT32 if dtype is None and array.dtype == FLOAT16 else dtype


def count(builder: Builder, array: Array, axis: Any, where: Any, keepdims: bool) -> Array:
    """How many elements each result is made of: int64."""
    if where is True:
        if array.ndim == 0 and axis is not None and not isinstance(axis, tuple):
            raise Decline(f"axis {axis} is out of bounds for array of dimension 0")
        sizes: list[Size] = [array.shape[a] for a in read_axes(axis, array.ndim)]
        return fresh(builder, size_node(builder, product(sizes)), boxed=False)
    mask = source_array(builder, where)
    if mask.ndim > array.ndim:
        raise Decline("a mask with more dimensions")
    mask = broadcast_to(mask, array.shape)
    return reduce(builder, np.add, mask, axis, np.intp, None, keepdims)


def require_elements(builder: Builder, array: Array, axis: Any, where: Any, ddof: Any) -> None:
    """Decline where NumPy may warn of means of nothing other than by the floating-point error of the division."""
    if where is not True:
        if {"invalid", "divide"} & builder.ignored:
            raise Decline("an empty mean warns even where floating-point errors are ignored")
        return
    size: Any = product([array.shape[a] for a in read_axes(axis, array.ndim)])
    if isinstance(ddof, (Array, Number)) or isinstance(size, Dim) and not isinstance(ddof, (int, Dim)):
        raise Decline("computed degrees of freedom run as NumPy")
    if not isinstance(ddof, (int, float, Dim)) or bool(size <= ddof):
        raise Decline("a mean of too few elements warns")


def divide_unsafe(builder: Builder, total: Array, divisor: Array, out: Any = None) -> Array:
    """total / divisor of total's dtype, into `out` when one was given."""
    if isinstance(out, Array):
        return call_ufunc(np.divide, builder, total, divisor, out=out, casting="unsafe")
    return of_dtype(call_ufunc(np.divide, builder, total, divisor), total)


def of_dtype(array: Array, like: Array) -> Array:
    """The numbers of `array` in the memory of `like`, which NumPy would have written."""
    return fresh(array.builder, cast(array.builder, array.node, like.dtype), like.meta, boxed=like.meta.boxed)


@implements(np.var)
def var(
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    ddof = read_correction(ddof, correction)
    return variance(builder, a, axis, dtype, out, ddof, keepdims, where=where, mean=mean)


def variance(
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
) -> Array:
    array = source_array(builder, a)
    if builder.root.is_bitwise and array.dtype.kind == "c":
        raise Decline("the squares of complex numbers lie in another way in NumPy")
    keepdims, where, mean, out = default(keepdims, False), default(where, True), default(mean, None), read_out(method_out(a, out))
    if dtype is None and array.dtype.kind in "biu":
        dtype = FLOAT64
    require_elements(builder, array, axis, where, ddof)
    divisor = count(builder, array, axis, where, keepdims=False)
    center = mean
    if center is None:
        total = reduce(builder, np.add, array, axis, dtype, None, True, NoValue, where)
        center = divide_unsafe(builder, total, count(builder, array, axis, where, keepdims=True))
    squares = square_modulus(builder, call_ufunc(np.subtract, builder, array, center, out=...))
    total = reduce(builder, np.add, squares, axis, dtype, out, keepdims, NoValue, where)
    if where is not True and keepdims:
        divisor = count(builder, array, axis, where, keepdims=True)
    freedom = call_ufunc(np.maximum, builder, call_ufunc(np.subtract, builder, divisor, ddof), 0)
    return divide_unsafe(builder, total, freedom, out)


def read_correction(ddof: Any, correction: Any) -> Any:
    if correction is NoValue:
        return ddof
    if type(ddof) is not int or ddof != 0:
        raise Decline("ddof and correction can't be provided simultaneously.")
    return correction


def square_modulus(builder: Builder, x: Array) -> Array:
    if x.dtype.kind != "c":
        return call_ufunc(np.square, builder, x, out=...)
    nodes = [builder.apply(part, x.node) for part in ("real", "imag")]
    parts = [fresh(builder, node, result_meta(x.shape, node.dtype, [x])) for node in nodes]
    return call_ufunc(np.add, builder, *(call_ufunc(np.square, builder, p, out=...) for p in parts), out=...)


@implements(np.std)
def std(
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
    correction: Any = NoValue,
) -> Array:
    return root(builder, var(builder, a, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction))


def deviation(
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: Any = 0,
    keepdims: Any = False,
    *,
    where: Any = True,
    mean: Any = NoValue,
) -> Array:
    return root(builder, variance(builder, a, axis, dtype, out, ddof, keepdims, where=where, mean=mean))


def root(builder: Builder, result: Array) -> Array:
    if result.meta.boxed:
        return call_ufunc(np.sqrt, builder, result, out=result)
    return of_dtype(call_ufunc(np.sqrt, builder, result), result)


# The methods know no `correction`.
METHODS["var"], METHODS["std"] = variance, deviation
