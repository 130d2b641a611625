"""What is combined at places that are data: in slices on several copies of the target, with indices checked in vectors."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.kernel_plan import ScatterSlices
from npcompile.tensor_core.dim import ShapeEnv
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.guards import compared
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.source import Bound, Literal
from npcompile.tensor_core.value_ranges import Intervals, interval_of_size, is_inside
from tests.cpu.plans import plans_of

MANY = 40_000  # enough for slices


def added(out, places, x):
    np.add.at(out, places, x)
    return out


def rows_added(out, places, x):
    np.add.at(out, places, np.stack([x, -x]).T)
    return out


def largest(out, places, x):
    np.maximum.at(out, places, x * 2)
    np.minimum.at(out, places[::2], x[::2])
    return out


def multiplied(out, places, x):
    np.multiply.at(out, places, x)
    return out


def read(out, places, x):
    return out[places] * x, x[places % 7], out[places].sum()


def counts(out, places, x):
    places = np.abs(places)
    few = np.bincount(places % 5, minlength=5)
    return np.bincount(places), np.bincount(places, x, 3), np.bincount(places, minlength=100), few


def counts_of_labels(out, places, x):
    labels = np.abs(x[:, None] - np.arange(4)).argmin(axis=1)
    return np.bincount(labels, minlength=4), np.bincount(labels, x, 4), np.bincount(np.clip(places, 0, 9), minlength=10)


def added_at_one_place(out, places, x):
    first = np.broadcast_to(places[:1], places.shape)
    np.add.at(out, first, 2.5)
    np.add.at(out, np.full(x.shape, 3), 1.5)
    np.add.at(out, first, x)
    np.add.at(out, places[:0] + 1, x[:0])
    np.add.at(out, places[:0] + 1, 1)
    return out, np.bincount(np.full(x.shape, 3), minlength=4), np.bincount(places[:0] & 3, x[:0], 4)


PROGRAMS = [
    *((added, dtype) for dtype in (np.float64, np.float32, np.int64, np.uint8, np.complex128)),
    *((rows_added, np.float64), (largest, np.float32), (largest, np.int64), (multiplied, np.float64), (multiplied, np.int64)),
    *((read, np.float64), (read, np.complex128), (counts, np.float64), (counts, np.uint8), (counts_of_labels, np.float64)),
    *((added_at_one_place, dtype) for dtype in (np.float64, np.float32)),
]


@pytest.mark.parametrize(
    "size, program", [*((9, p) for p in PROGRAMS[::2]), *((3000, p) for p in (PROGRAMS[0], *PROGRAMS[1::2]))]
)
def test_as_numpy_has_it(program, size) -> None:
    function, dtype = program
    rng = np.random.default_rng(3)
    compiled = npc.compile(function)
    for n in (MANY, 700, MANY + 1):
        x = (rng.standard_normal(n) * 3 + (1j if dtype == np.complex128 else 0)).astype(dtype)
        if function is multiplied and dtype == np.float64:
            x = np.exp2(rng.integers(0, 2, n) * 2 - 1).astype(dtype)
        out = np.ones((size, 2) if function is rows_added else size, dtype)
        places = rng.integers(-size, size, n)
        expected, got = function(out.copy(), places, x), compiled(out.copy(), places, x)
        for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
            assert (e.dtype, e.shape) == (g.dtype, g.shape)
            if e.dtype.kind in "iu":
                np.testing.assert_array_equal(g, e)
            else:
                tolerance = {"rtol": 2e-5, "atol": 1e-3} if e.dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-10}
                np.testing.assert_allclose(g, e, **tolerance)


def test_sums_err_no_more_than_numpy() -> None:
    rng = np.random.default_rng(5)
    places, x = rng.integers(0, 5, 300_000), rng.standard_normal(300_000).astype(np.float32) + 1
    exact = np.bincount(places, x.astype(np.float64))
    got, numpy = (np.abs(f(np.zeros(5, np.float32), places, x) - exact).max() for f in (npc.compile(added), added))
    assert got <= numpy


@pytest.mark.parametrize("function", [added, largest, read])
@pytest.mark.parametrize("at", [0, 5, MANY - 1])
@pytest.mark.parametrize("size", [8, 3000])
def test_the_first_index_outside_is_named(function, at, size) -> None:
    compiled = npc.compile(function)
    out, places, x = np.ones(size), np.zeros(MANY, np.int64), np.ones(MANY)
    compiled(out.copy(), places, x)
    places[at], places[-1] = size, -size - 1
    before = out.copy()
    with pytest.raises(IndexError) as expected:
        function(out.copy(), places, x)
    with pytest.raises(IndexError) as got:
        compiled(out, places, x)
    assert str(got.value) == str(expected.value)
    assert function is not read or (out == before).all()


@pytest.mark.parametrize("places", [np.array([1, 2, -1] * 1000), np.ones(3000, np.uint64), np.zeros(3000, np.int8)])
def test_what_bincount_refuses_numpy_refuses(places) -> None:
    def outcome(function):
        try:
            return function(places).tolist()
        except (ValueError, TypeError) as error:
            return type(error), str(error)

    assert outcome(npc.compile(lambda x: np.bincount(x))) == outcome(np.bincount)


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((4, 1)), np.ones(4, complex), np.full(4, np.inf), np.array(["1"] * 4)])
def test_weights_of_places_that_are_known(weights) -> None:
    def f(x, weights, least):
        places = x & 3
        return np.bincount(places, weights, 4), np.bincount(places, weights, least), np.bincount(places > 1, minlength=2)

    def outcome(function, least):
        try:
            return [(r.tolist(), r.dtype) for r in function(np.array([5, 2, 6, 1]), weights, least)]
        except (ValueError, TypeError) as error:
            return type(error), str(error)

    compiled = npc.compile(f)
    assert all(outcome(compiled, least) == outcome(f, least) for least in (4, 4, 2, -1, 40))


def test_what_is_only_moved_is_not_found_before_it_is_written() -> None:
    def moved(out, places, x):
        np.add.at(out, places, x[places] * 2)
        return out

    def computed(out, places, x):
        np.add.at(out, places, np.exp(x))
        return out

    arguments = np.zeros(5000), np.arange(5000), np.ones(5000)
    ways = [plan.way for f in (moved, computed) for plan in plans_of(f, *arguments)]
    assert [way.is_moved for way in ways if isinstance(way, ScatterSlices)] == [True, False]


def test_what_is_known_is_not_looked_for() -> None:
    def labelled(x):
        return np.bincount(np.clip(x, 0, 15), minlength=16)

    def found(x):
        return np.bincount(x, minlength=16)

    x = np.arange(5000) % 16
    known, looked = ({p.name for p in npc.explain(f)(x).passes} for f in (labelled, found))
    asks = {"bounds check elimination", "sizes from data"}
    assert asks <= looked and not asks & known


INT = np.dtype(np.int64)


def test_intervals() -> None:
    env = ShapeEnv()
    n = env.symbol("n", 40, at_least=2)
    builder = Builder(env=env)
    x, few = builder.input(TensorMeta((n,), INT)), builder.input(TensorMeta((n,), np.dtype(np.uint8)))

    def number(value):
        return builder.apply("broadcast_to", builder.constant(value, INT), shape=(n,))

    def interval(op, *inputs, **params):
        return Intervals().of(builder.apply(op, *inputs, **params))

    limits = (-(2**63), 2**63 - 1)
    above = builder.apply("maximum", x, number(3))
    assert interval("minimum", above, number(9)) == (3, 9)
    assert interval("remainder", x, number(5)) == (0, 4)
    assert interval("remainder", x, number(-5)) == limits
    assert interval("bitwise_and", x, number(6)) == (0, 6)
    assert interval("bitwise_and", x, number(-2)) == limits
    assert interval("cast", few, dtype=np.dtype(np.int8)) == (-128, 127)
    assert interval("cast", few, dtype=INT) == (0, 255)
    assert interval("where", builder.apply("less", x, number(0)), number(-2), above) == (-2, limits[1])
    assert interval("add", few, few) == (0, 255)
    assert interval("arg_reduce", builder.input(TensorMeta((6, n), INT)), which="max", axis=0) == (0, 5)
    assert interval_of_size(n - 2) == (0, 2**64 - 1)
    assert is_inside((0, 1), n) and not is_inside((0, 2), n) and not is_inside((-1, 0), n)
    env.assume(compared(Bound("n"), "==", Literal(40)))
    assert interval_of_size(n - 2) == (38, 38)
