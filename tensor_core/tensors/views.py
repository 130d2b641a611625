"""View steps on real arrays: what `STEPS` means to a graph, done to memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.array import STEPS, AxisSlice, BasicIndex, Diagonal, Step, Windows
from npcompile.tensor_core.graph import Builder, Node


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


# Kind of step -> (array, the step's param) -> a view of it.
VIEWS: dict[str, Callable[[np.ndarray, Any], np.ndarray]] = {
    "permute": lambda x, axes: x.transpose(axes),
    "reshape": lambda x, shape: x.reshape(shape),
    "reshape_f": lambda x, shape: x.reshape(shape, order="F"),
    "index": index_view,
    "broadcast_to": np.broadcast_to,
    "broadcast_arrays": np.broadcast_to,
    "windows": windows_view,
    "diagonal": diagonal_view,
    "real": lambda x, _: x.real,
    "imag": lambda x, _: x.imag,
    "bitcast": lambda x, dtype: x.view(dtype),
}


def view_of(x: np.ndarray, steps: Sequence[Step]) -> np.ndarray:
    """The view of real memory that `steps` make."""
    for step in steps:
        x = VIEWS[step.kind](x, step.param)
    return x


def read_through(builder: Builder, node: Node, steps: Sequence[Step]) -> Node:
    """What a view of contents `node` shows."""
    for step in steps:
        node = STEPS[step.kind].read(builder, node, step.param)
    return node
