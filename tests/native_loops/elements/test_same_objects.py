"""Views and tuples that several variables or tuples have are one object still when a native program leaves or returns them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc


def assigned_together(x, n):
    s = 0.0
    for i in range(n):
        a = b = x[1:]
        for j in range(4):
            s += a[j]
    return a, b, s


def one_of_two(x, n):
    s = 0.0
    for i in range(n):
        a = x[i:]
        if i % 2:
            b = a
        else:
            b = x[1:]
        a[0] += 1
        for j in range(3):
            s += b[j]
    return a, b, s


def given_on(x, n):
    s = 0.0
    v = x[1:]
    for i in range(n):
        w = v
        for j in range(4):
            s += w[j]
            u = w
    return u, v, w, s


def exchanged(x, n):
    a = b = x[:3]
    s = 0.0
    for i in range(n):
        if i % 2:
            a, b = b, a
        else:
            b = x[i:]
        for j in range(3):
            a[0] += j
    return a, b, [a, b], s


def left_in_the_middle(x, n):
    a = x[1:]
    b = a
    s = 0.0
    for i in range(n):
        for j in range(4):
            if i == 4:
                return (a, b), b
            s += a[j]
    return (a, s), (b, a)


def made_apart(x, n):
    s = 0.0
    for i in range(n):
        a = x[1:]
        b = x[1:]
        c = a[:]
        for j in range(4):
            s += a[j] + b[0] + c[0]
    return a, b, c, s


def tuples_assigned_together(x, n):
    t = u = (x[0], 1.0)
    for i in range(n):
        s = x[i]
        t = u = (s, s + 1.0)
    return t, u


def tuples_in_tuples(x, n):
    t = u = (x[0], 0.0)
    v = (t, u, 2.0)
    for i in range(n):
        if i % 3 == 0:
            t = (x[i], x[1] * i)
        if i % 3 == 1:
            u = t
        v = (t, u, x[i])
        w = v
    return [t, u, v, w]


def tuples_of_views(x, n):
    s = 0.0
    for i in range(n):
        a = x[1:]
        t = (a, s)
        u = (a, t)
        for j in range(4):
            s += a[j]
    return a, t, u, s


def tuples_exchanged(x, n):
    a = (x[0], x[1])
    b = (x[1], x[2])
    for i in range(n):
        a, b = b, a
        c = a
        if x[i] > 5.5:
            return a, b, c
    return b, a, c


def tuples_made_apart(x, n):
    for i in range(n):
        a = (x[i], 1.0)
        b = (x[i], 1.0)
        c = a if i % 2 else b
    return a, b, c


def tuple_of_a_list(x, n):
    t = (x[0], 1.0)
    for i in range(n):
        found = []
        u = (x[i], 3.0)
        v = u
        found.append(x[i])
        t = (found[0], x[i])
        w = t
    return t, u, v, w


def tuples_beside_parameters(x, n, tuple0=(1.0,), usual_list_8="a"):
    t = u = (x[0], 1.0)
    for i in range(n):
        t = u = (x[i], 3.0)
    return t, u, tuple0, usual_list_8


def objects_in(value: Any) -> Iterator[Any]:
    """Arrays and tuples, but the outermost one."""
    if isinstance(value, (tuple, list)):
        for item in value:
            if isinstance(item, tuple):
                yield item
            yield from objects_in(item)
    elif isinstance(value, np.ndarray):
        yield value


VIEWS = [assigned_together, one_of_two, given_on, exchanged, left_in_the_middle, made_apart]
TUPLES = [
    tuples_assigned_together,
    tuples_in_tuples,
    tuples_of_views,
    tuples_exchanged,
    tuples_made_apart,
    tuple_of_a_list,
    tuples_beside_parameters,
]


@pytest.mark.parametrize("program, most", [*((program, 9) for program in VIEWS), *((program, 40) for program in TUPLES)])
def test_which_are_one_object(program, most):
    compiled = npc.compile(program)
    for n in (3, most - 3, most - 2):
        ours, theirs = np.arange(float(most)), np.arange(float(most))
        found, expected = compiled(ours, n), program(theirs, n)
        assert repr(found) == repr(expected)
        found, expected = [ours, *objects_in(found)], [theirs, *objects_in(expected)]
        same = [[[x is y for x in objects] for y in objects] for objects in (found, expected)]
        assert same[0] == same[1], n
    assert npc.explain(compiled)(np.arange(float(most)), most - 3).natives
