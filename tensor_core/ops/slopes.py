"""A gradient times a slope, and over a divisor: a gradient of 0 stays 0, also where the slope is infinite or NaN."""

import numpy as np

from npcompile.tensor_core.op import Cost, Parts, Value
from npcompile.tensor_core.ops.elementwise import elementwise


def zero_or_multiply(g: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """g * slope, and 0 where g is 0."""
    return without_nan(np.asarray(np.multiply(g, slope)), g)


def zero_or_divide(g: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """g / divisor, and 0 where g is 0."""
    return without_nan(np.asarray(np.divide(g, divisor)), g)


def without_nan(out: np.ndarray, g: np.ndarray) -> np.ndarray:
    if np.isnan(out.sum()):
        np.copyto(out, 0, where=np.equal(g, 0))
    return out


def of_product(g: Value, out: Value, a: Value, slope: Value) -> Parts:
    return lambda: g * slope, lambda: a.op("zero_or_multiply", g)


def of_quotient(g: Value, out: Value, a: Value, divisor: Value) -> Parts:
    return lambda: g / divisor, lambda: -out.op("zero_or_multiply", g).op("zero_or_divide", divisor)


elementwise(
    zero_or_multiply,
    of_product,
    loops=np.multiply,
    decomposition=lambda g, slope: g.equals(0).where(g, g * slope),
    inexact="FD",
    cost=Cost.MODERATE,
    chooses=True,
)
elementwise(
    zero_or_divide,
    of_quotient,
    loops=np.divide,
    decomposition=lambda g, divisor: g.equals(0).where(g, g / divisor),
    inexact="FD",
    cost=Cost.DIVISION,
    chooses=True,
)
