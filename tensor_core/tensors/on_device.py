"""Calls with Tensors on a device: the captured form, whose nodes the device evaluates as they are made.

What has no captured form, or declines, runs with NumPy on copies: errors are NumPy's own, and results go back to the device.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.tape import TAPE, Memory, TapeArray, TapeNode, TapeStorage, meta_of
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.calls import Call, replaced, written_handles
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.handle import Handle, from_node, is_recorded, moved_node
from npcompile.tensor_core.tensors.recorded import (
    LINEAR,
    arrays_in,
    capture,
    error_of,
    has_gradient,
    keeps_dtype,
    repeated,
)
from npcompile.tensor_core.tensors.results import HELD, view_in, wrap
from npcompile.tensor_core.tensors.views import view_of

SUBSCRIPTS = ("x[...]", "x[...] = y")  # their second argument says where: it may come from the host


def arrays_among(values: Any) -> Iterator[Any]:
    """The arrays in arguments, those of Tensors among them."""
    for value in values:
        if isinstance(value, Handle):
            yield value._data
        elif isinstance(value, (tuple, list)):
            yield from arrays_among(value)
        elif type(value) in KINDS or isinstance(value, np.ndarray):
            yield value


def device_among(call: Call, args: tuple, kwargs: dict[str, Any]) -> str | None:
    """The device that a call is for, None for the CPU.

    RuntimeError where it is for two: of the CPU, numbers and arrays of no dimensions may meet those of a device.
    """
    arrays = list(arrays_among((*args, *kwargs.values()) if kwargs else args))
    if devices.kind_among(arrays) is None:
        return None
    if call.label in SUBSCRIPTS:
        arrays = [*arrays_among(args[:1]), *arrays_among(args[2:])]
    found = None
    for array in arrays:
        name = devices.device_of(array) if type(array) in KINDS else "cpu" if array.ndim else None
        if found is not None and name is not None and name != found:
            raise mixed(call.label, name, found)
        found = found or name
    for handle in written_handles(call, args, kwargs):
        if (name := devices.device_of(handle._data)) != found:
            raise mixed(call.label, name, found)
    return found


def mixed(what: str, device: str, other: str | None) -> RuntimeError:
    there = device if other in (None, "cpu") else other
    return RuntimeError(f"{what} of arrays on {device!r} and on {other!r}: move them to one device first, x.to({there!r}).")


def perform_on(device: str, call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    recorded = is_recorded(*operands)
    if call.ufunc is not None and not kwargs:
        made = uniform(call, args, operands, recorded)
        if made is not None:
            return made
    captured = call.captured
    if captured is None:
        if not recorded:
            return by_numpy(device, call, args, kwargs, operands)
        try:
            return capture(call, args, kwargs)
        except RuntimeError as error:
            return by_numpy(device, call, args, kwargs, operands, error)
    if recorded and call.label not in LINEAR:
        for handle in written_handles(call, args, kwargs):
            if handle.requires_grad:
                handle._array.keep_contents()

    def operand(value: Any) -> Any:
        return operand_on(device, value, recorded)

    arguments, named = list(replaced(args, operand)), replaced(kwargs, operand)
    if call.label in SUBSCRIPTS:
        arguments[1] = replaced(args[1], lambda v: key_operand(v, call.written is None))
    try:
        return wrap(captured(TAPE, *arguments, **named), operands, device)
    except Decline as decline:
        return by_numpy(device, call, args, kwargs, operands, error_of(call, decline) if recorded else None)
    except (IndexError, np.linalg.LinAlgError):  # NumPy has more to say
        return by_numpy(device, call, args, kwargs, operands)
    except TypeError as error:
        try:
            inspect.signature(captured).bind(TAPE, *arguments, **named)
        except TypeError:  # arguments that NumPy does not take either
            return by_numpy(device, call, args, kwargs, operands, error_of(call, Decline(str(error))) if recorded else None)
        raise


def operand_on(device: str, value: Any, recorded: bool) -> Any:
    """An argument as the captured forms take it. What has a gradient is moved by a node; host numbers stay on the host."""
    if isinstance(value, Handle):
        if is_recorded(value) and devices.device_of(value._data) != device:
            node = moved_node(value._node, device)
            return TapeArray(TapeStorage(node.value, node.memory, node), (), node.meta)
        return value._array
    if type(value) in KINDS:
        data = KINDS[type(value)].copy(value, value.strides) if recorded else value  # it may change before backward reads it
        return TapeArray(TapeStorage(data, Memory()), (), meta_of(data))
    return value


def key_operand(value: Any, is_read: bool) -> Any:
    """An item of a subscript. Where the shape of the result depends on a mask, the host has to see it."""
    data = value._data if isinstance(value, Handle) else value
    if type(data) not in KINDS:
        return data
    if not data.ndim or (is_read and data.dtype.kind == "b"):
        return devices.to_host(data)
    return TapeArray(TapeStorage(data, Memory()), (), meta_of(data))


def uniform(call: Call, args: tuple, operands: Sequence[Handle], recorded: bool) -> Any:
    """A ufunc of Tensors of one shape and dtype, and of Python numbers, without a captured form; else None."""
    assert call.ufunc is not None
    first = next((h._data for h in operands if type(h._data) in KINDS), None)
    if first is None:
        return None
    for v in args:
        if isinstance(v, Handle):
            if type(v._data) is not type(first) or v._data.dtype is not first.dtype or v._data.shape != first.shape:
                return None
        elif not (type(v) is float and first.dtype.char in "fd" and abs(v) < 1e30) and not (type(v) is int and abs(v) < 1 << 20):
            return None
    kept = keeps_dtype(call.ufunc, first.dtype, tuple([None if isinstance(v, Handle) else type(v) for v in args]))
    if kept is None:
        return None
    op, kind = call.ufunc.__name__, type(operands[0])
    values = [v._data if isinstance(v, Handle) else np.asarray(v, first.dtype) for v in args]
    content = KINDS[type(first)].evaluate(op, values, {})
    if not (kept and recorded):
        return kind._of(content)
    nodes = tuple([v._node if isinstance(v, Handle) else repeated(v, first) for v in args])
    return from_node(kind, TapeNode(op, nodes, {}, meta_of(content), content, Memory(), True))


def by_numpy(
    device: str, call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle], error: RuntimeError | None = None
) -> Any:
    """What NumPy makes of copies on the host, its errors too. Raises `error` in place of a result that loses a gradient."""
    copies: dict[Handle, HostCopy] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, Handle):
            return devices.to_host(value)
        if value not in copies:
            copies[value] = HostCopy.of(value)
        return copies[value].seen

    given, named = replaced(args, copied), replaced(kwargs, copied)
    result, written = call.native(*given, **named), written_handles(call, args, kwargs)
    if error is not None and (written or any(map(has_gradient, arrays_in(result)))):
        raise error from None
    for handle in written:
        KINDS[type(handle._data)].assign(handle._data, devices.to_device(copies[handle].seen, device))
        handle._wrote()

    def leaf(value: Any) -> Any:
        if type(value) is not np.ndarray and not isinstance(value, np.generic) or value.dtype not in HELD:
            return value
        for handle, copy in copies.items():
            if value is copy.seen:
                return handle
            if value.base is not None and np.may_share_memory(value, copy.owner):
                return copy.view(call.label, handle, value)
        return type(operands[0])._of(devices.to_device(np.asarray(value), device))

    return replaced(result, leaf)


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A Tensor's memory on the host, as the array that owns it shows it and as the Tensor sees it."""

    owner: np.ndarray
    seen: np.ndarray

    @classmethod
    def of(cls, handle: Handle) -> HostCopy:
        owner = np.array(devices.to_host(handle._storage.data), order="K")
        seen = view_of(owner, handle._array.steps).view()
        seen.flags.writeable = handle._meta.writeable
        return cls(owner, seen)

    def view(self, label: str, handle: Handle, view: np.ndarray) -> Any:
        """The Tensor of the device's memory that the view of the copy stands for. Where it is written, no gradient follows."""
        storage = handle._storage
        if storage.data.strides != self.owner.strides:
            raise RuntimeError(f"{label} gives a view of elements that lie apart on the device: take x.copy() first.")
        offset = view.ctypes.data - self.owner.ctypes.data
        made = KINDS[type(storage.data)].strided(storage.data, view.shape, view.strides, offset, view.dtype)
        return view_in(type(handle), made, handle)
