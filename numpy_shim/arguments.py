"""What NumPy's argument converters accept: sizes, shapes, axes, memory orders, dtypes, values to assign."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import as_array, evaluated_once, is_traced, require_dtype, require_number_fits
from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, basic_index, cast, expand, fresh
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.known import fixed_contents, known_contents, known_values
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, contiguous_strides, like_strides, order_in_memory
from npcompile.tensor_core.number import Number


def integer(value: Any) -> Size:
    """operator.index that keeps Dims. Declines what is data, and what NumPy refuses."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, Array):
        return known_integer(value)
    if isinstance(value, (bool, np.bool_)):
        raise Decline("a boolean as a size or axis")  # most functions refuse it
    try:
        return operator.index(value)
    except TypeError as error:
        raise Decline(str(error)) from None


def known_integer(x: Array) -> Size:
    """The integer that a 0-D array or scalar is known to hold."""
    value = None if x.ndim or x.dtype.kind not in "iu" else values_of(x)
    if value is None:
        raise Decline("a size or position is array data", "Compute it with Python integers.")
    return value


def known(x: Array) -> np.ndarray | None:
    """The contents of an array of constants, else None."""
    return known_contents(x.node)


def fixed(x: Array) -> np.ndarray | None:
    """The same, where sizes are fixed for it: what is asked has to be known now."""
    return fixed_contents(x.node)


def values_of(x: Array) -> Any:
    """The elements of an array of constants and sizes as `tolist` gives them, with Dims for sizes that change; else None."""
    values = known_values(x.node)
    if values is None and (contents := fixed(x)) is not None:
        values = contents.tolist()
    return values


def known_sequence(x: Array) -> tuple[Size, ...] | None:
    """The integers that a 1-D array is known to hold, or None."""
    values = values_of(x) if x.ndim == 1 and x.dtype.kind in "iu" else None
    return None if values is None else tuple(values)


def shape_of(value: Any) -> Shape:
    """A shape argument: an integer or a sequence of them, none negative."""
    sizes = sizes_of(value)
    if any(n < 0 for n in sizes):
        raise Decline("negative dimensions are not allowed")
    return sizes


def sizes_of(value: Any) -> Shape:
    if isinstance(value, Array):
        return known_sequence(value) or (integer(value),)
    if isinstance(value, (tuple, list)):
        return tuple(map(integer, value))
    if isinstance(value, np.ndarray):
        return tuple(map(integer, value.tolist())) if value.dtype.kind in "iu" and value.ndim == 1 else (integer(value),)
    return (integer(value),)


def axis_of(value: Any, ndim: int) -> int:
    """One axis as 0..ndim-1."""
    axis = int(integer(value))
    if not -ndim <= axis < ndim:
        raise Decline(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def axes_of(value: Any, ndim: int) -> tuple[int, ...]:
    """An axis or a sequence of different axes, each as 0..ndim-1."""
    if isinstance(value, Array):
        value = known_sequence(value) or (value,)
    axes = tuple(axis_of(a, ndim) for a in (value if isinstance(value, (tuple, list)) else (value,)))
    if len(set(axes)) != len(axes):
        raise Decline("repeated axis")
    return axes


def order_of(value: Any, allowed: str = "CFAK", default: str = "C") -> str:
    if value is None:
        return default
    if not isinstance(value, str) or value.upper() not in tuple(allowed):
        raise Decline(f"order {value!r}")
    return value.upper()


def dtype_of(value: Any, *, takes_classes: bool = True) -> np.dtype:
    """A dtype argument that is not None. Some of NumPy's functions take np.dtypes.Float64DType for a Python class: objects."""
    if is_traced(value):
        raise Decline("a dtype is array data")
    if not takes_classes and isinstance(value, type) and issubclass(value, np.dtype):
        raise Decline("a Python class as dtype")
    try:
        dtype = require_dtype(value)
    except TypeError as error:
        raise Decline(str(error)) from None
    if not takes_classes and dtype.char in "qQ":
        raise Decline("NumPy's second integer type of 64 bits")
    return dtype


def flag(value: Any) -> bool:
    """A bool argument."""
    if isinstance(value, Array) and value.ndim == 0 and (found := known_values(value.node)) is not None:
        return bool(found)
    if not isinstance(value, (bool, int, Dim, np.bool_)):  # of others NumPy's functions take some, and not all the same
        raise Decline(f"a {type(value).__name__} as a flag")
    return bool(value)


def boxed(x: Array) -> Array:
    """The array itself, or the 0-D array that NumPy makes of a scalar."""
    return x if x.meta.boxed else fresh(x.builder, x.node, TensorMeta((), x.dtype))


def array_of(builder: Builder, value: Any, dtype: np.dtype | None = None) -> Array:
    """np.asarray(value, dtype): never a scalar."""
    return boxed(as_array(builder, value, dtype))


def scalar(builder: Builder, node: Node) -> Array:
    """A NumPy scalar with the value of a 0-D node."""
    return fresh(builder, node, TensorMeta((), node.meta.dtype), boxed=False)


def unbox(x: Any) -> Any:
    """What NumPy's functions return: a scalar in place of a 0-D array."""
    return scalar(x.builder, x.node) if isinstance(x, Array) and x.ndim == 0 else x


def copied_meta(meta: TensorMeta, order: str, dtype: np.dtype | None = None, shape: Shape | None = None) -> TensorMeta:
    """Meta of a new array like one with `meta` (PyArray_NewLikeArray)."""
    dtype = meta.dtype if dtype is None else dtype
    if order == "A":
        order = order_in_memory(meta)
    if shape is not None and len(shape) != meta.ndim and order == "K":
        order = "C"
    new = meta.shape if shape is None else shape
    if order == "K":
        return TensorMeta(new, dtype, like_strides(new, dtype.itemsize, meta))
    return TensorMeta(new, dtype, contiguous_strides(new, dtype.itemsize, order))


def copy_of(x: Array, order: str = "K", dtype: np.dtype | None = None) -> Array:
    """x.astype(dtype, order): a fresh array."""
    dtype = x.dtype if dtype is None else dtype
    require_cast(x.dtype, dtype)
    return fresh(x.builder, cast(x.builder, x.node, dtype), copied_meta(x.meta, order, dtype))


def require_cast(source: np.dtype, target: np.dtype, casting: str = "unsafe") -> None:
    """Decline casts that NumPy refuses, or warns of."""
    try:
        allowed = np.can_cast(source, target, casting)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    if not allowed:
        raise Decline(f"Cannot cast array data from {source!r} to {target!r} according to the rule {casting!r}")
    if source.kind == "c" and target.kind not in "cb":
        raise Decline("casting complex to real discards the imaginary part, with a warning")


def assigned(builder: Builder, value: Any, dtype: np.dtype) -> Array:
    """`value` as an assignment x[...] = value converts it to x's dtype: arrays are cast, Python numbers must fit."""
    if isinstance(value, Dim):
        require_fit(value, dtype)
    elif isinstance(value, Number):
        if dtype.kind not in "fc" or (value.type is complex and dtype.kind != "c"):
            raise Decline(f"assigning a Python {value.type.__name__} to {dtype} may fail")
    elif not is_traced(value):
        return as_array(builder, constant_assigned(value, dtype))
    if is_sequence(value):
        require_elements(value, dtype)
    source = as_array(builder, value)
    require_number_fits(source, dtype)
    require_cast(source.dtype, dtype)
    return fresh(builder, cast(builder, source.node, dtype), copied_meta(source.meta, "K", dtype))


def filled_with(builder: Builder, value: Any, dtype: np.dtype) -> Array:
    """The value as np.copyto converts it: an integer has to be one of C's, for booleans too."""
    if dtype.kind == "b" and type(value) is int and not -(2**63) <= value < 2**63:
        raise Decline(f"{value} is too large an integer to become a boolean")
    return assigned(builder, value, dtype)


def constant_assigned(value: Any, dtype: np.dtype) -> np.ndarray:
    """NumPy's own assignment of a constant, with what it would raise or warn as Decline."""
    with evaluated_once():
        result = np.empty(np.shape(value), dtype)
        result[...] = value
    return result


def require_element(value: Any, dtype: np.dtype) -> None:
    """A NumPy scalar that becomes one element of integers is converted as its Python number: that raises when it does not fit."""
    if isinstance(value, Array):
        require_number_fits(value, dtype)
    if not isinstance(value, Array) or value.meta.boxed or value.dtype.kind in "bc":
        return
    if dtype.kind in "iu" and dtype != np.uint64 and not np.can_cast(value.dtype, dtype):
        raise Decline(f"a NumPy scalar of {value.dtype} may not fit into {dtype}", f"Convert it first: value.astype(np.{dtype}).")


def require_fit(size: Dim, dtype: np.dtype) -> None:
    """Python integers that do not fit an integer dtype raise OverflowError."""
    if dtype.kind not in "iu" or (dtype.kind == "i" and dtype.itemsize == 8):
        return
    limits = np.iinfo(dtype)
    if not (size >= int(limits.min) and (dtype.itemsize == 8 or size <= int(limits.max))):
        raise Decline(f"Python integer out of bounds for {dtype}")


def native_array(value: Any, dtype: np.dtype | None) -> np.ndarray:
    with evaluated_once():
        return np.asarray(value, dtype)


def require_elements(values: Any, dtype: np.dtype) -> None:
    """Python integers among the elements must fit the dtype, and floats are not made integers through float64."""
    for value in values:
        if isinstance(value, (list, tuple)):
            require_elements(value, dtype)
        elif isinstance(value, Array):
            require_element(value, dtype)
        else:
            assigned_scalar(value, dtype)


def assigned_scalar(value: Any, dtype: np.dtype) -> None:
    if isinstance(value, Dim):
        require_fit(value, dtype)
    elif isinstance(value, Number):
        if dtype.kind not in "fc" or (value.type is complex and dtype.kind != "c"):
            raise Decline(f"a Python {value.type.__name__} among elements of {dtype}")
    elif native_array(value, dtype).dtype != dtype:
        raise Decline(f"{value!r} among elements of {dtype}")


def fit(builder: Builder, node: Node, shape: Shape) -> Node:
    """`node` broadcast to `shape` as assignment does: leading axes of length 1 too many are dropped."""
    extra = node.meta.ndim - len(shape)
    if extra > 0:
        if any(n != 1 for n in node.meta.shape[:extra]):
            raise Decline(f"could not broadcast input array from shape {node.meta.shape} into shape {shape}")
        node = builder.apply("reshape", node, shape=node.meta.shape[extra:])
    return expand(builder, node, shape)


def same_shape(a: Shape, b: Shape) -> bool:
    """Equal lengths on all axes; asks where sizes are symbolic."""
    return len(a) == len(b) and all(same(n, m) or n == m for n, m in zip(a, b))


def write_out(out: Any, result: Array, casting: str = "same_kind") -> Array:
    """Store a result in the `out` argument, which must have its shape, and give `out`."""
    if not isinstance(out, Array) or not out.meta.boxed:
        raise Decline("return arrays must be of ArrayType")
    if not same_shape(out.shape, result.shape):
        raise Decline(f"output array has shape {out.shape}, not {result.shape}")
    require_cast(result.dtype, out.dtype, casting)
    out.write(cast(out.builder, result.node, out.dtype))
    return out


def is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def arrays_of(builder: Builder, values: Any) -> list[Array]:
    """A sequence of arrays; an array is the sequence of its rows."""
    if isinstance(values, Array):
        return rows_of(values)
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise Decline("arrays to combine must be given as a sequence")
    return [array_of(builder, v) for v in values]


MOST_ROWS = 64


def rows_of(x: Array) -> list[Array]:
    if not x.ndim or not isinstance(x.shape[0], int) or x.shape[0] > MOST_ROWS:
        raise Decline("an array stands for the sequence of its rows", "Pass a tuple of arrays.")
    rest = tuple(AxisSlice(0, 1, n) for n in x.shape[1:])
    return [basic_index(x, BasicIndex((row, *rest))) for row in range(x.shape[0])]
