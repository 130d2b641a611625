"""Calls of ufuncs: np.add(x, y, out=..., where=..., dtype=...) as graph nodes, one rule for every ufunc of the op table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import EllipsisType
from typing import Any

import numpy as np
from numpy._core import umath

from npcompile.numpy_shim.registry import FUNCTIONS, as_array, require_dtype
from npcompile.tensor_core.array import Array, cast, expand, fresh, full, result_meta, size_node
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, Shape, broadcast_shapes, is_contiguous
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.op import OPS

NoValue = np._NoValue
Weak = int | float | complex | Dim | Number
Dtypes = tuple[np.dtype, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """What a ufunc is applied to: an array with a dtype of its own, or a Python number, which is weak (NEP 50)."""

    value: Array | Weak

    @property
    def is_weak(self) -> bool:
        return not isinstance(self.value, Array)

    @property
    def type(self) -> np.dtype | type:
        """As `ufunc.resolve_dtypes` wants it."""
        match self.value:
            case Array():
                return self.value.dtype
            case Dim():
                return int
            case Number():
                return self.value.type
            case _:
                return type(self.value)

    @property
    def shape(self) -> Shape:
        return self.value.shape if isinstance(self.value, Array) else ()

    def node(self, builder: Builder, dtype: np.dtype) -> Node:
        """The operand as the loop reads it. Declines where NumPy raises OverflowError."""
        match self.value:
            case Array():
                return cast_quietly(builder, self.value.node, dtype)
            case Dim():
                require_range(self.value, dtype)
                return cast(builder, size_node(builder, self.value), dtype)
            case Number():
                return cast_quietly(builder, self.value.node(builder), dtype)
            case _:
                require_range(self.value, dtype)
                return weak_constant(builder, self.value, dtype)


def operand(builder: Builder, value: Any) -> Operand:
    """Anything that a ufunc takes. Declines what has its own __array_ufunc__, objects, strings and dates."""
    if isinstance(value, (Array, Dim, Number)) or type(value) in (int, float, complex):
        return Operand(value)
    if type(value) in (bool, list, tuple, np.ndarray) or isinstance(value, np.generic):
        return Operand(as_array(builder, value))
    raise Decline(f"a {type(value).__name__} as the operand of a ufunc runs as NumPy")


def cast_quietly(builder: Builder, node: Node, dtype: np.dtype) -> Node:
    """A cast that NumPy does without a word."""
    if node.dtype.kind == "c" and dtype.kind not in "cb":
        raise Decline("casting complex to real discards the imaginary part, with a warning")
    return cast(builder, node, dtype)


def weak_constant(builder: Builder, value: float | complex, dtype: np.dtype) -> Node:
    with np.errstate(all="ignore"):
        try:
            return builder.constant(value, dtype)
        except (OverflowError, TypeError, ValueError) as error:  # too large, complex in a real loop, NaN in an integer one
            raise Decline(str(error)) from None


def is_in_range(value: Any, dtype: np.dtype) -> bool:
    """Does the integer loop `dtype` hold this weak number? A question about a Dim is guarded."""
    if dtype.kind not in "biu" or not isinstance(value, (int, Dim)):
        return True
    limits = np.iinfo(np.int64 if dtype.kind == "b" else dtype)
    if isinstance(value, Dim) and limits.bits == 64:  # symbols are int64
        return limits.kind == "i" or bool(value >= 0)
    return bool(limits.min <= value) and bool(value <= limits.max)


def without_arrays(builder: Builder, o: Operand, count: int) -> Operand:
    """A Python number beside no array: int64, float64 or complex128, also when a loop is asked for by its dtype."""
    require_range(o.value, np.dtype(np.int64))
    return Operand(as_array(builder, o.value)) if count == 1 else o


def require_range(value: Any, dtype: np.dtype) -> None:
    if not is_in_range(value, dtype):
        raise Decline(f"Python integer {value} out of bounds for {dtype}")


# --- which loop


@lru_cache(maxsize=4096)
def resolve(
    ufunc: np.ufunc,
    types: tuple[np.dtype | type | None, ...],
    signature: tuple[Any, ...] | None = None,
    casting: str = "same_kind",
    reduction: bool = False,
) -> Dtypes:
    """The dtypes of the loop that NumPy runs for operands of these types, outputs last. Declines where it raises."""
    if casting in ("no", "equiv") and any(isinstance(t, type) for t in types):
        raise Decline(f"casting={casting!r} of Python numbers")  # resolve_dtypes of NumPy 2.4 crashes on some
    fixed = {} if signature is None else {"signature": signature}
    try:
        found = ufunc.resolve_dtypes(types, casting=casting, reduction=reduction, **fixed)
    except (TypeError, ValueError) as error:
        raise Decline(str(error)) from None
    *inputs, result = map(require_dtype, found)
    return (*(np.dtype(d.str) for d in inputs), require_canonical(result))  # of int64's C types, the inputs' do not matter


def require_canonical(dtype: np.dtype) -> np.dtype:
    """NumPy has two integer types of the same 64 bits (long and longlong): graphs have one."""
    if require_dtype(dtype).char != np.dtype(dtype.str).char:
        raise Decline(f"arrays of the C type {dtype.char!r} run as NumPy")
    return dtype


def read_signature(ufunc: np.ufunc, dtype: Any, signature: Any, sig: Any) -> tuple[Any, ...] | None:
    """The `dtype=` and `signature=` keywords as the tuple that `resolve_dtypes` takes."""
    given = [s for s in (signature, sig) if s is not None]
    if dtype is not NoValue and given:
        raise Decline("cannot specify both 'signature' and 'dtype'")
    if dtype is not None and dtype is not NoValue:
        given.append((*(None,) * ufunc.nin, *(as_dtype(dtype),) * ufunc.nout))
    if not given:
        return None
    if len(given) > 1:
        raise Decline("cannot specify both 'sig' and 'signature'")
    (only,) = given
    if isinstance(only, str):
        inputs, arrow, outputs = only.partition("->")
        only = tuple(inputs + outputs) if arrow else ()
    if not isinstance(only, tuple) or len(only) != ufunc.nin + ufunc.nout:
        raise Decline(f"the signature {only!r} of {ufunc.__name__} runs as NumPy")
    return tuple(None if part is None else as_dtype(part) for part in only)


def as_dtype(value: Any) -> np.dtype:
    try:
        return require_canonical(require_dtype(value))
    except TypeError as error:
        raise Decline(str(error)) from None


def require_no_error(ufunc: np.ufunc, operands: Sequence[Operand], loop: Dtypes) -> None:
    """Integer powers raise on a negative exponent: only exponents that cannot be negative are captured."""
    if ufunc is not np.power or loop[0].kind != "i":
        return
    exponent = operands[1].value
    if isinstance(exponent, Array):
        constant = exponent.node.params["value"] if exponent.node.op == "constant" else None
        exact = np.can_cast(exponent.dtype, loop[1], "safe")
        known = exact and (exponent.dtype.kind in "ub" or constant is not None and constant >= 0)
    else:
        known = isinstance(exponent, (int, Dim)) and bool(exponent >= 0)
    if not known:
        raise Decline("integers to integer powers that may be negative run as NumPy")


# --- the call


def call_ufunc(
    ufunc: np.ufunc,
    builder: Builder,
    *arguments: Any,
    out: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = NoValue,
    signature: Any = None,
    sig: Any = None,
    subok: Any = True,
    **unknown: Any,
) -> Array:
    """ufunc(*arguments, ...) for a ufunc with one output."""
    if unknown:
        raise Decline(f"{ufunc.__name__}() got an unexpected keyword argument {next(iter(unknown))!r}")
    if not isinstance(casting, str) or not isinstance(order, str):
        raise Decline("casting and order are strings")
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
        shape = require_output(target, shape, loop[-1], casting)
        value = cast_quietly(builder, apply_loop(builder, ufunc, operands, loop, shape), target.dtype)
        return store(target, value, mask)
    if mask is not None:
        raise Decline("without out, where= leaves elements uninitialised")
    node = apply_loop(builder, ufunc, operands, loop, shape)
    arrays = [o.value for o in operands if isinstance(o.value, Array)]
    require_known_order(order.upper(), operands, loop)
    meta = result_meta(shape, loop[-1], arrays, order.upper())
    return fresh(builder, node, meta, boxed=bool(shape) or target is ...)


def require_known_order(order: str, operands: Sequence[Operand], loop: Dtypes) -> None:
    if order not in tuple("KACF"):
        raise Decline(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    for x, dtype in zip((o.value for o in operands), loop):
        if order == "A" and isinstance(x, Array) and x.ndim == 1 and x.dtype != dtype and not is_contiguous(x.meta):
            raise Decline("whether order='A' sees this vector, or its contiguous cast, depends on its size")


def split_outputs(ufunc: np.ufunc, arguments: Sequence[Any], out: Any) -> tuple[Sequence[Any], list[Array | EllipsisType | None]]:
    """The inputs, and for each output the array to write, `...` (an array even when 0-D) or None."""
    inputs, positional = arguments[: ufunc.nin], arguments[ufunc.nin :]
    if len(inputs) < ufunc.nin or len(positional) > ufunc.nout or positional and out is not None:
        raise Decline(f"{ufunc.__name__}() takes {ufunc.nin} positional arguments and {ufunc.nout} outputs")
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
    """The where= operand; None when it is True."""
    if where is True:
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
    if is_in_range(right.value, dtype):
        return None
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


# Ufuncs without a row of their own, written with those that have one; exactly the same.
# (builder, shape of the result, operands that broadcast to it)
EXPANSIONS: dict[np.ufunc, Callable[..., Node]] = {umath.clip: expand_clip}


# --- two outputs


def call_divmod(builder: Builder, *arguments: Any, **keywords: Any) -> tuple[Array, Array]:
    return call_both(np.divmod, (np.floor_divide, np.remainder), builder, *arguments, **keywords)


def call_both(
    ufunc: np.ufunc,
    halves: tuple[np.ufunc, np.ufunc],
    builder: Builder,
    *arguments: Any,
    out: Any = None,
    **keywords: Any,
) -> tuple[Array, Array]:
    """A ufunc with two outputs whose results are those of two other ufuncs."""
    inputs, outs = split_outputs(ufunc, arguments, out)
    if any(isinstance(o, Array) for o in outs):
        raise Decline(f"out= of {ufunc.__name__} runs as NumPy")
    first, second = (call_ufunc(half, builder, *inputs, out=o, **keywords) for half, o in zip(halves, outs))
    return first, second


def call_parts(
    ufunc: np.ufunc, parts: Callable[..., tuple[Node, Node]], builder: Builder, *arguments: Any, out: Any = None
) -> Any:
    """A ufunc that takes numbers apart in two ways. Keywords run as NumPy."""
    (x,), outs = split_outputs(ufunc, arguments, out)
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
    exponent = builder.apply("where", ordinary, exponent, number(0, integer))
    return builder.apply("where", ordinary, mantissa, x), cast(builder, exponent, np.dtype(np.int32))


def is_captured(ufunc: Any) -> bool:
    return isinstance(ufunc, np.ufunc) and (ufunc in EXPANSIONS or ufunc.__name__ in OPS and OPS[ufunc.__name__].numpy is ufunc)


for captured_ufunc in [op.numpy for op in OPS.values() if is_captured(op.numpy)] + list(EXPANSIONS):
    FUNCTIONS[captured_ufunc] = partial(call_ufunc, captured_ufunc)
FUNCTIONS[np.divmod] = call_divmod
FUNCTIONS[np.modf] = partial(call_parts, np.modf, modf_parts)
FUNCTIONS[np.frexp] = partial(call_parts, np.frexp, frexp_parts)
