"""NaN in extremes, and floating-point errors of single functions and of what a choice drops."""

from __future__ import annotations

import gc
import itertools
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu import compile_cpu
from npcompile.backends.registry import IGNORES_UNDERFLOW, ErrorStates, FloatingPointSignal
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


@pytest.mark.parametrize("dtype", ["f4", "f8", "g"])
def test_errors_of_rounding_to_float16(dtype: str) -> None:
    """Some compilers call a function for it that notes none."""
    builder = Builder()
    run = compile_cpu(
        builder.finish([builder.apply("cast", builder.input(TensorMeta((19,), np.dtype(dtype))), dtype=np.dtype("f2"))])
    )
    between = 1 + np.array(2, dtype) ** -11 + np.array(2, dtype) ** -60  # as longdouble, which NumPy makes a float64 first
    with np.errstate(all="ignore"):
        numbers = np.array([1e300, 1e5, 65520, 65519.99, 1e-300, 2**-26, 2**-24, 1 / 3, np.inf, np.nan, -0.0, between], dtype)
    for k, error in itertools.product(range(len(numbers)), ("over", "under", "invalid")):
        x = np.full(19, 1.5, dtype)
        x[k] = numbers[k]
        with np.errstate(all="ignore", **{error: "raise"}):
            ours, numpys = noted(lambda: run(x)[0], FloatingPointSignal), noted(lambda: x.astype("f2"), FloatingPointError)
        assert ours == numpys or (error == "under" and ours is None), (k, error)  # in doubt NumPy is asked


def noted(make: Callable[[], np.ndarray], error: type[Exception]) -> bytes | None:
    try:
        return make().tobytes()
    except error:
        return None


@pytest.mark.parametrize("op", ["reciprocal", "divide", "sqrt"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("is_chosen_again", [False, True])
def test_what_a_choice_keeps_from_an_operation_notes_nothing(op: str, dtype: str, is_chosen_again: bool) -> None:
    """Compilers may not make 1 / (x > 0 ? x : 1) into x > 0 ? 1 / x : 1, which divides by each x."""
    numbers = np.linspace(-3, 3, 67, dtype=dtype)
    assert 0 in numbers
    builder = Builder()
    x = builder.input(TensorMeta(numbers.shape, numbers.dtype))
    zero, one = (builder.apply("broadcast_to", builder.constant(k, x.dtype), shape=x.shape) for k in (0, 1))
    is_positive = builder.apply("less", zero, x)
    made = builder.apply(op, *[x] * (op == "divide"), builder.apply("where", is_positive, x, one))
    run = compile_cpu(builder.finish([builder.apply("where", is_positive, made, x) if is_chosen_again else made]))
    with np.errstate(all="raise", under="ignore"):
        run(numbers)


@pytest.mark.parametrize(
    ("numbers", "exponents", "dtype"),
    [([1e300, 1.5], [0.5, 2.0], "f8"), ([1e38, 1.5], [0.7, 4.0], "f4"), ([0.0, 1.5], [0.7, -1.0], "f8")],
)
def test_powers_report_nothing_of_exponents_that_others_have(numbers: list[float], exponents: list[float], dtype: str) -> None:
    x, y = (np.array(values * 13, dtype) for values in (numbers, exponents))
    builder = Builder()
    inputs = [builder.input(TensorMeta(a.shape, a.dtype)) for a in (x, y)]
    run = compile_cpu(builder.finish([builder.apply("power", *inputs)]))
    with np.errstate(all="raise"):
        np.testing.assert_allclose(run(x, y)[0], x**y, rtol=1e-6)


@pytest.mark.parametrize("divisor", [3 + 0j, 3j, -0.5 + 0j, complex(0, -0.5), 1 + 2j])
@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_one_complex_divisor_of_many_numbers_reports_nothing(name: str, divisor: complex) -> None:
    """What the compiler computes before the loop of the formula's other arm divides by no zero."""
    x = (np.linspace(-3, 3, 1001) * (1 + 0.5j)).astype(name)
    z = np.array(divisor, name)
    builder = Builder()
    inputs = [builder.input(TensorMeta(a.shape, a.dtype)) for a in (x, z)]
    one = builder.apply("broadcast_to", inputs[1], shape=x.shape)
    run = compile_cpu(builder.finish([builder.apply("divide", inputs[0], one)]))
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(run(x, z)[0], x / z)


@pytest.mark.parametrize("name", ["divide", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("dtype", "FD")
def test_nan_in_comparisons_of_complex_numbers_is_reported_as_by_numpy(dtype: str, name: str) -> None:
    """clang's comparisons are quiet, by themselves and in the formula of quotients."""
    ufunc = getattr(np, name)
    compiled = npc.compile(lambda x, y: ufunc(x, y))
    numbers = [complex(re, im) for re in (0.0, -2.0, np.inf, np.nan) for im in (0.0, 1.0, np.nan)]
    for a, b in itertools.product(numbers, numbers):
        x, y = np.full(19, 1.5, dtype), np.full(19, 1.5, dtype)
        x[5], y[5] = a, b
        told = []
        for function in (compiled, ufunc):
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                function(x, y)
            told.append({str(w.message) for w in noted})
        assert told[0] == told[1], (a, b)


def test_states_of_errors_are_remembered_as_long_as_they_are_in_force():
    asked = []
    states = ErrorStates(lambda state: asked.append(dict(state)) or state["over"] == "ignore")

    class Handler:
        def write(self, text: str) -> None:
            raise AssertionError(text)

    handler = Handler()
    gone = weakref.ref(handler)
    for _ in range(5):
        assert not states.holds() and IGNORES_UNDERFLOW.holds()
        with np.errstate(over="ignore", under="log", call=handler):
            assert states.holds() and states.holds() and not IGNORES_UNDERFLOW.holds()
        with np.errstate(over="ignore"):
            assert states.holds()
            seen = len(asked)
            assert states.holds() and len(asked) == seen
    del handler
    gc.collect()
    assert gone() is None


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


@pytest.mark.parametrize("size", [1, 4, 1000])  # one element, one vector, many
@pytest.mark.parametrize(
    "name, left, right, bad",
    [
        ("divide", (2.5, 2.5), (0.0, 1.0), (0, 1)),
        ("divide", None, (0.0, 1.0), (0, 1)),
        ("multiply", (1e300, 1.0), (1e300, 1.0), (0, 1)),
        ("subtract", (np.inf, 1.0), (np.inf, 1.0), (0, 1)),
        ("square", (1.0, 1e200), None, (1, 0)),
    ],
)
def test_errors_of_numbers_that_the_compiler_knows_are_reported(name, left, right, bad, size) -> None:
    builder = Builder()
    condition = builder.input(TensorMeta((size,), np.dtype(bool)))

    def chosen(numbers):
        if numbers is None:
            return builder.apply("cast", condition, dtype=np.dtype("f8"))
        constants = [builder.apply("broadcast_to", builder.constant(x, np.dtype("f8")), shape=(size,)) for x in numbers]
        return builder.apply("where", condition, *constants)

    operands = [chosen(x) for x in (left, right) if name != "square" or x is not None]
    run = compile_cpu(builder.finish([builder.apply(name, *operands)]))
    raises, passes = ((np.ones if k == 0 else np.zeros)(size, bool) for k in bad)
    run(passes)
    with pytest.raises(FloatingPointSignal):
        run(raises)


@pytest.mark.parametrize(
    "clip", [lambda x: np.maximum(x, 1e300), lambda x: np.minimum(x * 1.0, -1e19), lambda x: np.fmax(x, np.inf)]
)
def test_casts_of_extremes_that_the_compiler_knows_are_reported(clip) -> None:
    """Of numbers of eight bits and 1e300 it knows which is the maximum."""
    x = np.arange(20, dtype=np.uint8)
    compiled = npc.compile(lambda x: clip(x).astype(np.int64))
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        expected = clip(x).astype(np.int64)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            assert np.array_equal(compiled(x), expected)
        assert [str(w.message) for w in ours] == [str(w.message) for w in theirs] == ["invalid value encountered in cast"]
