"""numpy.linalg: what LAPACK does. NumPy's other functions of this name are Python, and are captured from its source."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import _linalg

from npcompile.numpy_shim.arguments import array_of, copied_meta, flag, unbox
from npcompile.numpy_shim.data_sizes import whole
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.manipulation import permute
from npcompile.numpy_shim.registry import FUNCTIONS, implements, is_traced
from npcompile.tensor_core.array import Array, cast, expand, fresh, reshape, reshaped, transpose
from npcompile.tensor_core.decline import DataDecides
from npcompile.tensor_core.dim import Dim, Size, minimum, same
from npcompile.tensor_core.graph import FLOAT_ERRORS, Builder, Node
from npcompile.tensor_core.meta import Decline, TensorMeta, broadcast_shapes, broadcast_strides, keep_order_strides, product
from npcompile.tensor_core.ops.linalg import LAPACK_DTYPES, require_matrix, require_square
from npcompile.tensor_core.tensors.tape import Tape

BOOL = np.dtype(np.bool_)


def common_dtype(*arrays: Array) -> np.dtype:
    """The dtype of the result (numpy.linalg's _commonType): NumPy always computes in 64 bits."""
    for x in arrays:
        if x.dtype.kind in "fc" and x.dtype.char not in LAPACK_DTYPES:
            raise Decline(f"array type {x.dtype.name} is unsupported in linalg")
    parts = "f" if all(x.dtype.char in "fF" for x in arrays) else "d"
    return np.dtype(parts.upper() if any(x.dtype.kind == "c" for x in arrays) else parts)


def matrix(builder: Builder, value: Any) -> tuple[Array, Node]:
    """The operand, whose memory order the results follow, and its node in the dtype of the result."""
    x = array_of(builder, value)
    node = cast(builder, x.node, common_dtype(x))
    require_matrix(node.meta)
    return x, node


def square(builder: Builder, value: Any) -> tuple[Array, Node]:
    x, node = matrix(builder, value)
    require_square(node.meta)
    return x, node


def stacked(builder: Builder, node: Node, core: int, *operands: tuple[TensorMeta, int]) -> Array:
    """A fresh array with `core` axes for each of the stack, or a scalar when it has no axes at all.

    Generalized ufuncs order a result's stack in memory as the operands', and make each core contiguous. Of an operand is
    given how many of its axes are its core.
    """
    shape, itemsize = node.meta.shape, node.meta.dtype.itemsize
    stack = shape[: len(shape) - core]
    metas = []
    for meta, own in operands:
        outer = meta.with_(shape=meta.shape[: meta.ndim - own], strides=meta.strides[: meta.ndim - own])
        metas.append(TensorMeta(shape, meta.dtype, (*broadcast_strides(outer, stack), *(0,) * core)))
    return unbox(fresh(builder, node, TensorMeta(shape, node.meta.dtype, keep_order_strides(shape, itemsize, metas))))


def results(builder: Builder, node: Node, x: TensorMeta, *cores: int) -> list[Array]:
    return [stacked(builder, builder.apply("item", node, index=k), core, (x, 2)) for k, core in enumerate(cores)]


@implements(_linalg._makearray)
def make_array(builder: Builder, a: Any) -> tuple[Array, Any]:
    """An array, and what wraps a result as the argument's class: arrays have no other."""
    if not is_traced(a):
        raise Decline("an argument of another class may wrap results")
    return array_of(builder, a), np.asarray


# --- equations and determinants


@implements(np.linalg.solve)
def solve(builder: Builder, a: Any, b: Any) -> Array:
    """`b` of one axis is a vector, of more a stack of matrices."""
    left, right = array_of(builder, a), array_of(builder, b)
    dtype = common_dtype(left, right)
    is_vector = right.ndim == 1
    first, second = (cast(builder, x.node, dtype) for x in (left, right))
    if is_vector:
        second = reshaped(builder, second, (*right.shape, 1))
    require_square(first.meta)
    require_matrix(second.meta)
    stack = broadcast_shapes(first.meta.shape[:-2], second.meta.shape[:-2])
    first, second = (expand(builder, n, (*stack, *n.meta.shape[-2:])) for n in (first, second))
    node = builder.apply("solve", first, second)
    core = 1 if is_vector else 2
    if is_vector:
        node = reshaped(builder, node, node.meta.shape[:-1])
    return stacked(builder, node, core, (left.meta, 2), (right.meta, core))


def tensorsolve(builder: Builder, a: Any, b: Any, axes: Any = None) -> Array:
    """Before NumPy 2.5, whose source sets the shape of the solution in place; a later one's is captured."""
    left, right = array_of(builder, a), array_of(builder, b)
    order = list(range(left.ndim))
    if axes is not None:
        if not isinstance(axes, (tuple, list)) or not all(isinstance(k, int) and k in order for k in axes):
            raise Decline("axes of np.linalg.tensorsolve that are not a sequence of them")
        for k in axes:
            order.append(order.pop(order.index(k)))
        left = transpose(left, order)
    rest = left.shape[-(left.ndim - right.ndim) :]
    count = product(rest)
    if left.ndim < right.ndim or not (same(left.meta.size, count * count) or left.meta.size == count * count):
        raise Decline("shapes that do not go together in np.linalg.tensorsolve")
    solution = solve(builder, reshape(left, (count, count)), reshape(right, (right.meta.size,)))
    return fresh(builder, reshaped(builder, solution.node, rest))


if np.lib.NumpyVersion(np.__version__) < "2.5.0":
    implements(np.linalg.tensorsolve)(tensorsolve)


@implements(np.linalg.lstsq)
def lstsq(builder: Builder, a: Any, b: Any, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """The rank of a matrix that is longer than wide decides the shape of the residuals: it is taken for full, and checked."""
    left, right = array_of(builder, a), array_of(builder, b)
    if left.ndim != 2 or right.ndim not in (1, 2) or not (rcond is None or isinstance(rcond, (float, int))):
        raise Decline("np.linalg.lstsq of these dimensions, or with a computed rcond")
    (m, n), rows = left.shape, right.shape[0]
    if (not same(m, rows) and m != rows) or any(size == 0 for size in (*left.shape, *right.shape)):
        raise Decline("incompatible dimensions, or no elements")
    if m > n and (isinstance(builder.root, Tape) or "branches" in builder.ignored):  # nobody runs the program again
        raise Decline("np.linalg.lstsq whose results' shapes the data decides")
    dtype = common_dtype(left, right)
    first, second = (cast(builder, x.node, dtype) for x in (left, right))
    if right.ndim == 1:
        second = reshaped(builder, second, (rows, 1))
    node = builder.apply("lstsq", first, second, rcond=None if rcond is None else float(rcond))
    x, residuals, rank, values = (builder.apply("item", node, index=k) for k in range(4))
    if right.ndim == 1:
        x = reshaped(builder, x, (n,))
    return fresh(builder, x), fresh(builder, residuals), fresh(builder, rank, boxed=False), fresh(builder, values)


@implements(np.linalg.inv)
def inv(builder: Builder, a: Any) -> Array:
    x, node = square(builder, a)
    return stacked(builder, builder.apply("inv", node), 2, (x.meta, 2))


@implements(np.linalg.det)
def det(builder: Builder, a: Any) -> Array:
    x, node = square(builder, a)
    return stacked(builder, builder.apply("det", node), 0, (x.meta, 2))


@implements(np.linalg.slogdet)
def slogdet(builder: Builder, a: Any) -> Any:
    x, node = square(builder, a)
    return _linalg.SlogdetResult(*results(builder, builder.apply("slogdet", node), x.meta, 0, 0))


# --- factorizations


@implements(np.linalg.cholesky)
def cholesky(builder: Builder, a: Any, /, *, upper: Any = False) -> Array:
    x, node = square(builder, a)
    return stacked(builder, builder.apply("cholesky", node, upper=flag(upper)), 2, (x.meta, 2))


@implements(np.linalg.qr)
def qr(builder: Builder, a: Any, mode: Any = "reduced") -> Any:
    """Modes "reduced", "complete", "r" and "raw"."""
    if mode not in ("reduced", "complete", "r", "raw"):
        raise Decline(f"np.linalg.qr with mode={mode!r}")
    x, node = matrix(builder, a)
    m, n = x.shape[-2:]
    copy = copied_meta(x.meta, "K", node.meta.dtype)
    if mode == "raw":
        return raw_qr(builder, fresh(builder, node), copy)
    node = builder.apply("qr", node, mode=mode)
    rows = m if mode == "complete" else minimum(m, n)
    if mode == "r":
        return upper_triangle(builder, node, copy, rows)
    q, r = (builder.apply("item", node, index=k) for k in range(2))
    return _linalg.QRResult(stacked(builder, q, 2, (copy, 2)), upper_triangle(builder, r, copy, rows))


def raw_qr(builder: Builder, x: Array, copy: TensorMeta) -> tuple[Array, Array]:
    """What LAPACK leaves in the copy, each matrix transposed, and its factors."""
    dtype, (*stack, m, n) = x.dtype, x.shape
    swapped = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    results = (((*stack, n, m), dtype), ((*stack, minimum(m, n)), dtype))
    h, tau = whole(builder, np.linalg.qr, [x], results, mode="raw")
    h = transpose(fresh(builder, permute(builder, h.node, swapped), copy), swapped)
    if dtype.char in "fF":  # computed in 64 bits, and converted
        h = fresh(builder, h.node, copied_meta(h.meta, "K"))
    return h, stacked(builder, tau.node, 1, (copy, 2))


def upper_triangle(builder: Builder, node: Node, source: TensorMeta, rows: Size) -> Array:
    """A fresh array in the memory order of np.triu(x[..., :rows, :]): np.where's, of a C-ordered mask and x."""
    shape, dtype = (*source.shape[:-2], rows, source.shape[-1]), node.meta.dtype
    mask = TensorMeta(shape[-2:], BOOL)
    operands = [TensorMeta(shape, BOOL, broadcast_strides(mask, shape)), TensorMeta(shape, source.dtype, source.strides)]
    return fresh(builder, node, TensorMeta(shape, dtype, keep_order_strides(shape, dtype.itemsize, operands)))


def triangle(uplo: Any) -> str:
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise Decline("UPLO argument must be 'L' or 'U'")
    return uplo.upper()


@implements(np.linalg.eigh)
def eigh(builder: Builder, a: Any, UPLO: Any = "L") -> Any:
    x, node = square(builder, a)
    node = builder.apply("eigh", node, uplo=triangle(UPLO))
    return _linalg.EighResult(*results(builder, node, x.meta, 1, 2))


@implements(np.linalg.eigvalsh)
def eigvalsh(builder: Builder, a: Any, UPLO: Any = "L") -> Array:
    x, node = square(builder, a)
    return stacked(builder, builder.apply("eigvalsh", node, uplo=triangle(UPLO)), 1, (x.meta, 2))


def complex_square(builder: Builder, a: Any) -> tuple[Array, Node]:
    x, node = square(builder, a)
    if node.meta.dtype.kind != "c":
        raise DataDecides("eigenvalues of a real matrix are real or complex, as its data are", "eigh is for symmetric matrices")
    return x, node


@implements(np.linalg.eig)
def eig(builder: Builder, a: Any) -> Any:
    x, node = complex_square(builder, a)
    return _linalg.EigResult(*results(builder, builder.apply("eig", node), x.meta, 1, 2))


@implements(np.linalg.eigvals)
def eigvals(builder: Builder, a: Any) -> Array:
    x, node = complex_square(builder, a)
    return stacked(builder, builder.apply("eigvals", node), 1, (x.meta, 2))


@implements(np.linalg.svd)
def svd(builder: Builder, a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    if flag(hermitian):
        raise Decline("np.linalg.svd(hermitian=True) is captured from NumPy's source")
    x, node = matrix(builder, a)
    if not flag(compute_uv):
        return stacked(builder, builder.apply("svdvals", node), 1, (x.meta, 2))
    node = builder.apply("svd", node, full_matrices=flag(full_matrices))
    return _linalg.SVDResult(*results(builder, node, x.meta, 2, 1, 2))


@implements(*([_linalg._cond_svdvals] if hasattr(_linalg, "_cond_svdvals") else []))
def cond_svdvals(builder: Builder, x: Any) -> Array:
    """For np.linalg.cond. Where numbers are not finite it has NaN, and the op LinAlgError, after which NumPy itself runs."""
    return svd(builder, x, compute_uv=False)


@implements(np.linalg.cond)
def cond(builder: Builder, x: Any, p: Any = None) -> Array:
    """By singular values. Numbers that are not finite make LinAlgError of these, and NumPy runs. Other norms NumPy computes."""
    p = p.__index__() if isinstance(p, Dim) else p
    if p is not None and not (isinstance(p, (int, float)) and p in (2, -2)):
        return cond_by_norm(builder, x, p)
    values = svd(builder, x, compute_uv=False)
    if any(n == 0 for n in values.shape):
        raise Decline("cond is not defined on empty arrays")
    largest, least = (getitem(builder, values, (Ellipsis, k)) for k in (0, -1))
    ignored, builder.ignored = builder.ignored, FLOAT_ERRORS
    try:
        ratio = FUNCTIONS[np.divide](builder, *((least, largest) if p == -2 else (largest, least)))
    finally:
        builder.ignored = ignored
    of_zeros = FUNCTIONS[np.isnan](builder, ratio)
    return unbox(FUNCTIONS[np.where](builder, of_zeros, ratio.dtype.type(np.inf), ratio))


def cond_by_norm(builder: Builder, a: Any, p: Any) -> Array:
    x, node = square(builder, a)
    stack = x.shape[:-2]
    if not isinstance(p, (int, float, str)) or p not in (1, -1, np.inf, -np.inf, "fro", "nuc") or len(stack) > 1:
        raise Decline(f"np.linalg.cond of norm {p}, or of a stack of several axes")
    if any(n == 0 for n in x.shape):
        raise Decline("cond is not defined on empty arrays")
    (found,) = whole(builder, np.linalg.cond, [fresh(builder, node)], ((stack, np.empty(0, node.meta.dtype).real.dtype),), p=p)
    return unbox(found)
