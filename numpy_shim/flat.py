"""ndarray.flat: the elements in C order, read as copies and written in place, whatever the strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.arguments import assigned, fit, same_shape
from npcompile.numpy_shim.attributes import setter
from npcompile.numpy_shim.indexing import getitem, setitem
from npcompile.numpy_shim.manipulation import flatten, ravel
from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.graph import Builder, Node
from npcompile.tensor_core.meta import Decline, is_contiguous, product


def require_key(x: Array, key: Any) -> None:
    """One axis: an integer, a slice, all of it, or a vector of positions or of as many truths as there are elements."""
    if key is Ellipsis or isinstance(key, (np.integer, Dim, slice)) or type(key) is int:
        return
    if isinstance(key, list) and key and all(type(k) is int for k in key):
        return
    if isinstance(key, (Array, np.ndarray)) and key.ndim == 1 and key.dtype.kind in "iu":
        return
    if not (isinstance(key, Array) and key.dtype.kind == "b" and same_shape(key.shape, (product(x.shape),))):
        raise Decline("other places of ndarray.flat")


def elements(builder: Builder, x: Array) -> Array:
    """x.flat.copy()"""
    return flatten(builder, x)


def read(builder: Builder, x: Array, key: Any) -> Array:
    """x.flat[key]: a scalar, or a copy."""
    require_key(x, key)
    found = getitem(builder, elements(builder, x), key)
    return fresh(builder, found.node) if found.meta.boxed else found


def write(builder: Builder, x: Array, key: Any, value: Any) -> None:
    """x.flat[key] = value: the values begin anew as often as needed."""
    require_key(x, key)
    if isinstance(value, Array) and value.storage is x.storage:
        raise Decline("elements of ndarray.flat that are written while they are read")
    if is_contiguous(x.meta, "C"):
        write_vector(builder, ravel(builder, x), key, value)
        return
    contents = elements(builder, x)
    write_vector(builder, contents, key, value)
    x.write(builder.apply("reshape", contents.node, shape=x.shape))


def write_vector(builder: Builder, x: Array, key: Any, value: Any) -> None:
    source = assigned(builder, value, x.dtype)
    if isinstance(key, (int, np.integer, Dim)):
        if source.ndim:
            raise Decline("an array at one place of ndarray.flat")
        setitem(builder, x, key, source)
        return
    if source.ndim and isinstance(key, Array) and key.dtype.kind == "b":
        raise Decline("an array where a mask of ndarray.flat holds")
    shape = (1,) if isinstance(key, Array) and key.dtype.kind == "b" else getitem(builder, x, key).shape
    setitem(builder, x, key, fresh(builder, repeated(builder, source, shape[0])) if source.ndim else source)


def repeated(builder: Builder, source: Array, size: Any) -> Node:
    """The first `size` of the elements of `source`, in C order, over and over."""
    values = ravel(builder, source)
    count = values.shape[0]
    if same(count, size) or count == size:
        return fit(builder, values.node, (size,))
    if isinstance(count, Dim) or isinstance(size, Dim) or not count:
        raise Decline("another number of values than places of ndarray.flat")
    places = builder.apply("literal", data=(np.arange(size) % count).tobytes(), dtype=np.dtype(np.intp), shape=(size,))
    return builder.apply("gather", values.node, places)


@setter
def set_flat(builder: Builder, x: Array, value: Any) -> None:
    """x.flat = value"""
    write(builder, x, slice(None), value)


# What NumPy's functions compute of an iterator's elements; others may give views of its array.
REDUCED = frozenset([np.sum, np.prod, np.mean, np.std, np.var, np.max, np.amax, np.min, np.amin, np.any, np.all])
