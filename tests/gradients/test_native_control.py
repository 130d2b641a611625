"""Gradients of npc.fori_loop, npc.while_loop and npc.scan, natively: they are those of Python's loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile import fori_loop
from npcompile.tensor_core.loop_ir.ops import Policy
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.gradients.test_native_loop_functions import native
from tests.gradients.test_native_loops import close, numbers

RATE = 0.25
SLICES = 4


def stepped(p, pair):
    a, b = pair
    return a + RATE * a * (p[0] - p[1] * b), b + RATE * b * (p[2] * a - p[3])


def same_as(form: Any, loop: Any, x: np.ndarray) -> None:
    """The form has a native gradient: the one of Python's loop, to the bit."""
    native(form, (x,), (0,))
    found, expected = (npc.value_and_grad(function)(x) for function in (form, loop))
    assert [np.asarray(each).tolist() for each in found] == [np.asarray(each).tolist() for each in expected]
    assert type(found[0]) is type(expected[0])


def test_a_number() -> None:
    def form(x):
        return npc.fori_loop(0, x.size, lambda i, s: 0.9 * s + 0.1 * x[i] * x[i], 0.0)

    def loop(x):
        s = 0.0
        for i in range(x.size):
            s = 0.9 * s + 0.1 * x[i] * x[i]
        return s

    same_as(form, loop, numbers(40))


def test_a_tuple_by_a_function_of_the_module() -> None:
    def form(p):
        a, b = fori_loop(0, 20, lambda i, c: stepped(p, c), (1.0, 0.5))
        return a + b

    def loop(p):
        a, b = 1.0, 0.5
        for _ in range(20):
            a, b = stepped(p, (a, b))
        return a + b

    same_as(form, loop, numbers(4))


def test_while_of_data() -> None:
    def form(x):
        n, s = npc.while_loop(lambda c: c[1] < 3.0, lambda c: (c[0] + 1, c[1] + x[c[0] % 3] * c[1]), (0, x[0]))
        return s * n

    def loop(x):
        n, s = 0, x[0]
        while s < 3.0:
            n, s = n + 1, s + x[n % 3] * s
        return s * n

    same_as(form, loop, numbers(5) + 0.5)


def test_the_rest_of_a_carry() -> None:
    def form(p):
        _, a, b = npc.while_loop(lambda c: c[0] < 20, lambda c: (c[0] + 1, *stepped(p, c[1:])), (0, 1.0, 0.5))
        return a + b

    def loop(p):
        k, a, b = 0, 1.0, 0.5
        while k < 20:
            k += 1
            a, b = stepped(p, (a, b))
        return a + b

    same_as(form, loop, numbers(4))


def test_loops_inside_each_other() -> None:
    """The inner one's function reads a variable of the loop around it, as it is then."""

    def form(x):
        s = 0.0
        for k in range(SLICES):
            s = fori_loop(k, x.size, lambda i, c: c + np.sin(c) * fori_loop(0, k, lambda j, d: d * x[j] + x[i], x[k]), s)
        return s

    def loop(x):
        s = 0.0
        for k in range(SLICES):
            for i in range(k, x.size):
                d = x[k]
                for j in range(k):
                    d = d * x[j] + x[i]
                s = s + np.sin(s) * d
        return s

    same_as(form, loop, numbers(6))


def test_a_variable_is_read_when_the_function_is_called() -> None:
    def f(x):
        y = x[0]
        body = lambda i, s: s * y + x[i]  # noqa: E731
        y = x[1] * x[1]
        s = npc.fori_loop(0, 4, body, 1.0)
        y = x[2]
        return npc.fori_loop(0, 4, body, s)

    native(f, (numbers(5),), (0,))


def test_defaults_and_keywords() -> None:
    def f(x):
        a = x[0]
        g = lambda i, s, a=a, k=2: s * a + k * x[i]  # noqa: E731
        a = x[1]
        return npc.fori_loop(lower=1, upper=4, init_val=a, body_fun=g)

    native(f, (numbers(5),), (0,))


def test_stars_after_other_items() -> None:
    """In a list and in a tuple, all of the items are there."""

    def f(x):
        rates, s = (0.5, 1.5), 0.0
        for i in range(20):
            for y in [x[0], *rates]:
                s = s + y * x[i]
            s = s * (0.25, *rates)[0]
        return s

    native(f, (numbers(20),), (0,))


def test_an_array() -> None:
    def form(u):
        u = npc.fori_loop(0, 20, lambda i, u: np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]]), u)
        return u @ u

    def loop(u):
        u = u.copy()
        for _ in range(20):
            u = np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])
        return u @ u

    same_as(form, loop, numbers(30))


def test_the_first_carry_stays_as_it_was() -> None:
    def f(x):
        def body(i, c):
            c[i] = c[i] * c[i - 1]
            return c

        y = npc.fori_loop(1, x.size, body, x)
        return y[-1] + x[-1]

    x = numbers(6)
    before = x.copy()
    value, gradient = npc.value_and_grad(f)(x)
    assert x.tolist() == before.tolist() and value == np.prod(x) + x[-1]
    close(gradient, np.prod(x) / x + np.eye(6)[-1])


@pytest.mark.parametrize(
    "form",
    [
        lambda x: npc.fori_loop(0, 3, lambda i, c: (c, c), x[0]),
        lambda x: npc.fori_loop(0, 3, lambda i, c: c > 0.5, x[0]),
        lambda x: npc.fori_loop(0, 3, lambda i, c: c[1:], x)[0],
        lambda x: npc.while_loop(lambda c: x, lambda c: c, x[0]),
        lambda x: npc.fori_loop(0.5, 3, lambda i, c: c, x[0]),
    ],
)
def test_errors_are_those_of_eager_loops(form: Any) -> None:
    """A carry that changes, a condition that is an array, a bound that is no integer."""
    with pytest.raises(TypeError) as eager:
        form(np.ones(3))
    for _ in range(2):
        with pytest.raises(TypeError) as found:
            npc.grad(form)(np.ones(3))
        assert str(found.value).split(" before an iteration")[0].split(":")[0] == str(eager.value).split(":")[0]


def test_which_functions_are_written_into_programs() -> None:
    """Not one that outlives the variables it reads; one that sets a variable around it, and one with starred parameters."""

    def makes(a):
        return lambda i, s: s * a

    def outlives(x):
        return npc.fori_loop(0, 3, makes(x[0]), 1.0)

    def sets(x):
        last = x[0]

        def body(i, s):
            nonlocal last
            last = s
            return s * x[i]

        return npc.fori_loop(0, 3, body, last) * last

    def starred(x):
        return npc.fori_loop(0, 3, lambda *a: a[1] * x[a[0]], 1.0)

    with pytest.raises(Unsupported):
        trace(outlives, (numbers(4),), Policy.ABORT)
    x = numbers(4)
    for function in (sets, starred):
        native(function, (x,), (0,))
    for function in (outlives, sets, starred):
        found, at = npc.grad(function)(x), np.eye(4) * 1e-6
        close(found, np.array([(function(x + d) - function(x - d)) / 2e-6 for d in at]))


def test_while_of_arrays_whose_sizes_an_iteration_computes() -> None:
    def conducted(u):
        return np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])

    def form(u):
        u = npc.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, conducted(c[1])), (0, u))[1]
        return u @ u

    def loop(u):
        k = 0
        while k < 5:
            k, u = k + 1, conducted(u)
        return u @ u

    for function in (form, loop):
        native(function, (numbers(9),), (0,))


@pytest.mark.parametrize("is_reverse", [False, True])
def test_scan_and_what_it_stacks(is_reverse: bool) -> None:
    """Over a tree of arrays, with results of three dtypes in a tree."""

    def form(x, y):
        def body(c, v):
            a, (b, row) = v
            c = c * a + b * row[1]
            return c, (c * a, (1.5, c > 2.0))

        last, (found, (same, _)) = npc.scan(body, 0.5, (x, (x, y)), reverse=is_reverse)
        s = last
        for k in range(x.size):
            s = s + found[k] * found[k] * same[k] * k
        return s

    native(form, (numbers(7), numbers(21, 1).reshape(7, 3)), (0, 1))
    stacked = npc.value_and_grad(lambda x: scanned(x, is_reverse), has_aux=True)  # all of what is stacked
    (_, found), _ = stacked(numbers(7))
    assert stacked._made.loops.versions
    expected = scanned(numbers(7), is_reverse)[1]
    assert [(each.dtype, each.tolist()) for each in found] == [(each.dtype, each.tolist()) for each in expected]


def scanned(x, is_reverse):
    body = lambda c, a: (c * a, (c * a, 2.0 * a, 3, c > 0.5))  # noqa: E731
    return npc.scan(body, 1.0, x, None, is_reverse)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_scan_that_stacks_arrays(is_reverse: bool) -> None:
    def form(x, w):
        last, (rows, (some, numbers)) = npc.scan(
            lambda c, v: (0.9 * c + v, (c * v, (np.outer(c, w)[:2], c[0]))), w, x, reverse=is_reverse
        )
        return np.sum(rows * rows) + np.sum(np.sin(some)) + last @ last + np.sum(numbers)

    native(form, (numbers(21).reshape(7, 3), numbers(3, 1)), (0, 1))


def test_scan_that_stacks_arrays_of_several_sizes() -> None:
    form = lambda x: npc.scan(lambda k, v: (k + 1, x[k:]), 0, x)[1][0, 0]  # noqa: E731
    for _ in range(2):
        with pytest.raises(TypeError, match="it must keep its shape"):
            npc.grad(form)(np.ones(3))


def test_scan_without_results() -> None:
    def form(x):
        return npc.scan(lambda s, v: (0.9 * s + 0.1 * v * v, None), 0.0, x)[0]

    def loop(x):
        s = 0.0
        for v in x:
            s = 0.9 * s + 0.1 * v * v
        return s

    same_as(form, loop, numbers(40))


def test_scan_by_length() -> None:
    native(lambda x: npc.scan(lambda c, _: (c * x[0] + 1.0, None), 1.0, length=10)[0], (numbers(3),), (0,))


@pytest.mark.parametrize(
    "form",
    [
        lambda x: npc.scan(lambda c, v: (c, v), x[0], (x, x[:1]))[0],
        lambda x: npc.scan(lambda c, v: (c, v), x[0], x, length=2)[0],
        lambda x: npc.scan(lambda c, v: c, x[0], x)[0],
        lambda x: npc.scan(lambda c, v: ((c[0] + 1, c[1]), c[0] if c[0] < 1 else 1.5), (0, x[0]), x)[0][1],
    ],
)
def test_errors_of_scan(form: Any) -> None:
    """Lengths that differ, no pair, results that change their dtype."""
    with pytest.raises(TypeError):
        form(np.ones(3))
    transformed = npc.grad(form)
    for _ in range(2):
        with pytest.raises(TypeError):
            transformed(np.ones(3))


def test_scan_over_nothing() -> None:
    form = lambda x: npc.scan(lambda c, v: (c * v, c), 2.0, x)[0] * 1.0  # noqa: E731
    assert npc.value_and_grad(form)(np.ones(2))[0] == 2.0
    value, gradient = npc.value_and_grad(form)(np.ones(0))
    assert value == 2.0 and gradient.shape == (0,)
