"""Many numbers to one, and running totals."""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row

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


@row("reduction", eager=lambda x, *, reducer, axes: np.asarray(REDUCERS[reducer].reduce(x, axis=axes, dtype=x.dtype)))
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


@row("scan", eager=lambda x, *, reducer, axis: REDUCERS[reducer].accumulate(x, axis=axis, dtype=x.dtype))
def scan(x: TensorMeta, *, reducer, axis):
    """Running combination along one axis, first to last; floating point in exactly this order, as NumPy."""
    return TensorMeta(x.shape, x.dtype)
