"""The same numbers at other places: no arithmetic, and no copy when fused."""

from itertools import accumulate

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.meta import Decline, TensorMeta, broadcast_strides, concatenated_strides, product, reshape_strides
from npcompile.tensor_core.op import Cost, Parts, Reads, Value, row


@row("movement", eager=lambda x, *, name: x, vjp=lambda g, out, x, *, name: None if name is None else g, reads=Reads.NOTHING)
def alias(x: TensorMeta, *, name):
    """x itself, told apart from x: a transform asks for derivatives with respect to this use of it.

    With name None it is x as a constant, through which no derivative passes.
    """
    return x


def of_permute(g: Value, out: Value, x: Value, *, axes) -> Parts:
    return g.permute(sorted(range(len(axes)), key=axes.__getitem__))


@row("movement", eager=lambda x, *, axes: np.transpose(x, axes), vjp=of_permute, reads=Reads.NOTHING)
def permute(x: TensorMeta, *, axes):
    """out's axis k is x's axis axes[k]."""
    assert sorted(axes) == list(range(x.ndim)), axes
    return x.with_(shape=tuple(x.shape[a] for a in axes), strides=tuple(x.strides[a] for a in axes))


@row(
    "movement",
    eager=lambda x, *, shape: np.reshape(x, shape),
    vjp=lambda g, out, x, *, shape: g.reshape(x.shape),
    reads=Reads.NOTHING,
)
def reshape(x: TensorMeta, *, shape):
    """The same elements in C order under another shape."""
    if not same(product(x.shape), product(shape)) and product(x.shape) != product(shape):
        raise Decline(f"cannot reshape array of size {product(x.shape)} into shape {shape}")
    return x.with_(shape=shape, strides=reshape_strides(x, shape) or ())


@row(
    "movement",
    eager=lambda x, *, shape: np.broadcast_to(x, shape),
    vjp=lambda g, out, x, *, shape: g.sum_to(x.shape),
    reads=Reads.NOTHING,
)
def broadcast_to(x: TensorMeta, *, shape):
    """NumPy's broadcasting: axes of size 1 repeat, new axes come first."""
    for n, m in zip(reversed(x.shape), reversed(shape)):
        if not same(n, m) and n != 1 and n != m:
            raise Decline(f"cannot broadcast shape {x.shape} to {shape}")
    return x.with_(shape=shape, strides=broadcast_strides(x, shape), writeable=False)


def eager_slice(x, *, start, step, shape):
    return x[(*region(start, step, shape), ...)]  # with the ellipsis 0-D stays an array


def region(start, step, shape):
    """The basic index that names elements start + step * (0 .. n-1) of every axis."""
    return tuple(
        slice(a, (a + s * n) if a + s * n >= 0 else None, s) if n else slice(0, 0) for a, s, n in zip(start, step, shape)
    )


def of_slice(g: Value, out: Value, x: Value, *, start, step, shape) -> Parts:
    """Zeros around g. As a concatenation these are not stored when they are added to other gradients."""
    if any(same(n, 0) for n in shape):
        return None  # an empty slice may start outside
    if not all(same(abs(s), 1) for s in step):
        return x.zeros().op("slice_update", g, start=start, step=step)
    if not all(same(s, 1) for s in step):
        turned = tuple(n - 1 if s < 0 else 0 for n, s in zip(shape, step))
        g = g.op("slice", start=turned, step=step, shape=shape)
    for axis, (a, s, n, whole) in enumerate(zip(start, step, shape, x.shape)):
        first = a if s > 0 else a - n + 1
        around = [(*g.shape[:axis], size, *g.shape[axis + 1 :]) for size in (first, whole - first - n)]
        before, after = ([] if same(z[axis], 0) else [g.of(full(g.builder, z, 0, g.dtype))] for z in around)
        if before or after:
            joined = [*before, g, *after]
            g = joined[0].op("concatenate", *joined[1:], axis=axis)
    return g


@row("movement", eager=eager_slice, vjp=of_slice, reads=Reads.NOTHING, chooses=True)
def slice_(x: TensorMeta, *, start, step, shape):
    """out[i, j, ...] = x[start0 + step0 * i, start1 + step1 * j, ...]; steps may be negative. In bounds by its maker."""
    assert len(start) == len(step) == len(shape) == x.ndim
    return x.with_(shape=shape, strides=tuple(a * s for a, s in zip(x.strides, step)))


def of_concatenate(g: Value, out: Value, *xs: Value, axis: int) -> Parts:
    def part(x, offset):
        start = tuple(offset if a == axis else 0 for a in range(x.ndim))
        return lambda: g.op("slice", start=start, step=(1,) * x.ndim, shape=x.shape)

    offsets = accumulate((x.shape[axis] for x in xs), initial=0)
    return [part(x, offset) for x, offset in zip(xs, offsets)]


@row("movement", eager=lambda *xs, axis: np.concatenate(xs, axis), vjp=of_concatenate, cost=Cost.QUICK, reads=Reads.NOTHING)
def concatenate(*xs: TensorMeta, axis):
    """All of one dtype, joined along an existing axis (0 <= axis < ndim)."""
    first = xs[0]
    assert all(x.dtype == first.dtype and x.ndim == first.ndim for x in xs)
    for x in xs[1:]:
        for a, (n, m) in enumerate(zip(x.shape, first.shape)):
            if a != axis and not same(n, m) and n != m:
                raise Decline("all the input array dimensions except for the concatenation axis must match exactly")
    total = sum((x.shape[axis] for x in xs[1:]), first.shape[axis])
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return TensorMeta(shape, first.dtype, concatenated_strides(shape, first.dtype.itemsize, xs))


def eager_slice_update(x, value, *, start, step):
    out = x.copy()
    out[region(start, step, value.shape)] = value
    return out


def of_slice_update(g: Value, out: Value, x: Value, value: Value, *, start, step) -> Parts:
    return (
        lambda: g.op("slice_update", value.zeros(), start=start, step=step),
        lambda: g.op("slice", start=start, step=step, shape=value.shape),
    )


@row("update", eager=eager_slice_update, vjp=of_slice_update, cost=Cost.QUICK, reads=Reads.NOTHING, chooses=True)
def slice_update(x: TensorMeta, value: TensorMeta, *, start, step):
    """x with the elements that slice(start, step, value.shape) names replaced by value (same dtype)."""
    assert x.dtype == value.dtype and x.ndim == value.ndim == len(start) == len(step)
    return x.with_(writeable=True)
