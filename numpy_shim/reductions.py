"""Sums, extremes, means and running totals, as functions and as ndarray methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import copy_of, scalar
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS, implements
from npcompile.numpy_shim.ufunc_methods import (
    NoValue,
    accumulate,
    read_axes,
    read_axis,
    read_flag,
    read_out,
    reduce,
    source_array,
)
from npcompile.numpy_shim.ufuncs import call_ufunc, store
from npcompile.tensor_core.array import Array, broadcast_to, cast, fresh, reshape, result_meta, size_node
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, TensorMeta, product
from npcompile.tensor_core.number import Number

FLOAT16, FLOAT32, FLOAT64 = map(np.dtype, (np.float16, np.float32, np.float64))
INTP = np.dtype(np.intp)


# --- one ufunc reduced


def reduce_method(
    ufunc: np.ufunc,
    builder: Builder,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """np.sum and np.prod, and the methods of those names."""
    keepdims, where = default(keepdims, False), default(where, True)
    return reduce(builder, ufunc, a, axis, dtype, out, keepdims, initial, where)


def default(value: Any, otherwise: Any) -> Any:
    return otherwise if value is NoValue else value


def extreme(
    ufunc: np.ufunc,
    builder: Builder,
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """np.max and np.min: as reduce_method, without dtype."""
    return reduce_method(ufunc, builder, a, axis, None, out, keepdims, initial, where)


def truth(
    ufunc: np.ufunc,
    builder: Builder,
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = False,
    *,
    where: Any = True,
) -> Array:
    """np.any and np.all."""
    return reduce_method(ufunc, builder, a, axis, np.bool_, out, keepdims, NoValue, where)


def register(captured: Callable[..., Any], ufunc: np.ufunc, functions: tuple[Any, ...], method: str) -> None:
    for function in functions:
        FUNCTIONS[function] = partial(captured, ufunc)
    METHODS[method] = partial(captured, ufunc)


register(reduce_method, np.add, (np.sum,), "sum")
register(reduce_method, np.multiply, (np.prod,), "prod")
register(extreme, np.maximum, (np.max, np.amax), "max")
register(extreme, np.minimum, (np.min, np.amin), "min")
register(truth, np.logical_or, (np.any,), "any")
register(truth, np.logical_and, (np.all,), "all")


@implements(np.ptp)
def ptp(builder: Builder, a: Any, axis: Any = None, out: Any = None, keepdims: Any = NoValue) -> Array:
    """Largest minus smallest."""
    array = source_array(builder, a)
    largest = extreme(np.maximum, builder, array, axis, out, keepdims)
    smallest = extreme(np.minimum, builder, array, axis, None, keepdims)
    return call_ufunc(np.subtract, builder, largest, smallest, out=out)


@implements(np.count_nonzero)
def count_nonzero(builder: Builder, a: Any, axis: Any = None, *, keepdims: Any = False) -> Array:
    array = source_array(builder, a)
    if axis is None and not keepdims and isinstance(np.count_nonzero(np.zeros(1)), int):
        raise Decline("this NumPy counts into a Python int")
    truths = array if array.dtype == np.bool_ else copy_of(array, dtype=np.dtype(np.bool_))
    return reduce(builder, np.add, truths, axis, np.intp, None, keepdims)


# --- where the extreme is


def arg_extreme(which: str, builder: Builder, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Array:
    """np.argmax and np.argmin: int64, in C order."""
    array = source_array(builder, a)
    keepdims = read_flag(default(keepdims, False))
    if axis is None:
        axes = tuple(range(array.ndim))
        node = builder.apply("reshape", array.node, shape=(product(array.shape),))
        position = 0
    else:
        axes = read_axes(read_axis(axis), array.ndim)
        node = array.node if axes else builder.apply("reshape", array.node, shape=(1,))
        position = axes[0] if axes else 0
    kept = tuple(n for a, n in enumerate(array.shape) if a not in axes)
    if node.shape[position] == 0:
        raise Decline(f"attempt to get arg{which} of an empty sequence")
    node = builder.apply("arg_reduce", node, which=which, axis=position)
    shape = tuple(1 if a in axes else n for a, n in enumerate(array.shape)) if keepdims else kept
    if keepdims:
        node = builder.apply("reshape", node, shape=shape)
    out = read_out(out)
    if isinstance(out, Array):
        if out.dtype != INTP or len(out.shape) != len(shape) or not all(same(n, m) or n == m for n, m in zip(out.shape, shape)):
            raise Decline(f"output array does not match result of np.arg{which}")
        return store(out, node)
    if out is ...:
        raise Decline("return arrays must be of ArrayType")
    return fresh(builder, node, TensorMeta(shape, INTP), boxed=bool(shape))


for name in ("max", "min"):
    FUNCTIONS[getattr(np, f"arg{name}")] = METHODS[f"arg{name}"] = partial(arg_extreme, name)


# --- running totals


def running(ufunc: np.ufunc, builder: Builder, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
    """np.cumsum and np.cumprod: over the flattened array when axis is None."""
    array = source_array(builder, a)
    if axis is not None:
        axis = read_axis(axis)
    if axis is None or array.ndim == 0 and axis in (0, -1):
        array, axis = reshape(array, (product(array.shape),)), 0
    return accumulate(builder, ufunc, array, axis, dtype, out)


register(running, np.add, (np.cumsum,), "cumsum")
register(running, np.multiply, (np.cumprod,), "cumprod")


# --- means, step by step as NumPy's own Python does them (numpy/_core/_methods.py)


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
    keepdims, where, out = default(keepdims, False), default(where, True), read_out(out)
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
    mask = broadcast_to(source_array(builder, where), array.shape)
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
    keepdims, where, mean, out = default(keepdims, False), default(where, True), default(mean, None), read_out(out)
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
