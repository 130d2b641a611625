"""x.view(dtype) where items have another size: the last axis is as many times longer or shorter."""

from __future__ import annotations

import numpy as np

from npcompile.tensor_core.array import STEPS, Array, StepRule, name_of
from npcompile.tensor_core.dim import same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, Shape
from npcompile.tensor_core.ops.numpy_calls import Keywords


def view_items(builder: Builder, x: Array, dtype: np.dtype) -> Array:
    """Declines where NumPy raises, and, but for complex numbers and their parts, where `whole` is not possible."""
    if not x.ndim or not (same(x.shape[-1], 1) or same(x.meta.strides[-1], x.dtype.itemsize)):
        raise Decline("a view with another item size along an axis that is not contiguous")
    if not are_parts(x.dtype, dtype):
        builder.require_plain()
    shape = shape_of(x.shape, x.dtype, dtype)
    return x.view("items", dtype, x.meta.with_(shape=shape, dtype=dtype, strides=(*x.meta.strides[:-1], dtype.itemsize)))


def shape_of(shape: Shape, old: np.dtype, new: np.dtype) -> Shape:
    count = shape[-1] * old.itemsize
    if old.itemsize % new.itemsize and count % new.itemsize != 0:
        raise Decline("the bytes of the last axis are not a whole number of items")
    return (*shape[:-1], shape[-1] * (old.itemsize // new.itemsize) if not old.itemsize % new.itemsize else count // new.itemsize)


def are_parts(one: np.dtype, other: np.dtype) -> bool:
    """Are the items of one the real and imaginary parts of the other's?"""
    small, large = sorted((one, other), key=lambda dtype: dtype.itemsize)
    return large.kind == "c" and small.kind == "f" and large.itemsize == 2 * small.itemsize


def read_items(builder: Builder, node: Node, dtype: np.dtype) -> Node:
    shape = shape_of(node.meta.shape, node.dtype, dtype)
    if not are_parts(node.dtype, dtype):
        made = builder.apply("whole", node, function=Keywords(items, (("dtype", dtype),)), results=((shape, dtype),))
        return builder.apply("item", made, index=0)
    if dtype.kind == "c":
        pairs = builder.apply("reshape", node, shape=(*shape, 2))
        return builder.apply("complex", *(one_of(builder, pairs, k) for k in (0, 1)))
    apart = (*node.meta.shape, 1)
    parts = (builder.apply("reshape", builder.apply(part, node), shape=apart) for part in ("real", "imag"))
    return builder.apply("reshape", builder.apply("concatenate", *parts, axis=len(apart) - 1), shape=shape)


def one_of(builder: Builder, pairs: Node, place: int) -> Node:
    *outer, _ = pairs.meta.shape
    start, step = (0,) * len(outer), (1,) * len(outer)
    found = builder.apply("slice", pairs, start=(*start, place), step=(*step, 1), shape=(*outer, 1))
    return builder.apply("reshape", found, shape=tuple(outer))


def items(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(x).view(dtype)


STEPS["items"] = StepRule(
    read_items,
    lambda builder, base, value, _: read_items(builder, value, base.meta.dtype),
    lambda base, dtype: f"{base}.view({name_of(dtype)!r})",
)
