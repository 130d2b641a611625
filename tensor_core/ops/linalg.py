"""Matrix factorizations and equations, which LAPACK solves through NumPy.

The last two axes are a matrix, the axes before them a stack. Operands have one dtype (float or complex, 32 or 64 bits
for each part) and one stack; NumPy computes in 64 bits and rounds the result. The rules of derivatives, and their
conventions for symmetric matrices and complex numbers, are in `linalg_gradients`.
"""

import numpy as np

from npcompile.tensor_core.dim import minimum, same
from npcompile.tensor_core.meta import Decline, Shape, TensorMeta, TupleMeta
from npcompile.tensor_core.op import row
from npcompile.tensor_core.ops import linalg_gradients as rules
from npcompile.tensor_core.ops.extern import Unexpected

LAPACK_DTYPES = "fdFD"
LAPACK_FAILS = {"raises": (np.linalg.LinAlgError,), "stacks": True}


def real_dtype(dtype: np.dtype) -> np.dtype:
    return np.empty(0, dtype).real.dtype


def require_square(x: TensorMeta) -> Shape:
    """The stack of a square matrix. Declines where NumPy raises LinAlgError."""
    *stack, m, n = require_matrix(x)
    if not same(m, n) and m != n:
        raise Decline("Last 2 dimensions of the array must be square")
    return tuple(stack)


def require_matrix(x: TensorMeta) -> Shape:
    if x.ndim < 2:
        raise Decline(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    assert x.dtype.char in LAPACK_DTYPES, x.dtype
    return x.shape


def is_small(a: TensorMeta, **_: object) -> bool:
    """A stack of matrices whose arithmetic takes less time than a call of LAPACK for each."""
    return a.dtype.char in "fd" and a.shape[-1] in (2, 3, 4)


@row("extern", eager=np.linalg.solve, vjp=rules.solve, numpy=np.linalg.solve, inexact=is_small, **LAPACK_FAILS)
def solve(a: TensorMeta, b: TensorMeta):
    """a^-1 b, of matrices. LinAlgError when `a` is singular."""
    stack = require_square(a)
    assert a.dtype == b.dtype and a.ndim == b.ndim and all(same(n, m) for n, m in zip(stack, b.shape))
    if not same(a.shape[-1], b.shape[-2]) and a.shape[-1] != b.shape[-2]:
        raise Decline(f"matrices of shapes {a.shape} and {b.shape} do not fit")
    return TensorMeta(b.shape, b.dtype)


@row("extern", eager=np.linalg.inv, vjp=rules.inv, numpy=np.linalg.inv, inexact=is_small, **LAPACK_FAILS)
def inv(a: TensorMeta):
    require_square(a)
    return TensorMeta(a.shape, a.dtype)


@row("extern", eager=lambda a: np.asarray(np.linalg.det(a)), vjp=rules.det, numpy=np.linalg.det, stacks=True, inexact=is_small)
def det(a: TensorMeta):
    return TensorMeta(require_square(a), a.dtype)


def eager_lstsq(a, b, *, rcond):
    if a.ndim > 2:
        stack = a.shape[:-2]
        if 0 in stack:  # no problem at all: results as any one would have
            parts = eager_lstsq(np.eye(*a.shape[-2:], dtype=a.dtype), np.zeros(b.shape[-2:], b.dtype), rcond=rcond)
            return tuple(np.empty((*stack, *part.shape), part.dtype) for part in parts)
        flat = [eager_lstsq(*pair, rcond=rcond) for pair in zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))]
        return tuple(np.stack(parts).reshape(*stack, *parts[0].shape) for parts in zip(*flat))
    found = np.linalg.lstsq(a, b, rcond)
    m, n = a.shape
    if m > n and found[2] != n:
        raise Unexpected
    return tuple(map(np.asarray, found))


@row("extern", eager=eager_lstsq, vjp=rules.lstsq, numpy=np.linalg.lstsq, raises=(np.linalg.LinAlgError, Unexpected), stacks=True)
def lstsq(a: TensorMeta, b: TensorMeta, *, rcond):
    """(x, sums of squared residuals of each column, rank, singular values) of the least squares problem a x = b.

    There are no residuals where `a` is not longer than wide; a longer one is to have independent columns, else there are none
    either: then it raises Unexpected.
    """
    *stack, m, n = require_matrix(a)
    k = require_matrix(b)[-1]
    assert a.dtype == b.dtype and a.ndim == b.ndim
    real = real_dtype(a.dtype)
    residuals = k if not same(m, n) and m > n else 0
    parts = (
        TensorMeta((*stack, n, k), a.dtype),
        TensorMeta((*stack, residuals), real),
        TensorMeta(tuple(stack), np.dtype(np.int32)),
    )
    return TupleMeta.of(*parts, TensorMeta((*stack, minimum(m, n)), real))


def eager_cofactor(a, library=np):
    """By singular values: their products without one of them need no division, and singular matrices have them too.

    `library` has NumPy's functions for arrays like `a`.
    """
    is_finite = library.isfinite(a).all((-2, -1), keepdims=True)
    u, s, vh = library.linalg.svd(library.where(is_finite, a, 0))
    ones = library.ones((*s.shape[:-1], 1), s.dtype)
    before = library.concatenate([ones, s], -1).cumprod(-1)[..., :-1]
    after = library.concatenate([s, ones], -1)[..., ::-1].cumprod(-1)[..., -2::-1]
    sign = library.asarray(library.linalg.det(u) * library.linalg.det(vh))[..., None, None]
    found = sign * ((u * (before * after)[..., None, :]) @ vh).conj()
    return library.where(is_finite, found, library.nan).astype(a.dtype, copy=False)


@row("extern", eager=eager_cofactor, vjp=rules.cofactor, **LAPACK_FAILS)
def cofactor(a: TensorMeta):
    """The matrix of cofactors: the derivatives of det(a). det(a) times the transposed inverse, where there is one."""
    require_square(a)
    return TensorMeta(a.shape, a.dtype)


def eager_slogdet(a):
    return tuple(map(np.asarray, np.linalg.slogdet(a)))


@row("extern", eager=eager_slogdet, vjp=rules.slogdet, numpy=np.linalg.slogdet, stacks=True)
def slogdet(a: TensorMeta):
    """(sign, logarithm of the absolute value) of the determinant."""
    stack = require_square(a)
    return TupleMeta.of(TensorMeta(stack, a.dtype), TensorMeta(stack, real_dtype(a.dtype)))


def eager_cholesky(a, *, upper):
    lower = np.linalg.cholesky(np.conj(np.swapaxes(a, -1, -2)) if upper else a)
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


def eager_new_cholesky(a, *, upper):
    return np.linalg.cholesky(a, upper=upper)


# NumPy 2.1 has the keyword: then it is exactly its result.
HAS_UPPER = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@row(
    "extern",
    eager=eager_new_cholesky if HAS_UPPER else eager_cholesky,
    vjp=rules.cholesky,
    numpy=np.linalg.cholesky,
    **LAPACK_FAILS,
)
def cholesky(a: TensorMeta, *, upper):
    """The lower triangular L with L L^H = a, or with `upper` the U with U^H U = a. Only that triangle of `a` is read."""
    require_square(a)
    return TensorMeta(a.shape, a.dtype)


@row(
    "extern",
    eager=lambda a, *, mode: np.linalg.qr(a, mode),
    vjp=rules.qr,
    numpy=np.linalg.qr,
    **LAPACK_FAILS,
)
def qr(a: TensorMeta, *, mode):
    """(Q, R) of mode "reduced" or "complete"; R alone of mode "r"."""
    *stack, m, n = require_matrix(a)
    inner = m if mode == "complete" else minimum(m, n)
    r = TensorMeta((*stack, inner, n), a.dtype)
    return r if mode == "r" else TupleMeta.of(TensorMeta((*stack, m, inner), a.dtype), r)


@row("extern", eager=lambda a, *, uplo: np.linalg.eigh(a, uplo), vjp=rules.eigh, numpy=np.linalg.eigh, **LAPACK_FAILS)
def eigh(a: TensorMeta, *, uplo):
    """(eigenvalues, eigenvectors as columns) of the Hermitian matrix whose lower ("L") or upper ("U") triangle `a` has."""
    *stack, n = (*require_square(a), a.shape[-1])
    return TupleMeta.of(TensorMeta((*stack, n), real_dtype(a.dtype)), TensorMeta(a.shape, a.dtype))


@row(
    "extern",
    eager=lambda a, *, uplo: np.linalg.eigvalsh(a, uplo),
    vjp=rules.eigvalsh,
    numpy=np.linalg.eigvalsh,
    inexact=is_small,
    **LAPACK_FAILS,
)
def eigvalsh(a: TensorMeta, *, uplo):
    """The eigenvalues that `eigh` gives, in the same order, without eigenvectors."""
    require_square(a)
    return TensorMeta(a.shape[:-1], real_dtype(a.dtype))


@row("extern", eager=np.linalg.eig, vjp=rules.eig, numpy=np.linalg.eig, **LAPACK_FAILS)
def eig(a: TensorMeta):
    """(eigenvalues, eigenvectors as columns) of a complex matrix. Of a real one the data decide about the dtype."""
    assert a.dtype.kind == "c"
    require_square(a)
    return TupleMeta.of(TensorMeta(a.shape[:-1], a.dtype), TensorMeta(a.shape, a.dtype))


@row("extern", eager=np.linalg.eigvals, vjp=rules.eigvals, numpy=np.linalg.eigvals, **LAPACK_FAILS)
def eigvals(a: TensorMeta):
    assert a.dtype.kind == "c"
    require_square(a)
    return TensorMeta(a.shape[:-1], a.dtype)


@row(
    "extern",
    eager=lambda a, *, full_matrices: np.linalg.svd(a, full_matrices),
    vjp=rules.svd,
    numpy=np.linalg.svd,
    **LAPACK_FAILS,
)
def svd(a: TensorMeta, *, full_matrices):
    """(U, singular values, V^H)."""
    *stack, m, n = require_matrix(a)
    k = minimum(m, n)
    u = TensorMeta((*stack, m, m if full_matrices else k), a.dtype)
    vh = TensorMeta((*stack, n if full_matrices else k, n), a.dtype)
    return TupleMeta.of(u, TensorMeta((*stack, k), real_dtype(a.dtype)), vh)


@row("extern", eager=lambda a: np.linalg.svd(a, compute_uv=False), vjp=rules.svdvals, **LAPACK_FAILS)
def svdvals(a: TensorMeta):
    """The singular values, largest first."""
    *stack, m, n = require_matrix(a)
    return TensorMeta((*stack, minimum(m, n)), real_dtype(a.dtype))
