"""sum(), min() and max() of a long vector: reductions that give what going over its elements one by one gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.array import Array
from npcompile.tensor_core.dim import Dim
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import forward, operators, subscripts
from npcompile.tracer.python.iteration import ITERATED_ROWS
from npcompile.tracer.values import Constant


def long_vector(capture: Capture, positional: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    """The only argument, where that is a vector of more elements than a graph goes through one by one."""
    if len(positional) != 1 or keywords or capture.goes_through_gradients:
        return None
    x = capture.realize(positional[0])
    if not isinstance(x, Array) or x.ndim != 1:
        return None
    return x if isinstance(x.shape[0], Dim) or x.shape[0] > ITERATED_ROWS else None


def sum_of_elements(capture: Capture, x: Array) -> Any:
    """0 + x[0] + x[1] + ..., rounded after each step.

    None where scalars warn of what arrays do not, as of integers that overflow, and on a device, which adds in another order.
    """
    if x.dtype == np.bool_:
        return call(capture, np.sum, x)
    if x.dtype not in (np.float64, np.float32) or capture.place is not None:
        return None
    sums = call(capture, np.add.accumulate, x)
    last = subscripts.getitem(capture, sums, Constant(-1))
    return operators.binary(capture, "+", Constant(0), last)  # -0.0 is a sum of nothing but such, which Python begins with 0


def extreme_element(capture: Capture, x: Array, name: str) -> Any:
    """The first of the largest elements, or of the smallest: nothing is larger than NaN, nor NaN than anything."""
    if x.dtype.kind in "biu":
        return call(capture, getattr(np, name), x)
    if x.dtype.kind != "f":
        return None
    worst = Constant(-np.inf if name == "max" else np.inf)
    first = subscripts.getitem(capture, x, Constant(0))
    compared = call(capture, np.where, call(capture, np.isnan, x), worst, x)
    best = call(capture, getattr(np, f"arg{name}"), compared)
    return subscripts.getitem(capture, x, call(capture, np.where, call(capture, np.isnan, first), Constant(0), best))


def call(capture: Capture, function: Any, *arguments: Any) -> Any:
    return forward.call_function(capture, Constant(function), list(arguments))
