"""Linear algebra on the device, by cuSOLVER and cuBLAS through CuPy: a row of LINALG for each op.

Eigenvectors and singular vectors are unique up to a factor of absolute value 1, and only those of different values at all.
cuSOLVER's are not always LAPACK's: what they make up is the same matrix. Eigenvalues of general matrices have no order, in
NumPy neither. Where NumPy raises LinAlgError, or may do so, a row gives None, and NumPy has to say it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from npcompile.tensor_core.ops.linalg import eager_cofactor

Array = Any
Call = Callable[..., Any]  # (library, *arrays, **params) -> an array, a tuple of arrays, or None


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
        if made is None:
            return None
        parts = made if isinstance(made, tuple) else (made,)
        is_finite = reduce(lambda a, b: a & b, (library.isfinite(x).all() for x in (*xs, *parts)))
        return made if is_finite else None

    return run


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def cholesky(library: Any, a: Array, *, upper: bool) -> Array:
    """Only one triangle is read: the lower one, of the transpose where it is the upper one that counts."""
    lower = library.linalg.cholesky(adjoint(a) if upper else a)
    return adjoint(lower) if upper else lower


def svd(library: Any, a: Array, *, full_matrices: bool) -> tuple[Array, ...] | None:
    """The full one holds the vectors of the reduced one, which derivatives of it read beside them.

    None where vectors are not orthonormal: methods that are used for stacks find no vectors for singular values of 0.
    """
    u, s, vh = library.linalg.svd(a, full_matrices=False)
    if not is_orthonormal(library, u) or not is_orthonormal(library, adjoint(vh)):
        return None
    if full_matrices:
        u, vh = completed(library, u), adjoint(completed(library, adjoint(vh)))
    return u, s, vh


def is_orthonormal(library: Any, columns: Array) -> bool:
    error = library.matmul(adjoint(columns), columns) - library.eye(columns.shape[-1])
    return bool((library.abs(error) < 1e-8).all())


def completed(library: Any, columns: Array) -> Array:
    """Orthonormal columns, and more of them until they are a basis."""
    rows, count = columns.shape[-2:]
    if rows == count:
        return columns
    more = library.linalg.qr(columns, "complete")[0][..., count:]
    return library.concatenate([columns, more], -1)


def eig(library: Any, a: Array) -> tuple[Array, Array] | None:
    """Vectors of length 1 whose largest part is real, as LAPACK's are."""
    if not hasattr(library.linalg, "eig"):  # CuPy has it from version 14
        return None
    try:
        w, v = library.linalg.eig(a)
    except RuntimeError:  # cuSOLVER has it from CUDA 12.8
        return None
    sizes = library.abs(v)
    largest = library.expand_dims(sizes.argmax(-2), -2)
    length = library.sqrt((sizes * sizes).sum(-2, keepdims=True))
    turn = library.take_along_axis(v, largest, -2).conj() / (library.take_along_axis(sizes, largest, -2) * length)
    is_largest = library.arange(v.shape[-2])[:, None] == largest
    v = v * turn
    return w, library.where(is_largest, v.real, v)


def eigvals(library: Any, a: Array) -> Array | None:
    """In the order in which `eig` has them, whose vectors the derivative takes for theirs."""
    made = eig(library, a)
    return None if made is None else made[0]


LINALG: dict[str, Call] = {
    "solve": checked(lambda library, a, b: library.linalg.solve(a, b)),
    "inv": checked(lambda library, a: library.linalg.inv(a)),
    "det": checked(lambda library, a: library.linalg.det(a)),
    "slogdet": checked(lambda library, a: tuple(library.linalg.slogdet(a))),
    "cofactor": checked(lambda library, a: eager_cofactor(a, library)),
    "cholesky": checked(cholesky),
    "qr": checked(lambda library, a, *, mode: library.linalg.qr(a, mode)),
    "eigh": checked(lambda library, a, *, uplo: tuple(library.linalg.eigh(a, uplo))),
    "eigvalsh": checked(lambda library, a, *, uplo: library.linalg.eigvalsh(a, uplo)),
    "eig": checked(eig),
    "eigvals": checked(eigvals),
    "svd": checked(svd),
    "svdvals": checked(lambda library, a: library.linalg.svd(a, compute_uv=False)),
}
