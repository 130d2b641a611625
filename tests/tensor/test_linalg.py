"""Tensors through linear algebra, Fourier transforms and order statistics: values, named tuples and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "inv": lambda x: np.linalg.inv(x).sum(),
    "det": lambda x: np.linalg.det(x),
    "logabsdet": lambda x: np.linalg.slogdet(x).logabsdet,
    "slogdet": lambda x: np.linalg.slogdet(x)[1],
    "solve": lambda x: np.linalg.solve(x, x[0]).sum(),
    "svd": lambda x: np.linalg.svd(x).S[0],
    "eigh": lambda x: np.linalg.eigh(x + x.T)[0][0],
    "qr": lambda x: np.linalg.qr(x).R[0, 1],
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(4))[1, 0],
    "norm": lambda x: np.linalg.norm(x, 2),
    "pinv": lambda x: np.linalg.pinv(x[:, :2])[0, 1],
    "matrix_power": lambda x: np.linalg.matrix_power(x, 3)[0, 1],
    "fft": lambda x: np.abs(np.fft.fft(x)).sum(),
    "fftn": lambda x: np.square(np.abs(np.fft.fftn(x) + 1)).sum(),
    "filtered": lambda x: np.square(np.fft.irfft(np.fft.rfft(x, axis=0)[:2], 4, axis=0)).sum(),
    "sort": lambda x: (np.sort(x, axis=0)[0] * x[1]).sum(),
    "median": lambda x: np.median(x),
    "medians": lambda x: (np.median(x, axis=0) * x[0]).sum(),
}


def differences(function: Callable[[np.ndarray], Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        found[index] = (function(x + shift) - function(x - shift)) / (2 * step)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    function = FUNCTIONS[name]
    x = np.random.default_rng(7).normal(size=(4, 4))
    expected = differences(function, x)
    t = npc.tensor(x, requires_grad=True)
    result = function(t)
    np.testing.assert_allclose(result.item(), function(x), rtol=1e-12)
    result.backward()
    np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(npc.grad(function)(x), expected, rtol=1e-5, atol=1e-7)


def test_named_tuples_of_tensors() -> None:
    t = npc.tensor(np.eye(3) * 2, requires_grad=True)
    result = np.linalg.eigh(t)
    assert type(result) is type(np.linalg.eigh(np.eye(3)))
    assert all(isinstance(part, npc.Tensor) and part.requires_grad for part in result)


def test_sort_in_place() -> None:
    x = np.array([3.0, 1.0, 2.0])
    t = npc.tensor(x, requires_grad=True)
    y = t * 1
    y.sort()
    (y * np.array([1.0, 10.0, 100.0])).sum().backward()
    np.testing.assert_array_equal(t.grad.numpy(), [100.0, 1.0, 10.0])


def test_singular_matrix() -> None:
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(npc.tensor(np.zeros((2, 2)), requires_grad=True))
