"""Zeros that extremes give: in rows by one rule, and with NumPy's sign where docs/accuracy.md says so."""

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


# --- of two single numbers


def in_loop(function):
    def each(x, y, out):
        for i in range(x.size):
            out[i] = function(x[i], y[i])
        return out

    return each


def in_turn(function):
    def running(x, y, out):
        m = x[0]
        for i in range(x.size):
            m = function(m, x[i])
            out[i] = function(m, 0.0)
        return out

    return running


def in_graph(function):
    return lambda x, y, out: (function(x[0], y[0]), function(x[1], function(y[0], x[-1])), function(float(x[0]), float(y[0])))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("made", [in_loop, in_turn, in_graph])
@pytest.mark.parametrize("name", ["fmin", "fmax", "minimum", "maximum"])
def test_zeros_of_two_single_numbers(name, made, dtype):
    """The same one as NumPy's, in loops and graphs, whichever it takes on this machine."""
    function = made(getattr(np, name))
    compiled = npc.compile(function)
    rng = np.random.default_rng(3)
    for n in (2, 3, 9, 40, 130):
        for values in ([0.0, -0.0], [0.0, -0.0, np.nan], [0.0, -0.0, 1.0, -1.0]):
            x, y = rng.choice(np.array(values, dtype), (2, n))
            for ours, theirs in zip(compiled(x, y, np.ones(n, dtype)), function(x, y, np.ones(n, dtype)), strict=True):
                assert ours.tobytes() == theirs.tobytes()


# --- of many numbers


def by_rule(x, axis):
    """The greatest and the least, of zeros 0.0 and -0.0."""
    of_greatest, of_least = np.where(x == 0, np.signbit(x), True), (x == 0) & np.signbit(x)
    for extreme, sign in ((x.max(axis), of_greatest.all(axis)), (x.min(axis), of_least.any(axis))):
        yield np.where(extreme == 0, np.copysign(extreme, np.where(sign, -1.0, 1.0)), extreme).astype(x.dtype)


def whole_in_a_loop(x):
    for _ in range(2):
        greatest, least = x.max(), x.min()
    return greatest, least


def rows_in_a_loop(x):
    greatest, least = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    for i in range(len(x)):
        greatest[i], least[i] = x[i].max(), np.min(x[i])
    return greatest, least


def axis_in_a_loop(x):
    for _ in range(2):
        greatest, least = x.max(axis=1), x.min(axis=1)
    return greatest, least


def columns_in_a_loop(x):
    for _ in range(2):
        greatest, least = x.max(axis=0), x.min(axis=0)
    return greatest, least


ROWS = {
    "whole": (lambda x: (x.max(), x.min()), None),
    "whole, without NaN": (lambda x: (np.nanmax(x), np.nanmin(x)), None),
    "whole, computed": (lambda x: ((x + x).max(), (x + x).min()), None),
    "whole, beside a sum": (lambda x: (x.max(), x.min(), x.sum())[:2], None),
    "whole, in a loop": (whole_in_a_loop, None),
    "rows": (lambda x: (x.max(1), np.minimum.reduce(x, 1)), 1),
    "rows, without NaN": (lambda x: (np.nanmax(x, 1), np.nanmin(x, 1)), 1),
    "rows, computed": (lambda x: ((x + x).max(1), (x + x).min(1)), 1),
    "rows, stored too": (lambda x: ((y := x + x).max(1), y.min(1), y)[:2], 1),
    "rows, one by one": (rows_in_a_loop, 1),
    "rows, in a loop": (axis_in_a_loop, 1),
}


def zeros(shape, dtype, seed):
    """Zeros of both signs; some among negative numbers, or among positive ones."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < rng.choice([0.02, 0.5, 0.98]), 0.0, -0.0).astype(dtype)
    x[rng.random(shape) < rng.choice([0, 0.6])] = rng.choice([-1, 1])
    return x


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ROWS)
def test_rows_have_one_rule_in_graphs_and_loops(name, dtype):
    function, axis = ROWS[name]
    compiled = npc.compile(function)
    for n in (*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 300, 5000, 40000):
        rows = 2 + n % 5
        given = layouts(zeros((rows, n), dtype, n))
        for x in given if axis is None or function is rows_in_a_loop else given[:1]:  # of others columns may be combined
            for ours, rule in zip(compiled(x), by_rule(x, axis), strict=True):
                np.testing.assert_array_equal(ours, 2 * rule if name.endswith(("computed", "too")) else rule)
                assert np.array_equal(np.signbit(ours), np.signbit(rule)), (n, x.strides)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_columns_have_one_rule_in_graphs_and_loops(dtype):
    graph, loop = npc.compile(lambda x: (x.max(0), x.min(0))), npc.compile(columns_in_a_loop)
    for shape in [*SHAPES, (2, 300), (300, 2), (300, 70), (5000, 5)]:
        for x in layouts(zeros(shape, dtype, shape[1]))[::2]:
            for ours, in_a_loop, theirs in zip(graph(x), loop(x), columns_in_a_loop(x), strict=True):
                assert ours.tobytes() == in_a_loop.tobytes()
                is_by_rows = min(shape) > 1 and x.flags.c_contiguous and platform.machine() == "x86_64"
                assert not is_by_rows or ours.tobytes() == theirs.tobytes()
