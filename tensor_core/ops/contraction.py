"""Sums of products over shared axes."""

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row


def eager_einsum(*xs, inputs, output, block=None):
    flat = [part for x, axes in zip(xs, inputs) for part in (x, list(axes))]
    return np.asarray(np.einsum(*flat, list(output)))


@row("contraction", eager=eager_einsum)
def einsum(*xs: TensorMeta, inputs, output, block=None):
    """Sum over the axes not in `output` of the product of all operands, which have one dtype.

    `inputs` gives each operand's axes as a tuple of integers, `output` the result's. An axis that is in two operands
    has equal sizes. `einsum(A, B, inputs=((0, 1), (1, 2)), output=(0, 2))` is the matrix product.
    With `block`, no more than so many products are added one after another before their sum is: then errors grow less.
    """
    assert len(xs) == len(inputs) and all(x.dtype == xs[0].dtype for x in xs)
    sizes = {a: n for x, axes in zip(xs, inputs) for a, n in zip(axes, x.shape)}
    return TensorMeta(tuple(sizes[a] for a in output), xs[0].dtype)
