"""Calls of NumPy on Tensors: NumPy itself where nothing is recorded, else the captured form, evaluated on the tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array, Storage
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tape import (
    RECORDING,
    TAPE,
    Memory,
    TapeArray,
    TapeNode,
    TapeStorage,
    data_node,
    deferring,
    meta_of,
    recording,
)
from npcompile.tensor_core.tensors.handle import NUMBERS, Handle, adopt, from_node
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
    out: int | None = None  # where `out` stands among the positional arguments
    ufunc: np.ufunc | None = None  # the ufunc that this is a call of, without a shorter way for some numbers


def perform(call: Call, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What NumPy gives, with Tensors for its arrays and array scalars."""
    operands: list[Handle] = []
    collect(args, operands)
    if kwargs:
        collect(tuple(kwargs.values()), operands)
    if RECORDING.get():
        for handle in operands:
            if handle._link is not None and handle.requires_grad:
                return record(call, args, kwargs, operands)
    return run(call, args, kwargs, operands)


def collect(values: Sequence[Any], found: list[Handle]) -> None:
    """Add the Tensors in arguments to those found."""
    for value in values:
        if isinstance(value, Handle):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            collect(value, found)
        elif isinstance(value, dict):
            collect(tuple(value.values()), found)


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
    return replaced(value, plain_leaf)


def plain_leaf(value: Any) -> Any:
    return value._data if isinstance(value, Handle) else value


def written_handles(call: Call, args: tuple, kwargs: dict[str, Any]) -> list[Handle]:
    """The Tensors that the call changes in place."""
    found: list[Handle] = []
    if "out" in kwargs:
        collect((kwargs["out"],), found)
    for position in (call.written, call.out):
        if position is not None and len(args) > position:
            collect((args[position],), found)
    return found


def out_position(function: Any) -> int | None:
    """Where NumPy's function, and the method of its name, takes `out` among its positional arguments."""
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):  # no function, or one in C without a signature
        return None
    return names.index("out") if "out" in names else None


# --- NumPy itself


def run(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    try:
        result = call.native(*[plain_leaf(a) if a.__class__ not in CONTAINERS else plain(a) for a in args], **plain(kwargs))
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
            known = self[dtype] = dtype.kind in NUMBERS and dtype.isnative and dtype.char != "G"
        return known


HELD = Held()


def box(kind: type[Handle], value: Any, owner: Handle | None = None) -> Any:
    """A Tensor for what NumPy gave. What a Tensor cannot hold (strings, objects, masks) stays as it is."""
    is_other = isinstance(value, np.ndarray) and type(value) is not np.ndarray
    data = np.asarray(value)
    if is_other or data.dtype not in HELD:
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
    if call.ufunc is not None and not kwargs:
        made = uniform(call, args, operands)
        if made is not None:
            return made
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
    arguments, named = [TAPE, *replaced(args, as_operand)], replaced(kwargs, as_operand)
    try:
        if written:
            return wrap(captured(*arguments, **named), operands)
        with deferring():
            result = captured(*arguments, **named)
        if is_waiting(result):
            settle(result, call.native(*plain(args), **plain(kwargs)))
        return wrap(result, operands)
    except Decline as decline:
        return declined(call, args, kwargs, operands, error_of(call, decline))
    except TypeError as error:
        try:
            inspect.signature(captured).bind(*arguments, **named)
        except TypeError:  # arguments that NumPy does not take either
            return declined(call, args, kwargs, operands, error_of(call, Decline(str(error))))
        raise


def is_waiting(result: Any) -> bool:
    """Is something in a captured form's result not evaluated?"""
    if isinstance(result, (tuple, list)):
        return any(map(is_waiting, result))
    return isinstance(result, Array) and result.storage.node.is_deferred  # type: ignore[attr-defined]


def settle(result: Any, native: Any) -> None:
    """Give the nodes of a captured form's result the values that NumPy computed."""
    if isinstance(result, (tuple, list)):
        for part, value in zip(result, native, strict=True):
            settle(part, value)
    elif isinstance(result, Array) and not result.steps and is_waiting(result):
        node, value = result.storage.node, np.asarray(native)
        assert (value.shape, value.dtype) == (node.shape, node.dtype), f"{meta_of(value)} instead of {node.meta}"
        node.content = value if value.base is None else value.copy(order="K")  # type: ignore[attr-defined]
        node.is_made = True  # type: ignore[attr-defined]
        result.storage.meta = meta_of(value)


def uniform(call: Call, args: tuple, operands: Sequence[Handle]) -> Any:
    """A ufunc of Tensors of one shape and dtype, and of Python numbers, without a captured form; else None.

    The node is the one that the captured form would make: nothing is cast or repeated.
    """
    assert call.ufunc is not None
    first = operands[0]._data
    for v in args:
        if isinstance(v, Handle):
            if v._data.dtype is not first.dtype or v._data.shape != first.shape:
                return None
        elif not (type(v) is float and first.dtype.char in "fd" and abs(v) < 1e30) and not (type(v) is int and abs(v) < 1 << 20):
            return None
    kept = keeps_dtype(call.ufunc, first.dtype, tuple([None if isinstance(v, Handle) else type(v) for v in args]))
    if kept is None:
        return None
    content = np.asarray(call.native(*[plain_leaf(v) for v in args]))
    if not kept:
        return type(operands[0])._of(content)
    nodes = tuple([v._node if isinstance(v, Handle) else repeated(v, first) for v in args])
    node = TapeNode(call.ufunc.__name__, nodes, {}, meta_of(content), content, Memory(), True)
    return from_node(type(operands[0]), node)


@lru_cache(maxsize=1024)
def keeps_dtype(ufunc: Any, dtype: np.dtype, types: tuple[type | None, ...]) -> bool | None:
    """Is the ufunc's loop for operands of `dtype` (None) and Python numbers one of `dtype` alone, False when its result
    has no gradient? None when there is no such loop, or no op."""
    row = OPS.get(ufunc.__name__)
    if row is None or row.numpy != ufunc or dtype.kind not in "fc":
        return None
    try:
        *loop, out = ufunc.resolve_dtypes((*(dtype if t is None else t for t in types), None))
    except TypeError:
        return None
    if any(d != dtype for d in loop) or (out.kind in "fc" and out != dtype):  # absolute of complex numbers is real
        return None
    return bool(out == dtype)


def repeated(number: float, like: np.ndarray) -> TapeNode:
    """A Python number as an operand, evaluated when a rule asks for it."""
    node = TAPE.constant(number, like.dtype)
    if like.ndim:
        meta = TensorMeta(like.shape, like.dtype, (0,) * like.ndim, writeable=False)
        node = TapeNode("broadcast_to", (node,), {"shape": like.shape}, meta, None, Memory())  # type: ignore[arg-type]
    return node  # type: ignore[return-value]


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
    if SURFACE.capture_call is None or not inspect.isfunction(getattr(call.function, "_implementation", None)):
        return declined(call, args, kwargs, operands, error_of(call, Decline("it has no derivative of its own")))
    try:
        return SURFACE.capture_call(call.function, args, kwargs)
    except RuntimeError as error:
        return declined(call, args, kwargs, operands, error)


def error_of(call: Call, reason: Decline) -> RuntimeError:
    return RuntimeError(
        f"{call.label} has no gradient here: {reason.reason}. {reason.hint + '. ' if reason.hint else ''}"
        "Where no gradient is wanted, call it on x.detach() or under npc.no_grad()."
    )


def declined(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle], error: RuntimeError) -> Any:
    """NumPy's own error, where that is why; its result, where that has no gradient anyway; else raises `error`."""

    def copied(value: Any) -> Any:
        if not isinstance(value, Handle):
            return value
        data = value._data.copy(order="K")
        data.flags.writeable = value._data.flags.writeable
        return data

    result = call.native(*replaced(args, copied), **replaced(kwargs, copied))
    if not written_handles(call, args, kwargs) and not any(map(has_gradient, arrays_in(result))):
        return replaced(result, lambda v: box(type(operands[0]), v) if isinstance(v, (np.ndarray, np.generic)) else v)
    raise error from None


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
