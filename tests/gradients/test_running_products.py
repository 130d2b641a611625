"""Derivatives of every order of products with zeros: they are polynomials, so all of them are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc

LINES = [
    [0.0, 2.0, 0.0, 3.0, 0.0],
    [0.0, 0.0, 0.0, 0.0],
    [2.0, 0.0, 0.0, 0.0, -1.5, 0.0],
    [1.5, -2.0, 3.0],
    [0.0],
    [-1.0, 0.0, 2.0, 0.5, 0.0, 0.0, 1.0, 3.0, 0.0],
]


def weighted(x: Any) -> Any:
    return np.sum(np.cumprod(x) * np.arange(1.0, 1 + len(x)))


def derivative(x: np.ndarray, places: tuple[int, ...], whole: bool) -> float:
    """Of `weighted` (or np.prod) by the elements at `places`: products are of first degree in each element."""
    if len(set(places)) < len(places):
        return 0.0
    lengths = [len(x)] if whole else range(1, len(x) + 1)
    return sum(
        (1.0 if whole else n) * float(np.prod([v for k, v in enumerate(x[:n]) if k not in places]))
        for n in lengths
        if max(places) < n
    )


@pytest.mark.parametrize("how", ["reverse", "Tensors"])
@pytest.mark.parametrize("function", [weighted, np.prod])
@pytest.mark.parametrize("line", LINES, ids=str)
def test_third_derivatives(line: list[float], function: Callable[..., Any], how: str) -> None:
    x = np.array(line)
    expected = np.array([[[derivative(x, (i, j, k), function is np.prod) for k in range(len(x))] for j in range(len(x))]
                         for i in range(len(x))])  # fmt: skip
    if how == "reverse":
        found = npc.jacobian(npc.hessian(function))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        return
    for i in range(len(x)):
        for j in range(len(x)):
            t = npc.tensor(x, requires_grad=True)
            function(t).backward(create_graph=True)
            first, t.grad = t.grad, None
            first[i].backward(create_graph=True)
            second, t.grad = t.grad, None
            second[j].backward()
            np.testing.assert_allclose(t.grad.numpy(), expected[i, j], rtol=1e-13, atol=1e-13)


def test_along_an_axis_in_a_batch_and_in_a_loop() -> None:
    x = np.array([[0.0, 2.0, 0.0, 3.0, 0.0], [1.0, 0.0, 0.0, 0.0, 2.0], [1.0, 2.0, 0.0, 0.0, 0.0]])
    third = npc.jacobian(npc.hessian(weighted))
    expected = np.stack([third(row) for row in x])
    np.testing.assert_allclose(npc.vmap(third)(x), expected, rtol=1e-13, atol=1e-13)

    def by_rows(rows: Any) -> Any:
        return npc.scan(lambda total, row: (total + weighted(row), None), 0.0, rows)[0]

    weights = np.arange(1.0, 6.0)
    for function in (by_rows, lambda rows: np.sum(np.cumprod(rows.T, axis=0) * weights[:, None])):
        whole = npc.jacobian(npc.hessian(function))(x)
        for k in range(3):
            np.testing.assert_allclose(whole[k, :, k, :, k, :], expected[k], rtol=1e-13, atol=1e-13)


def test_a_second_size_compiles_for_sizes_like_it() -> None:
    compiled = npc.compile(lambda x: npc.hessian(weighted)(x))
    for n in (5, 6, 7, 8):
        x = np.arange(float(n)) % 3
        expected = [[derivative(x, (i, j), False) for j in range(n)] for i in range(n)]
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-13, atol=1e-13)
