"""Programs of linear algebra, with real and complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gradients.program import Program, positive, positive_definite, spread

Generator = np.random.Generator


def solve(a: Any, b: Any) -> Any:
    return np.sum(np.linalg.solve(a, b) ** 3)


def inverse(a: Any) -> Any:
    return np.trace(np.linalg.inv(a) @ a.T)


def determinant(a: Any) -> Any:
    return np.linalg.det(a) + np.sum(np.linalg.det(np.stack([a[:2, :2], a[1:, 1:]])) ** 2)


def log_determinant(a: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(a)
    return sign * logarithm


def cholesky(a: Any) -> Any:
    return np.sum(np.sin(np.linalg.cholesky(a)))


def eigenvalues(a: Any) -> Any:
    values = np.linalg.eigvalsh(a @ a.T)
    return np.sum(np.log(values) * np.arange(1, len(values) + 1))


def spectral_function(a: Any) -> Any:
    """exp of a symmetric matrix."""
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return np.sum(np.cos((vectors * np.exp(values)) @ vectors.T))


def nuclear_norm(a: Any) -> Any:
    return np.sum(np.linalg.svd(a, compute_uv=False)) + np.linalg.norm(a, "nuc")


def low_rank(a: Any) -> Any:
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return np.sum(np.abs((u[:, :2] * s[:2]) @ vt[:2]) ** 1.5)


def norms(a: Any) -> Any:
    return (
        np.linalg.norm(a)
        + np.linalg.norm(a[0])
        + np.linalg.norm(a, axis=1).sum()
        + np.linalg.norm(a, 2)
        + np.linalg.norm(a, 1)
        + np.linalg.norm(a, np.inf)
        + np.linalg.norm(a[:, 0], 1)
        + np.linalg.norm(a[:, 1], 3)
    )


def orthogonal(a: Any) -> Any:
    q, r = np.linalg.qr(a)
    return np.sum(q**3) + np.sum(np.tanh(r))


def pseudoinverse(a: Any) -> Any:
    return np.sum(np.linalg.pinv(a) ** 2)


def normal_equations(a: Any, b: Any) -> Any:
    x = np.linalg.solve(a.T @ a + 0.1 * np.eye(a.shape[1]), a.T @ b)
    return np.sum((a @ x - b) ** 2)


def power_iteration(a: Any) -> Any:
    v = np.ones(len(a)) / np.sqrt(len(a))
    for _ in range(6):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v @ a @ v


def conjugate_gradients(a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    r = p = b
    for _ in range(3):
        step = (r @ r) / (p @ a @ p)
        x = x + step * p
        after = r - step * (a @ p)
        p = after + (after @ after) / (r @ r) * p
        r = after
    return np.sum(x * np.arange(1, len(b) + 1))


def matrix_powers(a: Any) -> Any:
    return np.trace(np.linalg.matrix_power(a, 5)) + np.sum(np.linalg.matrix_power(a, -2))


def taylor_exponential(a: Any) -> Any:
    term = total = np.eye(len(a))
    for k in range(1, 8):
        term = term @ a / k
        total = total + term
    return np.sum(total**2)


def products(a: Any, b: Any) -> Any:
    return (
        np.sum(np.outer(a[0], b[0]) ** 2) + np.inner(a[1], b[1]) + np.vdot(a, b) * np.tensordot(a, b) + np.sum(np.kron(a, b) ** 3)
    )


def cross_products(a: Any, b: Any) -> Any:
    normal = np.cross(a, b)
    return np.sum(normal / np.linalg.norm(normal, axis=-1, keepdims=True) * np.arange(3))


def contractions(a: Any, b: Any, c: Any) -> Any:
    return np.sum(np.einsum("ij,jk,kl->il", a, b, c) ** 2) + np.einsum("ii", b) + np.sum(np.einsum("ij->j", a) ** 2)


def chain(a: Any, b: Any, c: Any) -> Any:
    return np.sum(np.linalg.multi_dot([a, b, c]) ** 2)


def batched_products(a: Any, b: Any) -> Any:
    return np.sum(np.sin(np.matmul(a, b))) + np.sum((a @ b[0]).max(axis=(1, 2)))


def complex_least_squares(z: Any, a: Any, b: Any) -> Any:
    residual = a @ z - b
    return np.sum(np.abs(residual) ** 2)


def complex_hermitian_form(z: Any, h: Any) -> Any:
    return (np.conj(z) @ (h + h.conj().T) @ z).real + np.vdot(z, z).real


def complex_polynomial(z: Any) -> Any:
    w = z**3 - 2j * z + np.exp(1j * z)
    return np.sum(w.real * w.imag) + np.sum(np.angle(z + 3))


def phase_retrieval(z: Any, amplitudes: Any) -> Any:
    return np.sum((np.abs(np.fft.fft(z)) - amplitudes) ** 2)


def complex_solve(a: Any, b: Any) -> Any:
    return np.linalg.norm(np.linalg.solve(a, b)) ** 2


def complex_log_determinant(a: Any) -> Any:
    return np.linalg.slogdet(a)[1]


def complex_spectrum(a: Any) -> Any:
    return np.sum(np.linalg.svd(a, compute_uv=False) ** 3) + np.sum(np.linalg.eigvalsh(a + a.conj().T) ** 3)


def matrices(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


def complex_matrices(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: tuple(rng.normal(size=shape) + 1j * rng.normal(size=shape) for shape in shapes)


def square(rng: Generator) -> tuple[np.ndarray]:
    """Far from singular."""
    return (rng.normal(size=(4, 4)) + 4 * np.eye(4),)


def definite(rng: Generator) -> tuple[np.ndarray]:
    return (positive_definite(rng, 4),)


PROGRAMS = [
    Program(solve, lambda r: (*square(r), r.normal(size=(4, 2))), (0, 1)),
    Program(inverse, square),
    Program(determinant, matrices((3, 3))),
    Program(log_determinant, square),
    Program(cholesky, definite, has_differences=False),  # reads one triangle, its gradient is symmetric
    Program(eigenvalues, matrices((4, 6))),
    Program(spectral_function, matrices((4, 4))),
    Program(nuclear_norm, matrices((3, 5))),
    Program(low_rank, matrices((4, 3))),
    Program(norms, lambda r: (spread(r, 4, 3),)),
    Program(orthogonal, matrices((5, 3))),
    Program(pseudoinverse, matrices((5, 3))),
    Program(normal_equations, matrices((6, 3), (6,)), (0, 1)),
    Program(power_iteration, definite),
    Program(conjugate_gradients, lambda r: (positive_definite(r, 5), r.normal(size=5)), (0, 1)),
    Program(matrix_powers, square),
    Program(taylor_exponential, lambda r: (r.normal(size=(3, 3)) * 0.5,)),
    Program(products, matrices((2, 3), (2, 3)), (0, 1)),
    Program(cross_products, matrices((4, 3), (4, 3)), (0, 1)),
    Program(contractions, matrices((2, 3), (3, 3), (3, 4)), (0, 1, 2)),
    Program(chain, matrices((2, 4), (4, 3), (3, 5)), (0, 1, 2)),
    Program(batched_products, matrices((2, 3, 4), (2, 4, 3)), (0, 1)),
    Program(complex_least_squares, complex_matrices((3,), (5, 3), (5,)), (0, 1, 2)),
    Program(complex_hermitian_form, complex_matrices((3,), (3, 3)), (0, 1)),
    Program(complex_polynomial, complex_matrices((5,))),
    Program(phase_retrieval, lambda r: (r.normal(size=6) + 1j * r.normal(size=6), positive(r, 6)), (0, 1)),
    Program(complex_solve, lambda r: (complex_matrices((3, 3))(r)[0] + 4 * np.eye(3), complex_matrices((3,))(r)[0]), (0, 1)),
    Program(complex_log_determinant, complex_matrices((4, 4))),
    Program(complex_spectrum, complex_matrices((3, 3))),
]
