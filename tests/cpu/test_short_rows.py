"""Reductions of many short rows: in registers, many rows side by side, and what is made of their results in the same loop."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc


def reductions(x):
    return x.sum(axis=-1), (x * x).mean(axis=-1), x.prod(axis=-1), x.max(axis=-1), (x > 0).any(axis=-1)


@pytest.mark.parametrize("count", [3, 8, 13, 16, 31, 32])
def test_sums_are_added_in_the_order_of_numpy(count) -> None:
    x = np.random.default_rng(count).standard_normal((100, count))
    x[3], x[4, 1], x[5, 2] = -0.0, np.nan, np.inf
    for data in (x, x.astype(np.float32)):
        for expected, got in zip(reductions(data), npc.compile(reductions, dynamic=False)(data)):
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def distances(x, y):
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1))


def column_norms(x):
    return np.sqrt((x * x).sum(axis=0)) + 1, x.max(axis=0)


@pytest.mark.parametrize("function, shapes", [(distances, ((70, 8), (80, 8))), (column_norms, ((500, 300),))])
def test_functions_of_the_results_are_in_the_same_kernel(function, shapes) -> None:
    data = [np.random.default_rng(k).standard_normal(shape) for k, shape in enumerate(shapes)]
    assert len(npc.explain(function)(*data).kernels) == 1
    expected, got = function(*data), npc.compile(function)(*data)
    for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
        np.testing.assert_allclose(g, e, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
@pytest.mark.parametrize("count", [2, 8, 9, 17])
def test_places_of_extremes(count, dtype) -> None:
    """The first of equal ones, and of those that are not a number."""

    def places(x):
        return x.argmin(axis=1), x.argmax(axis=1) * 2, np.where(x.argmax(axis=1) == 1, 1.5, x[:, 0])

    rng = np.random.default_rng(count)
    x = rng.integers(0, 4, (200, count)).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[rng.random(x.shape) < 0.2] = np.inf
        x[:4] = [[np.inf], [-np.inf], [np.nan], [-0.0]]
        x[3, 1] = 0.0
    for expected, got in zip(places(x), npc.compile(places)(x)):
        assert expected.dtype == got.dtype
        np.testing.assert_array_equal(got, expected)
