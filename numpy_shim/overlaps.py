"""Vectors assigned to others of the same memory, which NumPy copies element by element, without a copy in between."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex
from npcompile.tensor_core.dim import Dim, Size, same
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.tensors.tape import Tape


def require_read_first(target: Array, value: Any) -> None:
    """Decline `target[...] = value` where NumPy may read what it has written before: a graph reads everything first.

    Of vectors whose strides have one direction (PyArray_AssignArray) it copies the last element first if that is right where
    the strides are equal: `M[:, 3] = M[1]` reads M[1, 3] when that is M[1, 1] already.
    """
    if not isinstance(value, Array) or value.storage is not target.storage or isinstance(target.builder, Tape):
        return
    if target.ndim != 1 or not value.ndim or same(value.shape[-1], 1):
        return
    to, come = target.meta.strides[0], value.meta.strides[-1]
    if same(to, come) or same(come, 0) or isinstance(to, int) and isinstance(come, int) and to * come < 0:
        return
    if reads_what_it_wrote(target, value):
        raise Decline("a vector assigned to another in the same memory: NumPy may read what it has written", "Assign a copy.")


def reads_what_it_wrote(target: Array, value: Array) -> bool:
    """False where it is known that it does not."""
    starts, strides = (start_of(target), start_of(value)), (target.meta.strides[0], value.meta.strides[-1])
    length = target.shape[0]
    if isinstance(length, Dim) or any(n is None or isinstance(n, Dim) for n in (*starts, *strides)):
        return True
    places = np.arange(length)
    written, read = (start + stride * places for start, stride in zip(starts, strides))  # type: ignore[operator]
    if strides[0] < 0:
        written, read = written[::-1], read[::-1]
    if length and read[0] < written[0] < read[0] + length * abs(strides[1]):
        written, read = written[::-1], read[::-1]
    is_multiple = (read - written[:1]) % strides[0] == 0
    writers = (read - written[:1]) // (written[1] - written[0] if length > 1 else 1)
    return bool(np.any(is_multiple & (writers >= 0) & (writers < places)))


def start_of(x: Array) -> Size | None:
    """Where the first element is, in bytes from that of the array that owns the memory; None if that takes more than indices."""
    start: Size = 0
    strides = x.storage.meta.strides
    for step in x.steps:
        if step.kind == "permute":
            strides = tuple(strides[a] for a in step.param)
        elif step.kind == "index" and isinstance(step.param, BasicIndex):
            kept: list[Size] = []
            for item, stride in zip(step.param.axes, strides):
                start = start + (item.start if isinstance(item, AxisSlice) else item) * stride
                kept += [stride * item.step] if isinstance(item, AxisSlice) else []
            for position in step.param.new_axes:
                kept.insert(position, 0)
            strides = tuple(kept)
        else:
            return None
    return start
