"""How values lie in memory: the strides that a fresh array gets for a meta, and about how large sizes are."""

from __future__ import annotations

from npcompile.backends.kernels.index import AXES
from npcompile.tensor_core.dim import Dim, Size, hint_of, same
from npcompile.tensor_core.meta import TensorMeta, contiguous_strides


def dense_strides(meta: TensorMeta) -> tuple[Size, ...]:
    """Strides of a fresh array in the memory order of `meta`, which may be that of a view."""
    order = axes_in_memory(meta)
    strides: list[Size] = [0] * meta.ndim
    for axis, step in zip(
        order, reversed(contiguous_strides(tuple(meta.shape[a] for a in reversed(order)), meta.dtype.itemsize))
    ):
        strides[axis] = step
    return tuple(strides)


def axes_in_memory(meta: TensorMeta) -> list[int]:
    """Axes from the innermost. Without gaps they follow each other for all sizes; strides at capture tell no more of an
    array that had one element along an axis then, or none. Those of a view are sorted by them."""
    order: list[int] = []
    step: Size = meta.dtype.itemsize
    while len(order) < meta.ndim:
        rest = [a for a in range(meta.ndim) if a not in order]
        ones = [a for a in rest if same(meta.shape[a], 1)]
        found = [a for a in rest if same(meta.strides[a], step)]
        if not found and not ones:
            return sorted(range(meta.ndim), key=lambda a: (estimate(meta.strides[a]), -a))
        axis = max({*found} & {*ones} or found or ones)
        order.append(axis)
        if not same(meta.shape[axis], 0):
            step = step * meta.shape[axis]
    return order


def estimate(size: Size) -> int:
    """About how large: the value at capture, 1 for what is not known then."""
    if not isinstance(size, Dim):
        return size
    if size.env is AXES or any(s not in size.env.hints for s in size.symbols()):
        return 64
    return hint_of(size)
