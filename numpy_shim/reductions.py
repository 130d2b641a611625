"""Sums, extremes and running totals, as functions and as ndarray methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import copy_of, dtype_of
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
from npcompile.numpy_shim.ufuncs import call_ufunc, is_target, store
from npcompile.tensor_core.array import Array, fresh, reshape
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, TensorMeta, product

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
    return reduce(builder, ufunc, a, axis, dtype, method_out(a, out), keepdims, initial, where)


def method_out(a: Any, out: Any) -> Any:
    """The `out` of functions that are methods too: of a NumPy scalar the result is a scalar, whatever was written."""
    if out is ... or isinstance(out, tuple) or out is not None and isinstance(a, (Array, np.generic)) and not is_target(a):
        raise Decline("out= as a tuple or an ellipsis, or of a NumPy scalar")
    return out


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


def truth_method(ufunc: np.ufunc, builder: Builder, a: Any, axis: Any = None, **keywords: Any) -> Array:
    """ndarray.any and ndarray.all: `out` is what they are documented to take next, but it would be a dtype."""
    return truth(ufunc, builder, a, axis, **keywords)


def register(
    captured: Callable[..., Any], ufunc: np.ufunc, functions: tuple[Any, ...], method: str, captured_method: Any = None
) -> None:
    for function in functions:
        FUNCTIONS[function] = partial(captured, ufunc)
    METHODS[method] = partial(captured_method or captured, ufunc)


register(reduce_method, np.add, (np.sum,), "sum")
register(reduce_method, np.multiply, (np.prod,), "prod")
register(extreme, np.maximum, (np.max, np.amax), "max")
register(extreme, np.minimum, (np.min, np.amin), "min")
register(truth, np.logical_or, (np.any,), "any", truth_method)
register(truth, np.logical_and, (np.all,), "all", truth_method)


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
    array, out = source_array(builder, a), method_out(a, out)
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
    if dtype is not None:
        dtype = dtype_of(dtype, takes_classes=False)
    if axis is not None:
        axis = read_axis(axis)
    if axis is None or array.ndim == 0 and axis in (0, -1):
        array, axis = reshape(array, (product(array.shape),)), 0
    return accumulate(builder, ufunc, array, axis, dtype, method_out(a, out))


register(running, np.add, (np.cumsum,), "cumsum")
register(running, np.multiply, (np.cumprod,), "cumprod")
