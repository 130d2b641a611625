"""Views by strides: windows that overlap, and what np.lib.stride_tricks.as_strided shows of one row of memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, axis_of, flag, is_sequence, shape_of, sizes_of
from npcompile.numpy_shim.registry import implements
from npcompile.tensor_core import array as views
from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, Strided
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, is_contiguous


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    builder: Builder, x: Any, window_shape: Any, axis: Any = None, *, subok: Any = False, writeable: Any = False
) -> Array:
    """A read-only view with one more axis for each window."""
    if flag(subok) or flag(writeable):
        raise Decline("sliding_window_view that can be written")
    a = array_of(builder, x)
    widths = shape_of(window_shape)
    axes = tuple(range(a.ndim)) if axis is None else tuple(axis_of(i, a.ndim) for i in (axis if is_sequence(axis) else (axis,)))
    if len(widths) != len(axes) or not axes:
        raise Decline("one window for each axis, and at least one")
    for width, i in zip(widths, axes):
        if a.shape[i] < width:
            raise Decline("window shape cannot be larger than input array shape")
        a = views.windows(a, width, i)
    return a


@implements(np.lib.stride_tricks.as_strided)
def as_strided(
    builder: Builder,
    x: Any,
    shape: Any = None,
    strides: Any = None,
    subok: Any = False,
    writeable: Any = True,
    *,
    check_bounds: Any = None,  # from NumPy 2.5 on
) -> Array:
    """A view of the memory that a contiguous row lies in."""
    flag(subok)
    if check_bounds is not None and flag(check_bounds):
        raise Decline("as_strided that checks bounds, of the array that the memory belongs to")
    a = array_of(builder, x)
    if not all(v is None or isinstance(v, (tuple, list)) for v in (shape, strides)):
        raise Decline("as_strided takes a shape and strides as tuples")
    lengths = a.shape if shape is None else shape_of(shape)
    steps = a.meta.strides if strides is None else sizes_of(strides)
    itemsize = a.dtype.itemsize
    if len(lengths) != len(steps) or any(isinstance(s, Dim) or s % itemsize for s in steps):
        raise Decline("as_strided by strides that are not multiples of an element")
    row, start = row_of(a)
    return views.strided(row, Strided(start, lengths, tuple(s // itemsize for s in steps), itemsize, flag(writeable)))


def row_of(a: Array) -> tuple[Array, Size]:
    """The whole memory of the array as a row, and where the array begins in it."""
    whole = Array(a.storage, (), a.storage.meta)
    start: Size = 0
    stride = 1
    is_row = whole.ndim == 1 and is_contiguous(whole.meta, "C") and a.meta.boxed
    for step in a.steps if is_row else ():
        match step.param:
            case BasicIndex((AxisSlice() as part,), ()):
                start, stride = start + stride * part.start, stride * part.step
            case (_,) if step.kind == "reshape":
                pass
            case _:
                is_row = False
    if not is_row:
        raise Decline("as_strided of what is not part of a contiguous row")
    return whole, start
