"""New arrays: filled ones, grids, and arrays made of Python values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import (
    array_of,
    assigned,
    copied_meta,
    copy_of,
    dtype_of,
    filled_with,
    fit,
    flag,
    integer,
    native_array,
    order_of,
    require_cast,
    require_elements,
    scalar,
    shape_of,
)
from npcompile.numpy_shim.registry import FUNCTIONS, evaluated_once, implements, is_traced
from npcompile.tensor_core.array import Array, broadcast_arrays, cast, expand, fresh, reshape, size_node
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, TensorMeta, broadcast_shapes, contiguous_strides, is_contiguous

FLOAT64 = np.dtype(float)
INT64 = np.dtype(np.int64)


def require_cpu(device: Any = None, like: Any = None) -> None:
    """Arrays are NumPy's own: no other device, no array function of another library."""
    if device not in (None, "cpu") or like is not None:
        raise Decline("device= or like=")


def filled(builder: Builder, value: Node, meta: TensorMeta) -> Array:
    return fresh(builder, expand(builder, value, meta.shape), meta)


def ordered_meta(shape: Any, dtype: Any, order: Any) -> TensorMeta:
    sizes, dtype = shape_of(shape), FLOAT64 if dtype is None else dtype_of(dtype)
    return TensorMeta(sizes, dtype, contiguous_strides(sizes, dtype.itemsize, order_of(order, "CF")))


# --- filled


def of_number(number: int) -> Callable[..., Array]:
    def made(builder: Builder, shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Array:
        require_cpu(device, like)
        meta = ordered_meta(shape, dtype, order)
        return filled(builder, builder.constant(number, meta.dtype), meta)

    return made


zeros = implements(np.zeros, np.empty)(of_number(0))  # what np.empty holds is not specified
implements(np.ones)(of_number(1))


@implements(np.full)
def full_(
    builder: Builder, shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None
) -> Array:
    require_cpu(device, like)
    value = array_of(builder, fill_value) if dtype is None else filled_with(builder, fill_value, dtype_of(dtype))
    meta = ordered_meta(shape, value.dtype, order)
    return filled(builder, fit(builder, value.node, meta.shape), meta)


def like_meta(builder: Builder, prototype: Any, dtype: Any, order: Any, subok: Any, shape: Any) -> TensorMeta:
    """Meta of np.empty_like."""
    flag(subok)
    like = array_of(builder, prototype)
    wanted = None if dtype is None else dtype_of(dtype)
    return copied_meta(like.meta, order_of(order, default="K"), wanted, None if shape is None else shape_of(shape))


def of_number_like(number: int) -> Callable[..., Array]:
    def made(
        builder: Builder, a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None, *, device: Any = None
    ) -> Array:
        require_cpu(device)
        meta = like_meta(builder, a, dtype, order, subok, shape)
        return filled(builder, builder.constant(number, meta.dtype), meta)

    return made


zeros_like = implements(np.zeros_like)(of_number_like(0))
implements(np.ones_like)(of_number_like(1))


@implements(np.empty_like)
def empty_like(
    builder: Builder,
    prototype: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    return zeros_like(builder, prototype, dtype, order, subok, shape, device=device)


@implements(np.full_like)
def full_like(
    builder: Builder,
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: Any = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    require_cpu(device)
    meta = like_meta(builder, a, dtype, order, subok, shape)
    return filled(builder, fit(builder, filled_with(builder, fill_value, meta.dtype).node, meta.shape), meta)


# --- from Python values and other arrays


@implements(np.array)
def array(
    builder: Builder,
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: Any = "K",
    subok: Any = False,
    ndmin: Any = 0,
    ndmax: Any = np._NoValue,
    like: Any = None,
) -> Array:
    flag(subok)
    require_cpu(like=like)
    if ndmax is not np._NoValue:
        raise Decline("ndmax=")
    return converted(builder, object, dtype, order_of(order, default="K"), copy, integer(ndmin))


@implements(np.asarray, np.asanyarray)
def asarray(
    builder: Builder, a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Array:
    require_cpu(device, like)
    return converted(builder, a, dtype, order_of(order, default="K"), copy)


def of_order(order: str) -> Callable[..., Array]:
    def made(builder: Builder, a: Any, dtype: Any = None, *, like: Any = None) -> Array:
        require_cpu(like=like)
        return converted(builder, a, dtype, order, None, 1)

    return made


implements(np.ascontiguousarray)(of_order("C"))
implements(np.asfortranarray)(of_order("F"))


@implements(np.copy)
def copy(builder: Builder, a: Any, order: Any = "K", subok: Any = False) -> Array:
    flag(subok)
    return converted(builder, a, None, order_of(order, default="K"), True)


COPY_MODES = {np._CopyMode.ALWAYS: True, np._CopyMode.IF_NEEDED: None, np._CopyMode.NEVER: False}


def converted(builder: Builder, value: Any, dtype: Any, order: str, copy: Any, ndmin: Size = 0) -> Array:
    """np.array(value, dtype, copy=copy, order=order, ndmin=ndmin)."""
    copy = COPY_MODES.get(copy, copy) if isinstance(copy, np._CopyMode) else copy
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(value, Array) and value.meta.boxed:
        x = value
        if wanted is not None and wanted == x.dtype and wanted.char != x.dtype.char:
            raise Decline("C's long as its long long, or the reverse, which np.array and np.asarray leave or view")
        is_ready = (wanted is None or x.dtype == wanted) and (order in "KA" or is_contiguous(x.meta, order))
        if copy is not None and flag(copy) or not is_ready:
            if copy is not None and not flag(copy):
                raise Decline("Unable to avoid copy while creating an array as requested")
            is_cast = wanted is not None and wanted != x.dtype
            x = copy_of(x, "K" if order == "A" and is_cast else order, wanted)  # as PyArray_FromArray has it
    else:
        if copy is not None and not flag(copy):
            raise Decline("Unable to avoid copy while creating an array as requested")
        x = new_array(builder, value, wanted)
        if order == "F":
            x = fresh(builder, x.node, copied_meta(x.meta, "F"))
    missing = int(ndmin) - x.ndim
    return reshape(x, (*(1,) * missing, *x.shape)) if missing > 0 else x


def new_array(builder: Builder, value: Any, dtype: np.dtype | None) -> Array:
    """An array of Python numbers, NumPy scalars and nested sequences of them, arrays among them."""
    if dtype is None or not is_traced(value):
        return array_of(builder, native_array(value, dtype) if not is_traced(value) else value)
    if isinstance(value, (list, tuple)):
        require_elements(value, dtype)
        node = array_of(builder, value).node
        require_cast(node.meta.dtype, dtype)
        return fresh(builder, cast(builder, node, dtype), TensorMeta(node.meta.shape, dtype))
    value = assigned(builder, value, dtype)
    return fresh(builder, value.node, TensorMeta(value.shape, dtype))


# --- scalar types


def scalar_type(kind: type) -> Any:
    dtype = np.dtype(kind)

    def make(builder: Builder, value: Any = 0, /) -> Any:
        """A scalar of this type; an array when the value is one."""
        if not is_traced(value):
            return native_scalar(kind, value)
        if isinstance(value, Array) and value.ndim and value.dtype == dtype:
            return value
        result = converted(builder, value, dtype, "K", None)
        return result if result.ndim else scalar(builder, result.node)

    make.__name__ = make.__qualname__ = kind.__name__
    return make


def native_scalar(kind: type, value: Any) -> Any:
    with evaluated_once():
        return kind(value)


SCALAR_TYPES = dict.fromkeys(np.dtype(code).type for code in "?bhilBHILefdFD")
for _kind in SCALAR_TYPES:
    implements(_kind)(scalar_type(_kind))


# --- grids


def row_minus_column(builder: Builder, rows: Size, columns: Size, k: Size) -> tuple[Node, Node]:
    """i + k and j for every element of a matrix."""
    shape = (rows, columns)
    i, j = (builder.apply("index", shape=shape, axis=a) for a in (0, 1))
    return (i if same(k, 0) else builder.apply("add", i, expand(builder, size_node(builder, k), shape))), j


@implements(np.eye)
def eye(
    builder: Builder,
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = float,
    order: Any = "C",
    *,
    device: Any = None,
    like: Any = None,
) -> Array:
    require_cpu(device, like)
    meta = ordered_meta((N, N if M is None else M), dtype, order)
    rows, columns = meta.shape
    i, j = row_minus_column(builder, rows, columns, integer(k))
    return fresh(builder, cast(builder, builder.apply("equal", i, j), meta.dtype), meta)


@implements(np.identity)
def identity(builder: Builder, n: Any, dtype: Any = None, *, like: Any = None) -> Array:
    return eye(builder, n, dtype=dtype, like=like)


@implements(np.tri)
def tri(builder: Builder, N: Any, M: Any = None, k: Any = 0, dtype: Any = float, *, like: Any = None) -> Array:
    require_cpu(like=like)
    meta = ordered_meta((N, N if M is None else M), dtype, "C")
    rows, columns = meta.shape
    i, j = row_minus_column(builder, rows, columns, integer(k))
    return fresh(builder, cast(builder, builder.apply("greater_equal", i, j), meta.dtype), meta)


@implements(np.tril)
def tril(builder: Builder, m: Any, k: Any = 0) -> Array:
    return triangle(builder, m, integer(k), keep_lower=True)


@implements(np.triu)
def triu(builder: Builder, m: Any, k: Any = 0) -> Array:
    return triangle(builder, m, integer(k) - 1, keep_lower=False)


def triangle(builder: Builder, m: Any, k: Size, keep_lower: bool) -> Array:
    x = array_of(builder, m)
    if not x.ndim:
        raise Decline("a triangle of a 0-D array")
    mask = tri(builder, *x.shape[-2:], k=k, dtype=bool)
    zero = zeros(builder, 1, x.dtype)
    return FUNCTIONS[np.where](builder, mask, *((x, zero) if keep_lower else (zero, x)))


SPARSE_VIEWS = type(np.meshgrid(0, sparse=True, copy=False))  # a list before NumPy 2.5, then a tuple


@implements(np.meshgrid)
def meshgrid(builder: Builder, *xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise Decline("Valid values for `indexing` are 'xy' and 'ij'.")
    ndim = len(xi)
    swaps = indexing == "xy" and ndim > 1
    axes = [1 - i if swaps and i < 2 else i for i in range(ndim)]
    outputs: Any = []
    for axis, x in zip(axes, xi):
        vector = array_of(builder, x)
        length = math.prod(vector.shape)
        outputs.append(reshape(vector, (*(1,) * axis, length, *(1,) * (ndim - axis - 1))))
    if not flag(sparse):
        outputs = tuple(broadcast_arrays(outputs, broadcast_shapes(*(x.shape for x in outputs))))
    if flag(copy):
        return tuple(copy_of(x, "C") for x in outputs)
    return SPARSE_VIEWS(outputs) if flag(sparse) else outputs
