"""What docs/gradients.md promises where there is no derivative, or more than one, and where formulas would overflow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core import OPS, Builder, Decline, TensorMeta
from npcompile.tensor_core.transforms.reverse import gradients
from tests.ops.test_gradients import FLOAT64, evaluate

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"


inf, nan = np.inf, np.nan
POINTS: dict[str, list[tuple[tuple[complex, ...], tuple[complex | None, ...]]]] = {
    "maximum": [((1, 1), (0.5, 0.5)), ((nan, 1), (1, 0)), ((1, nan), (0, 1)), ((nan, nan), (0.5, 0.5)), ((2, 1), (1, 0))],
    "minimum": [((1, 1), (0.5, 0.5)), ((nan, 1), (1, 0)), ((1, nan), (0, 1)), ((nan, nan), (0.5, 0.5)), ((2, 1), (0, 1))],
    "fmax": [((1, 1), (0.5, 0.5)), ((nan, 1), (0, 1)), ((1, nan), (1, 0)), ((nan, nan), (0.5, 0.5)), ((2, 1), (1, 0))],
    "fmin": [((1, 1), (0.5, 0.5)), ((nan, 1), (0, 1)), ((1, nan), (1, 0)), ((nan, nan), (0.5, 0.5)), ((2, 1), (0, 1))],
    "absolute": [((0,), (0,)), ((-0.0,), (0,)), ((0j,), (0,)), ((3 + 4j,), (0.6 - 0.8j,)), ((1e-310 + 0j,), (1,))],
    "fabs": [((0,), (0,)), ((-2,), (-1,))],
    "sign": [((0j,), (0,)), ((2 + 0j,), (0,)), ((0 + 2j,), (0.5,))],
    "hypot": [((0, 0), (0, 0)), ((3e200, 4e200), (0.6, 0.8)), ((-3e-200, 4e-200), (-0.6, 0.8))],
    "arctan2": [((1e-200, 1e-200), (5e199, -5e199)), ((1e200, 1e200), (5e-201, -5e-201))],
    "power": [
        ((0, 2), (0, 0)),
        ((0, 1), (1, 0)),
        ((0, 0), (0, 0)),
        ((0, 3.5), (0, 0)),
        ((0, 0.5), (inf, 0)),
        ((0, -1), (-inf, nan)),
        ((-2, 3), (12, nan)),
        ((-2, 0), (0, nan)),
        ((0j, 2), (0, 0)),
        ((0j, 1), (1, 0)),
    ],
    "heaviside": [((0, 0.3), (None, 1)), ((1, 0.3), (None, 0)), ((-0.0, 0.3), (None, 1))],
    "copysign": [((-2, 3), (-1, None)), ((0, -1), (-1, None)), ((-0.0, -1), (1, None))],
    "remainder": [((7.5, 2), (1, -3)), ((-7.5, 2), (1, 4)), ((1, 0.1), (1, -9))],
    "fmod": [((7.5, 2), (1, -3)), ((-7.5, 2), (1, 3)), ((1, 0.1), (1, -9))],
    "logaddexp": [
        ((-inf, 3), (0, 1)),
        ((inf, 3), (1, 0)),
        ((inf, inf), (0.5, 0.5)),
        ((-inf, -inf), (0.5, 0.5)),
        ((inf, -inf), (1, 0)),
        ((800, -800), (1, 0)),
        ((1, 1), (0.5, 0.5)),
    ],
    "sqrt": [((0,), (inf,)), ((1e-300,), (5e149,))],
    "cbrt": [((-8,), (1 / 12,)), ((1e-300,), (1e200 / 3,))],
    "expm1": [((-50,), (np.exp(-50),))],
    "arcsinh": [((1e200,), (1e-200,))],
    "arccosh": [((1e200,), (1e-200,))],
    "arcsin": [((1,), (inf,)), ((1 - 2.0**-53,), (2.0**26,))],
    "divide": [((1e-200, 1e-200), (1e200, -1e200))],
    "floor": [((2.5,), (None,)), ((2,), (None,))],
    "spacing": [((2.5,), (None,))],
    "nextafter": [((2.5, 3), (1, None))],
}
POINTS["logaddexp2"] = POINTS["logaddexp"]
POINTS["float_power"] = POINTS["power"]


@pytest.mark.parametrize("name", POINTS)
def test_points(name: str) -> None:
    for operands, expected in POINTS[name]:
        dtype = np.result_type(*operands, float)
        builder = Builder()
        values = [np.array(x, dtype) for x in operands]
        xs = [builder.input(TensorMeta((), dtype)) for _ in values]
        out = builder.apply(name, *xs)
        found = gradients(builder, [out], [builder.constant(1, out.dtype)], xs)
        assert [x is None for x in found] == [x is None for x in expected]
        given = evaluate(builder, [x for x in found if x is not None], values)
        for result, want in zip(given, [x for x in expected if x is not None]):
            np.testing.assert_allclose(result, want, rtol=1e-14, err_msg=f"{name}{operands}")


def gradient(op: str, arrays: Sequence[np.ndarray], cotangent: np.ndarray | None = None, **params: Any) -> list[Any]:
    """The gradients that NumPy computes; a cotangent of ones if none is given."""
    builder = Builder()
    xs = [builder.input(TensorMeta(x.shape, x.dtype)) for x in arrays]
    out = builder.apply(op, *xs, **params)
    g = builder.input(TensorMeta(out.shape, out.dtype))
    found = gradients(builder, [out], [g], [x for x in xs if x.dtype.kind in "fc"])
    values = [*arrays, np.ones(out.shape, out.dtype) if cotangent is None else cotangent]
    return evaluate(builder, [x for x in found if x is not None], values)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 7, 10, 0.5, -1])
def test_power_by_a_constant(exponent: float) -> None:
    """The exponent is known, so the derivative is a product or one power; at 0 to second order too."""
    x = np.array([0.0, 2.0, 3.0])
    builder = Builder()
    node = builder.input(TensorMeta(x.shape, x.dtype))
    n = builder.apply("broadcast_to", builder.constant(exponent, x.dtype), shape=x.shape)
    one = builder.apply("broadcast_to", builder.constant(1, x.dtype), shape=x.shape)
    (first,) = gradients(builder, [builder.apply("power", node, n)], [one], [node])
    (second,) = gradients(builder, [first], [one], [node]) if first else [None]
    for k, found in ((1, first), (2, second)):
        factor = np.prod([exponent - j for j in range(k)])
        if found is None:
            assert factor == 0
            continue
        (result,) = evaluate(builder, [found], [x])
        with np.errstate(divide="ignore"):
            want = factor * x ** (exponent - k) if factor else np.zeros(3)
        np.testing.assert_allclose(result, want, rtol=1e-14)


def test_second_derivative_of_a_power_at_zero() -> None:
    """The exponent is not known."""
    builder = Builder()
    x, y = (builder.input(TensorMeta((), FLOAT64)) for _ in range(2))
    one = builder.constant(1, FLOAT64)
    (first,) = gradients(builder, [builder.apply("power", x, y)], [one], [x])
    (second,) = gradients(builder, [first], [one], [x])
    assert evaluate(builder, [first, second], [np.array(0.0), np.array(2.0)]) == [0, 2]


@pytest.mark.parametrize(
    ("reducer", "x", "expected"),
    [
        ("maximum", [1, 3, 3], [0, 0.5, 0.5]),
        ("minimum", [1, 3, 1], [0.5, 0, 0.5]),
        ("maximum", [1, nan, 2], [0, 1, 0]),
        ("fmax", [nan, 1, 1], [0, 0.5, 0.5]),
        ("fmin", [nan, nan], [0.5, 0.5]),
        ("multiply", [2, 0, 3], [0, 6, 0]),
        ("multiply", [2, 0, 0], [0, 0, 0]),
        ("multiply", [inf, 2], [2, inf]),
    ],
)
def test_reductions_share(reducer: str, x: list[float], expected: list[float]) -> None:
    (found,) = gradient("reduce", [np.array(x, float)], reducer=reducer, axes=(0,))
    np.testing.assert_array_equal(found, expected)


def test_many_equal_elements_of_a_short_float() -> None:
    """float16 cannot count them."""
    (found,) = gradient("reduce", [np.ones(5000, np.float16)], reducer="maximum", axes=(0,))
    np.testing.assert_array_equal(found, np.full(5000, 1 / 5000, np.float16))


@pytest.mark.parametrize(
    ("reducer", "x", "expected"),
    [
        ("maximum", [1, 1, 0, 2], [1, 5, 0, 4]),
        ("minimum", [1, 1, 0, 2], [1, 2, 7, 0]),
        ("maximum", [1, nan, 0, nan], [1, 5, 0, 4]),
        ("fmax", [nan, 1, nan, 1], [1, 5, 0, 4]),
        ("multiply", [2, 0, 3, 0], [1, 4 + 18, 0, 0]),
    ],
)
def test_running_extremes_and_products(reducer: str, x: list[float], expected: list[float]) -> None:
    (found,) = gradient("scan", [np.array(x, float)], np.array([1.0, 2, 3, 4]), reducer=reducer, axis=0)
    np.testing.assert_array_equal(found, expected)


def test_only_the_last_write_has_a_gradient() -> None:
    x, value, places = np.zeros((4, 2)), np.ones((5, 2)), np.array([1, -1, 1, 3, 0])
    cotangent = np.arange(1.0, 9).reshape(4, 2)
    of_x, of_value = gradient("scatter", [x, value, places], cotangent, mode="set")
    np.testing.assert_array_equal(of_x, [[0, 0], [0, 0], [5, 6], [0, 0]])
    np.testing.assert_array_equal(of_value, [[0, 0], [0, 0], [3, 4], [7, 8], [1, 2]])


@pytest.mark.parametrize("mode", ["maximum", "fmax"])
def test_combined_extremes_share(mode: str) -> None:
    x, value, places = np.array([5.0, 5.0, 1.0]), np.array([5.0, 5.0, 0.0, 2.0]), np.array([1, 1, 1, 2])
    of_x, of_value = gradient("scatter", [x, value, places], np.array([1.0, 3.0, 7.0]), mode=mode)
    np.testing.assert_array_equal(of_x, [1, 1, 0])
    np.testing.assert_array_equal(of_value, [1, 1, 0, 7])


def test_a_custom_gradient_is_the_one_that_is_given() -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((2,), FLOAT64)) for _ in range(2))
    out = builder.apply("custom_gradient", builder.apply("multiply", x, y), x, y, rule=lambda g: (g * 3, None))
    of_x, of_y = gradients(builder, [out], [builder.apply("sin", out)], [x, y])
    assert of_y is None
    values = np.array([1.0, 2.0]), np.array([3.0, 0.5])
    result, found = evaluate(builder, [out, of_x], values)
    np.testing.assert_array_equal(result, values[0] * values[1])
    np.testing.assert_array_equal(found, 3 * np.sin(result))


# --- what has no derivative


@pytest.mark.parametrize("mode", ["multiply"])
def test_combinations_without_a_derivative_decline(mode: str) -> None:
    with pytest.raises(Decline, match=r"multiply\.at has no derivative"):
        gradient("scatter", [np.ones(3), np.ones(2), np.array([0, 1])], mode=mode)


def test_bits_have_no_derivative() -> None:
    builder = Builder()
    z = builder.input(TensorMeta((2,), np.dtype(np.complex64)))
    out = builder.apply("bitcast", z, dtype=FLOAT64)
    with pytest.raises(Decline, match="bitcast has no derivative"):
        gradients(builder, [out], [out], [z])


def test_the_page_lists_the_ops_without_a_rule() -> None:
    table = PAGE.read_text().split("## Ops without a derivative")[1]
    listed = [
        name for line in table.splitlines() if line.startswith("| `") for name in re.findall("`([^`]+)`", line.split("|")[1])
    ]
    assert len(set(listed)) == len(listed)
    assert set(listed) == {name for name, op in OPS.items() if op.vjp is None}
