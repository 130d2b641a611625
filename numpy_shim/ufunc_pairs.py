"""Ufuncs with two outputs, written with those that have one: divmod, modf, frexp."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.numpy_shim.ufunc_operands import NoValue, operand, resolve, without_arrays
from npcompile.numpy_shim.ufuncs import call_ufunc, split_outputs
from npcompile.tensor_core.array import Array, cast, fresh, full, result_meta
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline


def call_divmod(builder: Builder, *arguments: Any, **keywords: Any) -> tuple[Array, Array]:
    return call_both(np.divmod, (np.floor_divide, np.remainder), builder, *arguments, **keywords)


def call_both(
    ufunc: np.ufunc,
    halves: tuple[np.ufunc, np.ufunc],
    builder: Builder,
    *arguments: Any,
    out: Any = NoValue,
    **keywords: Any,
) -> tuple[Array, Array]:
    """A ufunc with two outputs whose results are those of two other ufuncs."""
    inputs, outs = split_outputs(ufunc, arguments, given(out))
    if any(isinstance(o, Array) for o in outs):
        raise Decline(f"out= of {ufunc.__name__} runs as NumPy")
    if "signature" in keywords or "sig" in keywords:
        raise Decline(f"the signature of {ufunc.__name__} runs as NumPy")
    first, second = (call_ufunc(half, builder, *inputs, out=o, **keywords) for half, o in zip(halves, outs))
    return first, second


def given(out: Any) -> Any:
    """The `out` of a ufunc with several outputs."""
    if out is None:
        raise Decline("'out' must be a tuple of arrays")
    return None if out is NoValue else out


def call_parts(
    ufunc: np.ufunc, parts: Callable[..., tuple[Node, Node]], builder: Builder, *arguments: Any, out: Any = NoValue
) -> Any:
    """A ufunc that takes numbers apart in two ways. Keywords run as NumPy."""
    (x,), outs = split_outputs(ufunc, arguments, given(out))
    if any(o is not None for o in outs):
        raise Decline(f"out= of {ufunc.__name__} runs as NumPy")
    source = operand(builder, x)
    (source,) = [without_arrays(builder, source, 1)] if source.is_weak else [source]
    dtype, *_ = resolve(ufunc, (source.type, None, None))
    assert isinstance(source.value, Array)
    nodes = parts(builder, source.node(builder, dtype))
    metas = [result_meta(source.shape, node.dtype, [source.value]) for node in nodes]
    return tuple(fresh(builder, node, meta, boxed=bool(source.shape)) for node, meta in zip(nodes, metas))


def modf_parts(builder: Builder, x: Node) -> tuple[Node, Node]:
    """Fractional part, with the sign of x, and integral part."""
    whole = builder.apply("trunc", x)
    difference = builder.apply("subtract", x, whole)  # nan for infinities, where the fraction is 0
    fraction = builder.apply("where", builder.apply("isinf", x), full(builder, x.shape, 0, x.dtype), difference)
    return builder.apply("copysign", fraction, x), whole


def frexp_parts(builder: Builder, x: Node) -> tuple[Node, Node]:
    """Mantissa in [0.5, 1) and exponent, read from the bits."""
    if x.dtype == np.float16:
        mantissa, exponent = frexp_parts(builder, cast(builder, x, np.dtype(np.float32)))
        return cast(builder, mantissa, x.dtype), exponent
    if x.dtype.itemsize not in (4, 8):
        raise Decline("frexp of long double runs as NumPy")
    limits, integer = np.finfo(x.dtype), np.dtype(f"i{x.dtype.itemsize}")
    width, bias, mask = limits.nmant, limits.maxexp - 2, 2**limits.nexp - 1

    def number(value: float, dtype: np.dtype) -> Node:
        return full(builder, x.shape, value, dtype)

    # Subnormal numbers are made normal first.
    small = builder.apply("less", builder.apply("absolute", x), number(limits.tiny, x.dtype))
    scaled = builder.apply("where", small, builder.apply("multiply", x, number(2.0**width, x.dtype)), x)
    bits = builder.apply("bitcast", scaled, dtype=integer)
    shifted = builder.apply("right_shift", bits, number(width, integer))
    exponent = builder.apply("subtract", builder.apply("bitwise_and", shifted, number(mask, integer)), number(bias, integer))
    lowered = builder.apply("subtract", exponent, number(width, integer))
    exponent = builder.apply("where", small, lowered, exponent)
    kept = builder.apply("bitwise_and", bits, number(~(mask << width), integer))
    mantissa = builder.apply("bitcast", builder.apply("bitwise_or", kept, number(bias << width, integer)), dtype=x.dtype)
    # 0, infinities and NaN are their own mantissa.
    ordinary = builder.apply("logical_and", builder.apply("isfinite", x), builder.apply("not_equal", x, number(0, x.dtype)))
    exponent = cast(builder, builder.apply("where", ordinary, exponent, number(0, integer)), np.dtype(np.int32))
    if builder.may_differentiate(x):  # by what is exact too, and not made of bits
        return builder.apply("ldexp", x, builder.apply("negative", exponent)), exponent
    return builder.apply("where", ordinary, mantissa, x), exponent


FUNCTIONS[np.divmod] = call_divmod
FUNCTIONS[np.modf] = partial(call_parts, np.modf, modf_parts)
FUNCTIONS[np.frexp] = partial(call_parts, np.frexp, frexp_parts)
