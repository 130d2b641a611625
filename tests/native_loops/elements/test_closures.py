"""Variables that functions share in native loops: those of an outer function, and functions made anew in each call."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(10)


def of_weights(scale: Any, weights: np.ndarray) -> Any:
    def weighted(x, y):
        total = 0.0
        for i in range(x.size):
            total += scale * weights[i % weights.size] * x[i]
            y[i] = total
        return total, y

    return weighted


@pytest.mark.parametrize("scale", [2, 2.5, np.float32(0.1), np.int8(3)])
def test_variables_of_an_outer_function(scale):
    agrees(of_weights(scale, np.arange(3.0)), rng.random(40), np.zeros(40))


def test_a_variable_of_an_outer_function_is_read_in_each_call():
    scale = 2.0
    weights = np.arange(3.0)

    def total(x):
        s = 0.0
        for i in range(x.size):
            s = s / 2 + scale * x[i] - weights[i % 3]  # noqa: F821 - it is deleted below
        return s

    compiled = npc.compile(total)
    x = rng.random(30)
    for scale, weights in ((2.0, np.ones(3)), (-1.5, x), (3, np.arange(3)), (0.5, x[::2]), (np.float64(7), x)):
        ours = compiled(x)
        assert type(ours) is type(total(x)) and ours == total(x)
    assert native_loops(compiled) >= 3
    del scale
    with pytest.raises(NameError, match="scale"):
        compiled(x)


def test_an_array_that_an_argument_and_a_variable_share():
    memory = rng.random(40)

    def sums(x):
        for i in range(1, x.size):
            x[i] += memory[i - 1]
        return memory

    compiled = npc.compile(sums)
    expected = memory.cumsum()
    assert compiled(memory) is memory and np.allclose(memory, expected)
    before = memory.copy()
    other = np.ones(40)
    assert compiled(other) is memory and np.array_equal(other[1:], 1 + before[:-1]) and np.array_equal(memory, before)
    assert native_loops(compiled) >= 1


def pendulum(y, h, n, friction):
    def slope(y):
        return np.array([y[1], -friction * y[1] - np.sin(y[0])])

    out = np.empty((n, 2))
    for i in range(n):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        y = y + h * k2
        out[i] = y
    return out


def of_defaults(x, n):
    def step(v, k=n, m=0.5, *, _unused=None):
        return v * m + k

    def plain(v, k=n, m=0.5):
        return v * m + k

    for i in range(x.size):
        x[i] = plain(x[i]) + plain(x[i], m=2.0)
    return x, step(1.0)


def chosen(x, n):
    if n % 2:
        f = lambda v: v + n  # noqa: E731
    else:
        f = lambda v: v * n  # noqa: E731
    for i in range(x.size):
        x[i] = f(x[i])
    return x


def changed_between_loops(x, n):
    def scaled(v):
        return v * n

    for i in range(x.size):
        x[i] = scaled(x[i])
    n = n + 0.5
    for i in range(x.size):
        x[i] += scaled(x[i])
    return x, n


def changed_in_the_loop(x, n):
    def scaled(v):
        return v + n

    for i in range(x.size):
        x[i] = scaled(x[i])
        if i % 7 == 3:
            n = n * 2
    return x, n


def shared_by_two(x, n):
    def up(v):
        return v + n

    def down(v):
        return up(v) - 2 * n

    for i in range(x.size):
        x[i] = up(down(x[i])) + x[i - 1]
    return x


def counted_by_the_function(x, n):
    count = 0

    def seen(v):
        nonlocal count
        count += 1
        return v + n

    for i in range(x.size):
        x[i] = seen(x[i])
    return x, count


@pytest.mark.parametrize(
    "function, loops",
    [
        (of_defaults, 1),
        (chosen, 1),
        (changed_between_loops, 2),
        (changed_in_the_loop, 1),
        (shared_by_two, 1),
        (counted_by_the_function, 0),
    ],
)
def test_functions_made_anew(function, loops):
    compiled = agrees(function, rng.random(50), 3, loops=loops)
    made = native_loops(compiled)
    for n in (3, 5, 4, 2.5, 7):
        x = rng.random(50)
        ours, theirs = compiled(x.copy(), n), function(x.copy(), n)
        assert np.array_equal(ours[0], theirs[0]) and str(ours) == str(theirs)
    assert native_loops(compiled) <= made + 3 * max(loops, 1)  # for floats, and for the other lambda, not one for each call


def test_a_method_of_integration_with_its_slope_inside(monkeypatch):
    monkeypatch.setattr(npc.config, "accuracy", "bitwise")  # of its sines
    compiled = agrees(pendulum, np.array([1.0, 0.0]), 0.01, 100, 0.1)
    made = native_loops(compiled)
    for friction in (0.2, 0.3, 0.4):
        compiled(np.array([1.0, 0.0]), 0.01, 100, friction)
    assert native_loops(compiled) == made


def test_the_function_itself_is_handed_over():
    def made(x):
        def f(v):
            return v * 2

        g = f
        for i in range(x.size):
            x[i] = g(f(x[i]))
        return f, g, x

    compiled = npc.compile(made)
    for _ in range(3):
        f, g, x = compiled(np.ones(30))
        assert type(f) is FunctionType and f is g and f(3) == 6 and np.array_equal(x, np.full(30, 4.0))
    assert native_loops(compiled) == 1


def test_functions_that_were_one_are_two():
    def both(x, f, g):
        for i in range(x.size):
            x[i] = f(x[i]) - g(x[i]) + x[i - 1]
        return f, g, x

    def adding(k):
        return lambda v: v + k

    compiled, one, two = npc.compile(both), adding(1.0), adding(10.0)
    for f, g in ((one, one), (one, two), (two, one), (two, two)):
        ours, theirs = compiled(np.ones(30), f, g), both(np.ones(30), f, g)
        assert ours[0] is f and ours[1] is g and np.array_equal(ours[2], theirs[2])


def test_functions_made_anew_that_loop_are_compiled_once():
    def smoothed_twice(x, n):
        def smoothed(v, rate=0.5):
            out = np.empty_like(v)
            out[0] = v[0]
            for i in range(1, len(v)):
                out[i] = rate * v[i] + (1 - rate) * out[i - 1]
            return out

        first = smoothed(x) - smoothed(x, 0.1)
        return first - smoothed(first, 1 / n), smoothed

    compiled = npc.compile(smoothed_twice)
    x = rng.random(200)
    for n in (2, 3, 4, 5):
        (ours, f), (theirs, _) = compiled(x, n), smoothed_twice(x, n)
        assert np.array_equal(ours, theirs) and type(f) is FunctionType and not hasattr(f, "__npcompile__")
    known = compiled_function(compiled)
    assert known is not None and len(known.callees) == 1
    assert sum(len(point.variants) for point in known.points.values()) == 4
    (smoothed,) = known.callees.values()
    assert native_loops(smoothed) == 1


def test_functions_made_anew_with_defaults_or_attributes_of_their_own():
    def made(x, rate, is_marked):
        def smoothed(v, rate=rate):
            out = np.zeros_like(v)
            for i in range(1, len(v)):
                out[i] = rate * v[i] - out[i - 1]
            return out

        if is_marked:
            smoothed.times = 3
        return smoothed(x) + 1, smoothed(x * 2)

    compiled = npc.compile(made)
    x = rng.random(200)
    for rate in (0.5, 0.25, 3, np.float32(0.1)):
        for is_marked in (False, True):
            ours, theirs = compiled(x, rate, is_marked), made(x, rate, is_marked)
            assert all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, theirs))


def test_a_function_that_branches_in_another() -> None:
    def halved(t):
        return t / 2 if t < 100 else 0.25

    def sum_of(v, k, t):
        return v * k + halved(t)

    def program(x, n):
        t = 0.0
        for i in range(n):
            t = t * 0.5 + x[i % x.size]
            x[i % x.size] += sum_of(t, i, t) - halved(sum_of(i, 1, x[0]))
        return x

    compiled = npc.compile(program)
    for n in (3, 50, 60):
        assert np.array_equal(compiled(np.arange(20.0), n), program(np.arange(20.0), n))
    assert native_loops(compiled)


def shared_behind_an_inner_loop(x, m, n):
    t, u = 1.5, -2.0
    for i in range(n):
        t = max(abs(e) for e in x)
        s = np.array([e + m[i] for e in x])[i - 1]
        for _ in range(i, n):
            for _ in (-1, 0, 1):
                t += i
                t = u / (not 0)
    return s, t


def shared_and_chosen(x, n):
    s, k = 0.0, 0
    for i in range(n):
        for j in range(n):
            k = j if x[j] > i else k - 1
            s += k * x[j]
        s += sum([e + k for e in x])
    return s, k, i


def test_a_variable_that_functions_share_outlives_an_inner_loop() -> None:
    with np.errstate(all="ignore"):
        agrees(shared_behind_an_inner_loop, np.arange(19), np.ones(19), 18, loops=0)
    agrees(shared_and_chosen, rng.normal(size=9) * 9, 9, loops=0)
