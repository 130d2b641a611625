"""Elements in order along an axis, and places in sorted arrays. NumPy sorts: equal elements end where it puts them."""

from typing import Any

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import Silent, row

INTP = np.dtype(np.intp)
Value = Any  # tensor_core.transforms.value.Value


def vjp_order(g: Value, out: Value, x: Value, *, axis, **_: Any) -> Value:
    """An element's gradient is that of its place in the result: the one of equal rank among the results."""
    source = ranked(x, axis)
    return x.zeros().op("scatter", g.op("gather", *ranked(out, axis)), *source, mode="add")


def vjp_sort(g: Value, out: Value, x: Value, *, axis, kind) -> Value:
    return x.zeros().op("scatter", g, *ranked(x, axis), mode="add")


def ranked(x: Value, axis: int) -> list[Value]:
    """Index arrays for all axes that take x's elements in order along one."""
    order = x.op("argsort", axis=axis, kind="stable")
    grid = [x.of(x.builder.apply("index", shape=x.shape, axis=a)) for a in range(x.ndim)]
    return [*grid[:axis], order, *grid[axis + 1 :]]


@row(
    "extern",
    eager=lambda x, *, axis, kind: np.sort(x, axis, kind),
    vjp=vjp_sort,
    numpy=np.sort,
    stacks=True,
    silent=Silent.ALWAYS,
)
def sort(x: TensorMeta, *, axis, kind):
    """Ascending along one axis, NaN last."""
    return TensorMeta(x.shape, x.dtype)


@row("extern", eager=lambda x, *, axis, kind: np.argsort(x, axis, kind), numpy=np.argsort, stacks=True, silent=Silent.ALWAYS)
def argsort(x: TensorMeta, *, axis, kind):
    """The places of x's elements in ascending order, along one axis."""
    return TensorMeta(x.shape, INTP)


@row(
    "extern",
    eager=lambda x, *, kth, axis: np.partition(x, kth, axis),
    vjp=vjp_order,
    numpy=np.partition,
    stacks=True,
    silent=Silent.ALWAYS,
)
def partition(x: TensorMeta, *, kth, axis):
    """Along one axis, elements number kth (a tuple) are where sorting has them, smaller ones before and larger ones after."""
    return TensorMeta(x.shape, x.dtype)


@row(
    "extern",
    eager=lambda x, *, kth, axis: np.argpartition(x, kth, axis),
    numpy=np.argpartition,
    stacks=True,
    silent=Silent.ALWAYS,
)
def argpartition(x: TensorMeta, *, kth, axis):
    return TensorMeta(x.shape, INTP)


@row("extern", eager=lambda *keys, axis: np.lexsort(keys, axis), numpy=np.lexsort, stacks=True, silent=Silent.ALWAYS)
def lexsort(*keys: TensorMeta, axis):
    """The places in ascending order by the last key, equal ones by the key before it."""
    return TensorMeta(keys[0].shape, INTP)


def eager_searchsorted(a, v, *sorter, side, stack=0):
    if not stack:
        return np.asarray(np.searchsorted(a, v, side, *sorter))
    out = np.empty(v.shape, INTP)
    for place in np.ndindex(a.shape[:stack]):
        out[place] = np.searchsorted(a[place], v[place], side, *(s[place] for s in sorter))
    return out


@row("extern", eager=eager_searchsorted, numpy=np.searchsorted, raises=(ValueError,), silent=Silent.ALWAYS)
def searchsorted(a: TensorMeta, v: TensorMeta, *sorter: TensorMeta, side, stack=0):
    """Where to insert each v into the sorted vector `a`. ValueError for an index out of bounds in `sorter` (int64).

    The first `stack` axes, which all inputs have, are for as many searches, each in a vector of its own.
    """
    assert a.ndim == 1 + stack and a.dtype == v.dtype
    return TensorMeta(v.shape, INTP)
