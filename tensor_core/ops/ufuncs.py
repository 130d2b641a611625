"""Calls of ufuncs that have no row of their own: SciPy's, those of C extensions. Only their dtypes are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.meta import TensorMeta, TupleMeta, broadcast_shapes
from npcompile.tensor_core.op import Value, row
from npcompile.tensor_core.ops.special import rule_of


def eager_ufunc(*xs: Any, function: np.ufunc, loop: tuple[np.dtype, ...], is_asked_for: bool) -> Any:
    made = called(function, loop, is_asked_for)(*xs)
    return tuple(map(np.asarray, made)) if isinstance(made, tuple) else np.asarray(made)


def called(function: np.ufunc, loop: tuple[np.dtype, ...], is_asked_for: bool) -> Callable[..., Any]:
    """The ufunc, or where the program asked for its loop, that loop."""
    return functools.partial(function, signature=loop) if is_asked_for else function


def of_ufunc(g: Any, out: Any, *xs: Value, function: np.ufunc, loop: tuple[np.dtype, ...], **_: Any) -> Any:
    """By the table, on operands of one shape and of the loop's dtypes."""
    rule = rule_of(function)
    if rule is None:
        raise Decline(f"{function.__name__} has no derivative", "docs/gradients.md lists the functions that have one.")
    shape = broadcast_shapes(*(x.shape for x in xs))
    parts = rule(g, out, *(x.cast(dtype).broadcast_to(shape) for x, dtype in zip(xs, loop)))
    parts = parts if isinstance(parts, tuple) else (parts,)

    def of_operand(part: Any, x: Value) -> Any:
        value = part() if callable(part) else part
        return None if value is None else value.sum_to(x.shape).cast(x.dtype)

    return tuple(functools.partial(of_operand, part, x) for part, x in zip(parts, xs, strict=True))


@row("extern", eager=eager_ufunc, raises=(Exception,), stacks=True, vjp=of_ufunc, singular=True)
def ufunc(*xs: TensorMeta, function, loop, is_asked_for):
    """function(*xs), elementwise. The loop's dtypes are those that NumPy finds for these operands, outputs last, or asked for."""
    shape = broadcast_shapes(*(x.shape for x in xs))
    outputs = [TensorMeta(shape, dtype) for dtype in loop[len(xs) :]]
    return TupleMeta.of(*outputs) if len(outputs) > 1 else outputs[0]
