"""Choosing between values: np.where, np.clip."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core import umath

from npcompile.numpy_shim.reductions import method_out
from npcompile.numpy_shim.registry import METHODS, implements, result_dtype
from npcompile.numpy_shim.ufunc_methods import NoValue, source_array
from npcompile.numpy_shim.ufunc_operands import Operand, operand
from npcompile.numpy_shim.ufuncs import call_ufunc, value_where
from npcompile.tensor_core.array import Array, cast, expand, fresh, result_meta
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline, broadcast_shapes


@implements(np.where)
def where(builder: Builder, condition: Any, x: Any = NoValue, y: Any = NoValue, /) -> Any:
    """np.where(condition, x, y): always an array, 0-D too. Of a condition alone the places where it holds."""
    if x is NoValue or y is NoValue:
        if x is not NoValue or y is not NoValue:
            raise Decline("either both or neither of x and y should be given")
        return METHODS["nonzero"](builder, source_array(builder, condition))
    choice = source_array(builder, condition)
    arms = [operand(builder, v) for v in (x, y)]
    dtype = arms_dtype(arms)
    shape = broadcast_shapes(choice.shape, *(arm.shape for arm in arms))
    truth = cast(builder, choice.node, np.dtype(np.bool_))
    yes, no = (expand(builder, arm.node(builder, dtype), shape) for arm in arms)
    operands = [choice, *(arm.value for arm in arms if isinstance(arm.value, Array))]
    return fresh(builder, value_where(builder, truth, yes, no), result_meta(shape, dtype, operands))


def arms_dtype(arms: list[Operand]) -> np.dtype:
    """NEP 50's common dtype of the two arms."""
    return result_dtype(*(arm.type(0) if isinstance(arm.type, type) else arm.type for arm in arms))


@implements(np.clip)
def clip(
    builder: Builder,
    a: Any,
    a_min: Any = NoValue,
    a_max: Any = NoValue,
    out: Any = None,
    *,
    min: Any = NoValue,
    max: Any = NoValue,
    **keywords: Any,
) -> Array:
    """np.clip(a, low, high): None is no bound."""
    if a_min is NoValue and a_max is NoValue:
        a_min, a_max = (None if bound is NoValue else bound for bound in (min, max))
    elif a_min is NoValue or a_max is NoValue or min is not NoValue or max is not NoValue:
        raise Decline("clip() takes a_min and a_max, or min and max")
    return clip_method(builder, source_array(builder, a), a_min, a_max, out, **keywords)


def clip_method(builder: Builder, a: Array, min: Any = None, max: Any = None, out: Any = None, **keywords: Any) -> Array:
    """The ndarray method, as numpy/_core/_methods.py has it."""
    if a.dtype.kind in "iu":
        limits = np.iinfo(a.dtype)
        if is_python_integer(min) and bool(min <= limits.min):
            min = None
        if is_python_integer(max) and bool(max >= limits.max):
            max = None
    out = method_out(a, out)
    bounds = [bound for bound in (min, max) if bound is not None]
    ufunc = umath.clip if len(bounds) == 2 else np.positive if not bounds else np.minimum if min is None else np.maximum
    return call_ufunc(ufunc, builder, a, *bounds, out=out, **keywords)


def is_python_integer(value: Any) -> bool:
    return type(value) is int or isinstance(value, Dim)


METHODS["clip"] = clip_method
