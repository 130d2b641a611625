"""What runs as a whole on the device: cuBLAS, cuSOLVER, cuFFT and sorts, through CuPy, where these have NumPy's meaning.

A row of LINALG or CALLS computes an op with the functions of a library, CuPy's (the tests' is NumPy), or gives None: then
NumPy runs on copies. So it does where only the data show that the answers differ: LinAlgError and what is not finite,
elements that are equal where their order shows. Ops without a row run so always. Among them are those of eigenvectors and
singular vectors: these are unique up to a factor of absolute value 1, and cuSOLVER's is not LAPACK's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

import numpy as np

from npcompile.backends.cuda.programs.primitives import has_triton_type
from npcompile.backends.cuda.runtime import blas
from npcompile.backends.cuda.runtime.interface import Device
from npcompile.backends.kernels.product import is_product
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import TupleMeta
from npcompile.tensor_core.ops.linalg import eager_cofactor

Array = Any
Call = Callable[..., Any]  # (library, *arrays, **params) -> an array, a tuple of arrays, or None


def by_library(device: Device, call: Call, node: Node, inputs: Sequence[Array], params: dict[str, Any]) -> Any:
    """What `node` is by its function, as dense arrays of the device; None where NumPy has to say it.

    `inputs` are arrays of the device. Raises MemoryError.
    """
    if not all(x.size for x in inputs):
        return None
    library = device.library
    with device.linalg_errors() if node.op in LINALG else nullcontext():
        made = device.attempt(lambda: call(library, *inputs, **params))
    if made is None:
        return None
    parts = made if isinstance(made, tuple) else (made,)
    metas = node.meta.items if isinstance(node.meta, TupleMeta) else (node.meta,)
    dense = device.attempt(lambda: tuple(finished(library, p, m.dtype, inputs) for p, m in zip(parts, metas)))
    return dense if isinstance(node.meta, TupleMeta) else dense[0]


def call_for(node: Node, readers: Sequence[Node] = ()) -> Call | None:
    """The function for a node, by its op, its operands' dtypes, and who reads it, where there is one."""
    if any(isinstance(i.meta, TupleMeta) or not has_triton_type(i.dtype) for i in node.inputs):
        return None
    if not isinstance(node.meta, TupleMeta) and not has_triton_type(node.dtype):
        return None
    if is_product(node):
        return product
    if node.op == "partition" and readers and all(places_read(node, r) for r in readers):
        return lambda library, x, *, kth, axis: library.sort(x, axis=axis)
    return LINALG.get(node.op) or CALLS.get(node.op)


def finished(library: Any, made: Array, dtype: np.dtype, inputs: Sequence[Array]) -> Array:
    """A C-contiguous array that shares no memory with the operands."""
    is_so = made.dtype == dtype and made.flags.c_contiguous
    dense = made if is_so else library.ascontiguousarray(made, dtype).reshape(made.shape)
    shares = any(dense is x or dense.base is x for x in inputs)
    return dense.copy() if shares else dense


def product(library: Any, a: Array, b: Array, **_: Any) -> Array:
    return blas.matmul(library, a, b)


# --- linear algebra


def double(x: Array) -> Array:
    """NumPy computes in 64 bits, and rounds the result."""
    return x.astype("D" if x.dtype.kind == "c" else "d", copy=False)


def checked(call: Call) -> Call:
    """None where the matrix is singular, or not positive definite, or iterations do not converge, or numbers are not finite.

    The operands are asked too: cuSOLVER inverts some matrices of NaN to finite ones.
    """

    def run(library: Any, *xs: Array, **params: Any) -> Any:
        try:
            made = call(library, *map(double, xs), **params)
        except np.linalg.LinAlgError:
            return None
        parts = made if isinstance(made, tuple) else (made,)
        is_finite = reduce(lambda a, b: a & b, (library.isfinite(x).all() for x in (*xs, *parts)))
        return made if is_finite else None

    return run


def cholesky(library: Any, a: Array, *, upper: bool) -> Array:
    """Only one triangle is read: the lower one, of the transpose where it is the upper one that counts."""
    lower = library.linalg.cholesky(adjoint(a) if upper else a)
    return adjoint(lower) if upper else lower


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


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


def places_read(node: Node, reader: Node) -> bool:
    """Does it read only those elements of a partition that are where sorting has them? As np.median and np.percentile do."""
    axis, kth = node.params["axis"], node.params["kth"]
    length = node.shape[axis]
    found: Sequence[Size] = ()
    if reader.op == "slice":
        start, step, count = (reader.params[name][axis] for name in ("start", "step", "shape"))
        found = [start + step * k for k in range(count)] if isinstance(count, int) and count <= len(kth) else ()
    elif reader.op == "gather" and axis == 0 and len(reader.inputs) == 2 and reader.inputs[1].op == "constant":
        index = int(reader.inputs[1].params["value"])
        found = [index + length if index < 0 else index]
    return bool(found) and all(any(same(p, k) for k in kth) for p in found)


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


LINALG: dict[str, Call] = {
    "solve": checked(lambda library, a, b: library.linalg.solve(a, b)),
    "inv": checked(lambda library, a: library.linalg.inv(a)),
    "det": checked(lambda library, a: library.linalg.det(a)),
    "slogdet": checked(lambda library, a: tuple(library.linalg.slogdet(a))),
    "cofactor": checked(lambda library, a: eager_cofactor(a, library)),
    "cholesky": checked(cholesky),
    "qr": checked(lambda library, a, *, mode: library.linalg.qr(a, mode)),
    "eigvalsh": checked(lambda library, a, *, uplo: library.linalg.eigvalsh(a, uplo)),
    "svdvals": checked(lambda library, a: library.linalg.svd(a, compute_uv=False)),
}

CALLS: dict[str, Call] = {
    "sort": lambda library, x, *, axis, kind: library.sort(x, axis=axis),
    "argsort": argsort,
    "lexsort": lexsort,
    "searchsorted": searchsorted,
    "interp": interp,
    **{name: fourier(name) for name in ("fft", "ifft", "rfft", "irfft")},
}

# By NumPy: eigh and svd (other vectors), eig and eigvals (another order), argpartition and mostly partition (what is not asked
# for lies where NumPy's selection puts it), and every dtype that Triton and CuPy have not.
