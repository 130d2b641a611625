"""Stacks of small matrices in generated C: as accurate as LAPACK, and LAPACK's answer wherever there is a doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.small_matrices import form_of
from npcompile.tensor_core import Builder, TensorMeta
from tests.backends import HOST_BACKENDS
from tests.shim.harness import compare
from tests.tracer.harness import check

FUNCTIONS = {"det": np.linalg.det, "inv": np.linalg.inv, "eigvalsh": np.linalg.eigvalsh, "solve": np.linalg.solve}
ROWS = (2, 3, 4)


def determinant(a: np.ndarray) -> np.ndarray:
    """By its definition, in the precision of the array."""
    if a.shape[-1] == 1:
        return a[..., 0, 0]
    minors = [determinant(np.delete(a[..., 1:, :], j, -1)) for j in range(a.shape[-1])]
    return sum((-1) ** j * a[..., 0, j] * minor for j, minor in enumerate(minors))


def inverse(a: np.ndarray) -> np.ndarray:
    n = range(a.shape[-1])
    minors = [[determinant(np.delete(np.delete(a, j, -2), i, -1)) * (-1) ** (i + j) for j in n] for i in n]
    return np.moveaxis(np.array(minors), (0, 1), (-2, -1)) / determinant(a)[..., None, None]


def eigenvalues(a: np.ndarray) -> np.ndarray:
    """The Rayleigh quotients of LAPACK's eigenvectors: their errors are those of the vectors squared."""
    symmetric = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    vectors = np.linalg.eigh(a.astype(float))[1].astype(a.dtype)
    return np.sort((vectors * (symmetric @ vectors)).sum(-2) / (vectors * vectors).sum(-2), -1)


REFERENCES = {
    "det": determinant,
    "inv": inverse,
    "eigvalsh": eigenvalues,
    "solve": lambda a, b: inverse(a) @ b,
}


def operands(op: str, rows: int, dtype: Any, scale: float = 1.0, count: int = 2000) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((count, rows, rows)) * scale ** np.arange(rows)[:, None]
    return [a.astype(dtype), *([rng.standard_normal((count, rows, 2)).astype(dtype)] if op == "solve" else [])]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference of more than 64 bits")
@pytest.mark.parametrize("scale", [1.0, 1e-2, 30.0])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_errors_beside_those_of_lapack(op: str, rows: int, scale: float) -> None:
    function = FUNCTIONS[op]
    arrays = operands(op, rows, float, scale)
    expected = REFERENCES[op](*(x.astype(np.longdouble) for x in arrays))
    axes = tuple(range(1, expected.ndim))
    sizes = np.abs(expected).max(axes) if axes else np.abs(expected)

    def errors(found: np.ndarray) -> np.ndarray:
        apart = np.abs(found - expected)
        return np.asarray((apart.max(axes) if axes else apart) / sizes / np.finfo(float).eps, float)

    theirs, ours = errors(function(*arrays)), errors(npc.compile(lambda *arrays: function(*arrays), backend="cpu")(*arrays))
    assert np.mean(ours) <= 1.5 * np.mean(theirs) + 0.1
    assert np.quantile(ours, 0.99) <= 2 * np.quantile(theirs, 0.99) + 0.5
    assert ours.max() <= 4 * theirs.max() + 2


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_float32_is_that_of_64_bits(op: str, rows: int) -> None:
    arrays = operands(op, rows, "f")
    made = npc.compile(lambda *arrays: FUNCTIONS[op](*arrays), backend="cpu")(*arrays)
    compare(made, FUNCTIONS[op](*arrays), ulp=1)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", ["inv", "solve", "det"])
def test_what_is_singular_is_numpys_to_say(op: str, rows: int) -> None:
    """Small integers and their tenths: many of these matrices are singular, some only but for rounding."""
    rng = np.random.default_rng(rows)
    compiled = npc.compile(lambda *arrays: FUNCTIONS[op](*arrays), backend="cpu")
    raised = 0
    for factor in (1.0, 0.1, 1e-12):
        for a in rng.integers(-2, 3, (60, rows, rows)) * factor:
            arrays = [a, *([np.eye(rows)] if op == "solve" else [])]
            try:
                theirs = FUNCTIONS[op](*arrays)
            except np.linalg.LinAlgError as error:
                raised += 1
                with pytest.raises(np.linalg.LinAlgError, match=str(error)), np.errstate(all="ignore"):
                    compiled(*arrays)
            else:
                np.testing.assert_allclose(compiled(*arrays), theirs, 1e-9, 1e-13 * np.abs(theirs).max())
                assert np.array_equal(compiled(*arrays) == 0, theirs == 0) or op != "det"
    assert raised > 10 or op == "det"


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_numbers_that_leave_the_range_are_left_to_numpy(op: str, rows: int) -> None:
    compiled = npc.compile(lambda *arrays: FUNCTIONS[op](*arrays), backend="cpu")
    for dtype in "df":
        for special in (np.nan, np.inf, 0.0, np.finfo(dtype).max, np.finfo(dtype).tiny):
            for place in ((0, 0), (rows - 1, 0), (rows - 1, rows - 1), slice(None)):
                arrays = [x.copy() for x in operands(op, rows, dtype, count=3)]
                arrays[0][(1, *place) if isinstance(place, tuple) else 1] = special
                check_outcome(compiled, FUNCTIONS[op], arrays)
                arrays[0][1] = np.diag(np.resize([special, 1 / special if special else 1.0], rows))
                check_outcome(compiled, FUNCTIONS[op], arrays)


def check_outcome(compiled: Any, function: Any, arrays: list[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        try:
            theirs = function(*arrays)
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                compiled(*arrays)
        else:
            np.testing.assert_allclose(compiled(*arrays), theirs, 1e-5 if arrays[0].dtype == "f" else 1e-11, 1e-13)


@pytest.mark.parametrize("uplo", "LU")
def test_a_matrix_left_to_numpy_leaves_the_others(uplo: str) -> None:
    a = operands("eigvalsh", 3, float)[0][:50]
    a[7, 0 if uplo == "U" else 2, 0 if uplo == "L" else 2] = 1e300
    a[:, 0 if uplo == "L" else 2, 2 if uplo == "L" else 0] = np.nan  # not read
    made = npc.compile(lambda a: np.linalg.eigvalsh(a, uplo), backend="cpu")(a)
    np.testing.assert_allclose(made, np.linalg.eigvalsh(a, uplo), 1e-12, 1e-14)
    assert np.array_equal(made[7], np.linalg.eigvalsh(a[7], uplo))


@check(lambda round: np.random.default_rng(round).standard_normal((3 + round, 2, 3, 3)), backends=["cpu"], breaks=0, ulp=4096)
def test_stacks_between_kernels(a):
    b = np.swapaxes(a, -1, -2) @ a + np.eye(3)
    return np.linalg.inv(b) * 2, np.linalg.det(b[::-1]) + 1, np.linalg.eigvalsh(b[:, 0]), np.linalg.solve(b, a[..., :1])


@check(lambda round: np.random.default_rng(round).standard_normal((4, 2, 2)) * (round != 1), backends=["cpu"], rounds=3)
def test_nothing_is_written_before_the_error(a):
    a[0] += 1
    a[1:] = 0 * a[1:]
    return np.linalg.inv(a)


@check(np.empty((0, 3, 3)), np.empty((0, 3, 1)), backends=["cpu"])
def test_no_matrix(a, b):
    return np.linalg.inv(a), np.linalg.det(a), np.linalg.eigvalsh(a), np.linalg.solve(a, b)


def test_which_are_small() -> None:
    def node(op: str, *shapes: tuple[int, ...], dtype: str = "d", **params: Any) -> Any:
        builder = Builder()
        return builder.apply(op, *(builder.input(TensorMeta(s, np.dtype(dtype))) for s in shapes), **params)

    small = [node("inv", (5, 3, 3)), node("det", (2, 2)), node("eigvalsh", (4, 4), uplo="L"), node("solve", (9, 2, 2), (9, 2, 4))]
    large = [node("inv", (5, 5)), node("det", (1, 1)), node("inv", (3, 3), dtype="D"), node("solve", (9, 2, 2), (9, 2, 40))]
    assert all(map(form_of, small)) and not any(map(form_of, large))


@check(graphs=1, breaks=0, backends=HOST_BACKENDS)  # a device's library rounds otherwise
def test_complex_matrices(x):
    """Their eigenvalues are real."""
    a = np.reshape(x, (3, 2, 2)) * (1 + 2j) + 20 * np.eye(2)
    return np.linalg.eigvalsh(a), np.linalg.det(a), np.linalg.inv(a), np.linalg.solve(a.real, a)
