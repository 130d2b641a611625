"""Tensors for what NumPy, and the captured forms of its functions, give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, Storage
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.calls import replaced
from npcompile.tensor_core.tensors.handle import Handle, adopt
from npcompile.tensor_core.tensors.tape import RECORDING, TapeArray, TapeStorage, data_node, meta_of
from npcompile.tensor_core.tensors.views import view_of

# --- of NumPy


def known_result(value: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """The Tensor, or the ndarray, among the arguments whose array the result is."""
    for handle in operands:
        if value is handle._data:
            return handle
    out = kwargs.get("out")
    for argument in (*(out if isinstance(out, tuple) else (out,)), *args):
        if argument is value and isinstance(argument, np.ndarray):
            return argument
    return None


def memory_of(view: np.ndarray, operands: Sequence[Handle]) -> Handle | None:
    """The operand whose memory the array lies in."""
    return next((h for h in operands if np.may_share_memory(view, h._data)), None)


class Held(dict[np.dtype, bool]):
    """Can a Tensor hold a dtype? Remembered: to ask a dtype takes longer than many an operation."""

    def __contains__(self, dtype: object) -> bool:
        assert isinstance(dtype, np.dtype)
        known = self.get(dtype)
        if known is None:
            known = self[dtype] = is_number(dtype)
        return known


HELD = Held()
PLAIN: set[type] = {np.ndarray}  # types of arrays that are no subclasses which mean something else


def box(kind: type[Handle], value: Any, owner: Handle | None = None) -> Any:
    """A Tensor for what NumPy gave. What a Tensor cannot hold (strings, objects, masks) stays as it is."""
    is_other = isinstance(value, np.ndarray) and type(value) not in PLAIN
    data = np.asarray(value)
    if is_other or data.dtype not in HELD:
        return value
    if owner is not None:
        return view_in(kind, data, owner)
    made = kind._of(data)
    made._is_scalar = isinstance(value, np.generic)
    return made


def view_in(kind: type[Handle], data: Any, owner: Handle) -> Any:
    """A Tensor for a view of the memory of `owner` that no steps tell."""
    storage = TapeStorage(data, owner._storage.memory)
    storage.is_locked = "this view was made in a way that gradients cannot follow: write to the Tensor that it is a view of."
    return kind._of(data, TapeArray(storage, (), meta_of(data)))


# --- results of captured forms


def wrap(result: Any, operands: Sequence[Handle], device: str | None = None) -> Any:
    """Tensors for the Arrays in a captured form's result, on the device that is named."""
    kind = type(operands[0])
    adopted: dict[Storage, TapeStorage] = {}

    def leaf(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            return kind._of(np.array(value) if device is None else devices.to_device(np.array(value), device))
        return tensor_of(kind, value, operands, adopted, device) if isinstance(value, Array) else value

    return replaced(result, leaf)


def tensor_of(
    kind: type[Handle], array: Array, operands: Sequence[Handle], adopted: dict[Storage, TapeStorage], device: str | None = None
) -> Any:
    for handle in operands:
        if array is handle._link:
            return handle
    storage = array.storage
    if not isinstance(storage, TapeStorage):
        if storage not in adopted:
            adopted[storage] = adopt(storage.node, storage.meta, device)  # type: ignore[arg-type]
        storage = adopted[storage]
    data = view_of(storage.data, array.steps)
    if device is None and data.flags.writeable and not array.meta.writeable and array.meta.boxed:
        data = data.view()
        data.flags.writeable = False
    if not array.steps and not storage.needs_grad and storage in adopted.values():
        return kind._of(data)
    if storage.needs_grad and not RECORDING.get():
        # Made under no_grad, the view stays apart from the graph.
        storage = TapeStorage(data, storage.memory, data_node(data, storage.memory))
        storage.is_locked = "a view that was made under no_grad cannot be changed in place where gradients are recorded."
        return kind._of(data, TapeArray(storage, (), viewed_meta(array, data)))
    return kind._of(data, TapeArray(storage, array.steps, viewed_meta(array, data), parent_of(array, operands)))


def viewed_meta(array: Array, data: Any) -> TensorMeta:
    is_writeable = array.meta.writeable or not array.meta.boxed if devices.is_on_device(data) else data.flags.writeable
    return array.meta.with_(strides=data.strides, boxed=True, writeable=is_writeable)


def parent_of(array: Array, operands: Sequence[Handle]) -> TapeArray | None:
    """The operand that the view is a view of: its steps are the longest beginning of the view's own."""
    best = None
    for link in (handle._link for handle in operands):
        if link is None or link.storage is not array.storage or not 0 < len(link.steps) <= len(array.steps):
            continue
        if all(a is b for a, b in zip(link.steps, array.steps)) and (best is None or len(best.steps) < len(link.steps)):
            best = link
    return best
