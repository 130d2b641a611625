"""Sums of products over shared axes."""

import math
from functools import partial

import numpy as np

from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import Parts, Reads, Value, row


def eager_einsum(*xs, inputs, output, block=None):
    if len(xs) == 2 and is_product(inputs[0], inputs[1], output):
        return eager_product(xs[0], xs[1], inputs[0], inputs[1], output)
    flat = [part for x, axes in zip(xs, inputs) for part in (x, list(axes))]
    return np.asarray(np.einsum(*flat, list(output)))


def is_product(left, right, output) -> bool:
    """Is it a matrix product, or a stack of them?"""
    is_plain = len(set(left)) == len(left) and len(set(right)) == len(right)
    return is_plain and set(left) ^ set(right) <= set(output) and not set(left) & set(right) <= set(output)


def eager_product(x, y, left, right, output):
    """By np.matmul, which reports floating-point errors; np.einsum does not."""
    stack = [a for a in left if a in right and a in output]
    summed = [a for a in left if a in right and a not in output]
    rows, columns = [a for a in left if a not in right], [a for a in right if a not in left]
    sizes = dict(zip(left, x.shape)) | dict(zip(right, y.shape))

    def count(axes):
        return math.prod(sizes[a] for a in axes)

    stacked = [sizes[a] for a in stack]
    x = x.transpose([left.index(a) for a in (*stack, *rows, *summed)]).reshape(*stacked, count(rows), count(summed))
    y = y.transpose([right.index(a) for a in (*stack, *summed, *columns)]).reshape(*stacked, count(summed), count(columns))
    made = (*stack, *rows, *columns)
    return np.matmul(x, y).reshape([sizes[a] for a in made]).transpose([made.index(a) for a in output])


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


@row("contraction", eager=eager_einsum, vjp=of_einsum, inexact="efdgFD", reads=Reads.OPERANDS)
def einsum(*xs: TensorMeta, inputs, output, block=None):
    """Sum over the axes not in `output` of the product of all operands, which have one dtype.

    `inputs` gives each operand's axes as a tuple of integers, `output` the result's. An axis that is in two operands
    has equal sizes. `einsum(A, B, inputs=((0, 1), (1, 2)), output=(0, 2))` is the matrix product.
    With `block`, no more than so many products are added one after another before their sum is: then errors grow less.
    """
    assert len(xs) == len(inputs) and all(x.dtype == xs[0].dtype for x in xs)
    sizes = {a: n for x, axes in zip(xs, inputs) for a, n in zip(axes, x.shape)}
    return TensorMeta(tuple(sizes[a] for a in output), xs[0].dtype)
