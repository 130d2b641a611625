"""sin, cos and tan where no vector form is called: kernels without a branch in strips of near angles, and the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.c_near_angles import STRIP, asked_of
from npcompile.backends.cpu.loader import loader
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Store, Value
from tests.cpu.plans import plans_of
from tests.native_loops.test_native_loops import native_loops

N = 3 * STRIP + 5
F8 = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def without_libmvec() -> Iterator[None]:
    """As on musl and macOS."""
    known, used = loader(), loader().compiler
    known.compiler = replace(used, libraries=("-lm",))
    npc.reset()
    yield
    known.compiler = used
    npc.reset()


def element(x: np.ndarray) -> np.ndarray:
    made = np.zeros_like(x)
    for i in range(len(x)):
        made[i] = np.sin(x[i]) + np.cos(x[i]) * np.tan(x[i])
    return made


def whole(x: np.ndarray) -> np.ndarray:
    return np.sin(x) + np.cos(x) * np.tan(x)


def in_place(x: np.ndarray) -> np.ndarray:
    x += 1
    x *= np.sin(x)
    np.cos(x, out=x)
    return x


def nested(x: np.ndarray) -> np.ndarray:
    return np.cos(np.sin(x) * 1e13) - np.sin(np.exp(np.cos(x) * 40))


def total(x: np.ndarray) -> np.generic:
    return np.sum(np.sin(x) * x)


def largest(x: np.ndarray) -> np.generic:
    return np.max(np.cos(x * 4))


def columns(x: np.ndarray) -> np.ndarray:
    return np.sum(np.tan(x[: len(x) // 7 * 7].reshape(-1, 7)), axis=0)


def rows(x: np.ndarray) -> np.ndarray:
    return np.sum(np.cos(x[: len(x) // 40 * 40].reshape(40, -1)), axis=1)


def numbers(dtype: str, n: int = N) -> np.ndarray:
    return np.random.default_rng(11).uniform(-50, 50, n).astype(dtype)


def with_far(x: np.ndarray) -> Iterator[np.ndarray]:
    """The numbers, and with one or many that are far out, in the first strip, in the last, and everywhere."""
    yield x
    for places in (slice(3, 4), slice(len(x) - 1, None), slice(None, None, 97), slice(None)):
        far = x.copy()
        far[places] *= x.dtype.type(1e13)
        yield far


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_number_has_the_same_bits_in_strips_with_and_without_far_ones(dtype: str) -> None:
    compiled, one_by_one = npc.compile(whole), npc.compile(element)
    for x in with_far(numbers(dtype)):
        found = compiled(x)
        np.testing.assert_array_equal(found, one_by_one(x), strict=True)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, whole(x.astype(np.longdouble)), rtol=1e-5 if dtype == "f4" else 1e-13)
    assert native_loops(one_by_one)


@pytest.mark.parametrize("program", [whole, in_place, nested])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_numbers_have_the_same_bits_beside_others(program: Callable[[np.ndarray], np.ndarray], dtype: str) -> None:
    compiled = npc.compile(program)
    for x in with_far(numbers(dtype)):
        found, is_far = compiled(x.copy()), np.abs(x) > 1e9
        for some in (is_far, ~is_far):
            if some.any():
                np.testing.assert_array_equal(found[some], compiled(x[some].copy()), strict=True)
    if program is not nested:  # there an angle's last bits are turns
        x = numbers(dtype)
        np.testing.assert_allclose(compiled(x.copy()), program(x.copy()), rtol=1e-3 if dtype == "f4" else 1e-11, atol=1e-4)


@pytest.mark.parametrize("program", [total, largest, columns, rows])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_reductions_are_right_wherever_a_far_angle_is(program: Callable[[np.ndarray], Any], dtype: str) -> None:
    compiled = npc.compile(program)
    for x in with_far(numbers(dtype)):
        scale = float(np.abs(x).max()) * len(x) if program is total else 1
        found, exact = np.asarray(compiled(x), float), np.asarray(program(x.astype(np.longdouble)), float)
        np.testing.assert_allclose(found, exact, rtol=1e-4 if dtype == "f4" else 1e-11, atol=scale * float(np.finfo(dtype).eps))


def test_numbers_that_are_no_angles() -> None:
    """NaN, infinities and zeros among others: NumPy's values, and its error for infinities alone."""
    special = np.array([np.nan, 0.0, -0.0, 5e-324, -1e-310])
    for dtype in ("f8", "f4"):
        x = numbers(dtype)
        x[[7, 8, 9, 600, 1200]] = special
        functions = [npc.compile(lambda x, f=f: f(x) * 1) for f in (np.sin, np.cos, np.tan)]
        for compiled, f in zip(functions, (np.sin, np.cos, np.tan)):
            with np.errstate(all="raise", under="ignore"):
                found = compiled(x)
            np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
            small = np.abs(x) < 1e-300
            np.testing.assert_array_equal(found[small], f(x[small]))
            np.testing.assert_array_equal(np.signbit(found[small]), np.signbit(f(x[small])))
            endless = x.copy()
            endless[20] = -np.inf
            with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="invalid value"):
                compiled(endless)


def statements() -> list[Any]:
    x, y, z, at = (Value(name, F8) for name in "xyza")
    return [Load(x, "in", 0), Let(y, "exp", (x,)), Let(at, "sqrt", (x,)), Let(z, "sin", (y,)), Store("out", 0, z)]


def test_what_angles_come_from_is_asked() -> None:
    load, exp, _, sine, store = body = statements()
    assert asked_of(body) == [load, exp, sine]
    assert asked_of([load, exp, store]) == []
    place = Value("i", np.dtype(np.int64))
    assert asked_of([CheckIndex(place, place, 0, 5), *body]) == []


def test_kernels_call_functions_without_a_branch() -> None:
    functions = (lambda x: np.sin(x) * np.tan(x)), (lambda x: np.sinh(x) * np.arctan(x))
    plans = [plan for f in functions for plan in plans_of(f, numbers("f8"))]
    asked = [[s.op for loop in plan.loops for s in asked_of(loop.body) if isinstance(s, Let)] for plan in plans]
    assert asked == [["sin", "tan"], []]
