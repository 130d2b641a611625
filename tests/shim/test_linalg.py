"""numpy.linalg: values, dtypes, named tuples, scalars, and the memory order of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Decline
from tests.backends import HOST_BACKENDS
from tests.shim.harness import Capture, check, compare, compare_aliasing
from tests.tracer.harness import check as check_program

DTYPES = ["f", "d", "F", "D"]

# How a stack of matrices lies in memory: from a C-contiguous array of four axes to one with the same elements.
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda x: x,
    "stack transposed": lambda x: np.ascontiguousarray(x.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3),
    "matrices transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "fortran": np.asfortranarray,
    "stack inside": lambda x: np.ascontiguousarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1),
    "mixed": lambda x: np.ascontiguousarray(x.transpose(2, 1, 3, 0)).transpose(3, 1, 0, 2),
    "reversed": lambda x: np.ascontiguousarray(x[:, ::-1, :, ::-1])[:, ::-1, :, ::-1],
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "repeated": lambda x: np.broadcast_to(x[:1], x.shape),
    "one deep": lambda x: x[:, 1:2],
    "stack of one axis": lambda x: x[:, 1],
    "stack of one axis, strided": lambda x: x[0, ::-1],
    "one matrix": lambda x: x[0, 1],
    "one matrix, transposed": lambda x: x[0, 1].T.copy().T,
    "no matrix": lambda x: x[:, :0],
    "empty matrices": lambda x: x[:, :, :0, :0],
    "small matrices": lambda x: x[:, :, :1, :1],
}


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-4, 4, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.uniform(-4, 4, shape)
    return values.astype(dtype)


def positive_definite(dtype: Any) -> np.ndarray:
    x = numbers((2, 3, 4, 4), dtype)
    return (x @ x.conj().swapaxes(-1, -2) + 4 * np.eye(4)).astype(dtype)


SQUARE: dict[str, tuple[Any, dict[str, Any]]] = {
    "inv": (np.linalg.inv, {}),
    "det": (np.linalg.det, {}),
    "slogdet": (np.linalg.slogdet, {}),
    "cholesky": (np.linalg.cholesky, {}),
    "eigh": (np.linalg.eigh, {}),
    "eigh upper": (np.linalg.eigh, {"UPLO": "u"}),
    "eigvalsh": (np.linalg.eigvalsh, {}),
    "eigvalsh upper": (np.linalg.eigvalsh, {"UPLO": "U"}),
}
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    SQUARE["cholesky upper"] = (np.linalg.cholesky, {"upper": True})

ANY: dict[str, tuple[Any, dict[str, Any]]] = {
    "svd": (np.linalg.svd, {}),
    "svd reduced": (np.linalg.svd, {"full_matrices": False}),
    "svd values": (np.linalg.svd, {"compute_uv": False}),
    "qr": (np.linalg.qr, {}),
    "qr complete": (np.linalg.qr, {"mode": "complete"}),
    "qr r": (np.linalg.qr, {"mode": "r"}),
    "qr raw": (np.linalg.qr, {"mode": "raw"}),
}
ROWS = {"square": np.s_[:], "tall": np.s_[..., :2], "wide": np.s_[..., :3, :]}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SQUARE)
def test_square_matrices(name: str, layout: str) -> None:
    function, keywords = SQUARE[name]
    for dtype in DTYPES:
        assert check(function, LAYOUTS[layout](positive_definite(dtype)), **keywords)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ANY)
def test_matrices_of_any_shape(name: str, layout: str) -> None:
    function, keywords = ANY[name]
    for dtype in DTYPES:
        for part in ROWS.values():
            assert check(function, LAYOUTS[layout](numbers((2, 3, 4, 4), dtype))[part], **keywords)


@pytest.mark.parametrize("function", [np.linalg.eig, np.linalg.eigvals])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_eigenvalues_of_complex_matrices(function: Any, layout: str) -> None:
    for dtype in "FD":
        assert check(function, LAYOUTS[layout](numbers((2, 3, 4, 4), dtype)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("right", [*LAYOUTS, "vector", "one column", "of another stack"])
def test_solve(layout: str, right: str) -> None:
    for dtype, other in (("d", "d"), ("f", "f"), ("f", "D"), ("d", "i")):
        a = LAYOUTS[layout](positive_definite(dtype))
        b = numbers((2, 3, 4, 4), other, 1)
        shaped = {"vector": b[0, 0, 0], "one column": b[..., :1], "of another stack": b[0, :, :, :3][:, None]}
        b = shaped[right] if right in shaped else LAYOUTS[right](b)
        check(np.linalg.solve, a[..., : b.shape[-1], : b.shape[-1]] if right == "vector" else a, b)


@pytest.mark.parametrize("name", [*SQUARE, *ANY])
@pytest.mark.parametrize("dtype", ["?", "b", "H", "i", "l", "Q"])
def test_integers_become_float64(name: str, dtype: str) -> None:
    function, keywords = (SQUARE | ANY)[name]
    assert check(function, np.array([[5, 1, 0], [1, 4, 1], [0, 1, 3]] if dtype != "?" else np.eye(3), dtype), **keywords)
    assert check(function, np.array([[[5, 1], [1, 4]]], dtype)[::-1] if dtype != "?" else np.eye(2, dtype=bool)[None], **keywords)


def test_lists_and_constants() -> None:
    for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.svd):
        assert check(function, [[2.0, 1.0], [1.0, 3.0]])
    capture = Capture()
    x = capture.wrap(np.float64(3.0))
    traced = FUNCTIONS[np.linalg.inv](capture.builder, [[x, 1.0], [0.0, x]])
    compare(capture.run(traced), np.linalg.inv([[3.0, 1.0], [0.0, 3.0]]))


X = numbers((3, 3), "d")
REFUSED: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "float16": (np.linalg.inv, (X.astype("e"),), {}),
    "longdouble": (np.linalg.det, (X.astype("g"),), {}),
    "not square": (np.linalg.inv, (X[:2],), {}),
    "a vector": (np.linalg.det, (X[0],), {}),
    "shapes that do not fit": (np.linalg.solve, (X, X[:2]), {}),
    "stacks that do not fit": (np.linalg.solve, (np.stack([X] * 2), np.stack([X] * 3)), {}),
    "a number to solve for": (np.linalg.solve, (X, 3.0), {}),
    "UPLO": (np.linalg.eigh, (X, "X"), {}),
    "mode": (np.linalg.qr, (X, "upside down"), {}),
    "real eigenvalues": (np.linalg.eig, (X,), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declined(name: str) -> None:
    function, arguments, keywords = REFUSED[name]
    capture = Capture()
    with pytest.raises(Decline):
        FUNCTIONS[function](capture.builder, *capture.wrap(list(arguments)), **keywords)


# --- compiled programs: NumPy's errors on the user's line, named tuples, and what NumPy writes in Python


@check_program(lambda round: positive_definite("d")[0, 0] * round, graphs=1, breaks=0)
def test_singular_matrix_raises(x):
    y = x + 1 - 1
    return np.linalg.inv(y)


@check_program(lambda round: -positive_definite("d")[0] * (-1) ** round, graphs=1, breaks=0)
def test_not_positive_definite_raises(x):
    return np.linalg.cholesky(x).sum()


@check_program(lambda round: positive_definite("d")[0, 0] * round, graphs=1, breaks=0)
def test_unused_results_raise(x):
    np.linalg.solve(x, x[0])
    return x + 1


@check_program(lambda round: positive_definite("d")[0, 0] * (1 if round else np.nan), graphs=1, breaks=0)
def test_unused_pair_raises(x):
    np.linalg.svd(x)
    return x + 1


@check_program(lambda round: positive_definite("d")[0, 0] * round, graphs=1)
def test_errors_are_caught(x):
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        return str(error)


@check_program(lambda round: positive_definite("d")[0, 0] * round)
def test_writes_before_the_error_stay(x):
    x[0, 0] += 1
    x[:] = np.linalg.inv(x)
    x *= 2


# Vectors are unique up to their sign, and cuSOLVER's is not always LAPACK's.
@check_program(positive_definite("d")[0], graphs=1, breaks=0, backends=HOST_BACKENDS)
def test_named_tuples(x):
    u, s, vh = np.linalg.svd(x)
    result = np.linalg.eigh(x)
    slog = np.linalg.slogdet(x)
    values = result.eigenvalues + result[0] + slog.logabsdet[:, None]
    return result, values, u * s[:, None] @ vh, len(slog), slog[:1], slog + (1,), isinstance(slog, tuple), type(slog), [*slog]


@check_program(positive_definite("d")[0, 0], graphs=1, breaks=0, backends=HOST_BACKENDS)
def test_named_tuple_stays_one_object(x):
    result = np.linalg.qr(x)
    return result, [result], result.Q @ result.R


@check_program(positive_definite("d"), numbers((2, 3, 4), "d"), graphs=1, breaks=0)
def test_between_kernels(x, y):
    z = np.linalg.solve(np.tanh(x) + 5 * np.eye(4), (y * 2)[..., None])[..., 0]
    return np.exp(-z * z).sum(axis=-1) + np.linalg.det(x)


@check_program(positive_definite("d")[0, 0], numbers((4, 3), "d"), graphs=1, breaks=0)
def test_python_functions_of_linalg(x, y):
    return (
        np.linalg.norm(y),
        np.linalg.norm(y, axis=0),
        np.linalg.norm(x, 1),
        np.linalg.norm(x, 2),
        np.linalg.norm(x, "nuc"),
        np.linalg.norm(y[:, 0], 3),
        np.linalg.matrix_power(x, 3),
        np.linalg.matrix_power(x, -2),
        np.linalg.multi_dot([y.T, x, y]),
        np.linalg.tensorinv(x.reshape(2, 2, 4), 2),
        np.linalg.svdvals(y),
        np.linalg.matrix_norm(x),
        np.linalg.vector_norm(y),
    )


@check_program(positive_definite("d")[0, 0], numbers((4, 3), "d"), graphs=1, breaks=0)
def test_pseudo_inverse(x, y):
    return np.linalg.pinv(y), np.linalg.pinv(x, hermitian=True), np.linalg.pinv(y, rcond=0.3)


@check_program(numbers((2, 4, 4), "d"), breaks=0)
def test_programs_with_condition_numbers(x):
    return np.linalg.cond(x), np.linalg.cond(x[0], -2), np.linalg.cond(x.astype("f"))


@check_program(positive_definite("d")[0, 0], graphs=1, breaks=0, backends=HOST_BACKENDS)
def test_hermitian_svd(x):
    return np.linalg.svd(x, hermitian=True), np.linalg.svd(x, compute_uv=False, hermitian=True), np.linalg.matrix_rank(x)


@check_program(numbers((2, 3, 6), "d"), numbers((2, 3), "d"))  # NumPy 2.4 sets the result's shape: a break
def test_tensorsolve(x, y):
    return np.linalg.tensorsolve(x, y)


@check_program(lambda round: numbers((3 + 2 * round, 3 + 2 * round), "d", round), rounds=4, graphs=2, backends=HOST_BACKENDS)
def test_other_sizes(x):
    q, r = np.linalg.qr(x[:, 1:])
    return np.linalg.inv(x) + 1, np.linalg.svd(x[1:], full_matrices=False), q @ r, np.linalg.eigvalsh(x), np.linalg.slogdet(x)


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_floating_point_warnings(backend: str) -> None:
    """det warns where it meets infinities: the compiled program warns as often, at the same line."""

    def function(x):
        return np.linalg.det(x) + 1

    caught = []
    for f in (function, npc.compile(function, backend=backend)):
        with pytest.warns(RuntimeWarning, match="invalid value encountered in det") as record:
            f(np.array([[np.inf, np.inf], [1.0, np.inf]]))
        caught.append([(str(w.message), w.lineno) for w in record])
    assert caught[0] == caught[1]


def test_results_share_no_memory() -> None:
    capture = Capture()
    x = positive_definite("d")
    traced = FUNCTIONS[np.linalg.qr](capture.builder, capture.wrap(x))
    compare_aliasing(capture.run(traced), np.linalg.qr(x), [x], [x])


@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (2, 4), (4, 1), (1, 1)])
@pytest.mark.parametrize("right", ["vector", "columns", "fortran"])
def test_least_squares(shape: tuple[int, int], right: str) -> None:
    for dtype, other in (("d", "d"), ("f", "f"), ("f", "D"), ("i", "d"), ("D", "d")):
        for layout in (np.ascontiguousarray, np.asfortranarray, lambda x: x[::-1, ::-1]):
            a, b = layout(numbers(shape, dtype)), numbers((shape[0], 3), other, 1)
            b = {"vector": b[:, 0], "columns": b, "fortran": np.asfortranarray(b)}[right]
            for rcond in (None, 1e-3, -1):
                if np.linalg.matrix_rank(a) == min(shape):
                    assert check(np.linalg.lstsq, a, b, rcond, ulp=64)


@check_program(lambda round: np.vander(np.arange(6.0) * (round != 1), 3), np.arange(6.0), rounds=3, ulp=1 << 40)
def test_a_rank_that_decides_about_residuals(a, b):
    x, residuals, rank, values = np.linalg.lstsq(a, b)
    return x + 1, residuals.shape, rank, values.shape


@check_program(lambda round: np.linspace(0, 1 + round, 9), breaks=0, ulp=1 << 20)
def test_polynomials_are_fitted_in_the_graph(x):
    y = np.polyfit(x, np.exp(x), 2)
    return np.polyval(y, x)


@pytest.mark.parametrize("p", [None, 2, -2])
def test_condition_numbers(p: Any) -> None:
    for dtype in "dfDi":
        for layout in (np.ascontiguousarray, lambda x: x.swapaxes(0, 1), lambda x: x[0], lambda x: x[0, 0], lambda x: x[..., :2]):
            assert check(np.linalg.cond, layout(numbers((2, 3, 4, 4), dtype)), p, ulp=1 << 10)
    assert check(np.linalg.cond, np.zeros((2, 3, 3)), p)
    assert check(np.linalg.cond, np.zeros((3, 3)), p)
    assert check(np.linalg.cond, np.diag([1.0, 2.0, 0.0]), p)


@check_program(lambda round: np.where(np.eye(3) * (round == 1), np.nan, np.eye(3)), rounds=3)
def test_condition_number_of_what_is_no_number(x):
    try:
        return np.linalg.cond(x), np.linalg.cond(x, 1)
    except np.linalg.LinAlgError as error:
        return str(error)


@pytest.mark.parametrize("p", [1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers_of_other_norms(p: Any) -> None:
    for dtype in (*DTYPES, "l"):
        for stack in (np.s_[0, 0], np.s_[0]):
            assert check(np.linalg.cond, numbers((2, 3, 4, 4), dtype)[stack], p, ulp=1 << 10)
    for data in (np.array([[1.0, 2.0], [2.0, 4.0]]), np.full((2, 2, 2), np.nan)):
        if p != "nuc":  # whose singular values do not converge there
            assert check(np.linalg.cond, data, p)


@check_program(lambda round: numbers((2, 3, 6), "d", round), lambda round: numbers((6, 4, 6, 4), "f", round), graphs=1, breaks=0)
def test_tensor_equations(a, b):
    by_axes = np.linalg.tensorsolve(a.reshape(2, 6, 3), np.ones((2, 3)), axes=(1,))
    return np.linalg.tensorsolve(a, a[..., 0]), by_axes, np.linalg.tensorinv(b), np.linalg.tensorsolve(b, b[0].T[0])


@check_program(lambda round: numbers((2, 3, 6), "d", round))
def test_tensor_equations_that_do_not_fit(a):
    return np.linalg.tensorsolve(a, a[0])
