"""Reductions, means and running totals as functions and methods, with every keyword, against NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS
from npcompile.tensor_core import Array, Builder, Decline, Storage, TensorMeta
from npcompile.tensor_core.graph import evaluate
from npcompile.tracer.guard_text import text_of
from tests.ops.table import LAYOUTS, numbers
from tests.shim.harness import Capture, check

REDUCTIONS = (np.sum, np.prod, np.max, np.min, np.any, np.all, np.ptp, np.count_nonzero)
METHOD_REDUCTIONS = ("sum", "prod", "max", "min", "any", "all")
MEANS = (np.mean, np.var, np.std)
POSITIONS = (np.argmax, np.argmin)
RUNNING = (np.cumsum, np.cumprod)
DTYPES = "?bBhHiIlLefdFD"
NO_DTYPE = {np.max, np.min, np.any, np.all, np.ptp, np.count_nonzero, "max", "min", "any", "all"}
NO_INITIAL = {np.any, np.all, np.ptp, np.count_nonzero, "any", "all", *MEANS, "mean", "var", "std"}
NO_WHERE = {np.ptp, np.count_nonzero}


def label(function: Any) -> str:
    return function if isinstance(function, str) else f"np.{function.__name__}"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is compared here are values; floating-point errors have tests of their own."""
    with np.errstate(all="ignore"):
        yield


def whole(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers: their sums are exact, in any order."""
    return rng.integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [*REDUCTIONS, *METHOD_REDUCTIONS, *POSITIONS, "argmax", "argmin"], ids=label)
def test_every_layout_and_axis(function: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    axes: list[Any] = [None, 0, 1, -1] + ([] if function in (*POSITIONS, "argmax", "argmin") else [(0, 2), (), (2, 0, 1)])
    for layout in LAYOUTS.values():
        x = layout(whole(rng, dtype, (2, 3, 4)))
        for axis in axes:
            check(function, x, axis=axis, must_capture=False)
            check(function, x, axis=axis, keepdims=True, must_capture=False)
    x = whole(rng, dtype, (2, 3, 4))
    refused = function in (np.ptp,) and dtype == "?"
    assert check(function, x, must_capture=not refused) or refused
    assert check(function, x, 1, must_capture=not refused) or refused
    assert check(function, x[0, 0, 0], must_capture=not refused) or refused


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function", [np.max, np.min, np.argmax, np.argmin, np.any, np.all, np.count_nonzero, np.cumsum, np.cumprod]
)
def test_special_numbers(function: Any, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for layout in LAYOUTS.values():
        x = layout(numbers(np.dtype(dtype), rng))
        check(function, x, must_capture=False)
        check(function, x, axis=-1, must_capture=False)


def random_array(draw: random.Random, rng: np.random.Generator) -> np.ndarray:
    x = whole(rng, draw.choice(DTYPES), draw.choice(((), (1,), (5,), (2, 3), (3, 1), (2, 3, 4), (0, 3), (3, 0))))
    if x.ndim and draw.random() < 0.3:
        x = x[(slice(None, None, draw.choice((1, -1, 2))),) * x.ndim]
    return x.transpose(draw.sample(range(x.ndim), x.ndim)) if draw.random() < 0.4 else x


def random_keywords(function: Any, draw: random.Random, rng: np.random.Generator, x: np.ndarray) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    no_value = [np._NoValue] if callable(function) and function is not np.count_nonzero else []  # methods do not know it
    if draw.random() < 0.7:
        axes = tuple(draw.sample(range(x.ndim), draw.randint(0, x.ndim)))
        keywords["axis"] = draw.choice([None, axes, axes[0] if axes else 0, -1, 1, 5, "x"])
    if draw.random() < 0.4:
        keywords["keepdims"] = draw.choice([True, False, *no_value])
    if draw.random() < 0.3 and function not in NO_DTYPE:
        keywords["dtype"] = draw.choice([None, "f", "d", "l", "b", bool, complex, float])
    if draw.random() < 0.2 and function not in NO_INITIAL:
        keywords["initial"] = draw.choice([0, 1, 2, -3, 1.5, np._NoValue, np.float32(2), 300, None])
    if draw.random() < 0.2 and function not in NO_WHERE:
        keywords["where"] = draw.choice([True, rng.random(x.shape) < 0.7, *no_value])
    if draw.random() < 0.3 and function is not np.count_nonzero:
        keepdims = keywords.get("keepdims") is True
        try:
            shape = np.add.reduce(x, axis=keywords.get("axis"), keepdims=keepdims).shape
        except (TypeError, ValueError):
            shape = ()
        keywords["out"] = draw.choice([np.zeros(shape, draw.choice("?bilfdD")), np.zeros(shape), np.zeros((2,)), None])
    return keywords


@pytest.mark.parametrize("function", [*REDUCTIONS, *METHOD_REDUCTIONS, *MEANS, "mean", "var", "std"], ids=label)
def test_keywords(function: Any) -> None:
    draw, rng = random.Random(label(function)), np.random.default_rng(3)
    captured = 0
    for _ in range(300):
        x = random_array(draw, rng)
        keywords = random_keywords(function, draw, rng, x)
        if function in (np.var, np.std, "var", "std") and draw.random() < 0.4:
            keywords[draw.choice(["ddof", "correction"] if callable(function) else ["ddof"])] = draw.choice([0, 1, 0.5, 2, 100])
        captured += check(
            function, x, must_capture=False, ulp=16 if function in (*MEANS, "mean", "var", "std") else 4, **keywords
        )
    assert captured > 100, captured


@pytest.mark.parametrize("function", [*POSITIONS, *RUNNING, "argmax", "argmin", "cumsum", "cumprod"], ids=label)
def test_keywords_along_one_axis(function: Any) -> None:
    draw, rng = random.Random(label(function)), np.random.default_rng(4)
    captured = 0
    for _ in range(250):
        x = random_array(draw, rng)
        keywords: dict[str, Any] = {}
        if draw.random() < 0.7:
            keywords["axis"] = draw.choice([None, 0, -1, 1, 5, (0,), "x"])
        running = "cum" in label(function)
        if draw.random() < 0.3 and running:
            keywords["dtype"] = draw.choice([None, "f", "d", "l", "b", bool, complex])
        if draw.random() < 0.3 and not running:
            keywords["keepdims"] = draw.choice([True, False])
        if draw.random() < 0.3:
            shapes = [x.shape, (x.size,), x.shape[1:], x.shape[:-1]]
            if running:  # NumPy itself crashes when this out has another number of axes
                shapes = [x.shape if x.ndim and keywords.get("axis") is not None else (x.size,)]
            keywords["out"] = np.zeros(draw.choice(shapes), draw.choice("ldfiD"))
        captured += check(function, x, must_capture=False, **keywords)
    assert captured > 80, captured


@pytest.mark.parametrize("function", MEANS, ids=label)
@pytest.mark.parametrize("dtype", DTYPES)
def test_means_of_ordinary_numbers(function: Any, dtype: str) -> None:
    rng = np.random.default_rng(5)
    x = (
        (rng.standard_normal((6, 5, 4)) * 3 + 2).astype(dtype)
        if dtype not in "FD"
        else (rng.standard_normal((6, 5, 4)) * (1 + 2j)).astype(dtype)
    )
    for axis in (None, 0, -1, (0, 2), (0, 1, 2)):
        for keepdims in (False, True):
            assert check(function, x, axis=axis, keepdims=keepdims, ulp=32)
            assert check(function, x.T, axis=axis, keepdims=keepdims, ulp=32)
    assert check(function, x, dtype=np.complex128 if dtype in "FD" else np.float64, ulp=32)


def test_variance_with_a_given_mean() -> None:
    x = np.arange(12.0).reshape(3, 4)
    assert check(np.var, x, axis=1, mean=x.mean(axis=1, keepdims=True), ulp=16)
    assert check(np.std, x, mean=np.float64(2.5), ddof=1, ulp=16)
    assert check(np.std, x, 0, None, None, 1, True, ulp=16)
    assert check("var", x, 1, "f", None, 1, ulp=16)
    assert check(np.std, x.astype("f"), mean=2.5, correction=1, ulp=16)
    assert not check(np.var, x, ddof=1, correction=1, must_capture=False)


@pytest.mark.parametrize("function", [*REDUCTIONS, *MEANS, *POSITIONS, *RUNNING], ids=label)
def test_other_operands(function: Any) -> None:
    for value in (5, 2.5, [1, 2, 3], [[1.0, 2.0], [3.0, 4.0]], np.float32(2), np.array(3)):
        assert check(function, value, ulp=16, must_capture=function not in (np.var, np.std) or True)
    for value in (True, 1j, (1, 2), np.array(["a"]), None, "text"):
        check(function, value, must_capture=False)


def test_means_that_warn_decline() -> None:
    for function, keywords in ((np.mean, {}), (np.var, {}), (np.var, {"ddof": 3}), (np.std, {"ddof": 3.5})):
        x = np.ones(0) if not keywords else np.ones(3)
        capture = Capture()
        with pytest.raises(Decline):
            FUNCTIONS[function](capture.builder, capture.wrap(x), **keywords)


def test_arguments_that_are_array_data_decline() -> None:
    capture = Capture()
    x, n = capture.wrap([np.ones((2, 2)), np.int64(1)])
    for keywords in ({"axis": n}, {"keepdims": n}, {"axis": (0, n)}):
        with pytest.raises(Decline):
            FUNCTIONS[np.sum](capture.builder, x, **keywords)


def ops_of(function: Callable[..., Any], shape: tuple[int, ...], **keywords: Any) -> list[str]:
    capture = Capture()
    result = FUNCTIONS[function](capture.builder, capture.wrap(np.ones(shape)), **keywords)
    return [n.op for n in capture.builder.finish([result.node]).nodes]


def test_means_are_few_nodes() -> None:
    assert ops_of(np.sum, (3, 4), axis=1) == ["input", "reduce"]
    assert ops_of(np.mean, (3, 4)) == ["input", "reduce", "constant", "cast", "divide"]
    assert ops_of(np.var, (3, 4)).count("reduce") == 2


@pytest.mark.parametrize("function", [np.sum, np.mean, np.var, np.max, np.argmax, np.cumsum], ids=label)
def test_symbolic_sizes(function: Any) -> None:
    """One capture serves every size that its guards allow."""
    for keywords in ({}, {"axis": 0}, {"axis": -1}):
        builder = Builder()
        n, m = (builder.env.symbol(name, hint, at_least=2) for name, hint in (("n", 4), ("m", 3)))
        meta = TensorMeta((n, m), np.dtype(float))
        x = Array(Storage(builder, builder.input(meta), meta, source=0), (), meta)
        result = FUNCTIONS[function](builder, x, **keywords)
        from npcompile.backends.eager import compile_eager

        graph = builder.finish([result.storage.node], [result.storage.meta])
        for sizes in ({"n": 4, "m": 3}, {"n": 7, "m": 5}):
            assert all(eval(text_of(guard), {}, sizes) for guard in builder.env.guards), builder.env.guards
            data = np.random.default_rng(6).standard_normal((sizes["n"], sizes["m"]))
            ours = compile_eager(graph, [data])(data, *(sizes[s] for s in graph.symbols))[0]
            expected = function(data, **keywords)
            assert type(ours) is type(expected) and np.shape(ours) == tuple(evaluate(s, sizes) for s in result.shape)
            np.testing.assert_allclose(ours, expected, rtol=1e-13)


def test_methods_take_what_functions_take() -> None:
    assert set(METHOD_REDUCTIONS) | {"mean", "var", "std", "argmax", "argmin", "cumsum", "cumprod"} <= set(METHODS)


@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_products_of_complex_numbers_keep_the_signs_of_zeros(backend: str) -> None:
    """Each step of a product decides them: only NumPy's order is right."""
    rng = np.random.default_rng(0)
    functions = (np.prod, lambda x: np.prod(x, axis=0), lambda x: np.prod(x.real, dtype=complex))
    compiled = [npc.compile(function, backend=backend) for function in functions]
    for shape in ((2,), (9,), (3, 2), (4, 5)):
        for _ in range(20):
            x = rng.integers(-3, 4, shape) + 1j * rng.choice([0.0, -0.0], shape)
            for function, made in zip(functions, compiled):
                assert np.asarray(made(x)).tobytes() == np.asarray(function(x)).tobytes()
