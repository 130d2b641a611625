"""Many numbers to one, and running totals."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.control import make_for_loop
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import TensorMeta, product
from npcompile.tensor_core.op import OPS, Op, Parts, Reads, Value, row

# Combining operation: NumPy's ufunc. The first group has an identity, maximum and minimum need one element.
REDUCERS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


# --- derivatives


def flipped(x: Value, axis: int) -> Value:
    start = tuple(n - 1 if a == axis else 0 for a, n in enumerate(x.shape))
    return x.op("slice", start=start, step=tuple(-1 if a == axis else 1 for a in range(x.ndim)), shape=x.shape)


def scan_back(x: Value, axis: int) -> Value:
    """Running sums from the last to the first."""
    return flipped(flipped(x, axis).op("scan", reducer="add", axis=axis), axis)


def product_before(x: Value) -> Value:
    """The product of all earlier elements along the last axis."""
    first = x.of(full(x.builder, (*x.shape[:-1], 1), 1, x.dtype))
    products = first.op("concatenate", x, axis=x.ndim - 1).op("scan", reducer="multiply", axis=x.ndim - 1)
    return products.op("slice", start=(0,) * x.ndim, step=(1,) * x.ndim, shape=x.shape)


def of_sum(g: Value, out: Value, x: Value, reducer: str, axes: tuple[int, ...]) -> Parts:
    return repeated(g, x, axes)


def repeated(v: Value, x: Value, axes: tuple[int, ...]) -> Value:
    """A result of a reduction of x over `axes` at the places that it came from."""
    return v.reshape([1 if a in axes else n for a, n in enumerate(x.shape)]).broadcast_to(x.shape)


def of_product(g: Value, out: Value, x: Value, reducer: str, axes: tuple[int, ...]) -> Parts:
    """g times the product of all others, without a division: x may be 0, and so may it be in further derivatives."""
    order = (*(a for a in range(x.ndim) if a not in axes), *axes)
    turned = x.permute(order)
    line = turned.reshape((*g.shape, product([x.shape[a] for a in axes])))
    others = product_before(line) * flipped(product_before(flipped(line, line.ndim - 1)), line.ndim - 1)
    others = others.reshape(turned.shape).permute(sorted(range(x.ndim), key=order.__getitem__))
    return repeated(g, x, axes) * others


def is_taken(x: Value, out: Value, reducer: str) -> Value:
    """Is this element the extreme? NaN is where it is taken."""
    return x.equals(out) | (out if reducer in ("fmax", "fmin") else x).isnan()


def of_extreme(g: Value, out: Value, x: Value, reducer: str, axes: tuple[int, ...]) -> Parts:
    """Shared equally between equal elements."""
    taken = is_taken(x, repeated(out, x, axes), reducer)
    count = taken.cast(np.int64).sum(axes).cast(g.dtype)
    return taken.where(repeated(g / count, x, axes), 0)


EXTREMES = ("maximum", "minimum", "fmax", "fmin")
# Those of booleans and integers have none.
DERIVATIVE_OF_REDUCE = {"add": of_sum, "multiply": of_product, **dict.fromkeys(EXTREMES, of_extreme)}


def of_running_product(g: Value, out: Value, x: Value, reducer: str, axis: int) -> Parts:
    """The sum of g * out from here on, divided by x. Where x is 0, the product is taken without it.

    The third zero of a line and those after it get nothing: each product that one is in has two other zeros. Further
    derivatives are those of another form, in which zeros are numbers like others.
    """
    is_zero = x.equals(0)
    part = scan_back(g * out, axis) / is_zero.where(1, x)
    number = is_zero.cast(np.int64).op("scan", reducer="add", axis=axis)
    for k in (1, 2):
        here = is_zero & number.equals(k)
        without = here.where(1, x).op("scan", reducer="multiply", axis=axis)
        part = here.where(scan_back(g * without, axis), part)
    again = (g.node, x.node)
    return x.of(x.builder.apply("custom_gradient", part.node, *again, *again, rule=DerivativeOfRunning(axis), read=2))


@dataclass(frozen=True, slots=True)
class DerivativeOfRunning:
    """The derivative of `of_running_product` as another form has it, without a division.

    That is the product of all before, times s, where s[i] = g[i] + x[i + 1] * s[i + 1].
    """

    axis: int

    def __call__(self, h: Value, g: Value, x: Value) -> Parts:
        order = (*(a for a in range(x.ndim) if a != self.axis), self.axis)
        h, g, x = (v.permute(order) for v in (h, g, x))
        last = x.ndim - 1
        s = recurrence(g, moved(x, 1))
        t = flipped(recurrence(flipped(h * product_before(x), last), flipped(x, last)), last)  # t[i] = ... + x[i] * t[i - 1]
        by_x = flipped(moved(flipped(t, last), 1), last) * s + of_product_before(h * s, x)
        return [v.permute(sorted(range(x.ndim), key=order.__getitem__)) for v in (t, by_x)]


def of_product_before(g: Value, x: Value) -> Value:
    last = x.ndim - 1
    one, none = (x.of(full(x.builder, (*x.shape[:-1], 1), n, x.dtype)) for n in (1, 0))
    line = one.op("concatenate", x, axis=last)
    products = line.op("scan", reducer="multiply", axis=last)
    found = of_running_product(g.op("concatenate", none, axis=last), products, line, "multiply", last)
    return found.op("slice", start=(*(0 for _ in x.shape[:-1]), 1), step=(1,) * x.ndim, shape=x.shape)


def recurrence(total: Value, factor: Value) -> Value:
    """s[i] = total[i] + factor[i] * s[i + 1] along the last axis, over spans of 1, 2, 4 ... elements."""
    if isinstance(total.shape[-1], Dim):
        return recurrence_of_any_length(total, factor)
    span = 1
    while span < total.shape[-1]:
        total = total + factor * moved(total, span)
        factor = factor * moved(factor, span)
        span *= 2
    return total


def recurrence_of_any_length(outer: Value, factor: Value) -> Value:
    def step(inner: Builder, carries: list[Node], _: list[Node]) -> tuple[list[Node], list[Node]]:
        span, total, factor = (replace(outer, builder=inner, node=n) for n in carries)
        places = [total.of(inner.apply("index", shape=total.shape, axis=a)) for a in range(total.ndim)]
        place = places[-1] + span
        inside = place < place.like(total.shape[-1])
        places[-1] = inside.where(place, 0)
        after, factors = (inside.where(v.op("gather", *places), 0) for v in (total, factor))
        return [x.node for x in (span * 2, total + factor * after, factor * factors)], []

    one = outer.builder.constant(1, np.dtype(np.int64))
    carries, _ = make_for_loop(outer.builder, step, [one, outer.node, factor.node], (), MOST_SPANS)
    return outer.of(carries[1])


MOST_SPANS = 40  # doubled so often, a span is longer than any line


def moved(x: Value, distance: int) -> Value:
    """Element i + distance of the last axis in place of element i, and zeros beyond the end, which is not nearer."""
    *shape, length = x.shape
    start = (*(0 for _ in shape), distance)
    rest = x.op("slice", start=start, step=(1,) * x.ndim, shape=(*shape, length - distance))
    return rest.op("concatenate", x.of(full(x.builder, (*shape, distance), 0, x.dtype)), axis=x.ndim - 1)


def of_running_extreme(g: Value, out: Value, x: Value, reducer: str, axis: int) -> Parts:
    """All to the last of the equal elements so far."""
    places = [g.of(g.builder.apply("index", shape=x.shape, axis=a)) for a in range(x.ndim)]
    here = is_taken(x, out, reducer).where(places[axis], 0)
    places[axis] = here.op("scan", reducer="maximum", axis=axis)
    return x.zeros().op("scatter", g, *places, mode="add")


DERIVATIVE_OF_SCAN = {
    "add": lambda g, out, x, reducer, axis: scan_back(g, axis),
    "multiply": of_running_product,
    **dict.fromkeys(EXTREMES, of_running_extreme),
}


def is_ordered(node: Node) -> bool:
    """A reduction whose order shows: that of the axes, first to last."""
    return shows_order(node.params["reducer"], node.dtype)


def shows_order(reducer: str, dtype: np.dtype) -> bool:
    """Is it rounded after each step, or a product of complex numbers, in which each step decides the signs of zeros?"""
    return reducer in ("add", "multiply") and is_bfloat16(dtype) or reducer == "multiply" and dtype.kind == "c"


def eager_reduce(x, *, reducer, axes, buffered=False):
    if is_bfloat16(x.dtype):
        x = np.asarray(x, order="C")  # NumPy goes through it as it lies in memory
    return np.asarray(REDUCERS[reducer].reduce(x, axis=axes, dtype=x.dtype))


def is_inexact(x: TensorMeta, *, reducer: str, axes: tuple[int, ...], buffered: bool = False) -> bool:
    """Products, which NumPy makes one after another; extremes, of which the places of zeros decide which of the two they are."""
    return x.dtype.char in {"multiply": "efdgFD", **dict.fromkeys(EXTREMES, "fd")}.get(reducer, "")


@row(
    "reduction",
    eager=eager_reduce,
    inexact=is_inexact,
    vjp=lambda g, out, x, *, reducer, axes, buffered=False: DERIVATIVE_OF_REDUCE[reducer](g, out, x, reducer, axes),
    reads=lambda reducer, **_: Reads.NOTHING if reducer == "add" else Reads.BOTH,
    chooses=lambda reducer, **_: reducer != "add",
)
def reduce(x: TensorMeta, *, reducer, axes, buffered=False):
    """Combine over `axes` (sorted, non-negative), which disappear. The dtype stays: casts come before.

    Sums are added in NumPy's order on the CPU; in bfloat16 they are rounded after each step, in the order of axes.
    maximum and minimum keep NaN (NumPy), fmax and fmin skip it. `buffered`: NumPy makes the cast below as it sums, in a buffer.
    """
    assert list(axes) == sorted(set(axes)) and all(0 <= a < x.ndim for a in axes), axes
    return TensorMeta(tuple(n for a, n in enumerate(x.shape) if a not in axes), x.dtype)


def reduction(function: Callable, *, loops: np.ufunc, decomposition: Callable, vjp: Callable | None = None) -> Op:
    """A row for `function(x, axis=None, keepdims=False)`, which is written with others: that is the whole of adding it.

    `loops` is a ufunc of one operand whose dtypes it takes and gives; `decomposition(x, *, axes)` is the function of a Value.

    >>> reduction(root_of_squares, loops=np.sqrt, decomposition=lambda x, *, axes: (x * x).sum(axes).sqrt())
    """

    def meta(x: TensorMeta, *, axes: tuple[int, ...]) -> TensorMeta:
        dtype, out = loops.resolve_dtypes((x.dtype, None))
        assert x.dtype == dtype and list(axes) == sorted(set(axes)), (x.dtype, axes)
        return TensorMeta(tuple(n for a, n in enumerate(x.shape) if a not in axes), out)

    def eager(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        return np.asarray(function(x, axis=axes))

    return OPS.add(Op(function.__name__, "reduction", meta, eager, vjp, function, loops, decomposition))


def eager_arg_reduce(x, *, which, axis):
    return np.asarray({"max": np.argmax, "min": np.argmin}[which](x, axis=axis))


@row("reduction", eager=eager_arg_reduce)
def arg_reduce(x: TensorMeta, *, which, axis):
    """Index of the first largest (`which="max"`) or smallest element along one axis; the first NaN wins. int64."""
    return TensorMeta(tuple(n for a, n in enumerate(x.shape) if a != axis), np.dtype(np.intp))


def is_inexact_scan(x: TensorMeta, *, reducer: str, axis: int) -> bool:
    """Products of complex numbers, which NumPy's loop fuses or not."""
    return reducer == "multiply" and x.dtype.kind == "c"


@row(
    "scan",
    inexact=is_inexact_scan,
    eager=lambda x, *, reducer, axis: REDUCERS[reducer].accumulate(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, out, x, *, reducer, axis: DERIVATIVE_OF_SCAN[reducer](g, out, x, reducer, axis),
    chooses=lambda reducer, **_: reducer != "add",
)
def scan(x: TensorMeta, *, reducer, axis):
    """Running combination along one axis, first to last; floating point in exactly this order, as NumPy."""
    return TensorMeta(x.shape, x.dtype)
