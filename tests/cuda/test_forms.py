"""Every form of kernel on a device, at the sizes at which it is chosen, against NumPy; twice, to the same bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.backends.eager import compile_eager
from npcompile.tensor_core.op import OPS
from tests.backends import gpu
from tests.cuda import corpus
from tests.cuda.test_scatters import MODES, graph_of, numbers

from npcompile.backends.cuda.backend import compile_cuda  # isort: skip  # after the interpreter is chosen

pytestmark = gpu


def inputs_of(graph: Any, seed: int) -> list[np.ndarray]:
    """Small whole numbers, whose sums are exact in any order; indices are inside of every axis."""
    rng = np.random.default_rng(seed)
    return [few_ones(rng, x.shape) if x.dtype == np.float16 else whole_numbers(rng, x.shape, x.dtype) for x in graph.inputs]


def whole_numbers(rng: np.random.Generator, shape: Any, dtype: np.dtype) -> np.ndarray:
    return rng.integers(0, 2 if dtype.kind == "b" else 5, shape).astype(dtype)


def few_ones(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """NumPy's sums of float16 stop at 2048 where they go through memory row by row."""
    x = np.zeros(shape, np.float16)
    x.reshape(-1)[rng.integers(0, x.size, 1000)] = 1
    return x


@pytest.mark.parametrize("number", range(len(corpus.forms())))
def test_forms(number: int) -> None:
    graph = corpus.forms()[number]
    arrays = inputs_of(graph, number)
    run = compile_cuda(graph)
    got, again = run(*arrays), run(*arrays)
    with np.errstate(all="ignore"):
        expected = compile_eager(graph, [])(*arrays)
    for a, b, c in zip(got, again, expected, strict=True):
        assert a.dtype == c.dtype and a.shape == c.shape
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind in "fc":
            np.testing.assert_allclose(a, c, rtol=2e-3 if a.dtype == np.float16 else 2e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("count", [40, 100_000])
@pytest.mark.parametrize(("mode", "dtype"), MODES)
def test_scatters(mode: str, dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    x, value, i = numbers(rng, dtype, 999), numbers(rng, dtype, count), rng.integers(-999, 999, count)
    run = compile_cuda(graph_of(mode, x, value, i))
    (got,), (again,) = run(x, value, i), run(x, value, i)
    with np.errstate(all="ignore"):
        expected = OPS["scatter"].eager(x, value, i, mode=mode)
    np.testing.assert_array_equal(got, again)
    if expected.dtype.kind in "fc" and mode in ("add", "subtract", "multiply"):
        # In parts, so in another order than NumPy's.
        np.testing.assert_allclose(got, expected, rtol=0.3 if dtype == "e" else 1e-3 if dtype in "fF" else 1e-10)
    else:
        np.testing.assert_array_equal(got, expected)


def test_sums_are_as_good_as_numpys() -> None:
    x = np.random.default_rng(0).standard_normal((4096, 4096)).astype(np.float32)
    exact = x.sum(dtype=np.longdouble)
    graph = corpus.reductions(x.shape, "f")
    columns, rows, (whole,) = (np.atleast_1d(np.asarray(a)) for a in compile_cuda(graph)(x))
    assert abs(whole - exact) <= max(abs(x.sum() - exact), np.spacing(np.float32(exact)))
    for got, axis in ((columns, 0), (rows, 1)):
        sums = x.sum(axis, dtype=np.longdouble)
        assert np.abs(got - sums).mean() <= 1.05 * np.abs(x.sum(axis) - sums).mean()
