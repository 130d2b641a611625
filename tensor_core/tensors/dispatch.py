"""Calls of NumPy on Tensors: NumPy itself where nothing is recorded, else the captured form, evaluated on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.tensors.calls import SURFACE as SURFACE
from npcompile.tensor_core.tensors.calls import Call, collect, plain, plain_leaf, replaced, written_handles
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.handle import Handle
from npcompile.tensor_core.tensors.on_device import device_among, perform_on
from npcompile.tensor_core.tensors.recorded import record
from npcompile.tensor_core.tensors.results import box, known_result, memory_of, wrap
from npcompile.tensor_core.tensors.tape import RECORDING, TAPE, recording


def perform(call: Call, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What NumPy gives, with Tensors for its arrays and array scalars."""
    operands: list[Handle] = []
    collect(args, operands)
    if kwargs:
        collect(tuple(kwargs.values()), operands)
    if KINDS and (device := device_among(call, args, kwargs)) is not None:
        return perform_on(device, call, args, kwargs, operands)
    if RECORDING.get():
        for handle in operands:
            if handle._link is not None and handle.requires_grad:
                return record(call, args, kwargs, operands)
    return run(call, args, kwargs, operands)


# --- NumPy itself


def run(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    try:
        given = [plain_leaf(a) if a.__class__ not in CONTAINERS else plain(a) for a in args]
        native = call.native
        if call.of_scalar is not None:
            for k, x in enumerate(args[:2]):
                if isinstance(x, Handle) and x._is_scalar:
                    given[k] = x._data[()]
                    native = call.of_scalar if k == 0 else native
        result = native(*given, **plain(kwargs))
    finally:
        for handle in written_handles(call, args, kwargs):
            handle._wrote()
    return boxed_results(result, call, args, kwargs, operands)


CONTAINERS = (tuple, list, dict)


def boxed_results(result: Any, call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """NumPy's arrays and scalars as Tensors. A view of an operand knows what it is a view of."""
    kind = type(operands[0])
    if isinstance(result, np.generic):
        return box(kind, result)
    if isinstance(result, np.ndarray) and result.base is None:
        found = known_result(result, args, kwargs, operands)
        return found if found is not None else box(kind, result)
    views: list[np.ndarray] = []

    def is_view(value: Any) -> None:
        if isinstance(value, np.ndarray) and value.base is not None and memory_of(value, operands) is not None:
            views.append(value)

    replaced(result, is_view)
    if (
        views
        and call.captured is not None
        and known_result(result, args, kwargs, operands) is None
        and not any(map(is_deep, operands))
    ):
        try:
            with recording(False):
                made = wrap(call.captured(TAPE, *linked(args), **linked(kwargs)), operands)
                return as_viewed(made, result, operands)
        except Decline:
            pass  # a view that cannot be told by steps: its Tensor knows the memory alone

    def leaf(value: Any) -> Any:
        known = known_result(value, args, kwargs, operands)
        if known is not None or not isinstance(value, (np.ndarray, np.generic)):
            return value if known is None else known
        owner = memory_of(value, operands) if isinstance(value, np.ndarray) and value.base is not None else None
        made = box(kind, value, owner)
        if owner is not None and made is not value:
            made._base = base_of(owner)
        return made

    return replaced(result, leaf)


DEEPEST = 32  # views of views


def is_deep(handle: Handle) -> bool:
    """Is it a view after so many views that to tell the next by steps would cost more than it is worth?"""
    link = handle._link
    return link is not None and len(link.steps) >= DEEPEST and not link.storage.needs_grad  # type: ignore[attr-defined]


def as_viewed(made: Any, native: Any, operands: Sequence[Handle]) -> Any:
    """The Tensors with the views themselves that NumPy made, which have its flags and bases."""
    if isinstance(made, (tuple, list)):
        for part, value in zip(made, native, strict=True):
            as_viewed(part, value, operands)
    elif isinstance(made, Handle) and isinstance(native, np.ndarray) and native.base is not None:
        owner = memory_of(native, operands)
        if owner is not None and owner is not made:
            made._data, made._base = native, base_of(owner)  # type: ignore[attr-defined]
    return made


def base_of(owner: Handle) -> Handle:
    """The Tensor at the end of a chain of views."""
    return getattr(owner, "_base", owner)


def linked(value: Any) -> Any:
    """Tensors as the tape's Arrays."""
    return replaced(value, lambda v: v._array if isinstance(v, Handle) else v)
