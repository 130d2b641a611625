"""What has to have NumPy's bits: operations that NumPy's own code computes, in a kernel, as a call, or of whole arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.dim import same
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.op import OPS, Cost, Parts, Value, row
from npcompile.tensor_core.ops.contraction import of_einsum


@row("elementwise", eager=lambda *xs, operation, way: OPS[operation].eager(*xs), cost=Cost.FUNCTION)
def by_numpy(*xs: TensorMeta, operation: str, way: str) -> TensorMeta:
    """Another elementwise operation, computed by the inner loop of NumPy's ufunc.

    `way`: "one" of no dimensions, "last" where the last operand is one number for all, else "each"."""
    return OPS[operation].meta(*xs)


@row("extern", eager=lambda *xs, operation, **params: OPS[operation].eager(*xs, **params))
def as_numpy(*xs: TensorMeta, operation: str, **params: Any) -> TensorMeta:
    """Another operation, computed as NumPy does, of arrays that lie in memory as NumPy's do."""
    return OPS[operation].meta(*xs, **params)


Labels = tuple[int, ...]


def of_product(g: Value, out: Value, *xs: Value, inputs: tuple[Labels, ...], output: Labels, **_: Any) -> Parts:
    """As of an einsum of the operands without the axes of length 1 that repeat."""
    if any(len(set(labels)) < len(labels) for labels in inputs):
        raise Decline("the derivative of a product with a diagonal")
    sizes = {label: n for x, labels in zip(xs, inputs) for label, n in zip(labels, x.shape) if not same(n, 1)}
    kept = [[k for k, n in enumerate(x.shape) if same(n, sizes.get(labels[k], 1))] for x, labels in zip(xs, inputs)]
    values = [x.cast(g.dtype).reshape([x.shape[k] for k in axes]) for x, axes in zip(xs, kept)]
    left = tuple(tuple(labels[k] for k in axes) for labels, axes in zip(inputs, kept))
    known = {label for labels in left for label in labels}
    ones = [k for k, label in enumerate(output) if label not in known]
    g = g.reshape([n for k, n in enumerate(g.shape) if k not in ones])
    parts = of_einsum(g, out, *values, inputs=left, output=tuple(label for label in output if label in known))

    def of_operand(part: Callable[[], Value], x: Value) -> Callable[[], Value]:
        return lambda: part().reshape(x.shape).cast(x.dtype)

    return [of_operand(part, x) for part, x in zip(parts, xs)]


@row(
    "extern",
    eager=lambda *xs, inputs, output, function, dtype: np.asarray(function(*xs)),
    vjp=of_product,
)
def numpy_product(*xs: TensorMeta, inputs, output, function, dtype):
    """function(*xs), one of NumPy's products: sums of products as the labels of an einsum say; axes of length 1 may repeat."""
    sizes: dict[int, Any] = {}
    for x, labels in zip(xs, inputs, strict=True):
        sizes |= {label: n for label, n in zip(labels, x.shape) if label not in sizes or not same(n, 1)}
    return TensorMeta(tuple(sizes[label] for label in output), dtype)
