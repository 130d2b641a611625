"""vmap, jvp and their compositions with grad, through the tracer, on programs as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 3))
PLACES = RNG.integers(-3, 3, (5, 4))
W = RNG.normal(size=(3, 2))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def written_in_place(x: Any) -> Any:
    y = x.copy()
    y[1:3] *= 2
    y[::-1, 0] = y[0, ::1].sum()
    y[y > 1] = 0
    return y


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "softmax": softmax,
    "matmul": lambda x: x @ W,
    "gram": lambda x: x.T @ x,
    "trace": lambda x: np.trace(x @ x.T),
    "outer": lambda x: np.outer(x[0], x[1]),
    "kron": lambda x: np.kron(x, W),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "var": lambda x: x.var(0),
    "cov": lambda x: np.cov(x),
    "norm": lambda x: np.linalg.norm(x),
    "inv": lambda x: np.linalg.inv(x[:3]),
    "det": lambda x: np.linalg.det(x[:3]),
    "solve": lambda x: np.linalg.solve(x[:3], np.ones(3)),
    "qr": lambda x: np.linalg.qr(x)[1],
    "svd": lambda x: np.linalg.svd(x, full_matrices=False)[1],
    "eigvalsh": lambda x: np.linalg.eigvalsh(x.T @ x),
    "fft": lambda x: np.abs(np.fft.fft(x)),
    "irfft": lambda x: np.fft.irfft(x, axis=0),
    "median": lambda x: np.median(x, 0),
    "sort": lambda x: np.sort(x, 0),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x, 1),
    "diff": lambda x: np.diff(x, axis=0),
    "convolve": lambda x: np.convolve(x[0], x[1]),
    "pad": lambda x: np.pad(x, 1),
    "roll": lambda x: np.roll(x, 1, 1),
    "reversed": lambda x: x[::-1, ::-2],
    "diagonal": lambda x: np.diagonal(x),
    "fortran": lambda x: x.reshape(6, 2, order="F"),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0).prod(-1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.argsort(x, 0), 0),
    "where": lambda x: np.where(x > 0, x, -x),
    "in_place": written_in_place,
    "element": lambda x: x[0, 0],
    "constant": lambda x: np.ones(3),
}
STEPS: dict[str, Callable[[Any], Any]] = {
    "argsort": lambda x: np.argsort(x, axis=None),
    "argmax": lambda x: x.argmax(),
    "lexsort": lambda x: np.lexsort((x[0], x[1])),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1]),
    "any": lambda x: (x > 1).any(0),
    "count": lambda x: np.count_nonzero(x > 0),
    "float32": lambda x: x.astype(np.float32),
}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", [*SMOOTH, *STEPS])
def test_vmap(name: str, axis: int) -> None:
    function = (SMOOTH | STEPS)[name]
    x = np.moveaxis(X, 0, axis).copy()
    same(npc.vmap(function, in_axes=axis)(x), np.stack([function(each) for each in X]))


def set_rows(x: Any, places: Any) -> Any:
    y = np.zeros((6, 3))
    y[places] = x
    return y


def add_rows(x: Any, places: Any) -> Any:
    y = np.zeros((6, 3))
    np.add.at(y, places, x)
    return y


INDEXED: dict[str, Callable[[Any, Any], Any]] = {
    "gather": lambda x, i: x[i],
    "gather_elements": lambda x, i: x[i, np.abs(i) % 3],
    "take": lambda x, i: np.take(x, i, axis=1),
    "set": set_rows,
    "add_at": add_rows,
}


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("name", INDEXED)
def test_vmap_of_indices(name: str, axes: tuple[int | None, int | None]) -> None:
    function = INDEXED[name]
    arguments = [array if axis == 0 else array[0] for array, axis in zip((X, PLACES), axes)]
    examples = [[array[k] if axis == 0 else array for array, axis in zip(arguments, axes)] for k in range(len(X))]
    same(npc.vmap(function, in_axes=axes)(*arguments), np.stack([function(*each) for each in examples]))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_batches(name: str) -> None:
    """jvp against differences; then batches of directions, and of gradients."""
    function, x, t, step = SMOOTH[name], X[0], X[1], 1e-6
    value, along = npc.jvp(function, (x,), (t,))
    same(value, function(x))
    slope = (np.asarray(function(x + step * t)) - function(x - step * t)) / (2 * step)
    np.testing.assert_allclose(along, slope, rtol=1e-5, atol=1e-6)
    directions = np.stack([t, 2 * t, -t])
    of_each = npc.vmap(lambda d: npc.jvp(function, (x,), (d,))[1])(directions)
    np.testing.assert_allclose(of_each, np.stack([along, 2 * along, -along]), rtol=1e-8, atol=1e-10)

    gradient = npc.grad(lambda a: np.sum(function(a) ** 2))
    np.testing.assert_allclose(npc.vmap(gradient)(X[:2]), np.stack([gradient(each) for each in X[:2]]), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax", "searchsorted", "in_place", "inv"])
def test_vmap_over_other_sizes(name: str) -> None:
    function = (SMOOTH | STEPS)[name]
    batched = npc.vmap(function)
    for count in (5, 4, 3, 0, 1):
        result, expected = batched(X[:count]), np.array([function(each) for each in X[:count]])
        same(result, expected.astype(result.dtype).reshape(count, *result.shape[1:]) if not count else expected)


def test_errors_that_only_data_show() -> None:
    matrices = np.array([np.eye(2), -np.eye(2)])
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3"):
            npc.vmap(lambda x, i: x[i], in_axes=(None, 0))(np.zeros(3), np.array([1, 7]))
        with pytest.raises(IndexError, match="index 7"):
            npc.grad(lambda x, i: np.sum(x[i]))(np.zeros(3), np.array([1, 7]))
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            npc.vmap(np.linalg.cholesky)(matrices)
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            npc.jvp(np.linalg.inv, (np.zeros((2, 2)),), (np.ones((2, 2)),))
    inverse = npc.vmap(np.linalg.inv)
    with pytest.raises(np.linalg.LinAlgError):
        inverse(0 * matrices)
    same(inverse(matrices), matrices)  # the program stays


def same(result: Any, expected: np.ndarray) -> None:
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
