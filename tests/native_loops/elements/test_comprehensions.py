"""List comprehensions and generator expressions in native programs."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(13)
N = 300
VECTOR = rng.standard_normal(N)
OTHER = rng.standard_normal(N)
MATRIX = rng.standard_normal((20, 20))
INLINED = sys.version_info >= (3, 12)  # list comprehensions there are code of the function itself


def squared(v):
    return v * v if v > 0 else -v


def arrays_of_lists(x):
    return np.array([squared(v) + 1.0 for v in x]), np.array([v for v in x if v > 0]), len([i for i in range(len(x)) if x[i] < 0])


def returned(x):
    return [v * 2 for v in x if v > 0 or v < -1]


def of_pairs(x, y):
    total = sum([a * b for a, b in zip(x, y)])
    return total, np.asarray([(i, i * i) for i, v in enumerate(x) if v > 0.5])


@pytest.mark.parametrize("function", [arrays_of_lists, returned])
@pytest.mark.parametrize("x", [VECTOR, VECTOR.astype("f4"), np.arange(-20, 200), np.full(N, -0.5), np.full(N, np.nan)])
def test_lists(function, x):
    agrees(function, x, loops=0)


def test_lists_are_native():
    expected = 0 if INLINED else 1
    for function in (arrays_of_lists, returned):
        agrees(function, VECTOR, loops=expected)
    agrees(of_pairs, VECTOR, OTHER, loops=expected)


def products(x, y):
    return sum(x[i] * y[i] for i in range(len(x)))


def extremes(x):
    return max(abs(v) for v in x), min(v * 2 for v in x), max(i for i in range(len(x)) if x[i] > 0)


def decided(x, limit):
    return any(v > limit for v in x), all(v < limit for v in x), any(i % 7 == limit for i in range(len(x)))


def counted(x):
    return sum(1 for v in x if v > 0), sum(v > 0 for v in x), sum((v for v in x), 10), sum((v for v in x), 0.5)


def of_rows(a, x):
    n, m = a.shape
    out = np.zeros(n)
    for i in range(n):
        out[i] = sum(a[i, j] * x[j] for j in range(m))
        if any(a[i, j] > 2.2 for j in range(i)):
            out[i] -= max(a[i, k] for k in range(m))
    return out, i


def sum_of_sums(a):
    return sum(sum(a[i, j] * i for j in range(i, a.shape[1])) for i in range(a.shape[0]))


def of_steps(x, k):
    return sum(x[i] for i in range(k, len(x), k)) + sum(v for v in reversed(x))


@pytest.mark.parametrize("x", [VECTOR, VECTOR.astype("f4"), np.arange(-20, 200), np.arange(200, dtype="u1"), VECTOR > 0])
def test_sums_and_extremes(x):
    agrees(products, x, x[::-1], loops=x.dtype.kind == "f")
    for function in (extremes, counted):
        agrees(function, x, loops=0)


def test_generators_are_native():
    agrees(products, VECTOR, OTHER)
    agrees(extremes, VECTOR)
    agrees(decided, VECTOR, 0.25)
    agrees(counted, VECTOR)
    agrees(sum_of_sums, MATRIX)
    agrees(of_steps, VECTOR, 3)


@pytest.mark.parametrize("limit", [-10.0, 0.3, 3, 10])
def test_any_and_all(limit):
    agrees(decided, VECTOR, limit)


def test_in_loops():
    agrees(of_rows, MATRIX, rng.standard_normal(20))
    agrees(of_rows, np.abs(MATRIX), rng.standard_normal(20))


def test_any_size_is_one_program():
    compiled = npc.compile(products)
    for n in (100, 1000, 7, 50_000):
        x = rng.standard_normal(n)
        assert compiled(x, x) == products(x, x)
    assert native_loops(compiled) == 1


def of_python_numbers(n, start):
    return sum((i * 0.1 for i in range(n)), start), sum(i / 3 for i in range(n)), max(i / 7 for i in range(n))


@pytest.mark.parametrize("start", [0, 0.0, 1e300, float("inf"), True])
def test_python_numbers(start):
    agrees(of_python_numbers, 500, start, loops=0)


def outside(x, k):
    return sum(x[i + k] for i in range(len(x)))


def overflowing(x):
    return sum(v * v for v in x), np.array([v * v for v in x])


def divided(n, k):
    return [100 // (i - k) for i in range(n)]


def nothing(x):
    return max(v for v in x if v > 100)


def of_several_types(x):
    return max(v if v > 0 else 0 for v in x), sum(v if v > 0 else 0 for v in x), [v if v > 0 else 0 for v in x]


def test_errors_and_warnings():
    for k in (0, -5, 1, 1000):
        agrees(outside, VECTOR, k)
    agrees(overflowing, np.full(N, 1e200), loops=0)
    agrees(overflowing, np.full(N, 100, np.int8), loops=0)
    agrees(divided, 200, 300, loops=0)
    agrees(divided, 200, 100, loops=0)
    agrees(nothing, VECTOR, loops=0)
    agrees(nothing, np.zeros(0), loops=0)
    agrees(of_several_types, VECTOR, loops=0)


def otherwise(x, names):
    rows = [[v * k for k in range(3)] for v in x]
    kept = {name: sum(x[i] for i in range(len(name))) for name in names}
    squares = {i * i for i in range(9)}
    largest = max((x[i], i) for i in range(len(x)))
    first = next(i for i in range(len(x)) if x[i] > 0)
    shifted = (lambda v: v + x[0])(2.0)
    return (
        rows,
        kept,
        squares,
        largest,
        first,
        shifted,
        sorted(v for v in x),
        tuple(i * 2 for i in range(5)),
        [n.upper() for n in names],
    )


def kept_generator(x):
    found = (v * 2 for v in x)
    total = 0.0
    for v in found:
        total = total / 2 + v
    return total, sum(found), list(found)


def shared_variables(x):
    """Variables of comprehensions, functions and the code around them that have the same names."""
    v, i = 5.0, 3
    total = sum(v * i for i, v in enumerate(x))

    def scaled(w):
        return w * v + i

    for i in range(len(x)):
        total += x[i] / 100
        v = total
    return total, scaled(2.0), v, i, sum(x[k] * v for k in range(i))


def rows_in_a_loop(x):
    last, row, total = [0.0], [], 0.0
    for i in range(len(x) - 5):
        last, row = row, [x[i + k] * k for k in range(i % 5)]
        total += sum(row) + len(last)
        if i % 3 == 0:
            row.append(x[i])
    return last, row, total


def checked_in_a_loop(x, k):
    row, total = [1.5], 0
    for i in range(len(x)):
        row = [100 // (j - k) for j in range(len(row) + 1) if j < 9]
        total += sum(row)
    return row, total


def test_lists_of_a_loop():
    agrees(rows_in_a_loop, VECTOR, loops=not INLINED)
    for k in (-1, 5, 8, 20):
        agrees(checked_in_a_loop, VECTOR, k, loops=0)


def increased(x, i):
    x[i] += 1.0
    return x[i]


def of_increased(x, y):
    return [increased(x, i) / y[i] for i in range(len(x))], x


def sum_of_increased(x, y):
    return sum(increased(x, i) / y[i] for i in range(len(x))), x


def of_taken(x, y):
    row = [x[0]]
    for v in x:
        row.append(v)
    return [row.pop() / y[i] for i in range(len(x))], row


def sum_of_taken(x, y):
    row = [x[0]]
    for v in x:
        row.append(v)
    return sum(row.pop() / y[i] for i in range(len(x))), row


@pytest.mark.parametrize("function", [of_increased, sum_of_increased, of_taken, sum_of_taken])
def test_effects_are_not_done_twice(function):
    """What leaves a comprehension does so before it, so nothing in it changes arrays or lists."""
    divisors = np.ones(N)
    divisors[N // 2] = 0.0
    agrees(function, VECTOR, np.ones(N), loops=0)
    agrees(function, VECTOR, divisors, loops=0)
    agrees(function, VECTOR, divisors.astype(int), loops=0)


def test_other_uses():
    agrees(otherwise, VECTOR, ["a", "bcd"], loops=0)
    agrees(kept_generator, VECTOR, loops=0)
    agrees(shared_variables, VECTOR, loops=0)
    agrees(of_scale(2.5), VECTOR)


def of_scale(scale):
    def scaled(x):
        shift = len(x)
        return sum(x[i] * scale + shift for i in range(len(x)) if x[i] < scale)

    return scaled


class Scaled:
    def __init__(self, scale):
        self.scale, self.total = scale, 0.0

    def add(self, x):
        for i in range(len(x)):
            self.total = self.total / 2 + x[i]
        return sum(v * self.scale for v in x) + self.total

    def weigh(self, x):
        return sum(v * self.scale for v in x), any(v > self.total for v in x)


def of_object(x, scale):
    known = Scaled(scale)
    return known.weigh(x), known.add(x), known.weigh(x), known.total


def test_attributes():
    agrees(of_object, VECTOR, 1.5, loops=0)
    compiled, plain = Scaled(2.5), Scaled(2.5)
    add, weigh = npc.compile(Scaled.add), npc.compile(Scaled.weigh)
    for _ in range(3):
        assert add(compiled, VECTOR) == plain.add(VECTOR)
        assert weigh(compiled, VECTOR) == plain.weigh(VECTOR)
        assert compiled.total == plain.total
