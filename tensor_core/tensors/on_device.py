"""Calls with Tensors on a device: the captured form, whose nodes the device evaluates as they are made.

NumPy's functions that are written in Python are compiled from their source. What cannot be, or declines, runs with NumPy on
copies: errors are NumPy's own, and results go back to the device.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.calls import Call, replaced, written_handles
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.handle import Handle, from_node, is_recorded, moved_node
from npcompile.tensor_core.tensors.recorded import LINEAR, arrays_in, capture, error_of, has_gradient, keeps_dtype, repeated
from npcompile.tensor_core.tensors.results import HELD, view_in, wrap
from npcompile.tensor_core.tensors.tape import TAPE, Memory, TapeArray, TapeNode, TapeStorage, meta_of
from npcompile.tensor_core.tensors.views import view_of

NOT_CAPTURED: set[Any] = set()  # NumPy's functions that were tried once: without a gradient they run with NumPy from then on
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
    if not kwargs and call.written is None and (found := same_device(args)):
        return found
    arrays = list(arrays_among((*args, *kwargs.values()) if kwargs else args))
    if (kind := devices.kind_among(arrays)) is None:
        return None
    if call.label in SUBSCRIPTS:
        if type(args[0]._data) not in KINDS:
            there = next(a for a in arrays if type(a) in KINDS)
            raise mixed(call.label, "cpu", kind.device_of(there))
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


def same_device(args: tuple) -> str | None:
    """The device of the arguments, when all are Tensors on one device, and numbers: the usual case, told fast."""
    found = None
    for value in args:
        if isinstance(value, Handle):
            kind = KINDS.get(type(value._data))
            if kind is None:
                return None
            name = kind.device_of(value._data)
            if found is not None and name != found:
                return None
            found = name
        elif type(value) not in (int, float, bool, complex):
            return None
    return found


def mixed(what: str, device: str, other: str | None) -> RuntimeError:
    there = device if other in (None, "cpu") else other
    return RuntimeError(f"{what} of arrays on {device!r} and on {other!r}: move them to one device first, x.to({there!r}).")


def perform_on(device: str, call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    recorded = is_recorded(*operands)
    if call.ufunc is not None and not kwargs:
        made = elementwise(call, args, operands, recorded)
        if made is not None:
            return made
    captured = call.captured
    if captured is None:
        if not recorded and call.function in NOT_CAPTURED:
            return by_numpy(device, call, args, kwargs, operands)
        try:
            return capture(call, args, kwargs)
        except RuntimeError as error:
            result = by_numpy(device, call, args, kwargs, operands, error if recorded else None)
            NOT_CAPTURED.add(call.function)
            return result
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
        with devices.computing_on(device):
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


def elementwise(call: Call, args: tuple, operands: Sequence[Handle], recorded: bool) -> Any:
    """A ufunc of floating-point Tensors and of numbers without a captured form, in one program; else None.

    Where it is recorded, the Tensors have one shape and dtype: the node is then the one that the captured form would make.
    """
    assert call.ufunc is not None
    values: list[Any] = []
    types: list[Any] = []
    for v in args:
        if isinstance(v, Handle):
            values.append(v._data)
            types.append(v._data.dtype)
        elif type(v) is float and abs(v) < 1e30 or type(v) is int and abs(v) < 1 << 20:
            values.append(None)
            types.append(type(v))
        else:
            return None
    loop = loop_of(call.ufunc, tuple(types))
    if loop is None:
        return None
    values = [np.asarray(v, dtype) if value is None else value for value, v, dtype in zip(values, args, loop)]
    first = next(v for v in values if type(v) in KINDS)
    op, kind = call.ufunc.__name__, type(operands[0])
    if not recorded:
        if any(v.ndim and v.shape != first.shape for v in values):
            try:
                np.broadcast_shapes(*[v.shape for v in values])
            except ValueError:
                return None  # NumPy's own error says more
        return kind._of(KINDS[type(first)].evaluate(op, values, {}, loop))
    if any(type(h._data) not in KINDS or h._data.shape != first.shape or h._data.dtype != first.dtype for h in operands):
        return None
    kept = keeps_dtype(call.ufunc, first.dtype, tuple([None if isinstance(v, Handle) else type(v) for v in args]))
    if kept is None:
        return None
    content = KINDS[type(first)].evaluate(op, values, {}, loop)
    if not kept:
        return kind._of(content)
    nodes = tuple([v._node if isinstance(v, Handle) else repeated(v, first) for v in args])
    return from_node(kind, TapeNode(op, nodes, {}, meta_of(content), content, Memory(), True))


@lru_cache(maxsize=4096)
def loop_of(ufunc: np.ufunc, types: tuple[np.dtype | type, ...]) -> tuple[np.dtype, ...] | None:
    """The dtypes to which NumPy casts operands; None for loops that can raise, and where there is no op of that name."""
    row = OPS.get(ufunc.__name__)
    if row is None or row.numpy != ufunc or ufunc.nout != 1:
        return None
    try:
        *loop, _ = ufunc.resolve_dtypes((*types, None))
    except TypeError:
        return None
    chars = "efdFD" if all(isinstance(t, np.dtype) for t in types) else "fdFD"  # a number may be too large for float16
    return tuple(loop) if all(d.char in chars for d in loop) else None


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
        try:
            raise error from None
        finally:
            del error
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
