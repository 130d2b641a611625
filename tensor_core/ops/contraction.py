"""Sums of products over shared axes."""

from functools import partial

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import Parts, Value, row


def eager_einsum(*xs, inputs, output, block=None):
    flat = [part for x, axes in zip(xs, inputs) for part in (x, list(axes))]
    return np.asarray(np.einsum(*flat, list(output)))


def of_einsum(g: Value, out: Value, *xs: Value, inputs, output, **options) -> Parts:
    """For each operand the sum of products of g and the others; along axes that only it has, repeated."""

    def part(k):
        x, wanted = xs[k], inputs[k]
        assert len(set(wanted)) == len(wanted), f"an axis twice in one operand: {wanted}"
        others = [(g, output), *((y, axes) for i, (y, axes) in enumerate(zip(xs, inputs)) if i != k)]
        known = {a for _, axes in others for a in axes}
        kept = tuple(a for a in wanted if a in known)
        if len(others) == 1 and len(kept) == len(output):
            value = g.permute([output.index(a) for a in kept])
        else:
            value = g.op("einsum", *(y for y, _ in others[1:]), inputs=tuple(a for _, a in others), output=kept, **options)
        return value.reshape([n if a in known else 1 for a, n in zip(wanted, x.shape)]).broadcast_to(x.shape)

    return [partial(part, k) for k in range(len(xs))]


@row("contraction", eager=eager_einsum, vjp=of_einsum)
def einsum(*xs: TensorMeta, inputs, output, block=None):
    """Sum over the axes not in `output` of the product of all operands, which have one dtype.

    `inputs` gives each operand's axes as a tuple of integers, `output` the result's. An axis that is in two operands
    has equal sizes. `einsum(A, B, inputs=((0, 1), (1, 2)), output=(0, 2))` is the matrix product.
    With `block`, no more than so many products are added one after another before their sum is: then errors grow less.
    """
    assert len(xs) == len(inputs) and all(x.dtype == xs[0].dtype for x in xs)
    sizes = {a: n for x, axes in zip(xs, inputs) for a, n in zip(axes, x.shape)}
    return TensorMeta(tuple(sizes[a] for a in output), xs[0].dtype)
