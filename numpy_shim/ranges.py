"""Ranges of numbers: np.arange and np.linspace, whose ends may be data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import array_of, axis_of, dtype_of, flag, integer, known, native_array, require_cast, unbox
from npcompile.numpy_shim.creation import FLOAT64, INT64, require_cpu
from npcompile.numpy_shim.registry import as_array, evaluated_once, implements, literal, result_dtype
from npcompile.tensor_core.array import Array, cast, expand, fresh, full, reshape, result_meta, size_node, transpose
from npcompile.tensor_core.dim import Dim, Size, at_least_zero, same, source_of_size
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.guards import Binds, Truth, within
from npcompile.tensor_core.meta import Decline, TensorMeta, broadcast_shapes, broadcast_strides, keep_order_strides
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.source import Bound, Formula, Literal


@implements(np.arange)
def arange(
    builder: Builder,
    start_or_stop: Any = None,
    stop: Any = None,
    step: Any = 1,
    *,
    start: Any = None,
    dtype: Any = None,
    device: Any = None,
    like: Any = None,
) -> Array:
    require_cpu(device, like)
    first, last = range_ends(start_or_stop, start, stop)
    values = [first, last, 1 if step is None else step]
    wanted = None if dtype is None else dtype_of(dtype, takes_classes=False)
    if all(isinstance(v, (int, Dim, np.integer)) and not isinstance(v, bool) for v in values) and (
        wanted is None or wanted.kind in "iuf"
    ):
        return integer_range(builder, first, last, values[2], wanted)
    if wanted in (None, FLOAT64) and (made := float_range(builder, *values)) is not None:
        return made
    return constant_range(builder, [fixed(v) for v in values], wanted)


def range_ends(start_or_stop: Any, start: Any, stop: Any) -> tuple[Any, Any]:
    if start is not None:
        if start_or_stop is not None:
            raise Decline("start given twice")
        return start, stop
    if start_or_stop is None:
        raise Decline("arange() requires stop to be specified.")
    return (0, start_or_stop) if stop is None else (start_or_stop, stop)


def fixed(value: Any) -> Any:
    """A constant; traced Python numbers are fixed by a guard."""
    if isinstance(value, Array):
        contents = known(value)
        if contents is None or contents.ndim:
            raise Decline("a range with an end that is array data")
        return contents[()]
    return value.fix() if isinstance(value, Number) else int(value) if isinstance(value, Dim) else value


def integer_range(builder: Builder, start: Any, stop: Any, step: Any, dtype: np.dtype | None) -> Array:
    """start + step * i, whose length is an exact integer."""
    strong = [v.dtype for v in (start, stop, step) if isinstance(v, np.integer)]
    start, stop, step = (v if isinstance(v, Dim) else int(v) for v in (start, stop, step))
    if not all(isinstance(v, Dim) or -(2**63) <= v < 2**63 for v in (start, stop, step)):
        raise Decline("a range of integers beyond int64")
    dtype = dtype or np.result_type(INT64, *strong)
    if dtype.kind == "f" and strong:
        raise Decline("arange of floats from integers")
    step = int(step)
    if step == 0:
        raise Decline("Maximum allowed size exceeded")
    span = at_least_zero(stop - start if step > 0 else start - stop)
    length = (span + abs(step) - 1) // abs(step)
    last = start + step * (length - 1) if not same(length, 0) else start
    require_range(start, last, dtype)
    node = affine(builder, length, start, step)
    return fresh(builder, cast(builder, node, dtype), TensorMeta((length,), dtype))


def require_range(start: Size, last: Size, dtype: np.dtype) -> None:
    """All values must be exact in the dtype: NumPy computes the others from the first two."""
    if dtype == INT64:
        return
    largest = int(np.iinfo(dtype).max) if dtype.kind in "iu" else 2 ** (np.finfo(dtype).nmant + 1)
    least = int(np.iinfo(dtype).min) if dtype.kind in "iu" else -largest
    if not (least <= start and start <= largest and least <= last and last <= largest):
        raise Decline(f"arange beyond what {dtype} holds exactly")


def affine(builder: Builder, length: Size, start: Size, step: Size) -> Node:
    """start + step * i as int64."""
    node = builder.apply("index", shape=(length,), axis=0)
    if not same(step, 1):
        node = builder.apply("multiply", node, expand(builder, size_node(builder, step), (length,)))
    if not same(start, 0):
        node = builder.apply("add", node, expand(builder, size_node(builder, start), (length,)))
    return node


def float_range(builder: Builder, start: Any, stop: Any, step: Any) -> Array | None:
    """A range whose ends or step are numbers from outside, of at least two elements: their number is a size. None for others."""
    values = (start, stop, step)
    numbers = [v for v in values if isinstance(v, Number)]
    if not numbers or not all(type(v.hint if isinstance(v, (Number, Dim)) else v) in (int, float) for v in values):
        return None
    first, last, by = (v.source if isinstance(v, Number) else Formula("({})", source_of_size(v)) for v in values)
    env, text = numbers[0].env, Formula("-int(-(({} - {}) / {}) // 1)", last, first, by)
    try:
        hints: list[Any] = [v.hint if isinstance(v, (Number, Dim)) else v for v in values]
        length = math.ceil((hints[1] - hints[0]) / hints[2])
    except ArithmeticError as error:
        raise Decline(str(error)) from None
    if not 2 <= length < 2**31 or not all(abs(v) < 2**53 for v in hints if type(v) is int) or not all(map(math.isfinite, hints)):
        return None
    name = f"s{len(env.hints)}"
    env.assume(Binds(text, name))
    env.assume(within(Literal(2), Bound(name), Literal(2**31), ("<=", "<")))
    shape = (env.symbol(name, length, at_least=2),)
    begin, width = (cast(builder, as_array(builder, v).node, FLOAT64) for v in (start, step))
    second = builder.apply("add", begin, width)
    delta = builder.apply("subtract", second, begin)
    index = builder.apply("index", shape=shape, axis=0)
    node = builder.apply("multiply", cast(builder, index, FLOAT64), expand(builder, delta, shape))
    node = builder.apply("add", node, expand(builder, begin, shape))
    for place, given in enumerate((begin, second)):  # NumPy computes all others from these two
        is_here = builder.apply("equal", index, full(builder, shape, place, INT64))
        node = builder.apply("where", is_here, expand(builder, given, shape), node)
    return fresh(builder, node, TensorMeta(shape, FLOAT64))


def constant_range(builder: Builder, values: list[Any], dtype: np.dtype | None) -> Array:
    """A range of constants: what NumPy computes, as arithmetic when it is long."""
    with evaluated_once():
        first = np.arange(values[0], values[0] + 2 * values[2], values[2], dtype)[:2]
        length = math.ceil((values[1] - values[0]) / values[2])
        if length <= 16 or first.dtype != FLOAT64:
            result = np.arange(*values, dtype)
            if result.size > 10_000:
                raise Decline("a long range of this dtype")
            return literal(builder, result)
    start, second = first
    step = second - start
    if start + step != second:
        raise Decline("a range whose second element is rounded")
    index = cast(builder, builder.apply("index", shape=(length,), axis=0), FLOAT64)
    node = builder.apply("multiply", index, full(builder, (length,), step, FLOAT64))
    node = builder.apply("add", node, full(builder, (length,), start, FLOAT64))
    return fresh(builder, node, TensorMeta((length,), FLOAT64))


@implements(np.linspace)
def linspace(
    builder: Builder,
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: Any = True,
    retstep: Any = False,
    dtype: Any = None,
    axis: Any = 0,
    *,
    device: Any = None,
) -> Any:
    """np.linspace in the order of NumPy's own arithmetic."""
    require_cpu(device)
    num, with_end = integer(num), flag(endpoint)
    if num < 0:
        raise Decline("Number of samples must be non-negative.")
    computed = inexact_dtype(start, stop)
    require_range(0, num, computed)
    wanted = computed if dtype is None else dtype_of(dtype)
    require_cast(computed, wanted)
    first, last = (cast(builder, as_array(builder, v).node, computed) for v in (start, stop))
    ends = broadcast_shapes(first.meta.shape, last.meta.shape)
    delta = builder.apply("subtract", expand(builder, last, ends), expand(builder, first, ends))
    div = num - 1 if with_end else num
    shape = (num, *ends)
    index = builder.apply("index", shape=shape, axis=0)
    node = cast(builder, index, computed)
    step = delta
    if div > 0:
        divisor = cast(builder, size_node(builder, div), computed)
        step = builder.apply("divide", delta, expand(builder, divisor, ends))
        node = scaled_by_step(builder, node, step, delta, divisor, is_step_known_to_count(start, stop))
    else:
        node = builder.apply("multiply", node, expand(builder, delta, shape))
    node = builder.apply("add", node, expand(builder, first, shape))
    if with_end and num > 1:
        is_last = builder.apply("equal", index, expand(builder, size_node(builder, num - 1), shape))
        node = builder.apply("where", is_last, expand(builder, last, shape), node)
    if wanted.kind in "iu":
        node = builder.apply("floor", node)
    delta_meta = result_meta(ends, computed, [array_of(builder, stop), array_of(builder, start)])
    grid = TensorMeta((num, *(1 for _ in ends)), computed)
    operands = [m.with_(shape=shape, strides=broadcast_strides(m, shape)) for m in (grid, delta_meta)]
    result_strides = keep_order_strides(shape, wanted.itemsize, operands)
    result = fresh(builder, cast(builder, node, wanted), TensorMeta(shape, wanted, result_strides))
    if not ends and div > 0 and wanted == computed:  # NumPy computes in a view of the indices
        result = reshape(result, shape)
    place = axis_of(axis, len(shape))
    result = transpose(result, [*range(1, place + 1), 0, *range(place + 1, len(shape))]) if place else result
    if not flag(retstep):
        return result
    return result, unbox(fresh(builder, step, delta_meta)) if div > 0 else math.nan


def inexact_dtype(start: Any, stop: Any) -> np.dtype:
    """float64, or the promotion of both ends where that is inexact: Python numbers are weak."""
    weak = [0.0, *(v.type() if isinstance(v, Number) else 0 for v in (start, stop) if isinstance(v, (Number, Dim)))]
    strong = [promotes_as(v) for v in (start, stop) if not isinstance(v, (Number, Dim))]
    dtype = result_dtype(*strong, *weak)
    if dtype not in (np.float32, FLOAT64):
        raise Decline(f"linspace of {dtype}")
    return dtype


def promotes_as(value: Any) -> Any:
    if type(value) in (int, float, complex):
        return value
    return value.dtype if isinstance(value, Array) else native_array(value, None).dtype


def is_step_known_to_count(start: Any, stop: Any) -> bool:
    """Is it known, or guarded, that the step does not underflow to 0?"""
    if not all(isinstance(v, (int, float, Number, Dim)) for v in (start, stop)):
        return False
    sources = [
        v.source if isinstance(v, Number) else source_of_size(v) if isinstance(v, Dim) else Literal(float(v))
        for v in (start, stop)
    ]
    hints: list[Any] = [v.hint if isinstance(v, (Number, Dim)) else float(v) for v in (start, stop)]
    if 0 < abs(hints[1] - hints[0]) < SMALLEST_STEP or not all(map(math.isfinite, hints)):
        return False
    env = next((v.env for v in (start, stop) if isinstance(v, (Number, Dim))), None)
    if env is not None:
        step = Formula("0 < abs({} - ({})) < {}", sources[1], sources[0], Literal(SMALLEST_STEP))
        env.assume(Truth(step, answer=False))
    return True


SMALLEST_STEP = 1e-290


def scaled_by_step(builder: Builder, index: Node, step: Node, delta: Node, divisor: Node, counts: bool) -> Node:
    """index * step, or index / div * delta where a step underflows to 0."""
    shape = index.meta.shape
    product = builder.apply("multiply", index, expand(builder, step, shape))
    if counts:
        return product
    is_zero = builder.apply("equal", step, full(builder, step.meta.shape, 0, step.dtype))
    if is_zero.meta.ndim:
        is_zero = builder.apply("reduce", is_zero, reducer="logical_or", axes=tuple(range(is_zero.meta.ndim)))
    quotient = builder.apply("divide", index, expand(builder, divisor, shape))
    slow = builder.apply("multiply", quotient, expand(builder, delta, shape))
    return builder.apply("where", expand(builder, is_zero, shape), slow, product)
