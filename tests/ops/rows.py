"""Rows that the product does not have, one call each: the whole of adding an op."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core.op import OPS, Value
from npcompile.tensor_core.ops.elementwise import elementwise
from npcompile.tensor_core.ops.reduction import reduction


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0."""
    return np.log(-np.expm1(-x))


def softplus_between(x: Any, low: Any) -> Any:
    """log(exp(x) + exp(low)), with the larger taken out."""
    return np.maximum(x, low) + np.log1p(np.exp(-np.abs(x - low)))


def sum_of_squares(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.sum(np.square(x), axis=axis, keepdims=keepdims)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    made = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return made if keepdims else np.squeeze(made, axis=axis)[()]


def of_logarithms(x: Value, *, axes: tuple[int, ...]) -> Value:
    top = x.reduce("maximum", axes, keepdims=True)
    made = (x - top.broadcast_to(x.shape)).exp().sum(axes, keepdims=True).log() + top
    return made.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def add() -> None:
    """This is all that there is of these ops."""
    elementwise(log1mexp, domain=(0.1, 9), loops=np.expm1, decomposition=lambda x: (-(-x).expm1()).log())
    elementwise(
        softplus_between,
        loops=np.logaddexp,
        decomposition=lambda x, low: x.maximum(low) + (-(x - low).absolute()).exp().log1p(),
    )
    reduction(sum_of_squares, loops=np.sqrt, decomposition=lambda x, *, axes: x.square().sum(axes))
    reduction(logsumexp, loops=np.exp, decomposition=of_logarithms)


@contextmanager
def added() -> Iterator[None]:
    """While tests run that these rows are for: others go over the whole table."""
    add()
    yield
    for function in (log1mexp, softplus_between, sum_of_squares, logsumexp):
        del OPS._rows[function.__name__], FUNCTIONS[function]
