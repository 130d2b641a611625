"""Functions that loop, called in native loops: written there where they change nothing, called by Python where they do."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops import parallel_loops
from tests.native_loops.agreement import compiled_once, fired
from tests.native_loops.random.called_loops import draw_program
from tests.native_loops.random.independent_iterations import ALWAYS, check_on_threads
from tests.native_loops.test_native_loops import agrees, native_loops
from tests.random_programs import check_examples

rng = np.random.default_rng(17)
VECTOR = rng.standard_normal(60)
MATRIX = rng.standard_normal((30, 30))


def dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


def escape(re, im, most=50):
    a, b = re, im
    for n in range(most):
        if a * a + b * b > 4.0:
            return n
        a, b = a * a - b * b + re, 2 * a * b + im
    return most


def divisor(a, b):
    while b:
        a, b = b, a % b
    return a


def largest(v):
    found, at = v[0], 0
    for i, item in enumerate(v):
        if item <= found:
            continue
        found, at = item, i
    return found, at


def halved(x, steps):
    for _ in range(steps):
        for _ in range(2):
            x = x / 2
        if x < 1e-3:
            break
    else:
        return -x
    return x


def of_rows(v):
    part = v * 2.0
    total = 0.0
    for i in range(len(part)):
        total += part[i]
    return total


def sums_of_products(v, w):
    total = 0.0
    for i in range(len(v)):
        total += dot(v[i:], w[: len(w) - i])
    return total


def product(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = dot(A[i], B[:, j])
    return C


def picture(out, most):
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            out[i, j] = escape(-2 + 3 * j / w, -1 + 2 * i / h, most=most)
    return out


def divisors(n):
    total = 0
    for i in range(1, n):
        for j in range(1, n):
            total += divisor(i, j) * (divisor(j, 3) == 1)
    return total


def extremes(A):
    places = np.zeros(len(A), int)
    total = 0.0
    for i in range(len(A)):
        value, places[i] = largest(A[i])
        total += value
    return total, places


def decays(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = halved(x[i], i % 5) + halved(i, 3)
    return y


def halves_of_rows(A):
    y = np.zeros(len(A))
    for i in range(len(A)):
        y[i] += of_rows(A[i]) - of_rows(A[:, i])
    return y


def smoothed(x):
    for i in range(1, len(x)):
        x[i] = 0.1 * dot(x[i - 1 : i + 1], x[i - 1 : i + 1])
    return x


def three_deep(v):
    total = 0.0
    for k in range(20):
        total = total * 0.5 + sums_of_products(v[k:], v[: len(v) - k])
    return total


def outside_of_loops(v):
    return dot(v, v) + largest(v)[1]


@pytest.mark.parametrize(
    "function, arguments",
    [
        (product, (MATRIX, MATRIX.T)),
        (product, (MATRIX.astype("f4"), MATRIX[:, :7].astype("f4"))),
        (product, (np.arange(90).reshape(30, 3), np.arange(30).reshape(3, 10))),
        (picture, (np.zeros((20, 30)), 40)),
        (picture, (np.zeros((20, 30), "i4"), 40)),
        (divisors, (40,)),
        (extremes, (MATRIX,)),
        (decays, (VECTOR,)),
        (three_deep, (VECTOR,)),
    ],
)
def test_written_where_they_are_called(function, arguments):
    agrees(function, *arguments)


@pytest.mark.parametrize(
    "function, arguments", [(product, (MATRIX, MATRIX.T)), (picture, (np.zeros((20, 30)), 40)), (decays, (VECTOR,))]
)
def test_on_threads(function, arguments):
    compiled = npc.compile(function)
    with mock.patch.multiple(parallel_loops, **ALWAYS):
        for _ in range(2):
            np.testing.assert_array_equal(compiled(*arguments), function(*arguments))
    assert fired(compiled, "parallelize")


def test_what_they_read_is_not_written_by_other_iterations():
    agrees(smoothed, VECTOR.copy())
    assert not fired(compiled_once(smoothed, VECTOR.copy()), "parallelize")


def test_arrays_that_they_make():
    agrees(halves_of_rows, MATRIX, loops=0)


def test_outside_of_loops():
    agrees(outside_of_loops, VECTOR, loops=0)


def quotients(x, limit):
    total = 0.0
    for k in range(len(x)):
        if x[k] / limit > 1e6:
            return k
        total += 1 / (len(x) - limit - k)
    return total


def failing(x, limit):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = i
        y[i] += quotients(x[i:], limit)
    return y


def looked_up(x, n):
    total = 0.0
    for k in range(n):
        total += x[k]
    return total


def outside(x, n, seen):
    for i in range(n):
        seen[i] = looked_up(x, i)
    return seen


@pytest.mark.parametrize("over", ["warn", "raise", "ignore"])
def test_errors(over):
    with np.errstate(all=over):
        agrees(failing, VECTOR, 5, loops=0)  # ZeroDivisionError
        agrees(failing, VECTOR, 70)
        agrees(failing, VECTOR * 1e300, 1e-200, loops=0)  # overflow
        agrees(failing, VECTOR, np.float64(0.0), loops=0)  # division by zero
        agrees(outside, VECTOR, 60, np.zeros(70))
        agrees(outside, VECTOR, 63, np.zeros(70))  # IndexError


def filled(y, k):
    for i in range(len(y)):
        y[i] += k * i
    return float(k)


def shifted(y, k):
    for _ in range(2):
        y += k
    return float(k)


def gathered(items, k):
    for i in range(3):
        items.append(k * i)
    return k


def taken(iterator, k):
    for item in iterator:
        if item > k:
            return item
    return -1


def copied(y, k):
    for _ in range(2):
        y = y * k
    return y


def nothing(y, k):
    for i in range(k):
        if y[i] > 100:
            return y[i]


def recursive(k):
    total = 1
    for i in range(k):
        total += recursive(i)
    return total


class Tally:
    def __init__(self) -> None:
        self.total = 0.0


def tallied(tally, v):
    total = 0.0
    for item in v:
        total += item
    tally.total = tally.total + total
    return total


def writes(x):
    total = 0.0
    for k in range(40):
        total += filled(x, k) + shifted(x, k)
    return total, x


def appends(x):
    items, total = [], 0
    for k in range(40):
        total += gathered(items, k)
    return total, items


def takes(x):
    iterator, total = iter(x), 0.0
    for k in range(40):
        total += taken(iterator, 0.5)
    return total, list(iterator)


def makes(x):
    for k in range(40):
        x = x + copied(x, 0.1)
    return x


def may_give_nothing(x):
    count = 0
    for k in range(40):
        count += nothing(x, k) is None
    return count


def calls_itself(x):
    total = 0
    for k in range(18):
        total += recursive(k % 6)
    return total


def tallies(x):
    tally, total = Tally(), 0.0
    for k in range(40):
        total += tallied(tally, x)
    return total, tally.total


def counts_outside(x):
    count = 0

    def counted(v):
        nonlocal count
        total = 0.0
        for item in v:
            total += item
            count += 1
        return total

    total = 0.0
    for k in range(40):
        total += counted(x)
    return total, count


@pytest.mark.parametrize("function", [writes, appends, takes, makes, may_give_nothing, calls_itself, tallies, counts_outside])
def test_what_they_change_is_changed_once(function):
    agrees(function, VECTOR.copy(), loops=0)


def with_names(x):
    total = 0
    for k in range(40):
        total += escape(im=0.1, re=x[k]) + escape(x[k], most=9 + k, im=0.0)
    return total


def test_names_of_arguments():
    agrees(with_names, VECTOR)


def test_what_a_function_is_later(monkeypatch):
    compiled = npc.compile(product)
    compiled(MATRIX, MATRIX)
    assert native_loops(compiled) == 1
    monkeypatch.setitem(globals(), "dot", lambda a, b: -1.0)
    np.testing.assert_array_equal(compiled(MATRIX, MATRIX), np.full((30, 30), -1.0))


def test_random_functions_that_loop():
    check_examples(draw_program, check_on_threads, "cpu", 8)
