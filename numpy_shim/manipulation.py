"""The same elements under another shape, order or repetition: views where NumPy gives views."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from npcompile.numpy_shim import data_sizes
from npcompile.numpy_shim.arguments import (
    array_of,
    axes_of,
    axis_of,
    boxed,
    copy_of,
    flag,
    integer,
    is_sequence,
    order_of,
    same_shape,
    shape_of,
    sizes_of,
    unbox,
    values_of,
)
from npcompile.numpy_shim.creation import converted
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.registry import Captured, as_array, implements, result_dtype
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, cast, expand, fresh, permute, size_node
from npcompile.tensor_core.dim import Size, answer_known, maximum, same
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    broadcast_shapes,
    by_strides,
    is_at_least,
    is_contiguous,
    is_packed,
    keep_order_strides,
    like_strides,
    order_in_memory,
    product,
)


def calls_method(*functions: Any) -> Callable[[Captured], Captured]:
    """Register NumPy functions that call the method of their first argument: for a NumPy scalar 0-D results are scalars."""

    def add(captured: Captured) -> Captured:
        @wraps(captured)
        def function(builder: Builder, a: Any, /, *args: Any, **kwargs: Any) -> Any:
            is_scalar = isinstance(a, np.generic) or (isinstance(a, Array) and not a.meta.boxed)
            result = captured(builder, array_of(builder, a), *args, **kwargs)
            return unbox(result) if is_scalar else result

        implements(*functions)(named_first(next(iter(inspect.signature(functions[0]).parameters)), function))
        return captured

    return add


def named_first(name: str, function: Captured) -> Captured:
    """Let the first argument be given by name, as NumPy's functions do."""

    @wraps(function)
    def call(builder: Builder, *args: Any, **kwargs: Any) -> Any:
        if not args and name not in kwargs:
            raise Decline(f"missing a required argument: {name!r}")
        return function(builder, *args, **kwargs) if args else function(builder, kwargs.pop(name), **kwargs)

    return call


# --- reshape, ravel


@calls_method(np.reshape)
def reshape(builder: Builder, a: Array, shape: Any, order: Any = "C", *, copy: Any = None) -> Array:
    order = memory_order(a, order)
    sizes = filled_in(sizes_of(shape), product(a.shape))
    if copy is not None and flag(copy):
        a = copy_of(a, order)
    result = views.reshape(a, sizes, order)
    if copy is not None and not flag(copy) and result.storage is not a.storage:
        raise Decline("Unable to avoid creating a copy while reshaping.")
    return result


def memory_order(x: Array, order: Any) -> str:
    """Order 'A' as the C or F that it means for x."""
    order = order_of(order, "CFA")
    if order == "A":
        return order_in_memory(x.meta)
    return order


def filled_in(sizes: Shape, total: Size) -> Shape:
    """The shape with its -1 replaced. Declines when it does not hold `total` elements."""
    unknown = [i for i, n in enumerate(sizes) if n < 0]
    if len(unknown) > 1:
        raise Decline("can only specify one unknown dimension")
    if not unknown:
        if not same(product(sizes), total) and product(sizes) != total:
            raise Decline(f"cannot reshape array of size {total} into shape {sizes}")
        return sizes
    (at,) = unknown
    known = product([n for i, n in enumerate(sizes) if i != at])
    if known == 0 or total % known != 0:
        raise Decline(f"cannot reshape array of size {total} into shape {sizes}")
    return (*sizes[:at], total // known, *sizes[at + 1 :])


@calls_method(np.ravel)
def ravel(builder: Builder, a: Array, order: Any = "C") -> Array:
    """A view when the elements lie in that order, else a copy."""
    order = order_of(order)
    if order == "A":
        order = memory_order(a, order)
    if order == "K":
        return ravel_as_stored(builder, a)
    return views.reshape(a, (product(a.shape),), order) if is_contiguous(a.meta, order) else flatten(builder, a, order)


def ravel_as_stored(builder: Builder, a: Array) -> Array:
    """order='K': axes by decreasing stride, a view if the elements then follow each other (PyArray_Ravel)."""
    for is_stored, order in itertools.product((is_packed, is_contiguous), "CF"):
        if is_stored(a.meta, order):
            return views.reshape(a, (product(a.shape),), order)
    turned = views.transpose(a, by_strides(like_strides(a.shape, a.dtype.itemsize, a.meta)))
    if is_contiguous(turned.meta, "C"):
        return views.reshape(turned, (product(a.shape),))
    return flatten(builder, a, "K")


def flatten(builder: Builder, a: Array, order: Any = "C") -> Array:
    """ndarray.flatten: always a copy."""
    order = order_of(order)
    if order == "A":
        order = memory_order(a, order)
    axes = list(range(a.ndim))
    if order == "F":
        axes = axes[::-1]
    elif order == "K":
        axes = list(by_strides(keep_order_strides(a.shape, a.dtype.itemsize, [a.meta])))
    shape = (product(a.shape),)
    return fresh(builder, views.reshaped(builder, permute(builder, a.node, tuple(axes)), shape), TensorMeta(shape, a.dtype))


# --- axes


@calls_method(np.transpose, *([np.permute_dims] if np.permute_dims is not np.transpose else []))
def transpose(builder: Builder, a: Array, axes: Any = None) -> Array:
    if axes is None:
        return views.transpose(a, range(a.ndim)[::-1])
    order = axes_of(axes, a.ndim)
    if len(order) != a.ndim:
        raise Decline("axes don't match array")
    return views.transpose(a, order)


@implements(np.matrix_transpose)
def matrix_transpose(builder: Builder, x: Any) -> Array:
    x = array_of(builder, x)
    if x.ndim < 2:
        raise Decline("Input array must be at least 2-dimensional")
    return swapaxes(builder, x, -1, -2)


@calls_method(np.swapaxes)
def swapaxes(builder: Builder, a: Array, axis1: Any, axis2: Any) -> Array:
    order = list(range(a.ndim))
    first, second = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    order[first], order[second] = second, first
    return views.transpose(a, order)


@calls_method(np.moveaxis)
def moveaxis(builder: Builder, a: Array, source: Any, destination: Any) -> Array:
    sources, destinations = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(sources) != len(destinations):
        raise Decline("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(a.ndim) if axis not in sources]
    for place, axis in sorted(zip(destinations, sources)):
        order.insert(place, axis)
    return views.transpose(a, order)


@implements(np.rollaxis)
def rollaxis(builder: Builder, a: Any, axis: Any, start: Any = 0) -> Array:
    if not isinstance(a, Array):
        raise Decline("rollaxis of what is not an array")
    a = boxed(a)
    axis, start = axis_of(axis, a.ndim), int(integer(start))
    start = start + a.ndim if start < 0 else start
    if not 0 <= start <= a.ndim:
        raise Decline("start of rollaxis out of bounds")
    start -= axis < start
    if axis == start:
        return getitem(builder, a, Ellipsis)
    order = [other for other in range(a.ndim) if other != axis]
    order.insert(start, axis)
    return views.transpose(a, order)


@calls_method(np.squeeze)
def squeeze(builder: Builder, a: Array, axis: Any = None) -> Array:
    """A view without axes of length 1."""
    if axis is None:
        dropped = tuple(i for i, n in enumerate(a.shape) if n == 1)
    else:
        axis = axis if isinstance(axis, tuple) else integer(axis)
        dropped = axes_of(axis, a.ndim) if a.ndim or axis not in (0, -1) else ()
        if any(a.shape[i] != 1 for i in dropped):
            raise Decline("cannot select an axis to squeeze out which has size not equal to one")
    if not dropped:  # x.squeeze() is x
        return a
    kept = [i for i in range(a.ndim) if i not in dropped]
    shape, strides = (tuple(s[i] for i in kept) for s in (a.shape, a.meta.strides))
    return a.view("reshape", shape, a.meta.with_(shape=shape, strides=strides))


@implements(np.expand_dims)
def expand_dims(builder: Builder, a: Any, axis: Any) -> Array:
    a = array_of(builder, a)
    added = axis if is_sequence(axis) else (axis,)
    ndim = a.ndim + len(added)
    new = axes_of(added, ndim)
    sizes = iter(a.shape)
    return views.reshape(a, tuple(1 if i in new else next(sizes) for i in range(ndim)))


@implements(np.broadcast_to)
def broadcast_to(builder: Builder, array: Any, shape: Any, subok: Any = False) -> Array:
    """A read-only view."""
    flag(subok)
    a, shape = array_of(builder, array), shape_of(shape)
    if len(shape) < a.ndim or not same_shape(broadcast_shapes(a.shape, shape), shape):
        raise Decline(f"array of shape {a.shape} cannot be broadcast to {shape}")
    return views.broadcast_to(a, shape)


@implements(np.broadcast_arrays)
def broadcast_arrays(builder: Builder, *args: Any, subok: Any = False) -> tuple[Array, ...]:
    flag(subok)
    arrays = [array_of(builder, a) for a in args]
    return tuple(views.broadcast_arrays(arrays, broadcast_shapes(*(a.shape for a in arrays))))


@implements(np.broadcast_shapes)
def shapes_broadcast(builder: Builder, *args: Any) -> Shape:
    return broadcast_shapes(*map(shape_of, args))


def at_least(ndim: int, places: tuple[Any, ...]) -> Captured:
    """np.atleast_<ndim>d: `places[n]` indexes an array of n dimensions to have enough."""

    def atleast(builder: Builder, *arys: Any) -> Any:
        arrays = [array_of(builder, a) for a in arys]
        results = [a if a.ndim >= ndim else with_axes(builder, a, places[a.ndim]) for a in arrays]
        return results[0] if len(results) == 1 else tuple(results)

    return atleast


def with_axes(builder: Builder, a: Array, place: Any) -> Array:
    return views.reshape(a, place) if not a.ndim else getitem(builder, a, place)


WHOLE = slice(None)
atleast_1d = implements(np.atleast_1d)(at_least(1, ((1,),)))
atleast_2d = implements(np.atleast_2d)(at_least(2, ((1, 1), (None, WHOLE))))
atleast_3d = implements(np.atleast_3d)(at_least(3, ((1, 1, 1), (None, WHOLE, None), (WHOLE, WHOLE, None))))


# --- flips, rolls, repetition


@implements(np.flip)
def flip(builder: Builder, m: Any, axis: Any = None) -> Array:
    m = as_array(builder, m)
    axes = range(m.ndim) if axis is None else axes_of(axis, m.ndim)
    return getitem(builder, m, tuple(slice(None, None, -1) if i in axes else WHOLE for i in range(m.ndim)))


def flip_along(axis: int) -> Callable[..., Array]:
    def flipped(builder: Builder, m: Any) -> Array:
        m = array_of(builder, m)
        if m.ndim <= axis:
            raise Decline(f"Input must be >= {axis + 1}-d.")
        return flip(builder, m, axis)

    return flipped


implements(np.flipud)(flip_along(0))
implements(np.fliplr)(flip_along(1))


@implements(np.rot90)
def rot90(builder: Builder, m: Any, k: Any = 1, axes: Any = (0, 1)) -> Array:
    m = array_of(builder, m)
    if not is_sequence(axes) or len(axes) != 2:
        raise Decline("len(axes) must be 2.")
    first, second = axes_of(tuple(axes), m.ndim)
    match int(integer(k)) % 4:
        case 0:
            return getitem(builder, m, WHOLE)
        case 2:
            return flip(builder, flip(builder, m, first), second)
        case 1:
            return swapaxes(builder, flip(builder, m, second), first, second)
        case _:
            return flip(builder, swapaxes(builder, m, first, second), second)


@implements(np.roll)
def roll(builder: Builder, a: Any, shift: Any, axis: Any = None) -> Array:
    """Along each axis, the last `shift` elements come first."""
    a = array_of(builder, a)
    if axis is None:
        return views.reshape(roll(builder, ravel(builder, a), shift, 0), a.shape)
    if not a.ndim:
        raise Decline("rolling a 0-D array along axes")
    axes = [axis_of(i, a.ndim) for i in (axis if is_sequence(axis) else (axis,))]
    shifts = list(map(integer, shift if is_sequence(shift) else (shift,)))
    if len(axes) != len(shifts):
        if 1 not in (len(axes), len(shifts)):
            raise Decline("'shift' and 'axis' do not broadcast")
        axes, shifts = axes * max(1, len(shifts)) if len(axes) == 1 else axes, shifts * len(axes) if len(shifts) == 1 else shifts
    totals: dict[int, Size] = {}
    for i, by in zip(axes, shifts):
        totals[i] = totals.get(i, 0) + by
    node = a.node
    for i, by in totals.items():
        n = a.shape[i]
        by = rolled_by(by, n)
        if not same(by, 0):
            halves = [part(builder, node, i, n - by, by), part(builder, node, i, 0, n - by)]
            node = builder.apply("concatenate", *halves, axis=i)
    return fresh(builder, node, TensorMeta(a.shape, a.dtype, like_strides(a.shape, a.dtype.itemsize, a.meta)))


def rolled_by(shift: Size, n: Size) -> Size:
    """shift % n, which is the shift itself where it is surely inside the axis."""
    if answer_known(shift, "<", 0):
        shift = shift + n
    is_inside = is_at_least(shift, 0) and answer_known(shift, "<", n)
    return shift if is_inside else shift % maximum(n, 1)


def part(builder: Builder, node: Any, axis: int, start: Size, length: Size, step: int = 1) -> Any:
    """Elements start, start + step, ... along one axis."""
    shape = node.meta.shape
    return builder.apply(
        "slice",
        node,
        start=tuple(start if i == axis else 0 for i in range(len(shape))),
        step=tuple(step if i == axis else 1 for i in range(len(shape))),
        shape=(*shape[:axis], length, *shape[axis + 1 :]),
    )


@calls_method(np.repeat)
def repeat(builder: Builder, a: Array, repeats: Any, axis: Any = None) -> Array:
    """Each element `repeats` times; a different number for each where `repeats` is a constant sequence."""
    a, axis = along(builder, a, axis)
    if isinstance(repeats, Array) and repeats.ndim == 1 and repeats.dtype.kind in "biu" and values_of(repeats) is None:
        result = (*a.shape[:axis], None, *a.shape[axis + 1 :]), a.dtype
        if axis:  # the size that data decides is that of the first axis
            raise Decline("repeats that are array data, along another axis than the first")
        if builder.may_differentiate(a.node):
            places = fresh(builder, builder.apply("index", shape=a.shape[:1], axis=0))
            return data_sizes.elements_at(
                builder, a, *data_sizes.sized(builder, np.repeat, [places, repeats], (((None,), places.dtype),))
            )
        return data_sizes.sized(builder, np.repeat, [a, repeats], (result,), axis=axis)[0]
    counts = repeat_counts(repeats)
    if len(counts) != 1:
        return repeat_each(builder, a, counts, axis)
    (count,) = counts
    if count < 0:
        raise Decline("repeats may not contain negative values.")
    before, n, after = a.shape[:axis], a.shape[axis], a.shape[axis + 1 :]
    node = views.reshaped(builder, a.node, (*before, n, 1, *after))
    node = expand(builder, node, (*before, n, count, *after))
    shape = (*before, n * count, *after)
    return fresh(builder, views.reshaped(builder, node, shape), TensorMeta(shape, a.dtype))


def along(builder: Builder, a: Array, axis: Any) -> tuple[Array, int]:
    """The array and axis that are meant: without an axis the elements in C order; a 0-D array has one element."""
    if axis is None or (not a.ndim and axis in (0, -1)):
        return ravel(builder, a), 0
    return a, axis_of(axis, a.ndim)


def repeat_counts(repeats: Any) -> tuple[Size, ...]:
    if isinstance(repeats, Array):
        return sizes_of(repeats)
    if isinstance(repeats, np.ndarray):
        if repeats.dtype.kind not in "iub":
            raise Decline("repeats must be integers")
        return tuple(int(r) for r in repeats.ravel()) if repeats.ndim < 2 else ()
    return tuple(map(integer, repeats if is_sequence(repeats) else (repeats,)))


def repeat_each(builder: Builder, a: Array, counts: tuple[Size, ...], axis: int) -> Array:
    if a.shape[axis] != len(counts) or any(c < 0 for c in counts):
        raise Decline("operands could not be broadcast together")
    positions = np.repeat(np.arange(len(counts)), [int(c) for c in counts])
    chosen = getitem(builder, a, (*(WHOLE,) * axis, positions))
    return fresh(builder, chosen.node, TensorMeta(chosen.shape, a.dtype))


@implements(np.tile)
def tile(builder: Builder, A: Any, reps: Any) -> Array:
    reps = tuple(map(integer, reps)) if is_sequence(reps) else (integer(reps),)
    if any(r < 0 for r in reps):
        raise Decline("negative repetitions")
    if all(r == 1 for r in reps):
        return converted(builder, A, None, "K", True if isinstance(A, Array) else None, len(reps))
    a = array_of(builder, A)
    ndim = max(len(reps), a.ndim)
    sizes = (*(1,) * (ndim - a.ndim), *a.shape)
    reps = (*(1,) * (ndim - len(reps)), *reps)
    shape = tuple(r * n for r, n in zip(reps, sizes))
    if any(same(n, 0) for n in sizes):
        return views.reshape(a, shape)
    node = views.reshaped(builder, a.node, tuple(n for size in sizes for n in (1, size)))
    node = expand(builder, node, tuple(n for pair in zip(reps, sizes) for n in pair))
    last = max(k for k, r in enumerate(reps) if not same(r, 1))  # what NumPy returns is a view of the last copy that it makes
    rows = product((*shape[:last], reps[last])), product(sizes[last:])
    copied = fresh(builder, views.reshaped(builder, node, rows), TensorMeta(rows, a.dtype))
    return copied.view("reshape", shape, TensorMeta(shape, a.dtype))


# --- places


def place_of_extreme(builder: Builder, indices: Any, shape: Any, order: Any = "C") -> tuple[Array, ...]:
    """The place of a flat position that is known to be inside: what argmax and argmin of the flat array give."""
    sizes = shape_of(shape)
    if not isinstance(indices, Array) or not sizes or order_of(order, "CF") != "C":
        raise Decline("positions that NumPy refuses when out of bounds")
    node = indices.node
    if node.op != "arg_reduce":
        raise Decline("positions that NumPy refuses when out of bounds")
    count = node.inputs[0].meta.shape[node.params["axis"]]
    if not same(count, product(sizes)) and count != product(sizes):
        raise Decline("positions in an array of another size")
    places = []
    for n in reversed(sizes[1:]):
        size = expand(builder, size_node(builder, n), node.meta.shape)
        places.append(builder.apply("remainder", node, size))
        node = builder.apply("floor_divide", node, size)
    return tuple(unbox(fresh(builder, place, TensorMeta(place.meta.shape, place.dtype))) for place in [node, *reversed(places)])


# --- membership


@implements(np.isin)
def isin(
    builder: Builder, element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *, kind: Any = None
) -> Array:
    """Is each element equal to one of a few others?"""
    x, others = array_of(builder, element), ravel(builder, array_of(builder, test_elements))
    if kind not in (None, "sort") or not isinstance(others.shape[0], int) or not 0 < others.shape[0] <= FEW:
        raise Decline("np.isin with many elements")
    if {x.dtype.kind, others.dtype.kind} not in ({"f"}, {"i"}, {"u"}, {"i", "f"}, {"u", "f"}):
        raise Decline("np.isin of kinds that promotion compares in another way")
    flag(assume_unique)
    dtype = result_dtype(x.dtype, others.dtype)
    shape = (*x.shape, others.shape[0])
    left = views.reshaped(builder, cast(builder, x.node, dtype), (*x.shape, 1))
    same_value = builder.apply("equal", expand(builder, left, shape), expand(builder, cast(builder, others.node, dtype), shape))
    found = builder.apply("reduce", same_value, reducer="logical_or", axes=(x.ndim,))
    if flag(invert):
        found = builder.apply("logical_not", found)
    row = (product(x.shape),)  # NumPy's result is a view of one
    return views.reshape(fresh(builder, views.reshaped(builder, found, row), TensorMeta(row, found.meta.dtype)), x.shape)


FEW = 64
