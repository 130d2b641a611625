"""NaN in extremes, and floating-point errors of single functions and of what a choice drops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npcompile.backends.cpu import compile_cpu
from npcompile.backends.registry import FloatingPointSignal
from npcompile.tensor_core import Builder, TensorMeta


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


@pytest.mark.parametrize("name, x, y", [("multiply", 1025 / 1024, 2**-14 * 1023 / 1024), ("expm1", -(2**-14), None)])
def test_what_rounds_up_to_the_smallest_normal_float16_underflows(name: str, x: float, y: float | None) -> None:
    operands = [np.full(19, v, np.float16) for v in (x, y) if v is not None]
    builder = Builder()
    node = builder.apply(name, *(builder.input(TensorMeta(v.shape, v.dtype)) for v in operands))
    run = compile_cpu(replace(builder.finish([node]), checks=frozenset({"under"})))
    run(*operands)
    with np.errstate(under="raise"):
        with pytest.raises(FloatingPointSignal):
            run(*operands)
