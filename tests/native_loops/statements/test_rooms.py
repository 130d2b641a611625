"""Arrays that a native program makes in its loops: their memory is used again, also by the next call, while nobody has them."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import fired
from tests.native_loops.test_native_loops import native_loops

POINTS = np.random.default_rng(5).standard_normal((600, 3))


def spread(x: np.ndarray) -> Any:
    total = 0.0
    for i in range(x.shape[0] - 1):
        d = x[i + 1 :] - x[i]
        total += np.sqrt((d * d).sum(axis=1)).sum()
    return total


def last_of_each_size(x: np.ndarray, sizes: np.ndarray) -> tuple[Any, ...]:
    d = x[:1] * 2
    total = 0.0
    for k in range(sizes.shape[0]):
        d = x[: sizes[k]] * 0.5
        total += d.sum()
    return total, d


def small(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[:40])


def made_in(call: Any) -> int:
    """Bytes of arrays that were there at once during a call, beside those before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def arrays_alive() -> int:
    """Blocks of NumPy's memory that tracemalloc knows of."""
    found = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    return len(found.traces)


def test_what_waits_goes_with_the_program() -> None:
    def one_after_another(count: int) -> int:
        for _ in range(count):
            compiled = npc.compile(spread)
            compiled(small(POINTS))
            assert native_loops(compiled) >= 1
            del compiled
        gc.collect()
        return arrays_alive()

    tracemalloc.start()
    try:
        before = one_after_another(5)
        assert one_after_another(12) <= before + 2
    finally:
        tracemalloc.stop()


def test_the_next_call_finds_the_memory() -> None:
    compiled, x = npc.compile(spread), small(POINTS)
    expected = spread(x)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-12)
    assert native_loops(compiled) >= 1
    assert made_in(lambda: spread(x)) > x.nbytes, "what Python's own run makes"
    assert made_in(lambda: compiled(x)) < 200, "nothing but the result"


def test_large_arrays_are_given_back() -> None:
    compiled = npc.compile(spread)
    for _ in range(3):
        compiled(POINTS)
    before, given_back = made_in(lambda: None), made_in(lambda: compiled(POINTS))
    assert given_back - before > POINTS.nbytes // 2, "made anew, so not kept in between"


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_arrays_of_changing_shapes_have_numpys_flags(columns: int) -> None:
    compiled, x = npc.compile(last_of_each_size), POINTS[:, :columns].copy()
    for sizes in ([5, 1], [1, 5], [1, 1], [2, 0], [0, 2], [0, 0, 1], [3, 2, 1, 9], [9, 1, 1, 2], [40, 2, 30, 1], [0, 1, 2, 3]):
        for _ in range(3):
            total, d = compiled(x, np.array(sizes))
            expected, wanted = last_of_each_size(x, np.array(sizes))
            assert total == pytest.approx(expected, rel=1e-12)
            np.testing.assert_array_equal(d, wanted, strict=True)
            assert d.strides == wanted.strides and str(d.flags) == str(wanted.flags), sizes
            assert d.T.flags.c_contiguous == wanted.T.flags.c_contiguous


def test_what_leaves_is_not_used_again() -> None:
    compiled, x = npc.compile(last_of_each_size), small(POINTS)
    kept = [compiled(x * k, np.array([4, 3]))[1] for k in range(6)]
    for k, d in enumerate(kept):
        np.testing.assert_array_equal(d, x[:3] * k * 0.5)
    assert len({d.__array_interface__["data"][0] for d in kept}) == len(kept)


def test_arrays_that_errors_hand_over() -> None:
    """Where NumPy warns, Python goes on with the arrays as they are; it may keep them."""

    def divided(x: np.ndarray, w: np.ndarray, kept: list[np.ndarray]) -> Any:
        total = 0.0
        for i in range(w.shape[0]):
            d = x + w[i]
            total += (1 / (d * d).sum(axis=1)).sum()
            if total > 1e300:
                kept.append(d)
                total = 0.0
        return total

    compiled, x, w = npc.compile(divided), small(POINTS).copy(), np.zeros(8)
    for place in (0, 5, 7, 0):
        w[:] = np.arange(1.0, 9.0)
        x[:] = POINTS[:40]
        x[3] = -w[place]
        ours: list[np.ndarray] = []
        theirs: list[np.ndarray] = []
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            a = compiled(x, w, ours)
            count = len(met)
            b = divided(x, w, theirs)
        assert count == len(met) - count == 1
        assert a == pytest.approx(b, rel=1e-12)
        before = [d.copy() for d in ours]
        compiled(x + 1, w, [])
        np.testing.assert_array_equal(ours, before)
        np.testing.assert_array_equal(ours, theirs)


def test_calls_at_the_same_time() -> None:
    compiled, x = npc.compile(spread), small(POINTS)
    expected = [spread(x * k) for k in range(8)]
    for k in range(8):
        compiled(x * k)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            np.testing.assert_allclose(list(pool.map(lambda k: compiled(x * k), range(8))), expected, rtol=1e-12)


def test_memory_that_two_arrays_take_turns_in() -> None:
    """Of the two arrays that steps go between one leaves; the other's memory is known to be as large as it is."""

    def smoothed(u: np.ndarray, steps: int) -> np.ndarray:
        for _ in range(steps):
            u = 0.5 * (np.roll(u, 1) + np.roll(u, -1))
        return u

    compiled = npc.compile(smoothed)
    kept = []
    for k, size in enumerate([500, 5, 450, 3, 500, 40, 499, 2] * 6):
        u = POINTS.ravel()[:size] + k
        kept.append((compiled(u, 18 + k % 3), smoothed(u, 18 + k % 3)))
    for ours, theirs in kept:
        np.testing.assert_array_equal(ours, theirs, strict=True)


def steps_that_need_the_last(x: np.ndarray, places: np.ndarray, count: int) -> tuple[Any, ...]:
    """Each step's array takes the place of the one before the last, unless something else has that."""
    rank, older = x * 1.0, x
    part, total = rank[1:], 0.0
    for k in range(count):
        if k == 3:
            part = rank[2:]
        if k % 2:
            older = rank
        rank = np.bincount(places, weights=(rank * 0.5 + older)[places], minlength=x.size) + 0.25
        total += part[0] + older[-1]
    return rank, older, part, total


def made_only(x: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    rank = x * 1.0
    for _ in range(count):
        rank = np.bincount(places, weights=rank[places]) * 0.5
    return rank


@pytest.mark.parametrize("function", [steps_that_need_the_last, made_only])
def test_what_a_step_makes_takes_the_place_of_what_is_left(function: Any) -> None:
    compiled, places = npc.compile(function), np.array([0, 2, 1, 1, 4, 3, 5, 5, 2])
    for size in (6, 6, 9, 6, 12):
        for count in (0, 1, 2, 3, 4, 9):
            x = np.linspace(0.1, 0.2, max(size, 6))
            given = x.copy()
            expected, found = function(x, places, count), compiled(x, places, count)
            for wanted, got in zip(expected, found):
                np.testing.assert_array_equal(got, wanted, strict=True)
            np.testing.assert_array_equal(x, given)
    assert native_loops(compiled) >= 1
    assert fired(compiled, "reuse of memory")


def test_places_that_are_outside_leave_the_sums() -> None:
    def sums(x: np.ndarray, places: np.ndarray, values: np.ndarray) -> Any:
        total = np.zeros(3)
        for k in range(values.size):
            total = total + np.bincount(places[k:], weights=x[values[k:]], minlength=3)[:3]
        return total

    compiled, x = npc.compile(sums), np.array([0.5, 1.5, 2.5])
    for values in ([0, 1, 2, -1], [2, -3, 0, 0], [-1, -2, -3, 2]):
        np.testing.assert_array_equal(
            compiled(x, np.array([0, 2, 2, 1]), np.array(values)), sums(x, np.array([0, 2, 2, 1]), np.array(values))
        )
    assert native_loops(compiled) >= 1
    for values in ([0, 1, 3, 0], [0, -4, 1, 1]):
        with pytest.raises(IndexError):
            compiled(x, np.array([0, 2, 2, 1]), np.array(values))
    with pytest.raises(ValueError):
        compiled(x, np.array([0, 2, -2, 1]), np.array([0, 1, 2, 0]))


@pytest.mark.parametrize("least", [0, 1, 700, 900])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_places_beyond_the_least_number_of_sums(dtype: Any, least: int) -> None:
    """Steps whose graphs would each end where the size of the sums is data: also of tens of thousands of places."""

    def shared(x: np.ndarray, rows: np.ndarray, columns: np.ndarray, least: int) -> Any:
        counts = np.bincount(rows)
        for k in range(5):
            sums = np.bincount(rows[k:], weights=(x / 2)[columns[k:]], minlength=least)
            x[: sums.size] = sums[: x.size] * 0.5
            counts = counts + np.bincount(rows[::-1], minlength=counts.size)
        return counts, sums

    rng, compiled = np.random.default_rng(5), npc.compile(shared)
    most = min(800, int(np.iinfo(dtype).max) + 1)
    for n in (20_000, 9, 60_000):
        rows, columns, x = rng.integers(0, most, n).astype(dtype), rng.integers(0, 1000, n), rng.random(1000)
        for _ in range(2):
            ours, theirs = x.copy(), x.copy()
            for got, wanted in zip(compiled(ours, rows, columns, least), shared(theirs, rows, columns, least)):
                np.testing.assert_array_equal(got, wanted, strict=True)
            np.testing.assert_array_equal(ours, theirs)
    assert native_loops(compiled) >= 1
    if dtype is not np.uint8:
        rows[-5] = -1
        x, given = rng.random(1000), []
        for function in (compiled, shared):
            given.append(x.copy())
            with pytest.raises(ValueError, match="no negative elements"):
                function(given[-1], rows, columns, least)
        np.testing.assert_array_equal(*given)
    columns[-5] = 1000
    with pytest.raises(IndexError, match="index 1000 is out of bounds for axis 0 with size 1000"):
        compiled(x, np.abs(rows), columns, least)
