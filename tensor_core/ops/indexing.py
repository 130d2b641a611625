"""Reading and writing at places that are data."""

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.meta import TensorMeta, product
from npcompile.tensor_core.op import Parts, Reads, Value, row


@row(
    "gather",
    eager=lambda x, *indices: np.asarray(x[tuple(indices)]),
    vjp=lambda g, out, x, *indices: (x.zeros().op("scatter", g, *indices, mode="add"), *(None for _ in indices)),
    raises=(IndexError,),
    reads=Reads.NOTHING,
    chooses=True,
)
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


def of_set(g: Value, out: Value, x: Value, value: Value, *indices: Value) -> Parts:
    """Of several values for one place only the last got there."""

    def of_value():
        places = indices[0].shape
        number = g.of(g.builder.apply("index", shape=(product(places),), axis=0)).reshape(places)
        nobody = g.of(full(g.builder, x.shape[: len(indices)], 0, number.dtype))
        winner = nobody.op("scatter", number, *indices, mode="set").op("gather", *indices)
        is_last = winner.equals(number).reshape((*places, *(1 for _ in x.shape[len(indices) :])))
        return is_last.broadcast_to(value.shape).where(g.op("gather", *indices), 0)

    return lambda: g.op("scatter", value.zeros(), *indices, mode="set"), of_value


def of_extreme(mode: str, g: Value, out: Value, x: Value, value: Value, *indices: Value) -> Parts:
    """Shared equally between all that are equal to what came out, as reduce shares it."""
    taken = out.op("gather", *indices)
    is_x = x.equals(out) | (out if mode in ("fmax", "fmin") else x).isnan()
    is_value = value.equals(taken) | (taken if mode in ("fmax", "fmin") else value).isnan()
    count = is_x.cast(np.int64).op("scatter", is_value.cast(np.int64), *indices, mode="add")
    share = g / count.cast(g.dtype)
    return lambda: is_x.where(share, 0), lambda: is_value.where(share.op("gather", *indices), 0)


def of_scatter(g: Value, out: Value, x: Value, value: Value, *indices: Value, mode: str) -> Parts:
    match mode:
        case "set":
            parts = of_set(g, out, x, value, *indices)
        case "add":
            parts = g, lambda: g.op("gather", *indices)
        case "maximum" | "minimum" | "fmax" | "fmin":
            parts = of_extreme(mode, g, out, x, value, *indices)
        case _:
            raise Decline(f"{mode}.at has no derivative", "docs/gradients.md lists the ops without one, and why.")
    return (*parts, *(None for _ in indices))


@row("scatter", eager=eager_scatter, vjp=of_scatter, raises=(IndexError,), chooses=True)
def scatter(x: TensorMeta, value: TensorMeta, *indices: TensorMeta, mode):
    """x with out[indices[0][i...], ..., k...] = value[i..., k...], in C order of i: the last write wins.

    `mode` is "set", or a ufunc's name to combine instead of replace ("add": repeated indices add up).
    IndexError, with nothing written, when an index is out of bounds. value.shape == indices.shape + rest of x.
    """
    assert x.dtype == value.dtype and value.ndim == indices[0].ndim + x.ndim - len(indices)
    return x.with_(writeable=True)
