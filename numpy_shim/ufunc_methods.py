"""Methods of ufuncs: np.add.reduce, .accumulate, .outer, .at."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from npcompile.numpy_shim.indexing import require_positions
from npcompile.numpy_shim.registry import Captured, as_array
from npcompile.numpy_shim.ufunc_operands import Dtypes, NoValue, Operand, as_dtype, cast_quietly, operand, require_range, resolve
from npcompile.numpy_shim.ufuncs import call_ufunc, is_captured, is_target, read_mask, store, value_where
from npcompile.tensor_core.array import Array, as_it_lies, cast, expand, fresh, full, permute, reshape, reshaped
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.dtypes import is_bfloat16, kind_of
from npcompile.tensor_core.exactness import KNOWS_SUMS
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Node
from npcompile.tensor_core.known import fixed_contents
from npcompile.tensor_core.meta import (
    Decline,
    Shape,
    TensorMeta,
    asked_order,
    broadcast_shapes,
    broadcast_strides,
    by_strides,
    is_packed,
    keep_order_strides,
    kept_order,
    normalize_axis,
    packed_strides,
    product,
)
from npcompile.tensor_core.ops.reduction import REDUCERS
from npcompile.tensor_core.transforms.value import Value


def reduce(
    builder: Builder,
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = NoValue,
    where: Any = True,
) -> Array:
    """ufunc.reduce(...)."""
    array = source_array(builder, array)
    axes = read_axes(axis, array.ndim)
    out = read_out(out)
    loop = reduction_loop(ufunc, array, dtype, out)
    mask = read_mask(builder, where)
    keepdims = read_flag(keepdims)
    kept = tuple(n for a, n in enumerate(array.shape) if a not in axes)
    shape = tuple(1 if a in axes else n for a, n in enumerate(array.shape)) if keepdims else kept
    start = read_initial(builder, ufunc, initial, loop[-1])
    if ufunc is np.multiply and (loop[0].kind in "fc" and start is not None or loop[0].kind == "c" and mask is not None):
        raise Decline("the order of these products decides overflow and the signs of zeros")
    if builder.root.is_bitwise and loop[0].kind in "fc" and (mask or start is not None or ufunc in SUMS_OF_EXPONENTIALS):
        raise Decline("NumPy combines these in an order of their own")
    if builder.root.is_bitwise and loop[0].kind in "fc" and len(axes) > 1 and not KNOWS_SUMS:
        raise Decline("sums over several axes, in the order of this version of NumPy")

    has_order = ufunc is np.add or builder.root.is_bitwise
    value = cast_quietly(builder, as_it_lies(array) if has_order else array.node, loop[0])
    if mask is not None:
        value = mask_out(builder, ufunc, value, mask, start)
    if is_bfloat16(loop[0]) and ufunc not in EXTREMES:
        if start is not None or mask is not None or ufunc in SUMS_OF_EXPONENTIALS:
            raise Decline("NumPy rounds after each step here, in an order that is not captured")
        value, axes = in_memory_order(builder, value, array.meta, axes)
    value = combine(builder, ufunc, value, axes, start, kept, is_cast=array.dtype != loop[0])
    value = builder.apply("reshape", value, shape=shape) if keepdims else value
    if isinstance(out, Array):
        if len(shape) != out.ndim or not all(same(n, m) or n == m for n, m in zip(shape, out.shape)):
            raise Decline(f"output parameter for reduction operation {ufunc.__name__} has the wrong shape")
        return store(out, cast_quietly(builder, value, out.dtype))
    meta = reduced_meta(shape, loop[-1], array, axes, keepdims, mask)
    return fresh(builder, value, meta, boxed=bool(shape) or out is ...)


def in_memory_order(builder: Builder, value: Node, meta: TensorMeta, axes: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """The elements of each result along one last axis, one after the other as NumPy's iterator meets them."""
    if any(meta.strides[a] < 0 for a in axes if not same(meta.shape[a], 1)):
        raise Decline("NumPy walks backwards along a reversed axis, and rounds after each step")
    if len(axes) < 2:
        return value, axes
    order = by_strides(keep_order_strides(meta.shape, meta.dtype.itemsize, [meta]))
    kept = [a for a in range(meta.ndim) if a not in axes]
    turned = permute(builder, value, (*kept, *(a for a in order if a in axes)))
    shape = (*(meta.shape[a] for a in kept), product([meta.shape[a] for a in axes]))
    return reshaped(builder, turned, shape), (len(kept),)


def source_array(builder: Builder, value: Any) -> Array:
    found = operand(builder, value).value
    return found if isinstance(found, Array) else as_array(builder, found)


def read_flag(value: Any) -> bool:
    if isinstance(value, (Array, Dim)) or not isinstance(value, (bool, int, np.bool_)):
        raise Decline("a computed flag runs as NumPy")
    return bool(value)


def read_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, sorted. Declines where NumPy raises."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, tuple):
        axis = read_axis(axis)
        return () if ndim == 0 and axis in (0, -1) else (normalize_axis(axis, ndim),)
    axes = [normalize_axis(read_axis(a), ndim) for a in axis]
    if len(set(axes)) != len(axes):
        raise Decline("duplicate value in 'axis'")
    return tuple(sorted(axes))


def read_axis(axis: Any) -> int:
    if (
        isinstance(axis, Array)
        and axis.dtype.kind in "iu"
        and not axis.ndim
        and (contents := fixed_contents(axis.node)) is not None
    ):
        axis = contents[()]
    if isinstance(axis, (bool, np.bool_, Array)):
        raise Decline("an integer is required for the axis")
    try:
        return operator.index(axis)
    except TypeError as error:
        raise Decline(str(error)) from None


def read_out(out: Any) -> Any:
    """The `out` of a method with one output: an array to write, `...` or None."""
    if isinstance(out, tuple) and len(out) == 1 and out[0] is not ...:
        (out,) = out
    if out is None or out is ... or is_target(out):
        return out
    raise Decline("return arrays must be of ArrayType")


def reduction_loop(ufunc: np.ufunc, array: Array, dtype: Any, out: Any) -> Dtypes:
    if REDUCERS.get(ufunc.__name__) is not ufunc and ufunc not in SUMS_OF_EXPONENTIALS:
        raise Decline(f"reductions with {ufunc.__name__} run as NumPy")
    signature = None if dtype is None else (as_dtype(dtype), None, None)
    first = out.dtype if isinstance(out, Array) else None
    loop = resolve(ufunc, (first, array.dtype, None), signature, "unsafe", reduction=True)
    if loop[0] != loop[-1]:
        raise Decline(f"reductions with {ufunc.__name__} of {array.dtype} run as NumPy")
    if isinstance(out, Array) and not np.can_cast(loop[-1], out.dtype, "safe"):
        raise Decline("how NumPy rounds partial results into such an out is not captured")
    if isinstance(out, Array) and not np.can_cast(out.dtype, loop[-1], "same_kind"):
        raise Decline("NumPy reads such an out before it is written, and converts it, with warnings")
    return loop


def identity(builder: Builder, ufunc: np.ufunc, dtype: np.dtype) -> Node | None:
    if ufunc.identity is None:
        return None
    return builder.constant(np.asarray(ufunc.identity).astype(dtype), dtype)


def read_initial(builder: Builder, ufunc: np.ufunc, initial: Any, dtype: np.dtype) -> Node | None:
    """The start value that the user gave, as a 0-D node."""
    if initial is NoValue:
        return None
    if initial is None:
        if ufunc.identity is None:
            return None
        raise Decline("initial=None of a reduction that has an identity runs as NumPy")
    given = operand(builder, initial)
    if given.shape:
        raise Decline("setting an array element with a sequence.")
    if given.is_weak:
        fits = dtype.kind == "b" and given.type is int or np.result_type(dtype, given.type(0)) == dtype  # type: ignore[operator]
        require_range(given.value, dtype)
    else:
        fits = np.can_cast(given.type, dtype, "same_kind")  # type: ignore[arg-type]
    if not fits:
        raise Decline(f"an initial value of another kind than {dtype} runs as NumPy")
    return given.node(builder, dtype)


def mask_out(builder: Builder, ufunc: np.ufunc, value: Node, mask: Array, start: Node | None) -> Node:
    """Elements that the mask excludes become what changes nothing."""
    whole = broadcast_shapes(value.shape, mask.shape)
    if len(whole) != value.meta.ndim or not all(same(n, m) or n == m for n, m in zip(whole, value.shape)):
        raise Decline("input operand has more dimensions than allowed by the axis remapping")
    nothing = identity(builder, ufunc, value.dtype)
    if nothing is None:
        nothing = start  # maximum and minimum: the start value once more
    elif ufunc is np.add and start is not None and may_be_negative_zero(start):
        nothing = builder.constant(-0.0, value.dtype)
    if nothing is None:
        raise Decline(f"reduction operation {ufunc.__name__!r} with a where mask needs an initial value")
    return value_where(builder, mask.node, value, expand(builder, nothing, value.shape))


def combine(
    builder: Builder, ufunc: np.ufunc, value: Node, axes: tuple[int, ...], start: Node | None, kept: Shape, *, is_cast: bool
) -> Node:
    """The reduction, with the start value if one is given."""
    nothing = identity(builder, ufunc, value.dtype)
    if nothing is None and any(value.shape[a] == 0 for a in axes):
        if start is not None:
            return expand(builder, start, kept)
        raise Decline(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    if axes and ufunc in SUMS_OF_EXPONENTIALS:
        value = logarithm_of_sum(Value(builder, value), axes, SUMS_OF_EXPONENTIALS[ufunc]).node
    elif axes:
        if ufunc is np.add and start is not None and may_be_negative_zero(start):
            value = sum_to_add(Value(builder, value), axes).node
        else:
            if ufunc is np.add and kind_of(value.dtype) in "fc":
                asked_order(value.meta)  # asked, as the order of its additions shows
            buffered = {"buffered": True} if ufunc is np.add and is_cast else {}
            value = builder.apply("reduce", value, reducer=ufunc.__name__, axes=axes, **buffered)
    elif start is None:
        start = nothing  # NumPy starts from the identity, so that the sum of -0.0 alone is 0.0
    if start is not None:
        value = builder.apply(ufunc.__name__, expand(builder, start, value.shape), value)
    return value


def may_be_negative_zero(start: Node) -> bool:
    if kind_of(start.dtype) not in "fc":
        return False
    value = start.params["value"] if start.op == "constant" else None
    return value is None or value == 0 and bool(np.signbit(np.real(value)) or np.signbit(np.imag(value)))


def sum_to_add(x: Value, axes: tuple[int, ...]) -> Value:
    """The sum, -0.0 where all elements are: NumPy adds them to the start value, not to 0.0."""
    if x.dtype.kind == "c":
        return sum_to_add(x.real(), axes).op("complex", sum_to_add(x.imag(), axes))
    are_negative_zeros = (x.equals(0) & x.op("signbit")).reduce("logical_and", axes)
    return are_negative_zeros.where(-(-x).sum(axes), x.sum(axes))


EXTREMES = (np.maximum, np.minimum, np.fmax, np.fmin)

# The logarithm of what they are powers of.
SUMS_OF_EXPONENTIALS = {np.logaddexp: 1.0, np.logaddexp2: math.log(2)}


def logarithm_of_sum(x: Value, axes: tuple[int, ...], unit: float) -> Value:
    """log(sum(exp(x))): the largest of x, and how much more that is. The largest is no part of the derivative."""
    if any(x.shape[a] == 0 for a in axes):
        rest = [n for a, n in enumerate(x.shape) if a not in axes]
        return x.of(full(x.builder, tuple(rest), -np.inf, x.dtype))
    ignored, x.builder.ignored = x.builder.ignored, FLOAT_ERRORS
    largest = x.of(x.builder.apply("alias", x.node, name=None)).reduce("maximum", axes)
    finite = largest.isfinite()
    kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
    spread, is_finite = (v.reshape(kept).broadcast_to(x.shape) for v in (largest, finite))
    above = is_finite.where((x - spread) * unit, 0)
    is_largest = above.equals(0)
    more = is_largest.where(above.expm1(), above.exp()).sum(axes) + (is_largest.cast(np.int64).sum(axes) - 1).cast(x.dtype)
    found = largest + more.log1p() / unit
    x.builder.ignored = ignored
    return finite.where(found, largest.op("logaddexp", -np.inf))  # which is an error where it is NaN


def reduced_meta(
    shape: Shape,
    dtype: np.dtype,
    array: Array,
    axes: tuple[int, ...],
    keepdims: bool,
    mask: Array | None,
) -> TensorMeta:
    """The memory order of a reduction's result: the remaining axes as the operands have them."""
    metas = [array.meta]
    if mask is not None:
        metas.append(mask.meta.with_(shape=array.shape, strides=broadcast_strides(mask.meta, array.shape)))
    wide = tuple(1 if a in axes else n for a, n in enumerate(array.shape))
    strides = packed_strides(wide, dtype.itemsize, kept_order(array.shape, metas))
    if not keepdims:
        strides = tuple(s for a, s in enumerate(strides) if a not in axes)
    meta = TensorMeta(shape, dtype, strides)
    if not is_packed(meta) and any(array.shape[a] == 0 for a in axes):
        raise Decline("the memory order of sums of no elements")  # strides of a new array are 0 where it is empty
    return meta


def accumulate(builder: Builder, ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Array:
    """ufunc.accumulate(...)."""
    array = source_array(builder, array)
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    axis = normalize_axis(read_axis(axis), array.ndim)
    out = read_out(out)
    loop = reduction_loop(ufunc, array, dtype, out)
    if ufunc in SUMS_OF_EXPONENTIALS:
        raise Decline(f"running totals with {ufunc.__name__} run as NumPy")
    value = builder.apply("scan", cast_quietly(builder, array.node, loop[0]), reducer=ufunc.__name__, axis=axis)
    if isinstance(out, Array):
        if out.ndim != array.ndim or not all(same(n, m) or n == m for n, m in zip(array.shape, out.shape)):
            raise Decline("provided out is the wrong size for the accumulation.")
        return store(out, cast_quietly(builder, value, out.dtype))
    strides = keep_order_strides(array.shape, loop[-1].itemsize, [array.meta])
    return fresh(builder, value, TensorMeta(array.shape, loop[-1], strides))


def outer(builder: Builder, ufunc: np.ufunc, a: Any, b: Any, /, **keywords: Any) -> Array:
    """ufunc.outer(a, b, ...)."""
    if ufunc.nin != 2 or not is_captured(ufunc):
        raise Decline(f"{ufunc.__name__}.outer runs as NumPy")
    left, right = source_array(builder, a), source_array(builder, b)
    if right.ndim:
        left = reshape(left, (*left.shape, *(1,) * right.ndim))
    return call_ufunc(ufunc, builder, left, right, **keywords)


def at(builder: Builder, ufunc: np.ufunc, a: Any, indices: Any, b: Any = None, /) -> None:
    """ufunc.at(a, indices, b) for integer array indices: repeated places combine."""
    name = ufunc.__name__
    if not is_target(a) or b is None or ufunc.nin != 2 or REDUCERS.get(name) is not ufunc:
        raise Decline(f"such a {name}.at runs as NumPy")
    places = [as_array(builder, i) for i in (indices if isinstance(indices, tuple) else (indices,))]
    if not places or len(places) > a.ndim or any(p.dtype.kind not in "iu" for p in places):
        raise Decline("ufunc.at with other indices than arrays of integers runs as NumPy")
    values = operand(builder, b)
    loop = resolve(ufunc, (a.dtype, values.type, None))
    if any(d != a.dtype for d in loop):
        raise Decline("ufunc.at with operands of other dtypes than the array's runs as NumPy")
    lead = broadcast_shapes(*(p.shape for p in places))
    shape = (*lead, *a.shape[len(places) :])
    require_values(values, shape)
    int64 = np.dtype(np.int64)
    index_nodes = [expand(builder, cast(builder, p.node, int64), lead) for p in places]
    require_positions(builder, index_nodes, a.shape)
    value = expand(builder, values.node(builder, a.dtype), shape)
    a.write(builder.apply("scatter", a.node, value, *index_nodes, mode=name))


def require_values(values: Operand, shape: Shape) -> None:
    whole = broadcast_shapes(values.shape, shape)
    if len(whole) != len(shape) or not all(same(n, m) or n == m for n, m in zip(whole, shape)):
        raise Decline("array is not broadcastable to correct shape")


def dots_by_keyword(method: Captured) -> Captured:
    """NumPy takes `...` as `out` by keyword alone."""

    @functools.wraps(method)
    def captured(builder: Builder, ufunc: np.ufunc, *arguments: Any, **keywords: Any) -> Any:
        if any(a is ... for a in arguments[1:]):
            raise Decline("out=... is only allowed as a keyword argument.")
        return method(builder, ufunc, *arguments, **keywords)

    return captured


# Method name -> captured form (builder, ufunc, *args, **kwargs).
UFUNC_METHODS: dict[str, Captured] = {
    "reduce": dots_by_keyword(reduce),
    "accumulate": dots_by_keyword(accumulate),
    "outer": outer,
    "at": at,
}
