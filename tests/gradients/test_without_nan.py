"""Gradients of the functions that leave NaN out: those of the same function of the numbers alone, and 0 to what is NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

Function = Callable[..., Any]
NAN = np.nan
X = np.array([[3.0, NAN, 1.0, 4.5, NAN], [2.5, 7.0, -1.0, NAN, 0.5], [NAN, 9.0, NAN, NAN, NAN]])
# The function, and the one of numbers alone.
PAIRS: dict[str, tuple[Function, Function]] = {
    "nansum": (np.nansum, np.sum),
    "nanprod": (np.nanprod, np.prod),
    "nanmean": (np.nanmean, np.mean),
    "nanmax": (np.nanmax, np.max),
    "nanmin": (np.nanmin, np.min),
    "nanvar": (np.nanvar, np.var),
    "nanstd": (np.nanstd, np.std),
    "nanmedian": (np.nanmedian, np.median),
    "nanquantile": (lambda x, **k: np.nanquantile(x, 0.3, **k), lambda x: np.quantile(x, 0.3)),
    "nanquantile of several": (
        lambda x, **k: np.nanquantile(x, [0.1, 0.75], **k).sum(),
        lambda x: np.quantile(x, [0.1, 0.75]).sum(),
    ),
    "nanpercentile": (lambda x, **k: np.nanpercentile(x, 60, **k), lambda x: np.percentile(x, 60)),
}


def of_numbers(plain: Function, x: np.ndarray) -> np.ndarray:
    """The gradient by differences of the function of the elements that are numbers."""
    places, made = np.flatnonzero(~np.isnan(x)), np.zeros(x.size)
    values, step = x.ravel()[places], 1e-6
    for k, place in enumerate(places):
        move = np.where(np.arange(places.size) == k, step, 0.0)
        made[place] = (plain(values + move) - plain(values - move)) / (2 * step)
    return made.reshape(x.shape)


def of_tensors(f: Function, x: np.ndarray) -> np.ndarray:
    t = npc.tensor(x, requires_grad=True)
    npc.wrap_numpy(f)(t).backward()
    return t.grad.numpy()


@pytest.mark.parametrize("name", PAIRS)
def test_gradients(name: str) -> None:
    function, plain = PAIRS[name]
    wanted = of_numbers(plain, X)
    value, found = npc.value_and_grad(function)(X)
    assert value == function(X)
    for gradient in (found, of_tensors(function, X)):
        np.testing.assert_allclose(gradient, wanted, atol=1e-7)
    single = npc.grad(function)(X.astype("f4"))
    assert single.dtype == "f4"
    np.testing.assert_allclose(single, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in PAIRS if "several" not in name])
def test_along_an_axis(name: str) -> None:
    function, plain = PAIRS[name]
    weights = np.array([1.0, 2.0, 3.0])
    wanted = np.stack([w * of_numbers(plain, row) for w, row in zip(weights, X)])
    for axis, x in ((1, X), (0, X.T), (-1, X), ((1, 2), X[:, :, None])):
        found = npc.grad(lambda x, axis=axis: function(x, axis=axis) @ weights)(x)
        np.testing.assert_allclose(found.reshape(x.shape), (wanted.T if axis == 0 else wanted).reshape(x.shape), atol=1e-7)
    kept = npc.grad(lambda x: np.sum(function(x, axis=1, keepdims=True) * weights[:, None]))(X)
    np.testing.assert_allclose(kept, wanted, atol=1e-7)


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmedian", "nanquantile"])
def test_further_derivatives(name: str) -> None:
    function, _ = PAIRS[name]
    x, step = X[1], 1e-5
    places = np.flatnonzero(~np.isnan(x))
    hessian = npc.hessian(function)(x)
    gradient = npc.grad(function)
    moves = np.eye(x.size) * step
    columns = [(gradient(x + move) - gradient(x - move)) / (2 * step) for move in moves]
    wanted = np.stack(columns, axis=1)
    wanted[~np.isin(np.arange(x.size), places)] = 0
    np.testing.assert_allclose(hessian, wanted, atol=1e-7)
    np.testing.assert_allclose(npc.jvp(function, (x,), (np.ones(x.size),))[1], gradient(x).sum(), atol=1e-12)


@pytest.mark.parametrize("name", ["nanvar", "nanstd", "nanmedian", "nanquantile"])
def test_a_row_without_numbers_warns_and_is_nan(name: str) -> None:
    function, _ = PAIRS[name]
    x = np.array([[NAN, NAN], [1.0, 3.0]])
    with pytest.warns(RuntimeWarning):
        value, found = npc.value_and_grad(lambda x: np.nansum(function(x, axis=1)))(x)
    with pytest.warns(RuntimeWarning):
        assert value == np.nansum(function(x, axis=1))
    np.testing.assert_array_equal(found[1], npc.grad(function)(x[1]))


def test_degrees_of_freedom() -> None:
    x = X[1]
    np.testing.assert_allclose(npc.grad(lambda x: np.nanvar(x, ddof=1))(x), of_numbers(lambda v: np.var(v, ddof=1), x), atol=1e-7)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(npc.value_and_grad(lambda x: np.nanvar(x, ddof=5))(x)[0])


def test_the_deviation_of_equal_numbers_has_gradient_zero() -> None:
    np.testing.assert_array_equal(npc.grad(np.nanstd)(np.array([2.0, NAN, 2.0])), np.zeros(3))
