"""Calls of NumPy on Tensors: NumPy itself where nothing is recorded, else the captured form, evaluated on the tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, Storage
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.tape import RECORDING, TAPE, Memory, TapeArray, TapeStorage, data_node, meta_of, recording
from npcompile.tensor_core.tensors.handle import NUMBERS, Handle, adopt, is_recorded
from npcompile.tensor_core.tensors.views import view_of

Captured = Callable[..., Any]


@dataclass
class Surface:
    """Captured forms of NumPy's surface, by what they capture. The shim, a layer above, fills these in."""

    functions: dict[Any, Captured] = field(default_factory=dict)
    methods: dict[str, Captured] = field(default_factory=dict)
    attributes: dict[str, Captured] = field(default_factory=dict)
    ufunc_methods: dict[str, Captured] = field(default_factory=dict)  # (builder, ufunc, ...)
    operators: dict[str, Captured] = field(default_factory=dict)  # "+", "+=", "==", "-x", "getitem", "setitem"
    # (function, args, kwargs) -> result, for NumPy functions that are written in Python and have no captured form.
    capture_call: Callable[[Any, tuple, dict], Any] | None = None


SURFACE = Surface()


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that NumPy does, natively and captured."""

    label: str  # for messages
    native: Callable[..., Any]
    captured: Captured | None
    written: int | None = None  # the argument that is changed in place
    function: Any = None  # the NumPy function, where it is one


def perform(call: Call, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What NumPy gives, with Tensors for its arrays and array scalars."""
    operands = list(handles_in((args, kwargs)))
    if is_recorded(*operands):
        return record(call, args, kwargs, operands)
    return run(call, args, kwargs, operands)


def handles_in(value: Any) -> Iterator[Handle]:
    """The Tensors in arguments."""
    if isinstance(value, Handle):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from handles_in(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from handles_in(v)


def replaced(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A copy of nested arguments or results with everything that is no container replaced by leaf(it)."""
    if isinstance(value, (tuple, list)):
        parts = [replaced(v, leaf) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {k: replaced(v, leaf) for k, v in value.items()}
    return leaf(value)


def plain(value: Any) -> Any:
    """Tensors as the ndarrays that they show."""
    return replaced(value, lambda v: v._data if isinstance(v, Handle) else v)


def written_handles(call: Call, args: tuple, kwargs: dict[str, Any]) -> list[Handle]:
    """The Tensors that the call changes in place."""
    found = list(handles_in(kwargs.get("out")))
    if call.written is not None and len(args) > call.written:
        found += handles_in(args[call.written])
    if call.function is not None and (position := out_position(call.function)) is not None and len(args) > position:
        found += handles_in(args[position])
    return found


@lru_cache(maxsize=1024)
def out_position(function: Any) -> int | None:
    """Where NumPy's function takes `out` among its positional arguments."""
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except ValueError:  # functions in C without a signature
        return None
    return names.index("out") if "out" in names else None


# --- NumPy itself


def run(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    try:
        result = call.native(*plain(args), **plain(kwargs))
    finally:
        for handle in written_handles(call, args, kwargs):
            handle._wrote()
    return boxed_results(result, call, args, kwargs, operands)


def boxed_results(result: Any, call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """NumPy's arrays and scalars as Tensors. A view of an operand knows what it is a view of."""
    kind = type(operands[0])
    if isinstance(result, np.generic) or (isinstance(result, np.ndarray) and result.base is None):
        found = known_result(result, args, kwargs, operands)
        return found if found is not None else box(kind, result)
    views: list[np.ndarray] = []

    def is_view(value: Any) -> None:
        if isinstance(value, np.ndarray) and value.base is not None and memory_of(value, operands) is not None:
            views.append(value)

    replaced(result, is_view)
    if views and call.captured is not None and known_result(result, args, kwargs, operands) is None:
        try:
            with recording(False):
                return wrap(call.captured(TAPE, *linked(args), **linked(kwargs)), operands)
        except Decline:
            pass  # a view that cannot be told by steps: its Tensor knows the memory alone

    def leaf(value: Any) -> Any:
        known = known_result(value, args, kwargs, operands)
        if known is not None or not isinstance(value, (np.ndarray, np.generic)):
            return value if known is None else known
        return box(kind, value, memory_of(value, operands) if isinstance(value, np.ndarray) else None)

    return replaced(result, leaf)


def known_result(value: Any, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """The Tensor, or the ndarray, among the arguments whose array the result is."""
    for handle in operands:
        if value is handle._data:
            return handle
    out = kwargs.get("out")
    outs = out if isinstance(out, tuple) else (out,)
    return next((v for v in (*outs, *args) if v is value and isinstance(v, np.ndarray)), None)


def memory_of(view: np.ndarray, operands: Sequence[Handle]) -> Handle | None:
    """The operand whose memory the array lies in."""
    return next((h for h in operands if np.may_share_memory(view, h._data)), None)


def box(kind: type[Handle], value: Any, owner: Handle | None = None) -> Any:
    """A Tensor for what NumPy gave. What a Tensor cannot hold (strings, objects, masks) stays as it is."""
    data = np.asarray(value)
    if (
        (isinstance(value, np.ndarray) and type(value) is not np.ndarray)
        or data.dtype.kind not in NUMBERS
        or not data.dtype.isnative
        or data.dtype.char == "G"
    ):
        return value
    if owner is None:
        return kind._of(data)
    storage = TapeStorage(data, owner._storage.memory)
    storage.is_locked = "this view was made in a way that gradients cannot follow: write to the Tensor that it is a view of."
    return kind._of(data, TapeArray(storage, (), meta_of(data)))


def linked(value: Any) -> Any:
    """Tensors as the tape's Arrays."""
    return replaced(value, lambda v: v._array if isinstance(v, Handle) else v)


# --- the tape


def record(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """The captured form, evaluated on the tape."""
    captured = call.captured
    if captured is None:
        return without_captured_form(call, args, kwargs, operands)
    written = written_handles(call, args, kwargs)
    if any(isinstance(v, np.ndarray) for v in outputs_in(call, args, kwargs)):
        raise RuntimeError(
            f"{call.label} would write a result that requires grad into an ndarray, and lose its gradient: "
            "give a Tensor, or compute with x.detach()."
        )
    if call.label not in LINEAR:
        for handle in written:
            if handle.requires_grad:
                handle._array.keep_contents()
    try:
        return wrap(captured(TAPE, *replaced(args, as_operand), **replaced(kwargs, as_operand)), operands)
    except Decline as decline:
        return declined(call, args, kwargs, operands, decline)


# In-place operations whose derivative does not depend on what they overwrite.
LINEAR = frozenset(("+=", "-=", "np.add", "np.subtract", "x[...] = y"))


def outputs_in(call: Call, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    out = kwargs.get("out")
    outs = list(out) if isinstance(out, tuple) else [out]
    return outs if call.written is None or len(args) <= call.written else [*outs, args[call.written]]


def as_operand(value: Any) -> Any:
    """An argument as the captured forms take it."""
    if isinstance(value, Handle):
        return value._array
    if type(value) is np.ndarray and value.dtype.kind in "fc" and value.dtype.isnative and value.dtype.char != "G":
        data = value.copy(order="K")  # the caller may change it before backward reads it
        return TapeArray(TapeStorage(data, Memory()), (), meta_of(data))
    return value


def without_captured_form(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """NumPy functions written in Python are captured from their source, by the layer that can."""
    if inspect.isfunction(getattr(call.function, "_implementation", None)) and SURFACE.capture_call is not None:
        return SURFACE.capture_call(call.function, args, kwargs)
    return declined(call, args, kwargs, operands, Decline("it is not captured"))


def declined(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle], reason: Decline) -> Any:
    """NumPy's own error, where that is why; its result, where that has no gradient anyway; else RuntimeError."""

    def copied(value: Any) -> Any:
        if not isinstance(value, Handle):
            return value
        data = value._data.copy(order="K")
        data.flags.writeable = value._data.flags.writeable
        return data

    result = call.native(*replaced(args, copied), **replaced(kwargs, copied))
    if not written_handles(call, args, kwargs) and not any(map(has_gradient, arrays_in(result))):
        return replaced(result, lambda v: box(type(operands[0]), v) if isinstance(v, (np.ndarray, np.generic)) else v)
    raise RuntimeError(
        f"{call.label} has no gradient here: {reason.reason}. {reason.hint + '. ' if reason.hint else ''}"
        "Where no gradient is wanted, call it on x.detach() or under npc.no_grad()."
    ) from None


def arrays_in(value: Any) -> list[Any]:
    found: list[Any] = []
    replaced(value, lambda v: found.append(v) if isinstance(v, (np.ndarray, np.generic)) else None)
    return found


def has_gradient(value: Any) -> bool:
    return value.dtype.kind not in "biu"


# --- results of captured forms


def wrap(result: Any, operands: Sequence[Handle]) -> Any:
    """Tensors for the Arrays in a captured form's result."""
    kind = type(operands[0])
    adopted: dict[Storage, TapeStorage] = {}

    def leaf(value: Any) -> Any:
        if isinstance(value, (np.ndarray, np.generic)):
            return kind._of(np.array(value))
        return tensor_of(kind, value, operands, adopted) if isinstance(value, Array) else value

    return replaced(result, leaf)


def tensor_of(kind: type[Handle], array: Array, operands: Sequence[Handle], adopted: dict[Storage, TapeStorage]) -> Any:
    for handle in operands:
        if array is handle._link:
            return handle
    storage = array.storage
    if not isinstance(storage, TapeStorage):
        if storage not in adopted:
            adopted[storage] = adopt(storage.node, storage.meta)  # type: ignore[arg-type]
        storage = adopted[storage]
    data = view_of(storage.data, array.steps)
    if data.flags.writeable and not array.meta.writeable and array.meta.boxed:
        data = data.view()
        data.flags.writeable = False
    if not array.steps and not storage.needs_grad and storage in adopted.values():
        return kind._of(data)
    if storage.needs_grad and not RECORDING.get():
        # Made under no_grad, the view stays apart from the graph.
        storage = TapeStorage(data, storage.memory, data_node(data, storage.memory))
        storage.is_locked = "a view that was made under no_grad cannot be changed in place where gradients are recorded."
        return kind._of(data, TapeArray(storage, (), meta_of(data)))
    return kind._of(data, TapeArray(storage, array.steps, viewed_meta(array, data), parent_of(array, operands)))


def viewed_meta(array: Array, data: np.ndarray) -> TensorMeta:
    return array.meta.with_(strides=data.strides, boxed=True, writeable=data.flags.writeable)


def parent_of(array: Array, operands: Sequence[Handle]) -> TapeArray | None:
    """The operand that the view is a view of: its steps are the longest beginning of the view's own."""
    best = None
    for link in (handle._link for handle in operands):
        if link is None or link.storage is not array.storage or not 0 < len(link.steps) <= len(array.steps):
            continue
        if all(a is b for a, b in zip(link.steps, array.steps)) and (best is None or len(best.steps) < len(link.steps)):
            best = link
    return best
