"""Objects that are only indexed: np.r_, np.c_, np.mgrid, np.ogrid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of
from npcompile.numpy_shim.creation import converted
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.objects import result_type
from npcompile.numpy_shim.registry import FUNCTIONS, literal
from npcompile.tensor_core.array import Array, transpose
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number


def grid(of: Any) -> Callable[[Builder, Any], Any]:
    """What np.mgrid or np.ogrid gives for these ends, which are fixed."""

    def captured(builder: Builder, key: Any) -> Any:
        found = of[tuple(map(ends, key)) if isinstance(key, tuple) else ends(key)]
        if not isinstance(found, tuple):
            return literal(builder, found)
        return tuple(getitem(builder, literal(builder, x.ravel()), along(axis, len(found))) for axis, x in enumerate(found))

    return captured


def along(axis: int, ndim: int) -> tuple[slice | None, ...]:
    """What index puts a vector along this axis."""
    return tuple(slice(None) if k == axis else None for k in range(ndim))


def ends(key: Any) -> slice:
    if not isinstance(key, slice) or any(isinstance(v, (Array, Number)) for v in (key.start, key.stop, key.step)):
        raise Decline("a grid of what are not slices of numbers")
    fixed = [int(v) if isinstance(v, Dim) else v for v in (key.start, key.stop, key.step)]
    if fixed[1] is None:
        raise Decline("a grid without an end")
    return slice(*fixed)


def joined(ndmin: int, axis: int) -> Callable[[Builder, Any], Array]:
    """np.r_[...] and np.c_[...]: parts joined along the first axis, or vectors as columns along the last one."""

    def captured(builder: Builder, key: Any) -> Array:
        items = [part(builder, item) for item in (key if isinstance(key, tuple) else (key,))]
        dtype = result_type(builder, *items)
        arrays = []
        for item in items:
            x = converted(builder, item, dtype, "K", None, ndmin)
            is_vector = ndmin == 2 and isinstance(item, Array) and item.ndim == 1
            arrays.append(transpose(x, (1, 0)) if is_vector else x)
        return FUNCTIONS[np.concatenate](builder, tuple(arrays), axis=axis)

    return captured


def part(builder: Builder, item: Any) -> Any:
    """A number, or an array."""
    if isinstance(item, slice):
        start, stop, step = 0 if item.start is None else item.start, item.stop, 1 if item.step is None else item.step
        if isinstance(step, complex):
            return FUNCTIONS[np.linspace](builder, start, stop, num=int(abs(step)))
        return FUNCTIONS[np.arange](builder, start, stop, step)
    if isinstance(item, str):
        raise Decline("directives of np.r_")
    if isinstance(item, (bool, int, float, complex, Dim, Number, np.generic)):
        return item
    return array_of(builder, item)


INDEXED: dict[type, Callable[[Builder, Any], Any]] = {
    type(np.mgrid): grid(np.mgrid),
    type(np.ogrid): grid(np.ogrid),
    type(np.r_): joined(1, 0),
    type(np.c_): joined(2, -1),
}
