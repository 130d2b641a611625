"""View steps on real arrays: what `STEPS` means to a graph, done to memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.array import NEW_ZEROS, STEPS, AxisSlice, BasicIndex, Diagonal, Step, Strided, Windows
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Shape, TensorMeta, broadcast_strides, reshape_strides
from npcompile.tensor_core.tensors.devices import KINDS


def index_view(x: np.ndarray, index: BasicIndex) -> np.ndarray:
    key: list[Any] = [axis_key(a) for a in index.axes]
    result = x[(*key, ...)]
    return np.expand_dims(result, index.new_axes) if index.new_axes else result


def axis_key(axis: Any) -> Any:
    if not isinstance(axis, AxisSlice):
        return int(axis)
    if not axis.length:
        return slice(0, 0)
    stop = axis.start + axis.step * axis.length
    return slice(axis.start, None if stop < 0 else stop, axis.step)


def diagonal_view(x: np.ndarray, view: Diagonal) -> np.ndarray:
    return x.diagonal(view.offset, view.axis1, view.axis2)


def windows_view(x: np.ndarray, view: Windows) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, view.width, view.axis)


def strided_view(x: Any, view: Strided) -> Any:
    row, strides = x[view.start :], tuple(s * view.itemsize for s in view.strides)
    kind = KINDS.get(type(x)) if KINDS else None
    if kind is not None:
        return kind.strided(row, view.shape, strides)
    return np.lib.stride_tricks.as_strided(row, view.shape, strides, writeable=view.writeable)


# Kind of step -> (array, the step's param) -> a view of it.
VIEWS: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "permute": lambda x, axes: x.transpose(axes),
    "reshape": lambda x, shape: x.reshape(shape),
    "reshape_f": lambda x, shape: x.reshape(shape, order="F"),
    "index": index_view,
    "broadcast_to": np.broadcast_to,
    "broadcast_arrays": np.broadcast_to,
    "windows": windows_view,
    "strided": strided_view,
    "diagonal": diagonal_view,
    "real": lambda x, _: x.real,
    "imag": lambda x, _: x.imag,
    NEW_ZEROS: lambda x, _: x.imag,
    "bitcast": lambda x, dtype: x.view(dtype),
    "items": lambda x, dtype: x.view(dtype),
}


def reshaped_strides(meta: TensorMeta, shape: Shape, order: str = "C") -> Shape:
    strides = reshape_strides(meta, shape, order)
    assert strides is not None, f"no view of {meta} has the shape {shape}"
    return strides


def window_strides(meta: TensorMeta, view: Windows) -> tuple[Shape, Shape]:
    n = meta.shape[view.axis] - view.width + 1
    shape = (*meta.shape[: view.axis], n, *meta.shape[view.axis + 1 :], view.width)
    return shape, (*meta.strides, meta.strides[view.axis])


# The steps for which arrays of devices have no method that is NumPy's: the shape and strides of the view.
STRIDED: dict[str, Callable[[TensorMeta, Any], tuple[Shape, Shape]]] = {
    "reshape": lambda meta, shape: (shape, reshaped_strides(meta, shape)),
    "reshape_f": lambda meta, shape: (shape, reshaped_strides(meta, shape, "F")),
    "broadcast_to": lambda meta, shape: (shape, broadcast_strides(meta, shape)),
    "broadcast_arrays": lambda meta, shape: (shape, broadcast_strides(meta, shape)),
    "windows": window_strides,
}


def view_of(x: Any, steps: Sequence[Step]) -> Any:
    """The view of real memory that `steps` make."""
    kind = KINDS.get(type(x)) if KINDS else None
    for step in steps:
        if kind is None or step.kind not in STRIDED:
            x = VIEWS[step.kind](x, step.param)
        else:
            x = kind.strided(x, *STRIDED[step.kind](TensorMeta(x.shape, x.dtype, x.strides), step.param))
    return x


def read_through(builder: Builder, node: Node, steps: Sequence[Step]) -> Node:
    """What a view of contents `node` shows."""
    for step in steps:
        node = STEPS[step.kind].read(builder, node, step.param)
    return node
