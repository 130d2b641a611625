"""Named tuples, made by the program or by NumPy, are what they are in Python."""

from __future__ import annotations

import collections
from typing import NamedTuple

import numpy as np

from tests.tracer.harness import check

Pair = collections.namedtuple("Pair", ["first", "second"], defaults=[3])


class Point(NamedTuple):
    x: np.ndarray
    y: np.ndarray

    def norm(self):
        return np.sqrt(self.x * self.x + self.y * self.y)

    @property
    def double(self):
        return self.x * 2


@check(graphs=1, breaks=0)
def test_made_and_returned(x, y):
    return Pair(x + y, second=y), Pair(2 * x), Point(y=x, x=y)


@check(graphs=1, breaks=0)
def test_read(x, y):
    pair = Pair(x, y * 2)
    first, second = pair
    return pair.first + pair[1], first * second, pair[-1], len(pair), [p.sum() for p in pair]


@check(graphs=1, breaks=0)
def test_parts_are_plain_tuples(x, y):
    pair = Pair(x + 1, y + 1)
    return pair[:1], pair[::-1], pair + (1,), pair * 2, pair + pair, tuple(pair), isinstance(pair, tuple)


@check(graphs=0, breaks=0)
def test_types(x, y):
    return type(Pair(x, y)) is Pair, isinstance(Pair(x, y), Pair), isinstance(Point(x, y), Pair), Pair(1, 2) == (1, 2)


@check(graphs=1, breaks=0)
def test_one_object(x, y):
    pair = Pair(x + 1, y)
    return pair, [pair, pair]


@check(graphs=2, breaks=1)
def test_across_a_break(x, y):
    pair = Pair(x * 2, y)
    print(end="")
    return pair.first + pair.second, pair


@check(graphs=1, breaks=0)
def test_methods(x, y):
    return Point(x, y).norm(), Point(x, y).double


@check(lambda round: Point(np.arange(3.0) + round, np.ones(3)), graphs=1, breaks=0)
def test_from_outside(p):
    return p.norm() + p.x, p, p.double


class Odd(NamedTuple):
    x: np.ndarray

    def __bool__(self):
        return False


@check(lambda round: Odd(np.arange(3.0)))
def test_operators_of_its_own(p):
    return (1 if p else 2), p.x + 1, Odd(p.x)


@check()
def test_methods_of_named_tuples(x, y):
    return Pair(x, y)._replace(first=y), Pair(x, y)._asdict()


@check()
def test_wrong_arguments(x, y):
    return Pair(x, y, x)
