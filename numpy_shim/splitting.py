"""Arrays cut in parts along an axis: views of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import axis_of, integer, is_sequence, sizes_of
from npcompile.numpy_shim.indexing import axis_slice
from npcompile.numpy_shim.registry import Captured, implements
from npcompile.tensor_core.array import Array, AxisSlice, BasicIndex, basic_index
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline


@implements(np.split)
def split(builder: Builder, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    """Views of equal parts, or of the parts between the given positions."""
    return parts(ary, indices_or_sections, axis, are_equal=True)


@implements(np.array_split)
def array_split(builder: Builder, ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    return parts(ary, indices_or_sections, axis)


def parts(ary: Any, indices_or_sections: Any, axis: Any, are_equal: bool = False) -> list[Array]:
    a = splittable(ary)
    i = axis_of(axis, a.ndim)
    if is_positions(indices_or_sections):
        return between(a, indices_or_sections, i)
    sections = int(integer(indices_or_sections))
    if sections <= 0:
        raise Decline("number sections must be larger than 0.")
    if are_equal and a.shape[i] % sections != 0:
        raise Decline("array split does not result in an equal division")
    length, longer = a.shape[i] // sections, 0 if are_equal else int(a.shape[i] % sections)
    starts = [length * number + min(number, longer) for number in range(sections)]
    return [section(a, i, AxisSlice(start, 1, length + (number < longer))) for number, start in enumerate(starts)]


def splittable(value: Any) -> Array:
    if not isinstance(value, Array):
        raise Decline("splitting what is not an array")
    if not value.ndim:
        raise Decline("splitting a 0-D array")
    return value


def is_positions(value: Any) -> bool:
    return isinstance(value, Array) and value.ndim == 1 or is_sequence(value) or isinstance(value, np.ndarray) and value.ndim == 1


def between(a: Array, positions: Any, axis: int) -> list[Array]:
    ends = [0, *sizes_of(positions), a.shape[axis]]
    return [section(a, axis, axis_slice(slice(start, stop), a.shape[axis])) for start, stop in pairwise(ends)]


def section(a: Array, axis: int, along: AxisSlice) -> Array:
    return basic_index(a, BasicIndex(tuple(along if i == axis else AxisSlice(0, 1, n) for i, n in enumerate(a.shape))))


def split_along(axis: int, least: int) -> Captured:
    def along(builder: Builder, ary: Any, indices_or_sections: Any) -> list[Array]:
        a = splittable(ary)
        if a.ndim < least:
            raise Decline(f"splitting an array of {a.ndim} dimensions along axis {axis}")
        return split(builder, a, indices_or_sections, min(axis, a.ndim - 1))

    return along


hsplit = implements(np.hsplit)(split_along(1, 1))
vsplit = implements(np.vsplit)(split_along(0, 2))
dsplit = implements(np.dsplit)(split_along(2, 3))
