"""Linear algebra on the device: values are NumPy's, vectors make up the matrix, and nothing goes through the host.

With the stand-in device the library is NumPy, whose vectors are multiplied by factors; marked `gpu`, it is CuPy's cuSOLVER.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import devices
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.backends.eager import compile_eager
from tests.cuda import one_op
from tests.cuda.numpy_library import StrictDevice
from tests.cuda.one_op import both, close, graph_of, normal, positive

device = one_op.device  # a fixture


@pytest.fixture
def in_use(device: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The device that "cuda" is."""
    if isinstance(device, StrictDevice):
        monkeypatch.setattr(cuda_device, "current_device", lambda: device)
    monkeypatch.setattr(devices, "_in_use", [])
    return device


# --- equations


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("stack", [(), (3,), (2, 3)])
@pytest.mark.parametrize("op", ["solve", "inv", "det", "slogdet", "cofactor", "cholesky", "upper cholesky"])
def test_equations(op: str, stack: tuple[int, ...], dtype: str, device: Any) -> None:
    a = (positive if "cholesky" in op else normal)(*stack, 5, 5, dtype=dtype)
    arrays = [a, normal(*stack, 5, 2, dtype=dtype)] if op == "solve" else [a]
    params = {"upper": op.startswith("upper")} if "cholesky" in op else {}
    for x, y in zip(*both(device, op.split()[-1], arrays, params), strict=True):
        close(x, y, a.dtype)
    assert not device.host


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (3, 6, 4), (2, 3, 4, 6), (2, 40, 36)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr(mode: str, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)
    for x, y in zip(*both(device, "qr", [a], {"mode": mode}), strict=True):
        close(x, y, a.dtype)
    assert not device.host


# --- eigenvalues and singular values

SQUARE = [(6, 6), (1, 1), (3, 4, 4), (2, 2, 40, 40), (70, 70)]
OBLONG = [(6, 4), (4, 6), (5, 5), (1, 3), (3, 6, 4), (2, 3, 4, 6), (2, 40, 36), (3, 20, 50), (90, 70)]


def is_unitary(columns: np.ndarray) -> None:
    """Are they orthogonal, and of length 1?"""
    product = columns.conj().swapaxes(-1, -2) @ columns
    close(product, np.broadcast_to(np.eye(columns.shape[-1], dtype=columns.dtype), product.shape), columns.dtype)


def hermitian(a: np.ndarray, uplo: str) -> np.ndarray:
    """What one triangle of `a` stands for."""
    part = (np.tril if uplo == "L" else np.triu)(a)
    diagonal = np.eye(a.shape[-1]) * part.real
    return (part + part.conj().swapaxes(-1, -2)) * (1 - np.eye(a.shape[-1])).astype(a.dtype) + diagonal.astype(a.dtype)


def close_in_any_order(got: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> None:
    """Each eigenvalue is the nearest one to another of NumPy's."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    nearest = np.abs(got[..., :, None] - expected[..., None, :]).argmin(-1)
    np.testing.assert_array_equal(np.sort(nearest, -1), np.broadcast_to(np.arange(got.shape[-1]), got.shape))
    close(got, np.take_along_axis(expected, nearest, -1), dtype)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_symmetric_matrices(uplo: str, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)  # only one triangle counts
    (values,), (expected,) = both(device, "eigvalsh", [a], {"uplo": uplo})
    close(values, expected, a.dtype)
    assert not device.host
    (w, v), (expected, vectors) = both(device, "eigh", [a], {"uplo": uplo})
    close(w, expected, a.dtype)
    assert not device.host and v.dtype == vectors.dtype and v.shape == vectors.shape
    is_unitary(v)
    close((v * w[..., None, :]) @ v.conj().swapaxes(-1, -2), hermitian(a, uplo), a.dtype)


def has_eig(device: Any) -> bool:
    """Has this device's library it? CuPy's may not."""
    try:
        device.library.linalg.eig(device.upload(np.ones((1, 1), complex)))
    except (AttributeError, RuntimeError):
        return False
    return True


@pytest.mark.parametrize("dtype", "FD")
@pytest.mark.parametrize("shape", SQUARE)
def test_general_matrices(shape: tuple[int, ...], dtype: str, device: Any) -> None:
    """The vectors as LAPACK gives them: of length 1, the largest part real."""
    a = normal(*shape, dtype=dtype)
    (values,), (expected,) = both(device, "eigvals", [a], {})
    close_in_any_order(values, expected, a.dtype)
    (w, v), (expected, vectors) = both(device, "eig", [a], {})
    if not has_eig(device):
        assert device.host == 1
        return
    assert not device.host
    np.testing.assert_array_equal(w, values)  # which derivatives pair with these vectors
    assert v.dtype == vectors.dtype and v.shape == vectors.shape
    close(a @ v, v * w[..., None, :], a.dtype)
    close(np.linalg.norm(v, axis=-2), np.ones(w.shape, w.real.dtype), a.dtype)
    largest = np.take_along_axis(v, np.abs(v).argmax(-2)[..., None, :], -2)
    assert (largest.imag == 0).all() and (largest.real > 0).all()


class Changed:
    """A module with some functions of its own; None for what it has not."""

    def __init__(self, module: Any, **others: Any):
        self.module, self.others = module, others

    def __getattr__(self, name: str) -> Any:
        found = self.others[name] if name in self.others else getattr(self.module, name)
        if found is None:
            raise AttributeError(name)
        return found


def with_linalg(device: Any, monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    library = device.library
    monkeypatch.setattr(device, "library", Changed(library, linalg=Changed(library.linalg, **functions)))


def refuse(*_: Any) -> Any:
    raise RuntimeError("geev is not available")


@pytest.mark.parametrize("function", [None, refuse])
def test_general_matrices_without_a_library_for_them(function: Any, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy before version 14 has none, cuSOLVER of older CUDA neither: then NumPy computes them."""
    a = normal(5, 5, dtype="D")
    with_linalg(device, monkeypatch, eig=function)
    for op in ("eig", "eigvals"):
        got, expected = both(device, op, [a], {})
        assert device.host == 1
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def test_vectors_that_are_not_orthonormal(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes others."""
    original = device.library.linalg.svd

    def zeros(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
        u, s, vh = original(a, full_matrices)
        return u * (s > 1e-10)[..., None, :], s, vh

    with_linalg(device, monkeypatch, svd=zeros)
    a = normal(2, 5, 2) @ normal(2, 2, 4)
    for x, y in zip(*both(device, "svd", [a], {"full_matrices": True}), strict=True):
        np.testing.assert_array_equal(x, y)
    assert device.host == 1


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", OBLONG)
@pytest.mark.parametrize("full", [False, True])
def test_singular_values(full: bool, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    a = normal(*shape, dtype=dtype)
    (values,), (expected,) = both(device, "svdvals", [a], {})
    close(values, expected, a.dtype)
    assert not device.host
    (u, s, vh), others = both(device, "svd", [a], {"full_matrices": full})
    close(s, others[1], a.dtype)
    assert not device.host
    assert [x.dtype for x in (u, s, vh)] == [x.dtype for x in others] and [x.shape for x in (u, vh)] == [
        x.shape for x in others[::2]
    ]
    is_unitary(u)
    is_unitary(vh.conj().swapaxes(-1, -2))
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, a.dtype)


RANKS = [(6, 4, 0), (6, 4, 2), (4, 6, 1), (5, 5, 3), (40, 36, 7), (36, 40, 35)]


@pytest.mark.parametrize("stack", [(), (2,)])
@pytest.mark.parametrize(("m", "n", "rank"), RANKS)
def test_vectors_of_singular_matrices(m: int, n: int, rank: int, stack: tuple[int, ...], device: Any) -> None:
    a = normal(*stack, m, rank, dtype="D") @ normal(*stack, rank, n, dtype="D")
    for full in (False, True):
        (u, s, vh), (_, expected, _) = both(device, "svd", [a], {"full_matrices": full})
        is_unitary(u)
        is_unitary(vh.conj().swapaxes(-1, -2))
        np.testing.assert_allclose(s, expected, atol=1e-13 * max(m, n) * expected.max())
        k = s.shape[-1]
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=1e-10)


AWKWARD = {
    "zero": np.zeros((4, 4)),
    "singular": np.ones((4, 4)),
    "nan": np.where(np.eye(4), np.nan, 1.0),
    "inf": np.where(np.eye(4), np.inf, 1.0),
    "negative": -np.eye(4),
    "nearly singular": np.eye(4) + 1e-17 * np.arange(16).reshape(4, 4) + np.outer([1e16, 0, 0, 0], [1, 1, 1, 1]),
    "of no size": np.zeros((0, 0)),
    "stack of no matrices": np.zeros((0, 3, 3)),
    "one of a stack is singular": np.stack([np.eye(4), np.zeros((4, 4)), np.eye(4)]),
}
CALLS: dict[str, dict[str, Any]] = {
    "inv": {},
    "det": {},
    "slogdet": {},
    "cholesky": {"upper": False},
    "qr": {"mode": "reduced"},
    "eigvalsh": {"uplo": "L"},
    "svdvals": {},
    "eigh": {"uplo": "U"},
    "svd": {"full_matrices": True},
    "eig": {},
    "eigvals": {},
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("op", CALLS)
def test_what_numpy_refuses(op: str, name: str, device: Any) -> None:
    """LinAlgError as NumPy raises it, and its values where it raises none."""
    is_general = op in ("eig", "eigvals")
    a = AWKWARD[name].astype("D") if is_general else AWKWARD[name]
    try:
        expected = compile_eager(graph_of(op, [a], CALLS[op]), [])(a)
    except np.linalg.LinAlgError as error:
        with pytest.raises(np.linalg.LinAlgError, match=str(error)):
            both(device, op, [a], CALLS[op])
        return
    got, _ = both(device, op, [a], CALLS[op])
    assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in expected]
    if op == "svd":
        u, s, vh = got
        k = s.shape[-1]
        np.testing.assert_allclose(
            (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, rtol=1e-10, atol=1e-15 * np.abs(a).max(initial=1)
        )
        got, expected = got[1:2], expected[1:2]
    values = [np.sort(x[0], -1) if is_general else x[0] for x in (got, expected)]
    # Backward stable: each eigenvalue is that of a matrix whose elements differ in the last places of the largest.
    largest = np.abs(a).max(initial=1, where=np.isfinite(a)) if op in ("eigh", "eigvalsh", "svd", "svdvals") else 1
    np.testing.assert_allclose(*values, rtol=1e-10, atol=max(1e-10, 1e-15 * largest))


def test_linalg_errors_come_from_the_users_line(in_use: Any) -> None:
    @npc.compile
    def inverse(x):
        y = x + 1
        try:
            return np.linalg.inv(y - 1)
        except np.linalg.LinAlgError as error:
            return str(error)

    @npc.compile
    def factor(x):
        return np.linalg.cholesky(-x @ x.T)

    with npc.device("cuda"):
        assert inverse(np.ones((3, 3))) == "Singular matrix"
        np.testing.assert_allclose(inverse(np.eye(3) * 2), np.eye(3) / 2)
        assert inverse(np.ones((3, 3))) == "Singular matrix"
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite") as caught:
            factor(np.eye(3))
    assert any(entry.name == "factor" for entry in caught.traceback)


# --- what NumPy writes in Python around them

X = np.random.default_rng(5).standard_normal((3, 6, 4))
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pinv": lambda x: np.linalg.pinv(x),
    "pinv of symmetric ones": lambda x: np.linalg.pinv(x.swapaxes(-1, -2) @ x, hermitian=True),
    "matrix_rank": lambda x: np.linalg.matrix_rank(x * np.array([1, 1, 1, 0])),
    "norm of order 2": lambda x: np.linalg.norm(x, 2, (-2, -1)),
    "nuclear norm": lambda x: np.linalg.norm(x[1], "nuc"),
    "values of symmetric ones": lambda x: np.linalg.svd(x[:, :4], compute_uv=False, hermitian=True),
    "projection": lambda x: np.matmul(*(lambda v: (v, v.swapaxes(-1, -2)))(np.linalg.svd(x, full_matrices=False)[0][..., :2])),
    "symmetric, by its parts": lambda x: (lambda u, s, vh: (u * s[..., None, :]) @ vh)(*np.linalg.svd(x[:, :4], hermitian=True)),
    "integers": lambda x: np.linalg.svd(np.rint(x * 5).astype(int), compute_uv=False),
    "single precision": lambda x: np.linalg.eigvalsh((x[:, :4] @ x[:, :4].swapaxes(-1, -2)).astype("f")),
    "empty": lambda x: np.linalg.svd(x[:, :0])[2],
    "no matrix": lambda x: np.linalg.eigh(x[:0, :4])[1],
    "in a loop": lambda x: npc.fori_loop(0, 3, lambda k, y: y / np.linalg.norm(y, 2, (-2, -1))[:, None, None] + 1, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, in_use: Any) -> None:
    """Only their arguments and results pass between host and device."""
    function = PROGRAMS[name]
    compiled = npc.compile(function, fullgraph=True)
    for k in range(3):
        x = X + k / 8
        expected = function(x)
        before = in_use.host
        with npc.device("cuda"):
            got = compiled(x)
        assert got.dtype == expected.dtype and got.shape == expected.shape
        limit = 2e-5 if expected.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)
        assert in_use.host - before <= (expected.nbytes > 8) or not expected.size


@pytest.mark.parametrize("order", [None, 2, -2, "nuc", 1])
def test_condition_numbers(order: Any, in_use: Any) -> None:
    """By singular values in one graph; of other norms data decide whether NaN becomes infinity, and the graph ends there."""
    compiled = npc.compile(lambda a, order: np.linalg.cond(a, order))
    for a in (X[:, :4], X[0, :4], np.ones((2, 3, 3)), np.stack([np.eye(3), np.full((3, 3), np.nan)])):
        try:
            expected = np.linalg.cond(a, order)
        except np.linalg.LinAlgError as error:  # NumPy before 2.5, of NaN
            with npc.device("cuda"), pytest.raises(np.linalg.LinAlgError, match=str(error)):
                compiled(a, order)
            continue
        with npc.device("cuda"):
            got = compiled(a, order)
        assert type(got) is type(expected)
        np.testing.assert_allclose(np.minimum(got, 1e16), np.minimum(expected, 1e16), rtol=1e-9, atol=1e-16)


def test_half_precision_is_refused(in_use: Any) -> None:
    compiled = npc.compile(lambda x: np.linalg.svd(x))
    with npc.device("cuda"), pytest.raises(TypeError, match="float16 is unsupported in linalg"):
        compiled(X.astype("e"))


# --- gradients


def squares(x: Any) -> Any:
    """The same for vectors multiplied by factors of absolute value 1."""
    return (x * x.conj()).real


def made_complex(x: Any) -> Any:
    return x + 1j * x.T @ x


SCALARS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda x: np.linalg.solve(x @ x.T + np.eye(4), x).sum(),
    "inv": lambda x: (np.linalg.inv(x @ x.T + np.eye(4)) * x).sum(),
    "det": lambda x: np.linalg.det(x),
    "slogdet": lambda x: np.linalg.slogdet(x)[1],
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)).sum(),
    "qr": lambda x: np.abs(np.linalg.qr(x)[1]).sum(),
    "eigh": lambda x: np.exp(np.linalg.eigvalsh(x + x.T)).sum() + np.abs(np.linalg.eigh(x + x.T)[1] ** 2 @ x).sum(),
    "complex eigh": lambda x: (squares(np.linalg.eigh(made_complex(x))[1]) @ x).sum(),
    "eig": lambda x: (squares(np.linalg.eig(made_complex(x))[1]).sum(1) * np.arange(4)).sum(),
    "eigvals": lambda x: squares(np.linalg.eigvals(made_complex(x)) - 1).max(),
    "svdvals": lambda x: np.linalg.svd(x, compute_uv=False).max() + np.linalg.norm(x, 2),
    "svd": lambda x: (squares(np.linalg.svd(x[:, :3], full_matrices=False)[0]) @ x[:3]).sum(),
    "complex svd": lambda x: (squares(np.linalg.svd(made_complex(x))[2]) @ x).sum(),
    "full svd": lambda x: (squares(np.linalg.svd(x[:, :3])[2]) @ x[:3]).sum() + np.linalg.svd(x[:3])[1].sum(),
    "pinv": lambda x: (np.linalg.pinv(x[:, :3]) @ x).sum(),
    "nuclear norm": lambda x: np.linalg.norm(x[1:], "nuc"),
    "fft": lambda x: np.abs(np.fft.fft(x * x)).sum(),
    "sort": lambda x: (np.sort(x, 0) * np.arange(4.0)).sum(),
    "partition": lambda x: (np.partition(x, 2, 0)[2] * np.arange(4.0)).sum(),
    "median": lambda x: np.median(x, 0).sum(),
    "interp": lambda x: np.interp(x, np.arange(5.0), x[0, 0] * np.arange(5.0) ** 2).sum(),
}


@pytest.mark.parametrize("name", SCALARS)
def test_gradients(name: str, in_use: Any) -> None:
    x = np.random.default_rng(1).standard_normal((4, 4))
    expected = npc.grad(SCALARS[name])(x)
    with npc.device("cuda"):
        got = npc.grad(SCALARS[name])(x)
    assert type(got) is np.ndarray and getattr(in_use, "requests", True)  # of the stand-in: kernels ran there
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)


def test_least_squares_run_on_copies(device: Any) -> None:
    for shape in ((6, 4), (4, 4), (3, 5)):
        for x, y in zip(*both(device, "lstsq", [normal(*shape), normal(shape[0], 2)], {"rcond": None}), strict=True):
            close(x, y, np.dtype(float))
