"""Calls of ufuncs: np.add(x, y, out=..., where=..., dtype=...) as graph nodes, one rule for every ufunc of the op table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import EllipsisType
from typing import Any

import numpy as np
from numpy._core import umath

from npcompile.numpy_shim.registry import FUNCTIONS, as_array
from npcompile.numpy_shim.ufunc_operands import (
    Dtypes,
    NoValue,
    Operand,
    cast_quietly,
    is_in_range,
    operand,
    read_signature,
    require_no_error,
    resolve,
    without_arrays,
)
from npcompile.tensor_core.array import Array, expand, fresh, full, result_meta
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.exactness import KNOWS_POWERS
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, Shape, broadcast_shapes, is_contiguous, is_packed, lies_forward
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.source import Formula


def call_ufunc(
    ufunc: np.ufunc,
    builder: Builder,
    *arguments: Any,
    out: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = NoValue,
    signature: Any = NoValue,
    sig: Any = NoValue,
    subok: Any = True,
    **unknown: Any,
) -> Array:
    """ufunc(*arguments, ...) for a ufunc with one output."""
    if unknown:
        raise Decline(f"{ufunc.__name__}() got an unexpected keyword argument {next(iter(unknown))!r}")
    if not isinstance(casting, str) or not isinstance(order, str) or order.upper() not in tuple("KACF"):
        raise Decline("casting and order are strings, order one of 'C', 'F', 'A' and 'K'")
    if not isinstance(subok, bool):
        raise Decline("'subok' must be a boolean")
    inputs, outs = split_outputs(ufunc, arguments, out)
    operands = [operand(builder, x) for x in inputs]
    if all(o.is_weak for o in operands):
        operands = [without_arrays(builder, o, ufunc.nin) for o in operands]
    loop = resolve(ufunc, (*(o.type for o in operands), None), read_signature(ufunc, dtype, signature, sig), casting)
    require_no_error(ufunc, operands, loop)
    mask = read_mask(builder, where)
    shape = broadcast_shapes(*(o.shape for o in operands), *([mask.shape] if mask else []))
    target = outs[0]
    if isinstance(target, Array):
        if mask is not None and not np.can_cast(target.dtype, loop[-1], "same_kind"):
            raise Decline("NumPy reads what it does not write, and converts it, with warnings")
        shape = require_output(target, shape, loop[-1], casting)
        require_plain_loop(builder, ufunc, target)
        value = cast_quietly(builder, apply_loop(builder, ufunc, operands, loop, shape), target.dtype)
        return store(target, value, mask)
    if mask is not None:
        raise Decline("without out, where= leaves elements uninitialised")
    node = apply_loop(builder, ufunc, operands, loop, shape)
    arrays = [o.value for o in operands if isinstance(o.value, Array)]
    order = order.upper()
    require_known_order(order, operands, loop)
    meta = result_meta(shape, loop[-1], arrays, "F" if order == "K" and is_one_row(arrays, operands, loop, shape) else order)
    return fresh(builder, node, meta, boxed=bool(shape) or target is ...)


def require_known_order(order: str, operands: Sequence[Operand], loop: Dtypes) -> None:
    for x, dtype in zip((o.value for o in operands), loop):
        if order == "A" and isinstance(x, Array) and x.ndim == 1 and x.dtype != dtype and not is_contiguous(x.meta):
            raise Decline("whether order='A' sees this vector, or its contiguous cast, depends on its size")


def is_one_row(arrays: Sequence[Array], operands: Sequence[Operand], loop: Dtypes, shape: Shape) -> bool:
    """Does NumPy's loop go once over the memory of arrays in F order? Their axes of length 1 keep their place in memory then.

    So it does where no array is cast or broadcast (try_trivial_single_output_loop in numpy/_core/src/umath/ufunc_object.c).
    """
    if all(not same(n, 1) for n in shape):  # the order of others is the same in either way
        return False
    casts = any(isinstance(o.value, Array) and o.value.ndim > 0 and o.type != dtype for o, dtype in zip(operands, loop))
    whole = [x for x in arrays if x.ndim > 0]
    if casts or any(x.ndim != len(shape) or not all(map(same, x.shape, shape)) for x in whole):
        return False
    return all(is_contiguous(x.meta, "F") for x in whole) and not all(is_contiguous(x.meta) for x in whole)


def split_outputs(ufunc: np.ufunc, arguments: Sequence[Any], out: Any) -> tuple[Sequence[Any], list[Array | EllipsisType | None]]:
    """The inputs, and for each output the array to write, `...` (an array even when 0-D) or None."""
    inputs, positional = arguments[: ufunc.nin], arguments[ufunc.nin :]
    if len(inputs) < ufunc.nin or len(positional) > ufunc.nout or positional and out is not None:
        raise Decline(f"{ufunc.__name__}() takes {ufunc.nin} positional arguments and {ufunc.nout} outputs")
    if positional and ufunc in (np.maximum, np.minimum):
        raise Decline("NumPy warns of a third argument, which may have been meant as a third input")
    if positional:
        out = tuple(positional)
    if out is ...:
        return inputs, [...] * ufunc.nout
    outs = out if isinstance(out, tuple) else (out,) if ufunc.nout == 1 or out is not None else ()
    if isinstance(out, tuple) and len(out) != ufunc.nout or ufunc.nout > 1 and len(outs) == 1:
        raise Decline("out must give every output")
    if not all(o is None or o is ... and ufunc.nout == 1 and not isinstance(out, tuple) or is_target(o) for o in outs):
        raise Decline("return arrays must be of ArrayType")
    return inputs, [*outs, *[None] * (ufunc.nout - len(outs))]


def is_target(value: Any) -> bool:
    return isinstance(value, Array) and value.meta.boxed


def read_mask(builder: Builder, where: Any) -> Array | None:
    """The where= operand; None when it is True, or np._NoValue, which is an object that is true."""
    if where is True or where is NoValue:
        return None
    mask = as_array(builder, where)
    if mask.dtype != np.bool_:
        raise Decline(f"Cannot cast array data from {mask.dtype} to bool according to the rule 'safe'")
    return mask


def require_output(target: Array, shape: Shape, dtype: np.dtype, casting: str) -> Shape:
    """The shape that the loop runs over to fill `target`: inputs may repeat to fill it, it may not."""
    if not np.can_cast(dtype, target.dtype, casting):
        raise Decline(f"Cannot cast ufunc output from {dtype} to {target.dtype} with casting rule {casting!r}")
    whole = broadcast_shapes(shape, target.shape)
    if len(whole) != target.ndim or not all(same(n, m) or n == m for n, m in zip(whole, target.shape)):
        raise Decline(f"non-broadcastable output operand with shape {target.shape} for the broadcast shape {whole}")
    return target.shape


def require_plain_loop(builder: Builder, ufunc: np.ufunc, target: Array) -> None:
    """Where NumPy's bits are asked for: some loops take other instructions where results lie backwards or, in float16, apart."""
    row = OPS.get(ufunc.__name__)
    if not builder.root.is_bitwise or row is None or not row.inexact or target.dtype.kind not in "fc":
        return
    if not (is_packed(target.meta) if target.dtype.itemsize == 2 else lies_forward(target.meta)):
        raise Decline("results that lie backwards or apart", "Assign them: out[...] = value.")


def store(target: Array, value: Node, mask: Array | None = None) -> Array:
    """Write `value` to `target`, where the mask is True. The target itself is the result, as in NumPy."""
    if mask is not None:
        value = value_where(target.builder, mask.node, value, target.node)
    target.write(value)
    return target


def value_where(builder: Builder, mask: Node, yes: Node, no: Node) -> Node:
    return builder.apply("where", expand(builder, mask, yes.shape), yes, no)


def apply_loop(builder: Builder, ufunc: np.ufunc, operands: Sequence[Operand], loop: Dtypes, shape: Shape) -> Node:
    """The result of the loop over `shape`, of dtype loop[-1]."""
    if ufunc in OUT_OF_RANGE and loop[0].kind in "iu":
        answer = compare_out_of_range(ufunc, operands, loop[0])
        if answer is not None:
            return full(builder, shape, answer, loop[-1])
    if ufunc is np.power:
        return power_or_root(builder, shape, loop[0], *operands)
    nodes = [o.node(builder, dtype) for o, dtype in zip(operands, loop)]
    if ufunc in EXPANSIONS:
        return EXPANSIONS[ufunc](builder, shape, *nodes)
    return builder.apply(ufunc.__name__, *(expand(builder, n, shape) for n in nodes))


# Comparing an integer array with a Python integer that its dtype cannot hold is the one case in which such a number
# does not raise: the answer is the same for every element. Answers for a number that is (too small, too large).
OUT_OF_RANGE: dict[np.ufunc, tuple[bool, bool]] = {
    np.equal: (False, False),
    np.not_equal: (True, True),
    np.less: (False, True),
    np.less_equal: (False, True),
    np.greater: (True, False),
    np.greater_equal: (True, False),
}
MIRRORED = {np.less: np.greater, np.less_equal: np.greater_equal, np.greater: np.less, np.greater_equal: np.less_equal}


def compare_out_of_range(ufunc: np.ufunc, operands: Sequence[Operand], dtype: np.dtype) -> bool | None:
    """The answer for every element when one operand is a Python integer out of range, else None."""
    left, right = operands
    if left.is_weak == right.is_weak or np.bool_ in (left.type, right.type):
        return None
    if left.is_weak:
        return compare_out_of_range(MIRRORED.get(ufunc, ufunc), (right, left), dtype)
    if dtype.kind not in "iu" or is_in_range(right.value, dtype):
        return None
    if isinstance(right.value, Integer):
        return OUT_OF_RANGE[ufunc][right.value.is_within(0)]
    return OUT_OF_RANGE[ufunc][bool(right.value > 0)]  # type: ignore[operator]


def expand_clip(builder: Builder, shape: Shape, x: Node, low: Node, high: Node) -> Node:
    """numpy/_core/src/umath/clip.cpp. Only the sign of a zero tells these forms from np.minimum(np.maximum(x, low), high)."""
    if x.dtype.kind == "c":
        raise Decline("np.clip of complex numbers treats NaN in another way than np.maximum and np.minimum")
    constant = has_constant_bounds(shape, low, high) if x.dtype.kind == "f" else None
    x, low, high = (expand(builder, n, shape) for n in (x, low, high))
    if constant is None:
        return builder.apply("minimum", builder.apply("maximum", x, low), high)
    ties = constant or x.dtype == np.float16  # is x kept when it equals a bound?
    for bound, stays in ((low, "greater_equal" if ties else "greater"), (high, "less_equal" if ties else "less")):
        inside = builder.apply("logical_or", builder.apply(stays, x, bound), builder.apply("isnan", x))
        x = builder.apply("where", inside, x, bound)
    return x


def has_constant_bounds(shape: Shape, low: Node, high: Node) -> bool:
    """Are both bounds the same for all elements, or not both along any axis? What NumPy does between depends on its loops."""
    repeated = [all(is_repeated(bound.shape, axis - len(shape)) for bound in (low, high)) for axis in range(len(shape))]
    moving = [r for r, n in zip(repeated, shape) if not same(n, 1)]
    if any(moving) and not all(moving):
        raise Decline("np.clip with bounds that repeat along some axes")
    return all(moving)


def is_repeated(shape: Shape, axis: int) -> bool:
    return -axis > len(shape) or same(shape[axis], 1)


def takes_roots(shape: Shape, dtype: np.dtype, base: Operand, exponent: Operand) -> bool | None:
    """Does NumPy's loop take square roots instead of powers? None: if the exponent, of which the number is not known, is 0.5.

    Loops of float32 and float64 do that where they see one exponent, by a stride of zero (loops_umath_fp.dispatch.c.src): of a
    0-D array, and one of size 1 that repeats. The root of -inf is NaN and that of -0.0 is -0.0, unlike their power.
    """
    value, sizes = exponent.value, exponent.shape
    is_one_pair = len(sizes) > 0 and all(same(n, 1) for n in shape) and len(base.shape) in (0, len(sizes))
    is_buffered = len(base.shape) > 1 and any(o.type != dtype for o in (base, exponent))
    if is_one_pair and not is_buffered or not all(same(n, 1) for n in sizes) or dtype not in (np.float32, np.float64):
        return False
    match value:
        case Number():
            return value.type is float and value.ask(Formula("{} == 0.5", value.source), value.hint == 0.5)
        case Array():
            return value.node.params["value"] == 0.5 if value.node.op == "constant" else None
        case _:
            return value == 0.5


def power_or_root(builder: Builder, shape: Shape, dtype: np.dtype, base: Operand, exponent: Operand) -> Node:
    if builder.root.is_bitwise and dtype.kind in "fc" and not KNOWS_POWERS:
        raise Decline("powers, in the ways of this version of NumPy")
    roots = takes_roots(shape, dtype, base, exponent)
    x, y = base.node(builder, dtype), exponent.node(builder, dtype)
    x, y = expand(builder, x, shape), expand(builder, y, shape)
    if roots is not None:
        return builder.apply("sqrt", x) if roots else builder.apply("power", x, y)
    # A choice where the two differ only: the derivative with respect to the exponent is that of the power.
    is_half = builder.apply("equal", y, expand(builder, builder.constant(0.5, y.dtype), shape))
    is_root = builder.apply("logical_and", is_half, builder.apply("signbit", x))
    number = builder.apply("where", is_root, x, expand(builder, builder.constant(1.0, x.dtype), shape))
    return builder.apply("where", is_root, builder.apply("sqrt", number), builder.apply("power", x, y))


# Ufuncs without a row of their own, written with those that have one; exactly the same.
# (builder, shape of the result, operands that broadcast to it)
EXPANSIONS: dict[np.ufunc, Callable[..., Node]] = {umath.clip: expand_clip}


for expanded_ufunc in EXPANSIONS:
    FUNCTIONS[expanded_ufunc] = partial(call_ufunc, expanded_ufunc)


def is_captured(ufunc: Any) -> bool:
    return isinstance(ufunc, np.ufunc) and (ufunc in EXPANSIONS or ufunc.__name__ in OPS and OPS[ufunc.__name__].numpy is ufunc)
