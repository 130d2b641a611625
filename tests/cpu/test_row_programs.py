"""Programs over rows: what depends on the sums of a row stays in the kernel that makes them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest

import npcompile as npc


def normal(x: np.ndarray, gain: Any = 1.5, bias: Any = 0.5) -> np.ndarray:
    centered = x - np.mean(x, axis=-1, keepdims=True)
    return centered / np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + 1e-5) * gain + bias


FUNCTIONS: dict[str, Callable[[np.ndarray], Any]] = {
    "normal": normal,
    "sum of all": lambda x: normal(x).sum(),
    "mean and largest": lambda x: (np.mean(normal(x) ** 2), normal(x).max(), normal(x)),
    "columns after rows": lambda x: normal(normal(x), 2.0).sum(axis=0),
    "rows of two axes": lambda x: (x - x.mean(axis=(0, 1), keepdims=True)).std(),
    "rows both ways": lambda x: ((x - x.mean(axis=0, keepdims=True)) * (x - x.mean(axis=-1, keepdims=True))).sum(),
    "functions of sums": lambda x: np.log(np.exp(x - x.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True)) + 1,
    "are any": lambda x: (x > x.mean(axis=-1, keepdims=True) + 2).any(),
    "constants": lambda x: np.where(x.sum(axis=-1, keepdims=True) > 0, 1.0, x.sum(axis=-1, keepdims=True)),
}


def agree(made: Any, expected: Any, tolerance: float) -> None:
    pairs = zip(made, expected, strict=True) if isinstance(expected, tuple) else [(made, expected)]
    for a, b in pairs:
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, np.max(np.abs(b), initial=0)))


def numbers(shape: tuple[int, ...], dtype: str = "f8") -> np.ndarray:
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("name, dtype", [*product(FUNCTIONS, ["f8"]), *zip(FUNCTIONS, cycle(["f4", "i4", "f2", "f4"]))])
def test_functions_of_rows(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    compiled = npc.compile(function)
    tolerance = {"f2": 2e-2, "f4": 1e-4}.get(dtype, 1e-10)
    for shape in ((40, 50), (30, 7), (2, 1)):
        x = numbers(shape, dtype)
        agree(compiled(x), function(x), tolerance)
    if dtype == "f8":
        compiled = npc.compile(function)
        for x in (np.asfortranarray(numbers((40, 50))), numbers((40, 50))[::-1, ::2], numbers((3, 20, 30)), numbers((3, 1, 30))):
            agree(compiled(x), function(x), tolerance)


def test_reductions_of_no_rows() -> None:
    compiled = npc.compile(lambda x: (x - x.sum(axis=1, keepdims=True)).sum())
    for shape in ((5, 4), (6, 3), (0, 3), (3, 0)):
        x = numbers(shape)
        agree(compiled(x), (x - x.sum(axis=1, keepdims=True)).sum(), 1e-12)


def kernels_of(function: Callable[..., Any], *arguments: Any) -> int:
    return len(npc.explain(function)(*arguments).kernels)


def test_a_row_is_read_once() -> None:
    x, y = numbers((400, 300)), numbers((400, 300))[::-1].copy()

    def loss(x: np.ndarray, y: np.ndarray) -> Any:
        return np.mean((normal(x) - y) ** 2)

    agree(npc.compile(loss)(x, y), loss(x, y), 1e-12)
    assert kernels_of(loss, x, y) == 3, "the sums of rows, that of all numbers in NumPy's order, and the mean"

    def both(x: np.ndarray, y: np.ndarray) -> Any:
        return npc.value_and_grad(loss)(x, y)

    value, gradient = npc.compile(both)(x, y)
    agree(value, loss(x, y), 1e-12)
    direction, step = np.random.default_rng(7).standard_normal((400, 300)), 1e-5
    change = (loss(x + step * direction, y) - loss(x - step * direction, y)) / (2 * step)
    np.testing.assert_allclose((gradient * direction).sum(), change, rtol=1e-6)
    assert kernels_of(both, x, y) == 3, "the gradient's rows too"
