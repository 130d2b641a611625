"""Reading and writing at places that are data."""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row


@row("gather", eager=lambda x, *indices: np.asarray(x[tuple(indices)]), raises=(IndexError,))
def gather(x: TensorMeta, *indices: TensorMeta):
    """out[i..., k...] = x[indices[0][i...], ..., k...]: the first len(indices) axes of x are indexed.

    The indices are int64 of one shape; negative ones count from the end; IndexError as NumPy when out of bounds.
    """
    assert indices and all(i.dtype == np.int64 and i.ndim == indices[0].ndim for i in indices)
    return TensorMeta((*indices[0].shape, *x.shape[len(indices) :]), x.dtype)


def eager_scatter(x, value, *indices, mode):
    out = x.copy()
    if mode == "set":
        # NumPy goes through index arrays in their order of memory.
        out[tuple(np.asarray(i, order="C") for i in indices)] = np.asarray(value, order="C")
    else:
        getattr(np, mode).at(out, tuple(indices), value)
    return out


@row("scatter", eager=eager_scatter, raises=(IndexError,))
def scatter(x: TensorMeta, value: TensorMeta, *indices: TensorMeta, mode):
    """x with out[indices[0][i...], ..., k...] = value[i..., k...], in C order of i: the last write wins.

    `mode` is "set", or a ufunc's name to combine instead of replace ("add": repeated indices add up).
    IndexError, with nothing written, when an index is out of bounds. value.shape == indices.shape + rest of x.
    """
    assert x.dtype == value.dtype and value.ndim == indices[0].ndim + x.ndim - len(indices)
    return x.with_(writeable=True)
