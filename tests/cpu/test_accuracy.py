"""Functions of real numbers, compiled: units in the last place against NumPy, special values, and position in an array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.registry import FloatingPointSignal
from npcompile.tensor_core import Builder, TensorMeta

UNARY = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10 log1p cbrt".split()
BINARY = "power arctan2 hypot remainder floor_divide fmod".split()
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e30, -1e30, 1e-40)


def compiled(names: list[str], *xs: np.ndarray) -> list[np.ndarray]:
    builder = Builder()
    inputs = [builder.input(TensorMeta(x.shape, x.dtype)) for x in xs]
    graph = builder.finish([builder.apply(name, *inputs) for name in names])
    return list(compile_cpu(replace(graph, checks=frozenset()))(*xs))


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In units of the last place of `b`. Differences in NaN, infinity and sign count as infinite."""
    same = (a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)
    units = np.abs(a.astype(np.longdouble) - b) / np.spacing(np.abs(b))
    differs = (np.isnan(a) != np.isnan(b)) | (np.isinf(a) != np.isinf(b)) | (np.signbit(a) != np.signbit(b))
    return np.where(same, 0, np.where(differs, np.inf, units))


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_within_four_units_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 3000), rng.uniform(-90, 90, 3000), SPECIAL * 3]).astype(dtype)
    for name, result in zip(UNARY, compiled(UNARY, x)):
        worst = distance(result, getattr(np, name)(x))
        assert worst.max() <= 4, (name, x[worst.argmax()], result[worst.argmax()])


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_operands(dtype: str) -> None:
    rng = np.random.default_rng(1)
    grid = np.meshgrid(SPECIAL, SPECIAL)
    x, y = (np.concatenate([rng.uniform(-9, 9, 2000), g.ravel()]).astype(dtype) for g in grid)
    for name, result in zip(BINARY, compiled(BINARY, x, y)):
        worst = distance(result, getattr(np, name)(x, y))
        assert worst.max() <= 4, (name, x[worst.argmax()], y[worst.argmax()], result[worst.argmax()])


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_logarithms_of_sums(dtype: str) -> None:
    rng = np.random.default_rng(2)
    grid = np.meshgrid(SPECIAL, SPECIAL)
    x, y = (np.concatenate([rng.uniform(-9, 9, 2000), g.ravel()]).astype(dtype) for g in grid)
    for name, result in zip(names := ["logaddexp", "logaddexp2"], compiled(names, x, y)):
        expected = getattr(np, name)(x, y)
        np.testing.assert_array_equal(result[~np.isfinite(expected)], expected[~np.isfinite(expected)], strict=True)
        unit = np.spacing(np.max(np.abs([x, y, expected]), axis=0))  # the two terms of the result may cancel
        is_near = (result == expected) | (np.abs(result - expected) <= 2 * unit)
        assert np.all(is_near[np.isfinite(expected)]), name


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_equal_numbers_have_equal_results_at_every_position(dtype: str) -> None:
    for seed in range(3):
        x = np.full(37, np.random.default_rng(seed).uniform(0.1, 0.9), dtype)
        for name, result in zip(UNARY[:-9], compiled(UNARY[:-9], x)):
            assert (result == result[0]).all() or np.isnan(result).all(), (name, x[0])


@pytest.mark.parametrize("length", [1, 9, 1000, 40_000])
@pytest.mark.parametrize("place", [0, -1])
def test_nan_stays_in_extremes(length: int, place: int) -> None:
    x = np.linspace(-1, 1, length)
    x[place] = np.nan
    builder = Builder()
    node = builder.input(TensorMeta(x.shape, x.dtype))
    results = [builder.apply("reduce", node, reducer=r, axes=(0,)) for r in ("maximum", "minimum", "add")]
    graph = replace(builder.finish([*results, builder.apply("arg_reduce", node, which="max", axis=0)]), checks=frozenset())
    *numbers, position = compile_cpu(graph)(x)
    assert np.isnan(numbers).all() and position == np.argmax(x)


@pytest.mark.parametrize(
    "name, bad", [("log", -1.0), ("sqrt", -1.0), ("arcsin", 2.0), ("exp", 1e9), ("sin", np.inf), ("reciprocal", 0.0)]
)
def test_errors_are_reported(name: str, bad: float) -> None:
    x = np.full(19, 0.25)
    builder = Builder()
    run = compile_cpu(builder.finish([builder.apply(name, builder.input(TensorMeta(x.shape, x.dtype)))]))
    run(x)
    x[3] = bad
    with pytest.raises(FloatingPointSignal):
        run(x)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(x)[0][3], getattr(np, name)(x)[3])


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_errors_in_what_a_choice_drops_are_reported(dtype: str) -> None:
    for n in (5, 1000):  # alone, and in vectors
        x = np.full(n, -1, dtype)
        builder = Builder()
        given = builder.input(TensorMeta(x.shape, x.dtype))
        zero = builder.apply("broadcast_to", builder.constant(0, x.dtype), shape=x.shape)
        positive = builder.apply("greater", given, zero)
        chosen = builder.apply("where", positive, builder.apply("log", given), zero)
        graph = replace(builder.finish([chosen]), checks=frozenset({"invalid"}))
        with pytest.raises(FloatingPointSignal):
            compile_cpu(graph)(x)
