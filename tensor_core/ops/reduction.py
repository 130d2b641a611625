"""Many numbers to one, and running totals."""

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.meta import TensorMeta, product
from npcompile.tensor_core.op import Parts, Value, row

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

    The third zero of a line and those after it get nothing: each product that one is in has two other zeros.
    """
    is_zero = x.equals(0)
    part = scan_back(g * out, axis) / is_zero.where(1, x)
    number = is_zero.cast(np.int64).op("scan", reducer="add", axis=axis)
    for k in (1, 2):
        here = is_zero & number.equals(k)
        without = here.where(1, x).op("scan", reducer="multiply", axis=axis)
        part = here.where(scan_back(g * without, axis), part)
    return part


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


@row(
    "reduction",
    eager=lambda x, *, reducer, axes: np.asarray(REDUCERS[reducer].reduce(x, axis=axes, dtype=x.dtype)),
    vjp=lambda g, out, x, *, reducer, axes: DERIVATIVE_OF_REDUCE[reducer](g, out, x, reducer, axes),
)
def reduce(x: TensorMeta, *, reducer, axes):
    """Combine over `axes` (sorted, non-negative), which disappear. The dtype stays: casts come before.

    Sums are at least as accurate as NumPy's pairwise ones. maximum and minimum keep NaN (NumPy), fmax and fmin skip it.
    """
    assert list(axes) == sorted(set(axes)) and all(0 <= a < x.ndim for a in axes), axes
    return TensorMeta(tuple(n for a, n in enumerate(x.shape) if a not in axes), x.dtype)


def eager_arg_reduce(x, *, which, axis):
    return np.asarray({"max": np.argmax, "min": np.argmin}[which](x, axis=axis))


@row("reduction", eager=eager_arg_reduce)
def arg_reduce(x: TensorMeta, *, which, axis):
    """Index of the first largest (`which="max"`) or smallest element along one axis; the first NaN wins. int64."""
    return TensorMeta(tuple(n for a, n in enumerate(x.shape) if a != axis), np.dtype(np.intp))


@row(
    "scan",
    eager=lambda x, *, reducer, axis: REDUCERS[reducer].accumulate(x, axis=axis, dtype=x.dtype),
    vjp=lambda g, out, x, *, reducer, axis: DERIVATIVE_OF_SCAN[reducer](g, out, x, reducer, axis),
)
def scan(x: TensorMeta, *, reducer, axis):
    """Running combination along one axis, first to last; floating point in exactly this order, as NumPy."""
    return TensorMeta(x.shape, x.dtype)
