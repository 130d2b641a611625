"""np.arange with steps, and powers of arrays, in native loops: sizes, elements, special values and warnings are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.statements.test_array_statements import VECTOR, nearly
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(21)


def whole_steps(first, last, step, out):
    for i in range(out.size):
        a, b, c = np.arange(first, last, step), np.arange(i, -1, -1), np.arange(7 * i, 0, -3, dtype=np.float64)
        out[i] = a.size + b[0] + c.sum() + b.sum() + (a[-1] if a.size else 0)
    return out, a, b, c


def steps_of_numbers(first, last, step, out):
    for i in range(out.size):
        a, b, c = np.arange(first, last, step), np.arange(i * 0.5), np.arange(i, dtype=float)
        out[i] = a.size + b.size + c.size + (a[-1] if a.size else 0)
    return out, a, b, c


@pytest.mark.parametrize("bounds", [(0, 10, 3), (10, 0, -3), (5, -5, -5), (3, 3, 1), (0, 5, -1), (-7, 8, 2), (1, 2, 2**50)])
def test_whole_steps(bounds: tuple[int, int, int]) -> None:
    agrees(whole_steps, *bounds, np.zeros(20))


def test_steps_of_numbers() -> None:
    bounds = [(0.0, 1.0, 0.1), (-0.0, 1.0, 0.3), (1, 0, -0.1), (0, 1, -0.5), (2.5, 2.5, 1), (1.0, 2.0, 1e-3), (0.0, 1.0, 7)]
    for first, last, step in [*bounds, *((*rng.normal(0, 9, 2), rng.normal()) for _ in range(20))]:
        agrees(steps_of_numbers, first, last, step, np.zeros(20))


@pytest.mark.parametrize("bounds", [(0, 9, 0), (0.0, 9.0, 0.0), (0.0, np.inf, 1.0), (np.nan, 1.0, 1.0), (0.0, 1.0, 1e-300)])
def test_ranges_that_numpy_refuses(bounds: tuple[float, float, float]) -> None:
    agrees(steps_of_numbers, *bounds, np.zeros(20), loops=0)


def american_option(price, strike, rate, volatility, steps):
    dt = 1.0 / steps
    up = np.exp(volatility * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = np.maximum(strike - price * up ** np.arange(steps, -steps - 1, -2), 0)
    for i in range(steps - 1, -1, -1):
        value = np.exp(-rate * dt) * (p * value[:-1] + (1 - p) * value[1:])
        value = np.maximum(value, strike - price * up ** np.arange(i, -1, -1) * (1 / up) ** np.arange(0, i + 1))
    return value[0]


def test_american_option() -> None:
    nearly(american_option, 100.0, 105.0, 0.02, 0.2, 60)


POWERS = {
    "of vectors": lambda out, x, y, k, p: out + x**y,
    "of a number": lambda out, x, y, k, p: out + 1.5**y,
    "whole": lambda out, x, y, k, p: out + x**3 + x**-1 + x**-2 + x**0 + x**1,
    "roots": lambda out, x, y, k, p: out + x**0.5,
    "given": lambda out, x, y, k, p: out + x**p + np.power(x, k),
    "reversed": lambda out, x, y, k, p: out + x[::-1] ** y[::-1],
}


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_powers(name: str, dtype: str) -> None:
    power = POWERS[name]

    def program(x, y, k, p):
        out = np.zeros((20, x.size))
        for i in range(20):
            out[i] = power(out[i], x, y, k, p)
        return out

    compiled = npc.compile(program)
    for n in (VECTOR.size, 33, 1, 2):
        x, y = np.abs(np.resize(VECTOR, n)).astype(dtype) + np.float32(0.25), rng.normal(0, 2, n).astype(dtype)
        for p in (1.5, 0.5):
            made, expected = compiled(x, y, 3, p), program(x, y, 3, p)
            np.testing.assert_allclose(made, expected, rtol=1e-14 if dtype == "f8" else 1e-6)
    assert native_loops(compiled)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_powers_in_place(dtype: str) -> None:
    def program(x, y, k):
        for _ in range(20):
            x **= 0.5
            x **= 3
            x **= y
            x **= k
        return x

    compiled = npc.compile(program)
    x, y = np.abs(VECTOR).astype(dtype) + np.float32(0.25), np.full(VECTOR.size, 0.6, dtype)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x.copy(), y, 1), program(x.copy(), y, 1), rtol=1e-13 if dtype == "f8" else 1e-5)
    assert native_loops(compiled)


def test_roots_that_are_no_powers() -> None:
    """The square root of -0.0 is -0.0, and its power to 0.5 is 0.0; NumPy takes the root where it sees one exponent."""

    def program(x, y, p, out):
        for i in range(out.shape[0]):
            out[i, 0] = x**p
            out[i, 1] = x**0.5
            out[i, 2] = x ** y[:1]
            out[i, 3] = x**y
        return out

    x = np.array([-0.0, 0.0, 4.0])
    agrees(program, x, np.full(3, 0.5), 0.5, np.zeros((20, 4, 3)))
    agrees(program, x, np.full(3, 0.5), np.float64(0.5), np.zeros((20, 4, 3)))


@pytest.mark.filterwarnings("always")
def test_powers_that_warn() -> None:
    def program(x, y, out):
        for i in range(out.shape[0]):
            out[i] = x**y
        return out

    for x, y in (([0.0, 1.0], [-1.0, 2.0]), ([1e300, 2.0], [2.0, 2.0]), ([-8.0, 8.0], [1.5, 2.0])):
        agrees(program, np.array(x), np.array(y), np.zeros((20, 2)))
