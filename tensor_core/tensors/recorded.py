"""Calls that gradients will go through: their captured form, evaluated on the tape while NumPy computes the results."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dtypes import is_number, kind_of
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tensors.calls import SURFACE, Call, plain, plain_leaf, replaced, written_handles
from npcompile.tensor_core.tensors.handle import Handle, from_node
from npcompile.tensor_core.tensors.results import box, wrap
from npcompile.tensor_core.tensors.tape import TAPE, Memory, TapeArray, TapeNode, TapeStorage, deferring, meta_of


def record(call: Call, args: tuple, kwargs: dict[str, Any], operands: Sequence[Handle]) -> Any:
    """The captured form, evaluated on the tape."""
    if any(isinstance(v, np.ndarray) and type(v) is not np.ndarray for v in args):
        raise error_of(call, Decline("an argument is of a subclass of ndarray"))
    if call.ufunc is not None and not kwargs:
        made = uniform(call, args, operands)
        if made is not None:
            return made
    captured = call.captured
    if captured is None:
        try:
            return capture(call, args, kwargs)
        except RuntimeError as error:
            refused = error.with_traceback(None)
        return declined(call, args, kwargs, operands, refused)  # not within a handler: NumPy's error has no context of ours
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
        why = error_of(call, decline)
    except TypeError as error:
        try:
            inspect.signature(captured).bind(*arguments, **named)
        except TypeError:  # arguments that NumPy does not take either
            why = error_of(call, Decline(str(error)))
        else:
            raise
    return declined(call, args, kwargs, operands, why)


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
    if row is None or row.numpy != ufunc or kind_of(dtype) not in "fc":
        return None
    try:
        *loop, out = ufunc.resolve_dtypes((*(dtype if t is None else t for t in types), None))
    except TypeError:
        return None
    if any(d != dtype for d in loop) or (kind_of(out) in "fc" and out != dtype):  # absolute of complex numbers is real
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
    if type(value) is np.ndarray and kind_of(value.dtype) in "fc" and is_number(value.dtype):
        data = value.copy(order="K")  # the caller may change it before backward reads it
        return TapeArray(TapeStorage(data, Memory()), (), meta_of(data))
    return value


def capture(call: Call, args: tuple, kwargs: dict[str, Any]) -> Any:
    """NumPy functions written in Python are captured from their source, by the layer that can. RuntimeError: it cannot."""
    if SURFACE.capture_call is None or not inspect.isfunction(getattr(call.function, "_implementation", None)):
        raise error_of(call, Decline("it has no derivative of its own"))
    return SURFACE.capture_call(call.function, args, kwargs)


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
    try:
        raise error from None
    finally:
        del error


def arrays_in(value: Any) -> list[Any]:
    found: list[Any] = []
    replaced(value, lambda v: found.append(v) if isinstance(v, (np.ndarray, np.generic)) else None)
    return found


def has_gradient(value: Any) -> bool:
    return value.dtype.kind not in "biu"
