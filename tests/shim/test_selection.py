"""np.where and np.clip against NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Decline
from tests.ops.table import LAYOUTS, numbers
from tests.shim.harness import Capture, check

DTYPES = "?bBhHiIlLefdFD"


@pytest.mark.parametrize("first", DTYPES)
def test_where_of_all_dtypes(first: str) -> None:
    rng = np.random.default_rng(1)
    for second in DTYPES:
        x, y = (numbers(np.dtype(d), rng) for d in (first, second))
        assert check(np.where, numbers(np.dtype("?"), rng), x, y)
        assert check(np.where, x, y, x)  # any dtype is a condition
        assert check(np.where, x[0, 0, 0], y[0, 0, 0], x[0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_keeps_the_memory_order(layout: str) -> None:
    rng = np.random.default_rng(2)
    for other in LAYOUTS.values():
        for third in (LAYOUTS["contiguous"], LAYOUTS["transposed"], lambda x: 1.5):
            arms = [LAYOUTS[layout](numbers(np.dtype(float), rng)), third(numbers(np.dtype(float), rng))]
            condition = other(numbers(np.dtype("?"), rng))
            check(np.where, condition, *arms, must_capture=False)
            check(np.where, condition, *arms[::-1], must_capture=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0, 1, -1, 300, 2.5, 1j, True, float("nan")])
def test_where_with_python_numbers(dtype: str, value: Any) -> None:
    rng = np.random.default_rng(3)
    x, condition = numbers(np.dtype(dtype), rng, (4,)), numbers(np.dtype("?"), rng, (4,))
    fits = value not in (-1, 300) or dtype not in "bBHIL"
    check(np.where, condition, x, value, must_capture=fits)
    check(np.where, condition, value, x, must_capture=fits)
    check(np.where, condition, value, 2, must_capture=True)
    check(np.where, bool(value), x, value, must_capture=fits)


def test_where_forms() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert check(np.where, x > 2, x, [1, 2, 3])
    assert check(np.where, [True, False, True], x, 0)
    assert check(np.where, x[:, :1] > 2, x[0], x.astype(np.float32))
    assert not check(np.where, x > 2, x, x[:, :2], must_capture=False)
    assert check(np.where, x > 2) and check(np.where, x)
    capture = Capture()
    with pytest.raises(Decline):
        FUNCTIONS[np.where](capture.builder, *map(capture.wrap, (x, x)))


BOUNDS = (
    None,
    0,
    1,
    -1,
    2.5,
    300,
    -300,
    2**40,
    np.float32(1.5),
    np.int8(2),
    np.array([1, 2, 3]),
    np.array([[0.5], [1.5]]),
    float("nan"),
)


@pytest.mark.parametrize("function", [np.clip, "clip"], ids=["function", "method"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(function: Any, dtype: str) -> None:
    draw, rng = random.Random(4), np.random.default_rng(4)
    captured = 0
    for _ in range(60):
        x = numbers(np.dtype(dtype), rng, (2, 3)).copy(order=draw.choice("CF"))
        keywords: dict[str, Any] = {}
        if draw.random() < 0.3:
            keywords["out"] = np.zeros((2, 3), draw.choice(dtype + "dfl"))
        if draw.random() < 0.2:
            keywords["dtype"] = draw.choice(["d", "f", "l", None])
        if draw.random() < 0.2:
            keywords["casting"] = draw.choice(["unsafe", "same_kind", "safe"])
        if draw.random() < 0.2:
            keywords["order"] = draw.choice("CFK")
        bounds = draw.choice(BOUNDS), draw.choice(BOUNDS)
        if draw.random() < 0.3:
            captured += check(function, x, min=bounds[0], max=bounds[1], must_capture=False, **keywords)
        else:
            captured += check(function, x, *bounds, must_capture=False, **keywords)
    assert captured > (3 if dtype in "FD" else 15), captured


def test_clip_forms() -> None:
    x = np.arange(6)
    assert check(np.clip, x, 1, 4)
    assert check(np.clip, x, 1, None)
    assert check(np.clip, x)
    assert check(np.clip, x, min=2)
    assert check(np.clip, x, -(2**70), 2**70)
    assert check(np.clip, x[0], 1, 4)
    assert check("clip", x, max=3)
    assert check("clip", x, 1, 4, x)
    assert check(np.clip, [1, 5, 9], 2, 6)
    assert not check(np.clip, x, 1, must_capture=False)
    assert not check(np.clip, x, 1, 2, min=3, must_capture=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_clip_keeps_the_signs_of_zeros(dtype: type) -> None:
    special = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf]
    x = np.array(special * 3, dtype).reshape(3, 7)
    for low in special:
        for high in special:
            assert check(np.clip, x, low, high)
            assert check(np.clip, x, np.full((3, 7), low, dtype), np.full((3, 7), high, dtype))
            assert check(np.clip, x.T, low, np.full((7, 3), high, dtype))
            check(np.clip, x, np.full(7, low, dtype), high, must_capture=False)
            check(np.clip, x, np.full((3, 1), low, dtype), np.full(7, high, dtype), must_capture=False)
