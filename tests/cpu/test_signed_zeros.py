"""Zeros that extremes give: in every compiled form by one rule, and with NumPy's sign where docs/accuracy.md says so."""

import platform
import warnings
from itertools import cycle, product

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


@pytest.mark.parametrize("name, dtype", [*product(SEVERAL, ["f8"]), *zip(SEVERAL, cycle(["f2", "f4"]))])
def test_where_all_zeros_have_one_sign_so_has_the_result(name, dtype):
    function, compiled = SEVERAL[name], npc.compile(SEVERAL[name])
    for shape in SHAPES:
        for x in (*layouts(np.zeros(shape, dtype)), *layouts(-np.zeros(shape, dtype))):
            for ours, theirs in zip(compiled(x), function(x), strict=True):
                assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    "name, dtype", [*product([*AS_NUMPY, *SEVERAL], ["f8"]), *zip([*AS_NUMPY, *SEVERAL], cycle(["f4", "f2"]))]
)
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


# --- one rule: the least of two zeros is -0.0, the greatest 0.0


def by_rule(x, axis):
    """The greatest and the least."""
    of_greatest, of_least = np.where(x == 0, np.signbit(x), True), (x == 0) & np.signbit(x)
    for extreme, sign in ((x.max(axis), of_greatest.all(axis)), (x.min(axis), of_least.any(axis))):
        yield np.where(extreme == 0, np.copysign(extreme, np.where(sign, -1.0, 1.0)), extreme).astype(x.dtype)


def rows_one_by_one(x):
    greatest, least = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    for i in range(len(x)):
        greatest[i], least[i] = x[i].max(), np.min(x[i])
    return greatest, least


def columns_in_a_loop(x):
    blocks = x.reshape(1, *x.shape)
    greatest, least = np.empty((1, x.shape[1]), x.dtype), np.empty((1, x.shape[1]), x.dtype)
    for i in range(len(blocks)):
        greatest[i], least[i] = blocks[i].max(axis=0), blocks[i].min(axis=0)
    return greatest[0], least[0]


RULE = {
    "whole": (lambda x: (x.max(), x.min()), None),
    "whole, without NaN": (lambda x: (np.nanmax(x), np.nanmin(x)), None),
    "whole, computed": (lambda x: ((x * 1).max(), (x * 1).min()), None),
    "whole, beside a sum": (lambda x: (x.max(), x.min(), x.sum())[:2], None),
    "rows": (lambda x: (x.max(1), np.minimum.reduce(x, 1)), 1),
    "rows, without NaN": (lambda x: (np.nanmax(x, 1), np.nanmin(x, 1)), 1),
    "rows, stored too": (lambda x: ((y := x * 1).max(1), y.min(1), y)[:2], 1),
    "rows, one by one": (rows_one_by_one, 1),
    "columns": (lambda x: (x.max(0), x.min(0)), 0),
    "columns, without NaN": (lambda x: (np.fmax.reduce(x, 0), np.fmin.reduce(x, 0)), 0),
    "columns, computed": (lambda x: ((x * 1).max(0), (x * 1).min(0)), 0),
    "columns, in a loop": (columns_in_a_loop, 0),
}


def zeros(shape, dtype, seed):
    """Zeros of both signs; some among negative numbers, or among positive ones."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < rng.choice([0.02, 0.5, 0.98]), 0.0, -0.0).astype(dtype)
    x[rng.random(shape) < rng.choice([0, 0.6])] = rng.choice([-1, 1])
    return x


@pytest.mark.parametrize("name, dtype", [*product(RULE, ["f8"]), *product([*RULE][::2], ["f4"])])
def test_every_form_has_one_rule(name, dtype):
    function, axis = RULE[name]
    compiled = npc.compile(function)
    for shape in [(1, 1), (3, 2), (4, 8), (5, 17), (17, 4), (6, 65), (40, 127), (300, 2), (4, 40000)]:
        for x in layouts(zeros(shape, dtype, shape[1])):
            for ours, rule in zip(compiled(x), by_rule(x, axis), strict=True):
                np.testing.assert_array_equal(ours, rule)
                assert np.array_equal(np.signbit(ours), np.signbit(rule)), (shape, x.strides)


@pytest.mark.parametrize("name, dtype", [*zip(RULE, cycle(["f8", "f4"]))])
def test_nan_among_zeros(name, dtype):
    """NaN of either sign and of any payload stays NaN, where bits of two numbers are combined."""
    function, _ = RULE[name]
    compiled, rng = npc.compile(function), np.random.default_rng(3)
    odd = np.array([0x7FF8_0000_4000_0000, 0xFFFC_0000_0000_0000], np.uint64).view("f8").astype(dtype)
    for shape in [(2, 3), (7, 9), (40, 33), (3, 3000)]:
        x = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), zeros(shape, dtype, 1))
        x[0, 0], x[-1, -1] = 1, odd[0]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns that are NaN
            for ours, theirs in zip(compiled(x), function(x), strict=True):
                np.testing.assert_array_equal(ours, theirs)
