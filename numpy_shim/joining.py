"""Several arrays made one: concatenate and what NumPy builds on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import arrays_of, axis_of, dtype_of, is_sequence, require_cast, same_shape, write_out
from npcompile.numpy_shim.manipulation import atleast_1d, atleast_2d, atleast_3d, flatten, transpose
from npcompile.numpy_shim.registry import implements, result_dtype
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, cast, fresh
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, TensorMeta, concatenated_strides
from npcompile.tensor_core.number import Number


@implements(np.concatenate)
def concatenate(
    builder: Builder, arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Array:
    """Joined along an existing axis, or flat with axis=None."""
    parts = arrays_of(builder, arrays)
    if not parts:
        raise Decline("need at least one array to concatenate")
    if axis is None:
        if is_sequence(arrays) and any(isinstance(a, (int, float, complex, Dim, Number)) for a in arrays):
            raise Decline("Python numbers joined with arrays, which are weak here alone")
        parts, axis = [part if part.ndim == 1 else flatten(builder, part) for part in parts], 0
    ndim = parts[0].ndim
    if not ndim or any(part.ndim != ndim for part in parts):
        raise Decline("all the input array dimensions must match, and zero-dimensional arrays cannot be concatenated")
    axis = axis_of(axis, ndim)
    if isinstance(out, Array) and any(part.storage is out.storage for part in parts):
        raise Decline("NumPy copies one array after the other into memory that it still reads")
    wanted = joined_dtype(parts, dtype, out, casting)
    nodes = [cast(builder, part.node, wanted) for part in parts]
    node = builder.apply("concatenate", *nodes, axis=axis) if len(nodes) > 1 else nodes[0]
    shape = node.meta.shape
    strides = concatenated_strides(shape, wanted.itemsize, [part.meta for part in parts])
    result = fresh(builder, node, TensorMeta(shape, wanted, strides))
    return result if out is None else write_out(out, result, casting)


def joined_dtype(parts: list[Array], dtype: Any, out: Any, casting: str) -> np.dtype:
    if dtype is not None:
        if out is not None:
            raise Decline("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
        wanted = dtype_of(dtype, takes_classes=False)
    elif isinstance(out, Array):
        wanted = out.dtype
    else:
        wanted = result_dtype(*(part.dtype for part in parts))
    for part in parts:
        require_cast(part.dtype, wanted, casting)
    return wanted


@implements(np.stack)
def stack(
    builder: Builder, arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Array:
    """Joined along a new axis."""
    parts = rows_or_arrays(builder, arrays)
    if not parts or not all(same_shape(part.shape, parts[0].shape) for part in parts):
        raise Decline("all input arrays must have the same shape")
    place = axis_of(axis, parts[0].ndim + 1)
    return concatenate(builder, [with_new_axis(part, place) for part in parts], place, out, dtype=dtype, casting=casting)


def rows_or_arrays(builder: Builder, values: Any) -> list[Array]:
    if isinstance(values, np.ndarray):
        values = list(values)
    return arrays_of(builder, values)


def with_new_axis(x: Array, place: int) -> Array:
    """x[..., None, ...]: the new axis has stride 0, as a subscript makes it."""
    shape, strides = ((*s[:place], new, *s[place:]) for s, new in ((x.shape, 1), (x.meta.strides, 0)))
    return x.view("reshape", shape, x.meta.with_(shape=shape, strides=strides))


@implements(np.hstack)
def hstack(builder: Builder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Array:
    parts = [atleast_1d(builder, part) for part in rows_or_arrays(builder, tup)]
    axis = 0 if parts and parts[0].ndim == 1 else 1
    return concatenate(builder, parts, axis, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(builder: Builder, tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Array:
    parts = [atleast_2d(builder, part) for part in rows_or_arrays(builder, tup)]
    return concatenate(builder, parts, 0, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(builder: Builder, tup: Any) -> Array:
    return concatenate(builder, [atleast_3d(builder, part) for part in rows_or_arrays(builder, tup)], 2)


@implements(np.column_stack)
def column_stack(builder: Builder, tup: Any) -> Array:
    """Vectors as columns, matrices as they are."""
    return concatenate(builder, [as_columns(builder, part) for part in rows_or_arrays(builder, tup)], 1)


def as_columns(builder: Builder, x: Array) -> Array:
    if x.ndim >= 2:
        return x
    return transpose(builder, views.reshape(x, (1, *(x.shape or (1,)))))
