"""Reductions over leading axes in slices, old contents kept beside new ones, and functions of rows' sums, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import npcompile as npc

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x: x.sum(axis=0),
    "expression": lambda x: (x * 2).sum(axis=0) + 1,
    "several": lambda x: (x.sum(axis=0), (x * x).sum(axis=0), x[0]),
    "two axes": lambda x: (x.reshape(*x.shape, 1) * np.ones(3, x.dtype)).sum(axis=(0, 2)),
    "largest": lambda x: x.max(axis=0),
    "smallest and sum": lambda x: (x.min(axis=0), x.sum(axis=0)),
    "are all": lambda x: (x < 30).all(axis=0),
    "product": lambda x: np.prod(np.where(x > 0, 1.0, -1.0), axis=0),
}


def agree(made: Any, expected: Any, tolerance: float) -> None:
    pairs = zip(made, expected, strict=True) if isinstance(expected, tuple) else [(made, expected)]
    for a, b in pairs:
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.max(np.abs(b), initial=0)))


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 5).astype(dtype)


@pytest.mark.parametrize("name, dtype", [*product(FUNCTIONS, ["f8"]), *zip(FUNCTIONS, cycle(["f4", "i4"]))])
def test_reductions_over_leading_axes(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    compiled = npc.compile(function)
    for shape in ((10_000, 100), (30_000, 7), (301, 701), (1, 4), (70_001, 2)):
        x = numbers(shape, dtype)
        agree(compiled(x), function(x), 3e-4 if dtype == "f4" else 1e-10)


def test_sums_of_nothing() -> None:
    compiled = npc.compile(lambda x: x.sum(axis=0))
    for rows in (5000, 4000, 0):  # compiled for the first, then for any
        x = np.ones((rows, 100))
        made, expected = compiled(x), x.sum(axis=0)
        assert made.tobytes() == expected.tobytes()  # 0.0, not the -0.0 that sums begin with


def test_what_is_not_a_number_is_seen_in_every_slice() -> None:
    x = numbers((20_000, 50), "f8")
    x[777, 3] = x[19_999, 49] = np.nan
    x[5, 7] = np.inf
    compiled = npc.compile(lambda x: (x.max(axis=0), x.sum(axis=0)))
    np.testing.assert_allclose(compiled(x)[0], x.max(axis=0))
    np.testing.assert_allclose(compiled(x)[1], x.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_old_contents_are_put_back_before_an_error_is_reported() -> None:
    def update(w: np.ndarray, x: np.ndarray) -> Any:
        total = np.sum(w * w)
        w -= (x / x[0]).sum(axis=0)
        w *= 2
        return total

    compiled = npc.compile(update)
    x = numbers((3000, 60), "f8")
    w = numbers((60,), "f8")
    for k in range(2):
        given, expected = w.copy(), w.copy()
        np.testing.assert_allclose(compiled(given, x), update(expected, x))
        np.testing.assert_allclose(given, expected)
        if k == 0:
            x = x.copy()
            x[0, 5] = 0
            given, expected = w.copy(), w.copy()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                compiled(given, x)
            with warnings.catch_warnings(record=True) as native:
                warnings.simplefilter("always")
                update(expected, x)
            assert [str(c.message) for c in caught] == [str(n.message) for n in native] != []
            np.testing.assert_allclose(given, expected)
            x[0, 5] = 1


@pytest.mark.parametrize("width", [3, 100, 700])
def test_functions_of_the_sums_of_rows(width: int) -> None:
    def function(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> Any:
        z = x @ w + 0.5
        loss = np.logaddexp(0, z) - y * z
        weights = np.exp(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))
        return loss.mean(), np.exp(z - 30), weights

    x, w, y = numbers((400, width), "f8") / 10, numbers((width,), "f8") / 10, numbers((400,), "f8")
    agree(npc.compile(function)(x, w, y), function(x, w, y), 1e-12)
