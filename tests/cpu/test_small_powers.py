"""Cubes and fourth powers of floats are rounded as the exact numbers are, wherever the exponent comes from."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import npcompile as npc
from tests.runtime.test_end_to_end import run_python

DTYPES = [np.float64, np.float32]
EXPONENTS = [3, 4]


def power(x, exponent):
    return x**exponent


def power_of_rows(x, exponent):
    out = np.empty_like(x)
    for k in range(len(x)):
        out[k] = x[k] ** exponent
    return out


def known_power(exponent: int) -> Callable:
    return (lambda x: x**3) if exponent == 3 else (lambda x: x**4)


def numbers(dtype: type, exponent: int, count: int = 2000) -> np.ndarray:
    """Of both signs, whose powers have all exponents but those of the smallest numbers."""
    rng, info = np.random.default_rng(7), np.finfo(dtype)
    sizes = 2.0 ** (rng.uniform(info.minexp + info.nmant + 2, info.maxexp - 1, count) / exponent)
    return (sizes * rng.choice([-1, 1], count)).astype(dtype)


def check_rounding(dtype: type, exponent: int) -> None:
    x = numbers(dtype, exponent)
    got = npc.compile(known_power(exponent))(x)
    exact = np.array([float(Fraction(float(a)) ** exponent) for a in x]).astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, exact)  # products miss a quarter of the cubes, and half of the fourth powers


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding(dtype, exponent) -> None:
    check_rounding(dtype, exponent)


@pytest.mark.parametrize("march", ["x86-64", "x86-64-v3"])
def test_rounding_on_other_processors(march) -> None:
    """The first has no fused multiplication."""
    if platform.machine() != "x86_64":
        pytest.skip(f"no processor that has {march}")
    lines = ["from tests.cpu.test_small_powers import DTYPES, EXPONENTS, check_rounding"]
    lines += ["for dtype in DTYPES:", "    for exponent in EXPONENTS:", "        check_rounding(dtype, exponent)"]
    run_python("\n".join(lines), NPCOMPILE_MARCH=march)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_rule(dtype, exponent) -> None:
    x = numbers(dtype, exponent, 1005).reshape(15, 67)
    known = known_power(exponent)
    expected = npc.compile(known)(x)
    by_data, by_rows = npc.compile(power), npc.compile(power_of_rows)
    several = np.where(np.arange(67) % 5, exponent, 0.7).astype(dtype)
    for _ in range(2):
        np.testing.assert_array_equal(npc.compile(known)(x[:, ::-2]), expected[:, ::-2])
        np.testing.assert_array_equal(by_data(x, np.full_like(x, exponent)), expected)
        np.testing.assert_array_equal(by_rows(x, dtype(exponent)), expected)
        np.testing.assert_array_equal(by_rows(x, np.full(67, exponent, dtype)), expected)
        np.testing.assert_array_equal(by_data(abs(x), several)[:, several > 1], abs(expected)[:, several > 1])


def special_numbers(dtype: type, exponent: int) -> np.ndarray:
    """And those where the powers enter and leave the range."""
    info = np.finfo(dtype)
    ends = [float(e) ** (1 / exponent) for e in (info.max, info.tiny, info.smallest_subnormal)]
    ends += [1.0, 2.0, 3.0, float(info.max), float(info.tiny), ends[-1] / 2]
    found = np.array(ends, dtype)
    around = [found, np.nextafter(found, dtype(0)), np.nextafter(found[:-3], dtype(np.inf)), [0, np.inf, np.nan]]
    found = np.concatenate(around, dtype=dtype)
    return np.concatenate([found, -found])


def outcome(function: Callable, x: np.ndarray, mode: str) -> tuple[np.ndarray | None, list[str]]:
    with np.errstate(all=mode), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = function(x)
        except FloatingPointError as error:
            return None, [str(error)]
    return made, sorted(str(warning.message) for warning in caught)


@pytest.mark.parametrize("mode", ["ignore", "warn", "raise"])
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_numbers_and_errors(dtype, exponent, mode) -> None:
    plain = known_power(exponent)
    compiled, all_numbers = npc.compile(plain), special_numbers(dtype, exponent)
    for x in (all_numbers, *(np.full(9, number) for number in all_numbers)):
        (expected, errors), (got, noted) = outcome(plain, x, mode), outcome(compiled, x, mode)
        assert errors == noted, x
        assert (expected is None) == (got is None), x
        if expected is not None and got is not None:
            np.testing.assert_array_max_ulp(got, expected, maxulp=1)  # NumPy's own may be 1 off
            np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
            is_number = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(expected)[is_number])
