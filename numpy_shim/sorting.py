"""Sorting, order statistics and search: functions and ndarray methods."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from npcompile.numpy_shim import data_sizes
from npcompile.numpy_shim.arguments import array_of, arrays_of, axis_of, copied_meta, fixed, flag, integer, known_sequence, unbox
from npcompile.numpy_shim.manipulation import calls_method, ravel
from npcompile.numpy_shim.methods import method
from npcompile.numpy_shim.registry import implements, is_traced, literal, result_dtype
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, cast, fresh, reshaped
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, product
from npcompile.tensor_core.ops.sorting import INTP


def kind_of(kind: Any, order: Any, stable: Any) -> str:
    """The sort that NumPy chooses for these arguments."""
    if order is not None:
        raise Decline("Cannot specify order when the array has no fields.")
    if stable is not None and kind is not None:
        raise Decline("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
    if stable is not None:
        return "stable" if flag(stable) else "quicksort"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.sort(np.zeros(0), kind=kind)
    except (TypeError, ValueError, Warning) as error:
        raise Decline(str(error)) from None
    return kind or "quicksort"


def along(builder: Builder, x: Array, axis: Any) -> tuple[Node, int]:
    """What argsort and its kin go along: the elements in C order for axis=None, and for 0-D arrays."""
    if axis is None or (not x.ndim and integer(axis) in (0, -1)):
        return reshaped(builder, x.node, (product(x.shape),)), 0
    return x.node, axis_of(axis, x.ndim)


def copied(builder: Builder, a: Any, axis: Any) -> tuple[Array, int]:
    """The fresh array that np.sort and np.partition change in place."""
    x = array_of(builder, a)
    if axis is None:
        return fresh(builder, reshaped(builder, x.node, (product(x.shape),))), 0
    return fresh(builder, x.node, copied_meta(x.meta, "K")), axis_of(axis, x.ndim)


def positions(kth: Any, length: Size) -> tuple[Size, ...]:
    """`kth`, an integer or a sequence, as numbers from 0."""
    if isinstance(kth, (bool, np.bool_)) or (isinstance(kth, Array) and kth.dtype.kind == "b"):
        raise Decline("booleans as partition index")
    sequence = known_sequence(kth) if isinstance(kth, Array) and kth.ndim else kth
    sequence = sequence.tolist() if isinstance(sequence, np.ndarray) and sequence.ndim == 1 else sequence
    if sequence is None:
        raise Decline("a partition index is array data")
    found = [integer(k) for k in (sequence if isinstance(sequence, (tuple, list)) else (sequence,))]
    if not found:
        raise Decline("Partition index must be integer")
    for k in found:
        if not -length <= k < length:
            raise Decline(f"kth(={k}) out of bounds ({length})")
    return tuple(k + length if k < 0 else k for k in found)


def require_introselect(kind: Any, order: Any) -> None:
    if kind != "introselect" or order is not None:
        raise Decline(f"a partition of kind {kind!r}")


# --- sort, argsort, lexsort


@method("sort")
def sort_in_place(builder: Builder, x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    x.write(builder.apply("sort", x.node, axis=axis_of(axis, x.ndim), kind=kind_of(kind, order, stable)))


@implements(np.sort)
def sort(builder: Builder, a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Array:
    x, place = copied(builder, a, axis)
    sort_in_place(builder, x, place, kind, order, stable=stable)
    return x


@calls_method(np.argsort)
@method("argsort")
def argsort(builder: Builder, a: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Array:
    node, place = along(builder, a, axis)
    return fresh(builder, builder.apply("argsort", node, axis=place, kind=kind_of(kind, order, stable)))


@implements(np.lexsort)
def lexsort(builder: Builder, keys: Any, axis: Any = -1) -> Array:
    arrays = arrays_of(builder, keys)
    if not arrays or not arrays[0].ndim or any(x.shape != arrays[0].shape for x in arrays):
        raise Decline("lexsort of keys that are not arrays of one shape")
    return fresh(builder, builder.apply("lexsort", *(x.node for x in arrays), axis=axis_of(axis, arrays[0].ndim)))


# --- partition, argpartition


@method("partition")
def partition_in_place(
    builder: Builder, x: Array, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> None:
    require_introselect(kind, order)
    place = axis_of(axis, x.ndim)
    x.write(builder.apply("partition", x.node, kth=positions(kth, x.shape[place]), axis=place))


@implements(np.partition)
def partition(builder: Builder, a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Array:
    x, place = copied(builder, a, axis)
    partition_in_place(builder, x, kth, place, kind, order)
    return x


@calls_method(np.argpartition)
@method("argpartition")
def argpartition(builder: Builder, a: Array, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Array:
    require_introselect(kind, order)
    node, place = along(builder, a, axis)
    kth = positions(kth, node.meta.shape[place])
    return fresh(builder, builder.apply("argpartition", node, kth=kth, axis=place))


# --- search


@calls_method(np.searchsorted)
@method("searchsorted")
def searchsorted(builder: Builder, a: Array, v: Any, side: Any = "left", sorter: Any = None) -> Array:
    """Places in the sorted vector `a`: an array of v's shape in C order, or a scalar."""
    if side not in ("left", "right") or a.ndim != 1:
        raise Decline("searchsorted of what is not a vector, or of another side")
    values = array_of(builder, v)
    dtype = result_dtype(a.dtype, values.dtype)
    operands = [cast(builder, x.node, dtype) for x in (a, values)]
    if sorter is not None:
        order = array_of(builder, sorter)
        if order.dtype.kind not in "iu" or not np.can_cast(order.dtype, INTP) or order.ndim != 1:
            raise Decline("sorter must be an integer vector")
        if order.shape[0] != a.shape[0]:
            raise Decline("sorter.size must equal array.size")
        operands.append(cast(builder, order.node, INTP))
    node = builder.apply("searchsorted", *operands, side=side)
    return unbox(fresh(builder, node, TensorMeta(values.shape, INTP)))


def different(
    builder: Builder,
    x: Array,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    **keywords: Any,
) -> Any:
    """np.unique of data."""
    if (
        axis is not None
        and (x.ndim != 1 or type(axis) is not int or axis not in (0, -1))
        or set(keywords) - {"equal_nan", "sorted"}
    ):
        raise Decline("np.unique along an axis")
    wanted = {"return_index": flag(return_index), "return_inverse": flag(return_inverse), "return_counts": flag(return_counts)}
    shapes = [(None,)] * wanted["return_index"] + [x.shape] * wanted["return_inverse"] + [(None,)] * wanted["return_counts"]
    options = {k: flag(v) for k, v in keywords.items()}
    places = tuple((shape, INTP) for shape in shapes)
    if not builder.may_differentiate(x.node):
        found = data_sizes.sized(builder, np.unique, [x], (((None,), x.dtype), *places), **wanted, **options)
    else:
        row = ravel(builder, x)
        first, *found = data_sizes.sized(builder, places_of_different, [row], (((None,), INTP), *places), **wanted, **options)
        found = [data_sizes.elements_at(builder, row, first), *found]
    if wanted["return_inverse"]:
        at = 1 + wanted["return_index"]
        found[at] = view_of_row(builder, found[at], x.shape)
    return tuple(found) if len(found) > 1 else found[0]


def view_of_row(builder: Builder, found: Array, shape: Shape) -> Array:
    """The same of this shape, as a view: so is what np.unique(return_inverse=True) gives."""
    count = product(shape)
    return views.reshape(fresh(builder, reshaped(builder, found.node, (count,)), TensorMeta((count,), found.dtype)), shape)


def places_of_different(x: np.ndarray, **keywords: Any) -> tuple[np.ndarray, ...]:
    """Where each of them is first, and then what np.unique gives beside the elements."""
    values, first = np.unique(x, return_index=True, equal_nan=keywords.get("equal_nan", True))
    found = np.unique(x, **keywords)
    found, *others = found if isinstance(found, tuple) else (found,)
    return first[np.searchsorted(values, found)], *others  # they may be in an order of NumPy's own


@implements(np.unique)
def unique(builder: Builder, ar: Any, *args: Any, **keywords: Any) -> Any:
    """Elements that are known are compared when compiling: sizes and axes are such."""
    x = array_of(builder, ar)
    contents = fixed(x)
    if any(map(is_traced, (*args, *keywords.values()))):
        raise Decline("flags of np.unique that are data")
    if contents is None:
        return different(builder, x, *args, **keywords)
    try:
        result = np.unique(contents, *args, **keywords)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    several = result if isinstance(result, tuple) else (result,)
    if not all(r.flags.c_contiguous for r in several):
        raise Decline("different rows in another memory order")
    found = [literal(builder, r) if r.base is None else view_of_row(builder, literal(builder, r), r.shape) for r in several]
    return tuple(found) if isinstance(result, tuple) else found[0]
