"""numpy.interp, through its function in C: its own Python source, which handles periods, is captured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy._core.multiarray import interp as compiled_interp

from npcompile.numpy_shim.arguments import array_of, unbox
from npcompile.numpy_shim.registry import implements
from npcompile.numpy_shim.ufuncs import value_where
from npcompile.tensor_core.array import Array, cast, expand, fresh
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, TensorMeta

F8 = np.dtype(np.float64)


@implements(compiled_interp)
def interp(builder: Builder, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Array:
    """Float64 of x's shape in C order, or a scalar. `left` and `right` are for what is below and above all points."""
    at, points, values = (as_float64(builder, v) for v in (x, xp, fp))
    if points.meta.ndim != 1 or values.meta.ndim != 1:
        raise Decline("object of too small depth for desired array")
    length = points.shape[0]
    if isinstance(length, int) and length == 0:
        raise Decline("array of sample points is empty")
    if not same(length, values.shape[0]):
        raise Decline("fp and xp are not of the same length")
    node = builder.apply("interp", points, at, values)
    for end, start, relation in ((left, 0, "less"), (right, length - 1, "greater")):
        if end is not None:
            outermost = builder.apply("slice", points, start=(start,), step=(1,), shape=(1,))
            outermost = expand(builder, builder.apply("reshape", outermost, shape=()), node.shape)
            value = as_float64(builder, end)
            if value.meta.ndim:
                raise Decline("only 0-dimensional arrays can be converted to Python scalars")
            node = value_where(builder, builder.apply(relation, at, outermost), expand(builder, value, node.shape), node)
    return unbox(fresh(builder, node, TensorMeta(node.shape, F8)))


def as_float64(builder: Builder, value: Any) -> Node:
    found = array_of(builder, value)
    if not np.can_cast(found.dtype, F8):
        raise Decline(f"interpolation of {found.dtype} is not in float64")
    return cast(builder, found.node, F8)
