"""Views that several variables or tuples have as one object are one object when a native program leaves or returns them."""

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


def objects_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from objects_in(item)
    elif isinstance(value, np.ndarray):
        yield value


PROGRAMS = [assigned_together, one_of_two, given_on, exchanged, left_in_the_middle, made_apart]


@pytest.mark.parametrize("program", PROGRAMS)
def test_which_views_are_one_object(program):
    compiled = npc.compile(program)
    for n in (3, 6, 7):
        ours, theirs = np.arange(9.0), np.arange(9.0)
        found, expected = compiled(ours, n), program(theirs, n)
        assert repr(found) == repr(expected)
        found, expected = [ours, *objects_in(found)], [theirs, *objects_in(expected)]
        same = [[[x is y for x in objects] for y in objects] for objects in (found, expected)]
        assert same[0] == same[1], n
    assert npc.explain(compiled)(np.arange(9.0), 6).natives
