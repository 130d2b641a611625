"""Zeros that extremes give: one that is among the numbers, with NumPy's sign where docs/accuracy.md says so."""

import platform

import numpy as np
import pytest

import npcompile as npc

SEVERAL = {
    "whole": lambda x: (x.min(), x.max(), np.fmin.reduce(x, axis=None), np.fmax.reduce(x, axis=None)),
    "along axes": lambda x: (x.min(0), x.max(1), np.min(x, axis=0), np.maximum.reduce(x, 1)),
    "without NaN": lambda x: (np.nanmin(x), np.nanmax(x, axis=1), np.fmin.reduce(x, axis=0)),
}
AS_NUMPY = {
    "of two": lambda x: (np.minimum(x, -x), np.maximum(x, -x), np.clip(x, -0.0, 0.0), np.maximum(x, 0)),
    "running": lambda x: (np.minimum.accumulate(x, axis=0), np.maximum.accumulate(x, axis=1), np.minimum.reduceat(x, [0, 2, 1])),
    "places": lambda x: (x.argmin(), x.argmax(1)),
}
SHAPES = [(3, 1), (3, 5), (17, 4), (40, 33)]


def layouts(x):
    return x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2]


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name", SEVERAL)
def test_where_all_zeros_have_one_sign_so_has_the_result(name, dtype):
    function, compiled = SEVERAL[name], npc.compile(SEVERAL[name])
    for shape in SHAPES:
        for x in (*layouts(np.zeros(shape, dtype)), *layouts(-np.zeros(shape, dtype))):
            for ours, theirs in zip(compiled(x), function(x), strict=True):
                assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name", [*AS_NUMPY, *SEVERAL])
def test_zeros_of_both_signs(name, dtype):
    function = (AS_NUMPY | SEVERAL)[name]
    compiled = npc.compile(function)
    is_same = dtype == "f2" or (name in AS_NUMPY and platform.machine() == "x86_64")
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        for x in layouts(rng.choice(np.array([0.0, -0.0], dtype), shape)):
            for ours, theirs in zip(compiled(x), function(x), strict=True):
                np.testing.assert_array_equal(ours, theirs)
                assert not is_same or ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_extremes_without_nan(dtype):
    """What is noted beside lanes: whether a number was seen."""
    values = np.array([np.nan, -np.inf, np.inf, -1, 2], dtype)
    for n in (1, 2, 9, 40):
        for _ in range(20):
            x = np.random.default_rng(n).choice(values[: 1 + n % 5], n)
            for function in (np.fmax.reduce, np.fmin.reduce):
                np.testing.assert_array_equal(npc.compile(function)(x), function(x))
