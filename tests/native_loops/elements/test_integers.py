"""Loops over integers: which tests they do without, and that none is lost that they need."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import counts, fired, passes, without_loop_ir
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(8)


def insertion_sort(a):
    for i in range(1, a.size):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


def collatz(k):
    steps = 0
    while k != 1:
        if k % 2 == 0:
            k //= 2
        else:
            k = 3 * k + 1
        steps += 1
    return steps, k


def inversions(a):
    count = 0
    for i in range(a.size):
        for j in range(i + 1, a.size):
            if a[i] > a[j]:
                count += 1
    return count


def multiples(n, x):
    hits = 0
    while n:
        x = (1103515245 * x + 12345) % 2147483648
        if x % 3 == 0:
            hits += 1
        n -= 1
    return hits, x


def summed(a, total):
    for i in range(a.size):
        if a[i] > 3:
            total += int(a[i])
    return total


def lowered(a, total):
    for i in range(a.size):
        total -= int(a[i])
    return total


def test_only_loops_that_gain_by_strips_have_them():
    a = rng.integers(0, 100, 60)
    assert not fired(agrees(insertion_sort, a), "speculation")
    assert not fired(agrees(collatz, 27), "speculation")
    with without_loop_ir():
        assert counts(agrees(inversions, a), "checks in iterations of a strip")[1:] == [0]  # of the loop inside


def test_counters_do_not_overflow():
    places = passes(agrees(multiples, 50, 7), "overflow check elimination")
    first = multiples.__code__.co_firstlineno
    assert {int(place.split()[1].rstrip(",")) - first for place in places} == {3, 6}  # of x, and of what n is: not of the hits
    assert agrees(multiples, 50, 2**62) is not None  # an argument may be anything


def test_what_is_added_to_is_looked_at_before_the_strip():
    for dtype in (np.int8, np.uint8, np.int32, np.int64, bool):
        a = rng.integers(0, 100, 70).astype(dtype)
        for total in (0, 2**48 + 5, 2**63 - 300, 2**63 - 1, 5 - 2**63):
            agrees(summed, a, total)
            agrees(lowered, a, total)
            agrees(lowered, a, -total)


@pytest.mark.parametrize("start", [27, 2**62 - 1, 2**62 + 1, (2**63 - 2) // 3 + 1, 2**61 + 3])
def test_numbers_that_become_large(start):
    agrees(collatz, start)


def test_an_argument_that_counts_on_may_be_large():
    def count(k, n):
        for _ in range(n):
            k += 1
        return k

    def begins_small(n):
        k = -3
        while n > 0:
            n -= 16
            k += 2
        return k, n

    for k in (0, 2**63 - 5, 1 - 2**63):
        agrees(count, k, 90)
    agrees(begins_small, 100_000)


def test_a_variable_that_is_not_only_counted():
    def doubled(n):
        k = 1
        for _ in range(n):
            k += 1
            if k == 30:
                k = k * k * 2**50
        return k

    def chosen(n, big):
        k = 0
        for i in range(n):
            k = 5 if i < n - 1 else big
            k += 1
        return k

    agrees(doubled, 40)
    agrees(chosen, 40, 2**63 - 1)


def test_divisors_that_are_powers_of_two():
    def halves(a, k):
        out = np.zeros((4, a.size), np.int64)
        for i in range(a.size):
            x = int(a[i])
            out[0, i], out[1, i] = x // 8, x % 8
            out[2, i], out[3, i] = x // 1, x % 1
            k = (k // 4) * 5 % 2**62
            while x % 2 == 0 and x != 0:
                x //= 2
            k += x
        return out, k

    a = np.concatenate([np.arange(-20, 20), [2**63 - 1, -(2**63), -(2**63) + 1]])
    agrees(halves, a, -7)

    def of_dtype(a):
        out = np.zeros((2, a.size), a.dtype)
        for i in range(a.size):
            out[0, i], out[1, i] = a[i] // 4, a[i] % 4
        return out

    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64):
        agrees(of_dtype, np.arange(-130, 130).astype(dtype))


def walk(a, k, n):
    seen = 0
    while n > 0:
        k = a[k]
        a[k] = a[k] + 0
        seen += a[k] * a[k - 1]
        n -= 1
    return seen, k


def test_indices_that_count_from_the_end():
    a = np.array([3, -4, -1, 1, -6, 2, -2])
    agrees(walk, a, 0, 30)
    for first in (-8, 7, -(2**63), 2**63 - 1):
        with pytest.raises(IndexError):
            npc.compile(walk)(np.array([first, 0, 0, 0, 0, 0, 0]), 0, 5)
        agrees(walk, np.array([0, first, 0, 0, 0, 0, 0]), 1, 2, loops=0)  # the same exception
    agrees(walk, a.astype(np.int8), 0, 30)


def remainders(x, y, n):
    out = np.zeros((3, x.size), np.int64)
    k = 0
    for i in range(x.size):
        k = (k + 7) % n
        out[0, i], out[1, i], out[2, i] = (x[i] - y[i]) % n, (x[i] + y[i]) % y[i], k
    return out


def test_remainders_of_sums_need_no_division_where_they_are_near():
    ends = [0, 1, -1, 2, -3, 9, -10, 2**62, -(2**62), 2**62 - 1, 2**63 - 1, -(2**63), -(2**63) + 1]
    x, y = (np.array(v) for v in zip(*[(a, b) for a in ends for b in ends if b and abs(a + b) < 2**63 and abs(a - b) < 2**63]))
    for n in (1, 2, 10, 2**62, 2**63 - 1, -1, -10, -(2**62)):
        compiled = agrees(remainders, x, y, n)
        assert fired(compiled, "remainder without division")


def test_shifts_that_fit_need_no_test():
    def joined(data, table):
        out = np.zeros(4 * (data.size // 3), np.uint8)
        for i in range(data.size // 3):
            word = (int(data[3 * i]) << 16) | (int(data[3 * i + 1]) << 8) | int(data[3 * i + 2])
            out[4 * i], out[4 * i + 1] = table[word >> 18], table[(word >> 12) & 63]
            out[4 * i + 2], out[4 * i + 3] = table[(word >> 6) & 63], table[word & 63]
        return out

    data, table = rng.integers(0, 256, 300).astype(np.uint8), rng.permutation(64).astype(np.uint8)
    compiled = agrees(joined, data, table)
    assert fired(compiled, "stores without undo")
    agrees(joined, data, table[:50], loops=0)  # an index outside

    def shifted(k, n, by):
        total = 0
        for i in range(n):
            total += (k << i) >> 3
            total ^= k << by
        return total

    for k, n, by in ((1, 62, 3), (-1, 63, 0), (1, 70, 5), (2**62, 3, 1), (3, 10, 62), (0, 5, 63), (3, 5, 70)):
        agrees(shifted, k, n, by, loops=0)


def test_known_signs_need_no_test():
    """Of indices that branches and ranges bound, no program counts from the end; sums of them do not overflow."""
    compiled = agrees(insertion_sort, rng.integers(-50, 50, 40))
    assert not passes(compiled, "bounds check elimination") and not passes(compiled, "overflow check elimination")

    def fenwick(values, queries):
        tree = np.zeros(len(values) + 1, np.int64)
        for i in range(len(values)):
            k = i + 1
            while k <= len(values):
                tree[k] += values[i]
                k += k & -k
        total = 0
        for q in range(len(queries)):
            k = int(queries[q])
            while k > 0:
                total += int(tree[k])
                k -= k & -k
        return total

    left = passes(agrees(fenwick, np.arange(30), rng.integers(-5, 31, 50)), "bounds check elimination").values()
    assert {p.why_not for p in left} == {"the index may be outside"}, "none counts from the end"
    agrees(fenwick, np.arange(30), np.array([3, 31, 2]), loops=0)  # an index outside


def test_signs_that_only_seem_known():
    def down(a, k, n):
        total = 0
        for i in range(n):
            if k >= 0:
                k -= 3
            total += a[k]
            k = k + 1 if i % 5 else -k
        return total, k

    def swapped(a, j, i):
        for _ in range(12):
            while j >= 0 and a[j] > 2:
                i, j = j, j - 2
            a[i] += a[j]
            i, j = -i if i == 3 else i - 1, len(a) - 1
            if i < -len(a):
                i = 0
        return a, i, j

    def of_range(a, first, last):
        total = 0
        for k in range(first, last):
            total = total * 3 + a[k]
            for m in range(k, first - 1, -1):
                total -= a[m] * (m - k)
                total %= 1000
        return total

    def divided(n, k):
        out = []
        total = 0
        for i in range(n):
            for j in range(i - 2, 3):
                if j:
                    total += (i * 7 - 20) // j + (i - 9) % j
                k = abs(k) - 4 if j > 1 else max(k, j) + min(k, -j)
                total += k // (j * j + 1)
        return total, k, out

    for k in (0, 3, -2, 7):
        agrees(down, np.arange(12), k, 30, loops=0)
        agrees(swapped, rng.integers(0, 9, 10), k, -1, loops=0)
        agrees(of_range, np.arange(12), -k, k, loops=0)
        agrees(divided, 20, k, loops=0)
    for k in (2**62, 2**63 - 1, -(2**63) + 1, 2**70, 2.5, True, np.int64(4)):
        agrees(divided, 12, k, loops=0)
        agrees(of_range, np.arange(12), 0, min(k, 30) if not isinstance(k, float) else 4, loops=0)


def test_what_an_iteration_has_read_the_next_need_not():
    """Compilers may keep it where no statement over arrays has choices, of which they would make no vectors then."""

    def chosen(a, n):
        for i in range(n):
            a = np.where(a > i, a - 1, a + 2)
            n -= int(a[0])
        return a, n

    assert fired(agrees(insertion_sort, rng.integers(-50, 50, 40)), "reads kept between iterations")
    assert not fired(agrees(chosen, rng.integers(-9, 9, 40), 20), "reads kept between iterations")
