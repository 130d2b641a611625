"""logaddexp.reduce, and quantiles at places that are arguments: values as NumPy has them, and derivatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.gradients.harness import differences

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5, 3))
LINES = [
    [0.3, -1.0, 2.0],
    [0.0, -40.0],
    [-np.inf, -np.inf],
    [np.inf, 1.0, -np.inf],
    [np.nan, 1.0],
    [1e300, 1e300],
    [1e308, -1e308],
    [],
    [3.0],
    [1, 2, 3],
]
REDUCTIONS = pytest.mark.parametrize("reduction", [np.logaddexp.reduce, np.logaddexp2.reduce], ids=["e", "2"])


def with_warnings(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in found]


@REDUCTIONS
@pytest.mark.parametrize("line", LINES, ids=str)
def test_values_and_warnings(reduction: Callable[..., Any], line: list[float]) -> None:
    x = np.array(line)
    expected, wanted = with_warnings(lambda: reduction(x))
    result, found = with_warnings(lambda: npc.compile(lambda x: reduction(x), fullgraph=True)(x))
    assert type(result) is type(expected) and found == wanted
    np.testing.assert_allclose(result, expected, rtol=1e-15)


@REDUCTIONS
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_axes_and_dtypes(reduction: Callable[..., Any], dtype: str) -> None:
    x = X.astype(dtype)
    for given in (
        {},
        {"axis": 1},
        {"axis": (0, 2)},
        {"axis": None},
        {"axis": -1, "keepdims": True},
        {"where": X > 0, "initial": 0.5},
    ):
        expected = reduction(x, **given)
        found = npc.compile(lambda x, given=given: reduction(x, **given))(x)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=16 * float(np.finfo(dtype).eps))


@REDUCTIONS
def test_derivatives(reduction: Callable[..., Any]) -> None:
    def loss(x: Any) -> Any:
        return np.sum(reduction(x, axis=1) ** 2)

    np.testing.assert_allclose(npc.grad(loss)(X), differences(loss, (X,), 0), rtol=1e-7, atol=1e-9)


def test_second_derivatives_where_elements_are_equal() -> None:
    x = np.array([1.0, 1.0, 0.0])
    p = np.exp(x) / np.sum(np.exp(x))
    np.testing.assert_allclose(npc.grad(lambda x: np.logaddexp.reduce(x))(x), p, rtol=1e-14)
    np.testing.assert_allclose(npc.hessian(lambda x: np.logaddexp.reduce(x))(x), np.diag(p) - np.outer(p, p), rtol=1e-13)


@pytest.mark.parametrize("q", [0.3, np.float64(0.7), np.array([0.1, 0.5, 1.0, 0.0]), np.array([[0.15, 0.99]])], ids=str)
@pytest.mark.parametrize("given", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}], ids=str)
def test_quantiles_at_places_that_are_arguments(given: dict[str, Any], q: Any) -> None:
    def by_quantile(x: Any, q: Any) -> Any:
        return np.sum(np.cos(np.quantile(x, q, **given)))

    def by_percentile(x: Any, q: Any) -> Any:
        return np.sum(np.cos(np.percentile(x, q * 100, **given)))

    x = X[0]
    for function in (by_quantile, by_percentile):
        value, (of_x, of_q) = npc.value_and_grad(function, (0, 1))(x, q)
        np.testing.assert_allclose(value, function(x, q), rtol=1e-14)
        np.testing.assert_allclose(of_x, differences(function, (x, q), 0), rtol=1e-7, atol=1e-9)
        if np.ndim(q) == 0:
            np.testing.assert_allclose(of_q, differences(function, (x, np.asarray(q)), 1), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("q", [1.5, np.array([0.2, -1.0])], ids=str)
def test_places_outside_of_0_and_1(q: Any) -> None:
    for transform in (npc.grad, npc.compile):
        with pytest.raises(ValueError, match="Quantiles must be in the range"):
            transform(lambda x, q: np.sum(np.quantile(x, q)))(X[0], q)


def test_quantiles_of_nan() -> None:
    value, gradient = npc.value_and_grad(lambda x, q: np.quantile(x, q))(np.array([1.0, np.nan, 2.0]), 0.3)
    assert np.isnan(value) and gradient.tolist() == [0.0, 1.0, 0.0]
