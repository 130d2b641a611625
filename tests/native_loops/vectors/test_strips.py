"""Iterations that run before they are checked leave nothing behind where something was noted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops import speculation
from tests.native_loops.agreement import fired, without_loop_ir
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(3)
N = 40


def in_place(x, y):
    for i in range(1, x.size):
        x[i] += x[i - 1] * 0.5
        x[i - 1] = x[i] / y[i]
        x[i] = x[i] + 1
    return x, y, i


def conditional(x, y, small):
    for i in range(x.size):
        if x[i] > 0:
            small[i] = i
            y[i] = y[i] / x[i]
        elif x[i] < -1:
            y[i - 1] = x[i]
        y[i] = y[i] * y[i]
    return y, small


def scatter(counts, indices, x):
    total = 0.0
    for k in range(indices.size):
        counts[indices[k]] += 1
        total += x[indices[k]]
    return counts, total


def neighbours(x):
    n = x.size
    out = np.zeros(n)
    for i in range(n):
        out[i] = x[i - 1] + x[(i + 1) % n]
        if i + 1 < n:
            out[i] += x[i + 1]
        if i > 1:
            out[i] -= x[i - 2]
    return out


def from_the_end(x, m):
    n = x.size
    out = np.zeros(n)
    for i in range(n):
        out[i] = x[-i - 1] + x[n - 1 - i] * x[-1] + x[i // 2] - x[-m]
    return out


def by_steps(x, m):
    for i in range(0, x.size // 2, 3):
        x[2 * i + 1] = x[2 * i] + i
    for i in range(x.size - 1, m, -2):
        x[i] = x[i - m] + x[i]
    return x, i


def far_offset(x, m):
    total = 0.0
    for i in range(x.size):
        total += x[i + m]
    return total


def broken(x, y, most):
    total = 0.0
    for i in range(x.size):
        total = total + x[i] / y[i]
        y[i] = total
        if total > most:
            break
    return total, i


def whole_numbers(x, y, s):
    total = 0
    for i in range(x.size):
        total = total * 7 + int(x[i] // y[i]) + (int(x[i]) << s)
        x[i] = x[i] % y[i]
    return total


def cut(x, out):
    for i in range(x.size):
        out[i] = x[i]
        out[i] += int(x[i])
    return out


def at_once(x):
    y, n = x[1:], x.size
    for i in range(n - 1):
        y[i] = x[i] + 1
        x[i] = y[i] / (n - 20 - i)
    return x


def over_itself(x):
    k = 0
    for v in x:
        k += 1
        x[-k] = v + x[k - 1]
    return x


def until(x, limit):
    i = s = 0
    while True:
        s += i * i
        x[i] = s
        i += 1
        if s > limit:
            return x, s, i


def nested(A, w):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = A[j, i] + A[i, j - 1] * w[i - j]
    return A


def truths(x, flags):
    for i in range(x.size):
        flags[i] = not flags[i - 1] if x[i] > 0 else flags[i]
    return flags


def extremes(x):
    low = high = x[0]
    for i in range(1, x.size):
        low, high = min(low, x[i]), np.maximum(high, x[i])
        if x[i] < 0:
            x[i] = low / high
    return low, high


def at_the_ends(x, y):
    n = 0
    for i in range(x.size):
        y[i] = x[i] + 1
        y[i] = (x[i] > 0) + x[i] + (y[i] - 2)
        n = n - (x[i] & 7) + i
        y[i] -= 3
    return y, n


def swapped(x, y):
    for i in range(2, x.size):
        y[i] = x[i - 1] + x[i - 2] / y[0]
        y[0] = y[0] + x[i]
        if y[i] > 10:
            return y, i
        x, y = (y, x) if i == 30 else (x, y)
    return x, y


def sums(x, y, A):
    t = s = x[0]
    for i in range(x.size):
        s = x[i] * y[i] + s
        t = t - s
        A[3] += s * y[i]
        A[i % 3] = t
        x[i] = s
    return s, t


def enumerated(x, y, A):
    for i, v in enumerate(x, 2):
        w = y[1 - i]
        A[i - 2] = v / w
        x[i - 2] = A[i % 3]
        if v > 1e5:
            break
    return i, v, w


def zipped(x, y, A):
    s = 0.0
    for i, v, j, w in zip(range(2, 100, 2), x, range(38, -5, -1), y):
        s += v * w
        A[j] += x[j] + y[i % 7]
        if i < 30:
            A[i] = s
    return i, j, s


def with_last(values: Any, last: Any, dtype: str = "f8") -> np.ndarray:
    made = np.array(values).astype(dtype)
    made[-3] = last
    return made


POSITIVE = rng.random(N) + 0.5
MIXED = rng.standard_normal(N)
ONES = np.ones(N)
CASES: list[tuple[Any, tuple[Any, ...]]] = [
    (in_place, (POSITIVE, ONES)),
    (in_place, (POSITIVE, with_last(ONES, 0))),
    (in_place, (np.full(N, 1e308), np.full(N, 0.1))),
    (in_place, (with_last(POSITIVE, np.nan), ONES)),
    *((conditional, (MIXED, y, np.zeros(N, d))) for y in (ONES, np.full(N, 1e150)) for d in ("u1", "i4", "f8")),
    (conditional, (with_last(MIXED, 1e-320), ONES, np.zeros(20, np.int16))),
    (scatter, (np.zeros(8, np.int64), rng.integers(0, 8, N), rng.random(8))),
    (scatter, (np.zeros(8, np.int64), rng.integers(-8, 8, N), rng.random(8))),
    (scatter, (np.full(8, 254, np.uint8), rng.integers(0, 8, N), rng.random(8))),
    (scatter, (np.zeros(8), with_last(rng.integers(0, 8, N), 8, "i8"), rng.random(8))),
    (scatter, (np.zeros(0), rng.integers(0, 8, N), rng.random(8))),
    (neighbours, (MIXED,)),
    (from_the_end, (MIXED, 3)),
    (from_the_end, (MIXED, N + 1)),
    (by_steps, (MIXED, 4)),
    (by_steps, (MIXED.astype(np.float32)[::-1], 2)),
    *((far_offset, (MIXED, m)) for m in (0, -N, -7, 5, 2**62, 2**63 - 5, -(2**63) + 1)),
    (broken, (POSITIVE, ONES, 9.0)),
    (broken, (POSITIVE, with_last(ONES, 0), np.inf)),
    (broken, (with_last(POSITIVE, np.inf), ONES, 10**9)),
    *((whole_numbers, (rng.integers(0, 9, N).astype(d), rng.integers(1, 9, N).astype(d), 3)) for d in ("i8", "i4", "u1", "f8")),
    (whole_numbers, (with_last(rng.integers(0, 9, N), -(2**31), "i4"), with_last(rng.integers(1, 9, N), -1, "i4"), 3)),
    (whole_numbers, (rng.integers(0, 9, N), with_last(rng.integers(1, 9, N), 0, "i8"), 3)),
    *((whole_numbers, (rng.integers(0, 9, N), rng.integers(1, 9, N), s)) for s in (62, 64, -1)),
    *((cut, (with_last(MIXED * 9, v), np.zeros(N, d))) for d in ("i8", "i2", "u1", "f4") for v in (1.5, 1e30, np.nan, -1e39)),
    (at_once, (np.zeros(N),)),
    (at_once, (np.zeros(20),)),
    (over_itself, (MIXED,)),
    (until, (np.zeros(N), 5000)),
    (until, (np.zeros(N), 10**9)),
    (nested, (rng.random((N, N)), rng.random(N))),
    (nested, (np.asfortranarray(rng.random((N, N))), with_last(rng.random(N), 1e308))),
    (truths, (MIXED, np.arange(N, dtype=np.uint8).view(np.bool_))),
    (at_the_ends, (MIXED.astype(np.int64), np.zeros(N, np.int64))),
    *((at_the_ends, (with_last(np.zeros(N), np.iinfo(d).max - 1, d), np.zeros(N, d))) for d in ("i8", "i4", "i2", "u1")),
    *((at_the_ends, (with_last(np.zeros(N), np.iinfo(d).min + 1, d), np.zeros(N, d))) for d in ("i8", "i4", "i2", "u1")),
    *((sums, (MIXED.astype(d), ONES.astype(d), np.zeros(4, d))) for d in ("f8", "f4")),
    *(
        (sums, (with_last(MIXED, v, d), ONES * 2, np.zeros(4, d)))
        for d, m in (("f8", 1e308), ("f4", 3e38))
        for v in (np.inf, np.nan, m)
    ),
    (sums, (MIXED, with_last(ONES * 3, 1e308), np.zeros(5))),
    *((f, (x, y, np.zeros(N))) for f in (enumerated, zipped) for x, y in ((MIXED, ONES), (MIXED[:30], ONES), (MIXED, ONES[1:]))),
    *(
        (f, (x, y, np.zeros(N)))
        for f in (enumerated, zipped)
        for x in (MIXED, with_last(MIXED, 1e6))
        for y in (with_last(ONES, 0),)
    ),
    (swapped, (MIXED, ONES)),
    (swapped, (MIXED, with_last(ONES, 1e308))),
    (extremes, (MIXED,)),
    (extremes, (with_last(MIXED, np.nan),)),
    (extremes, (np.where(MIXED < 0, -1.0, 0.0),)),
]


WITHOUT = (until, truths)  # a `while` loop, and one whose iterations wait for nothing


@pytest.mark.parametrize("program, arguments", CASES, ids=[f"{f.__name__}-{k}" for k, (f, _) in enumerate(CASES)])
def test_nothing_is_left_of_strips_that_fail(program, arguments, monkeypatch):
    agrees(program, *arguments)
    with without_loop_ir():
        assert fired(agrees(program, *arguments), "speculation") == (program not in WITHOUT)
        monkeypatch.setattr(speculation, "LENGTH", 4)
        monkeypatch.setattr(speculation, "LONGEST", 7)
        agrees(program, *arguments)


def test_an_instruction_without_a_form_comes_after_what_its_iteration_stored():
    seen: list[int] = []

    def f(x, y):
        for k in range(x.size):
            y[k] = x[k] + y[k - 1]
            if x[k] > 0.9:
                seen.append(k)
                y[k] = -1
            x[k] = y[k]
        return x, y

    x, y = np.linspace(0, 1, 400), np.zeros(400)
    compiled = npc.compile(f)
    for _ in range(2):
        seen.clear()
        wanted, indices = f(x.copy(), y.copy()), list(seen)
        seen.clear()
        given = compiled(x.copy(), y.copy())
        assert all(map(np.array_equal, given, wanted)) and seen == indices and len(seen) == 40


@pytest.mark.parametrize("bad", [(), (5,), (200, 700), range(0, 3000, 7), range(3000)])
def test_long_loops_with_numbers_that_are_not_finite(bad):
    def f(x, y):
        s = 0.0
        for i in range(x.size):
            s = 0.5 * s + np.minimum(x[i] * 2.0, 10**9)
            y[i] = s
        return s

    x = rng.random(3000)
    x[list(bad)] = np.inf
    agrees(f, x, np.zeros(3000))


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_products_that_are_added_and_subtracted_are_rounded(dtype: str) -> None:
    """GCC 12 computes those of a pair with fused operations, whatever it is told, where their places lie side by side."""

    def rotated(z, w):
        for i in range(z.shape[0]):
            a = z[i, 0] * w[0] - z[i, 1] * w[1]
            b = z[i, 0] * w[1] + z[i, 1] * w[0]
            z[i, 0] = a
            z[i, 1] = b
        return z

    random = np.random.default_rng(4)
    agrees(rotated, random.random((200, 2)).astype(dtype), random.random(2).astype(dtype))


def test_a_divisor_of_0_whose_remainder_nobody_uses() -> None:
    """GCC 12 concluded from a choice between the divisor and 1 that the divisor itself is not 0."""

    def halved(x, y, n):
        rest = 0
        for i in range(x.size):
            rest = n % y[i]  # noqa: F841
            x[i // 2] -= 0.5
        return x

    y = np.arange(-4, 20)
    agrees(halved, np.ones(24), y, 3)
    agrees(halved, np.ones(24), y[y != 0], 3)
