"""Random variates as arithmetic on random bits: what a graph computes by itself, each number for itself.

Distributions are those of NumPy's methods, the numbers are others than NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npcompile.tensor_core.array import expand
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Shape
from npcompile.tensor_core.transforms.value import Value

UINT64 = np.dtype(np.uint64)
FLOAT64 = np.dtype(np.float64)
LARGEST_RANGE = 2**32  # of integers: of more, too few of 64 bits would be left over to make all alike likely


def counter(builder: Builder, shape: Shape) -> Node:
    """0, 1, 2, ... in C order, as uint64."""
    total: Value | None = None
    step: Size = 1
    for axis in reversed(range(len(shape))):
        index = Value(builder, builder.apply("index", shape=shape, axis=axis))
        part = index if isinstance(step, int) and step == 1 else index * index.like(step)
        total = part if total is None else total + part
        step = step * shape[axis]
    if total is None:
        return builder.constant(0, UINT64)
    return total.cast(UINT64).node


@dataclass(slots=True)
class Bits:
    """128 random bits for each element of an array, as two arrays of uint64."""

    low: Value
    high: Value

    @classmethod
    def of(cls, builder: Builder, shape: Shape, stream: int, key: Node) -> Bits:
        """Those of the counter (position in the array, `stream`) under a 0-D `key`."""
        operands = counter(builder, shape), builder.constant(stream, UINT64), key
        nodes = [expand(builder, n, shape) for n in operands]
        low, high = (Value(builder, builder.apply(name, *nodes)) for name in ("philox_low", "philox_high"))
        return cls(low, high)

    # Of a float32 fewer bits are made: it has 24.

    def uniform(self, dtype: np.dtype = FLOAT64) -> Value:
        """In [0, 1), every multiple of 2**-53 (float32: 2**-24) alike likely."""
        width = 53 if dtype == FLOAT64 else 24
        return shifted(self.low, 64 - width).cast(dtype) * 2.0**-width

    def between(self, bits: Value | None = None, dtype: np.dtype = FLOAT64) -> Value:
        """In (0, 1), without both ends."""
        width = 52 if dtype == FLOAT64 else 23
        return (shifted(self.low if bits is None else bits, 64 - width).cast(dtype) + 0.5) * 2.0**-width

    def exponential(self, dtype: np.dtype = FLOAT64) -> Value:
        return -self.between(dtype=dtype).log()

    def normal(self, dtype: np.dtype = FLOAT64) -> Value:
        """G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958: one of the two."""
        angle = self.between(self.high, dtype) * (2 * math.pi)
        return (self.exponential(dtype) * 2.0).sqrt() * angle.cos()

    def integers(self, count: Size) -> Value:
        """In [0, count), as uint64: floor(bits * count / 2**64), for at most 2**32."""
        n = self.low.like(count)
        high, low = shifted(self.low, 32), self.low.op("bitwise_and", 2**32 - 1)
        return shifted(high * n + shifted(low * n, 32), 32)


def shifted(bits: Value, count: int) -> Value:
    return bits.op("right_shift", count)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A method without `size`, `dtype` and `out`: its parameters in order, and the formula."""

    formula: Callable[..., Value]  # (bits, dtype, *parameters as Values or numbers)
    parameters: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()  # those that have to be
    is_ascending: bool = False  # must each be at most the next?


def laplace(bits: Bits, dtype: np.dtype, loc: Value, scale: Value) -> Value:
    size = bits.exponential(dtype) * scale
    return (shifted(bits.high, 63).equals(0)).where(size, -size) + loc


def triangular(bits: Bits, dtype: np.dtype, left: Value, mode: Value, right: Value) -> Value:
    """By the inverse of the distribution function."""
    u = bits.uniform(dtype)
    left, mode, right = (u.like(p) for p in (left, mode, right))
    width, rising = right - left, mode - left
    below = (u * width * rising).sqrt() + left
    above = right - ((1 - u) * width * (right - mode)).sqrt()
    return (u * width < rising).where(below, above)


def logistic(bits: Bits, dtype: np.dtype, loc: Value, scale: Value) -> Value:
    u = bits.between(dtype=dtype)
    return (u / (1 - u)).log() * scale + loc


UNIFORM = Distribution(lambda bits, dtype: bits.uniform(dtype))
NORMAL = Distribution(lambda bits, dtype: bits.normal(dtype))
DISTRIBUTIONS: dict[str, Distribution] = {
    **dict.fromkeys(("random", "random_sample", "rand"), UNIFORM),
    **dict.fromkeys(("standard_normal", "randn"), NORMAL),
    "standard_exponential": Distribution(lambda bits, dtype: bits.exponential(dtype)),
    "standard_cauchy": Distribution(lambda bits, dtype: ((bits.between(dtype=dtype) - 0.5) * math.pi).tan()),
    "uniform": Distribution(lambda bits, dtype, a, b: bits.uniform(dtype) * (b - a) + a, ("low", "high"), is_ascending=True),
    "normal": Distribution(lambda bits, dtype, mean, scale: bits.normal(dtype) * scale + mean, ("loc", "scale"), ("scale",)),
    "lognormal": Distribution(
        lambda bits, dtype, mean, scale: (bits.normal(dtype) * scale + mean).exp(), ("mean", "sigma"), ("sigma",)
    ),
    "exponential": Distribution(lambda bits, dtype, scale: bits.exponential(dtype) * scale, ("scale",), ("scale",)),
    "laplace": Distribution(laplace, ("loc", "scale"), ("scale",)),
    "gumbel": Distribution(
        lambda bits, dtype, loc, scale: -(bits.exponential(dtype).log() * scale) + loc, ("loc", "scale"), ("scale",)
    ),
    "logistic": Distribution(logistic, ("loc", "scale"), ("scale",)),
    "rayleigh": Distribution(lambda bits, dtype, scale: (bits.exponential(dtype) * 2.0).sqrt() * scale, ("scale",), ("scale",)),
    "weibull": Distribution(lambda bits, dtype, a: bits.exponential(dtype) ** (1 / a), ("a",), ("a",)),
    "pareto": Distribution(lambda bits, dtype, a: (bits.exponential(dtype) / a).expm1(), ("a",), ("a",)),
    "power": Distribution(lambda bits, dtype, a: (bits.exponential(dtype) / -a).exp(), ("a",), ("a",)),
    "triangular": Distribution(triangular, ("left", "mode", "right"), is_ascending=True),
}
