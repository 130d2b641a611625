"""Diagonals of arrays: seen, summed, made into matrices, and written."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, assigned, axes_of, dtype_of, fit, flag, integer
from npcompile.numpy_shim.manipulation import calls_method, ravel
from npcompile.numpy_shim.registry import METHODS, implements
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, expand, fresh, size_node
from npcompile.tensor_core.dim import minimum
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, TensorMeta


@implements(np.diagonal)
def diagonal(builder: Builder, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Array:
    """A read-only view."""
    a = array_of(builder, a)
    if a.ndim < 2:
        raise Decline("diag requires an array of at least two dimensions")
    first, second = axes_of((axis1, axis2), a.ndim)
    return views.diagonal(a, int(integer(offset)), first, second)


@implements(np.diag)
def diag(builder: Builder, v: Any, k: Any = 0) -> Array:
    """The diagonal of a matrix as a view, or the matrix that has a vector as its diagonal."""
    v = array_of(builder, v)
    if v.ndim == 2:
        return diagonal(builder, v, k)
    if v.ndim != 1:
        raise Decline("Input must be 1- or 2-d.")
    k = int(integer(k))
    n = v.shape[0] + abs(k)
    node = v.node
    if k:
        node = builder.apply("concatenate", node, expand(builder, builder.constant(0, v.dtype), (abs(k),)), axis=0)
    # Element (i, i + k) is v[i] for k >= 0, and v[i + k] otherwise: v runs along the shorter side.
    node = views.reshaped(builder, node, (n, 1) if k >= 0 else (1, n))
    i, j = (builder.apply("index", shape=(n, n), axis=axis) for axis in (0, 1))
    if k:
        i = builder.apply("add", i, expand(builder, size_node(builder, k), (n, n)))
    zero = expand(builder, builder.constant(0, v.dtype), (n, n))
    node = builder.apply("where", builder.apply("equal", i, j), expand(builder, node, (n, n)), zero)
    return fresh(builder, node, TensorMeta((n, n), v.dtype))


@implements(np.diagflat)
def diagflat(builder: Builder, v: Any, k: Any = 0) -> Array:
    return diag(builder, ravel(builder, array_of(builder, v)), k)


@implements(np.fill_diagonal)
def fill_diagonal(builder: Builder, a: Any, val: Any, wrap: Any = False) -> None:
    """a[i, i] = val, in place."""
    if not isinstance(a, Array) or a.ndim != 2 or flag(wrap):
        raise Decline("fill_diagonal of what is not a matrix")
    rows, columns = a.shape
    length = minimum(rows, columns)
    value = assigned(builder, val, a.dtype)
    if value.ndim > 1 or (value.ndim == 1 and value.shape[0] != 1 and value.shape[0] != length):
        raise Decline("as many values as the diagonal has elements, or one")
    flat = views.reshaped(builder, a.node, (rows * columns,))
    filled = builder.apply("slice_update", flat, fit(builder, value.node, (length,)), start=(0,), step=(columns + 1,))
    a.write(views.reshaped(builder, filled, a.shape))


@calls_method(np.trace)
def trace(
    builder: Builder, a: Array, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, out: Any = None
) -> Array:
    if dtype is not None:
        dtype = dtype_of(dtype, takes_classes=False)
    if builder.root.is_bitwise and a.ndim > 2 and a.dtype.kind in "fc":
        raise Decline("NumPy sums copies of these diagonals")
    keywords = {name: value for name, value in (("dtype", dtype), ("out", out)) if value is not None}
    return METHODS["sum"](builder, diagonal(builder, a, offset, axis1, axis2), axis=-1, **keywords)
