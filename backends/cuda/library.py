"""What runs as a whole on the device: cuBLAS, cuSOLVER, cuFFT and sorts, through CuPy, where these have NumPy's meaning.

A row of LINALG or CALLS computes an op with the functions of a library, CuPy's (the tests' is NumPy), or gives None: then
NumPy runs on copies. So it does where only the data show that the answers differ: LinAlgError and what is not finite,
elements that are equal where their order shows. Ops without a row run so always, and every dtype that Triton and CuPy have not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from npcompile.backends.cuda.factorizations import LINALG, Call
from npcompile.backends.cuda.programs.primitives import has_triton_type
from npcompile.backends.cuda.runtime import blas
from npcompile.backends.cuda.runtime.graphs import refuse_while_capturing
from npcompile.backends.cuda.runtime.interface import Device
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import TupleMeta

Array = Any


def by_library(device: Device, call: Call, node: Node, inputs: Sequence[Array], params: dict[str, Any]) -> Any:
    """What `node` is by its function, as dense arrays of the device; None where NumPy has to say it.

    `inputs` are arrays of the device. Raises MemoryError.
    """
    if not all(x.size for x in inputs):
        return None
    if call is product:
        return device.attempt(lambda: blas.matmul(device, *inputs))
    library = device.library
    if node.op in LINALG:
        refuse_while_capturing("whether a matrix has a factorization is asked")
    with device.linalg_errors() if node.op in LINALG else nullcontext():
        made = device.attempt(lambda: call(library, *inputs, **params))
    if made is None:
        return None
    parts = made if isinstance(made, tuple) else (made,)
    metas = node.meta.items if isinstance(node.meta, TupleMeta) else (node.meta,)
    dense = device.attempt(lambda: tuple(finished(library, p, m.dtype, inputs) for p, m in zip(parts, metas)))
    return dense if isinstance(node.meta, TupleMeta) else dense[0]


def call_for(node: Node) -> Call | None:
    """The function for a node, by its op and its operands' dtypes, where there is one."""
    if any(isinstance(i.meta, TupleMeta) or not has_triton_type(i.dtype) for i in node.inputs):
        return None
    if not isinstance(node.meta, TupleMeta) and not has_triton_type(node.dtype):
        return None
    if is_product(node):
        return product
    return LINALG.get(node.op) or CALLS.get(node.op)


def finished(library: Any, made: Array, dtype: np.dtype, inputs: Sequence[Array]) -> Array:
    """A C-contiguous array that shares no memory with the operands."""
    is_so = made.dtype == dtype and made.flags.c_contiguous
    dense = made if is_so else library.ascontiguousarray(made, dtype).reshape(made.shape)
    shares = any(dense is x or dense.base is x for x in inputs)
    return dense.copy() if shares else dense


def product(library: Any, a: Array, b: Array, **_: Any) -> Array:
    return library.matmul(a, b)


# --- transforms


def fourier(name: str) -> Call:
    return lambda library, x, *, n, axis, norm: getattr(library.fft, name)(x, n, axis, norm)


# --- order


def argsort(library: Any, x: Array, *, axis: int, kind: str | None) -> Array | None:
    """CuPy's sort is stable; one that is not leaves equal elements where only NumPy knows."""
    order = library.argsort(x, axis=axis)
    if kind in ("stable", "mergesort"):
        return order
    sorted_x = library.moveaxis(library.take_along_axis(x, order, axis), axis, -1)
    before, after = sorted_x[..., :-1], sorted_x[..., 1:]
    is_tied = (before == after) | ((before != before) & (after != after))
    return None if is_tied.any() else order


def lexsort(library: Any, *keys: Array, axis: int) -> Array:
    order = library.argsort(keys[0], axis=axis)
    for key in keys[1:]:
        by_key = library.argsort(library.take_along_axis(key, order, axis), axis=axis)
        order = library.take_along_axis(order, by_key, axis)
    return order


def searchsorted(library: Any, a: Array, v: Array, *sorter: Array, side: str, stack: int = 0) -> Array | None:
    if a.dtype.kind == "c":
        return None
    n = a.shape[-1]
    if sorter:
        if ((sorter[0] < 0) | (sorter[0] >= n)).any():  # ValueError
            return None
        a = library.take_along_axis(a, sorter[0], -1)
    if not stack:
        at = library.searchsorted(a, v, side=side)
        if a.dtype.kind != "f":
            return at
        numbers = n if side == "right" else (a == a).sum()  # NaN is the largest number
        return library.where(v != v, numbers, at)
    return places(library, a.reshape(-1, n), v.reshape(-1, int(np.prod(v.shape[stack:]))), side).reshape(v.shape)


def places(library: Any, a: Array, v: Array, side: str) -> Array:
    """Where each element of a row of v goes in the same row of a: bisection of all of them at once."""
    low = library.zeros(v.shape, np.intp)
    high = library.full(v.shape, a.shape[-1], np.intp)
    for _ in range(a.shape[-1].bit_length()):
        middle = library.minimum((low + high) // 2, a.shape[-1] - 1)
        there = library.take_along_axis(a, middle, -1)
        is_after = there < v if side == "left" else there <= v
        if a.dtype.kind == "f":  # NaN is the largest number
            is_after |= (v != v) & ((there == there) if side == "left" else True)
        is_open = low < high
        low = library.where(is_open & is_after, middle + 1, low)
        high = library.where(is_open & ~is_after, middle, high)
    return low


def interp(library: Any, xp: Array, x: Array, fp: Array, *, stack: int = 0) -> Array:
    """In the steps of NumPy's own loop, each rounded as there."""
    n = xp.shape[-1]
    shape = x.shape
    x = x.reshape(-1, int(np.prod(shape[stack:])))
    xp, fp = xp.reshape(-1, n), fp.reshape(-1, n)
    if n == 1:
        return library.broadcast_to(fp, x.shape).reshape(shape)
    at = places(library, xp, x, "right") if stack else library.searchsorted(xp[0], x[0], side="right")[None]
    below = library.clip(at - 1, 0, n - 2)
    x0, y0, x1, y1 = (library.take_along_axis(p, at, -1) for at in (below, below + 1) for p in (xp, fp))
    slope = (y1 - y0) / (x1 - x0)
    out = slope * (x - x0) + y0
    out = library.where(out == out, out, slope * (x - x1) + y1)  # NaN beside a point that is not finite
    out = library.where((out != out) & (y0 == y1), y0, out)
    out = library.where(x == x0, y0, out)
    out = library.where(x < xp[:, :1], fp[:, :1], out)
    out = library.where(x >= xp[:, -1:], fp[:, -1:], out)
    return library.where(x == x, out, x).reshape(shape)


CALLS: dict[str, Call] = {
    "sort": lambda library, x, *, axis, kind: library.sort(x, axis=axis),
    "argsort": argsort,
    # A sorted array is a partition too: NumPy promises no order before kth, nor after it.
    "partition": lambda library, x, *, kth, axis: library.sort(x, axis=axis),
    "argpartition": lambda library, x, *, kth, axis: library.argsort(x, axis=axis),
    "lexsort": lexsort,
    "searchsorted": searchsorted,
    "interp": interp,
    **{name: fourier(name) for name in ("fft", "ifft", "rfft", "irfft")},
}
