"""Loops whose iterations are independent run on all threads, and do what they do one after the other."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.nests import mandelbrot_by_pixels
from npcompile.backends.cpu.binding import UNITS
from npcompile.backends.cpu.loops import parallel_loops
from npcompile.compiler import compiled_function
from tests.native_loops.agreement import cloned, ends_when_interrupted, outcome, passes, same, without_loop_ir
from tests.native_loops.random.independent_iterations import LONG_GRAINS, check_on_threads, draw_program
from tests.random_programs import check_examples

pytestmark = pytest.mark.usefixtures("at_once")
rng = np.random.default_rng(8)
N = 40


def parallel_runs(compiled: Any) -> int:
    """How often iterations ran on threads; other functions with the same program count too."""
    known = compiled_function(compiled)
    calls = [v.compiled.call for p in known.points.values() for v in p.variants if v.graph is None and v.compiled]
    handles = [UNITS[call].library.handle for call in calls]
    return sum(ctypes.c_int64.in_dll(h, "npc_runs").value for h in handles if hasattr(h, "npc_runs"))


def runs_so_far(compiled: Any) -> int | None:
    """None before the first call."""
    return parallel_runs(compiled) if compiled_function(compiled).points else None


def agrees(user: Any, *arguments: Any, parallel: bool = True) -> None:
    """The compiled function does what the plain one does, three times, on threads."""
    compiled = npc.compile(user)
    runs = []
    for _ in range(3):
        theirs = outcome(user, user, cloned(arguments))
        with without_loop_ir():
            ours = outcome(compiled, user, cloned(arguments))
        for a, b in zip(ours, theirs):
            assert same(a, b), f"{a!r} where Python gives {b!r}"
        runs.append(parallel_runs(compiled))
    assert (runs[0] < runs[2]) == parallel


def product(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = s
    return C, i


def sparse_rows(data, indices, starts, x):
    y = np.zeros(starts.size - 1)
    for i in range(y.size):
        for j in range(starts[i], starts[i + 1]):
            y[i] += data[j] * x[indices[j]]
    return y


def pairs(x, y):
    n = x.size
    total = np.zeros(n)
    for i in range(n):
        for j in range(n):
            if i != j:
                total[i] += y[j] / (x[i] - x[j])
    return total


def elimination(A):
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            for j in range(k, n):
                A[i, j] -= factor * A[k, j]
    return A


def by_columns(A, x):
    for j in range(A.shape[1] - 1, -1, -2):
        for i in range(A.shape[0]):
            A[i, j] = A[i, j] * x[i] + j
    return A


def scaled(A, x):
    for i, a in enumerate(x):
        for j in range(A.shape[1]):
            A[i, j] *= a
    return A


def without_the_first(A):
    for j in range(1, A.shape[1]):
        A[:, j] -= (A[:, 0] @ A[:, j]) * A[:, 0]
    return A


def rows_of_arrays(A, B):
    out = np.empty(A.shape[0])
    for i in range(A.shape[0]):
        A[i, :] += B[i]
        out[i] = np.max(A[i] * B[i, :])
    return A, out


def one_level(x, y):
    for i in range(x.size):
        t = x[i] * 2
        y[i] = t * t + i
    return y, t, i


def distances(A, D):
    n = A.shape[0]
    for i in range(n):
        for j in range(i, n):
            s = 0.0
            for k in range(A.shape[1]):
                s += (A[i, k] - A[j, k]) * A[i, k]
            D[i, j] = D[j, i] = s
    return D


def pairs_that_fail(A, out):
    for i in range(A.shape[0]):
        out[i] = i
        for j in range(i + 1, A.shape[0]):
            A[i, j] = A[i, j] / A[i, i]
            A[j, i] = A[i, j] + 1.0
    return A, out


def total(x):
    s = 0.0
    for i in range(x.size):
        s += x[i]
    return s


def energy(x, m):
    total = np.float64(0.0)
    for i in range(x.shape[0] - 1):
        d = x[i + 1 :] - x[i]
        total -= (m[i] * m[i + 1 :] * (d * d).sum(axis=1)).sum()
    return total


def several_sums(A, x):
    total, least, count, scaled = 0.5, 10.0, 0, np.float32(1)
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s = s + A[i, j] * x[j]
        x[i] = s
        if s > 0:
            total = total - s + 0.25
        else:
            total -= 1.0
        least = min(s, least)
        scaled *= np.float32(0.99)
        if i % 3:
            count += i
    return total, least, count, scaled, s


def over_rows(A, x):
    total, greatest = np.float64(0.0), 0.0
    for row in A:
        s = 0.0
        for k in range(row.size):
            s += row[k] * x[k]
        row[:2] = s
        row *= 2
        total += s
        greatest = max(greatest, s)
    return A, total, greatest, s


def over_rows_and_elements(A, x):
    least = np.float64(9.0)
    for a, row in zip(x[::-1], A):
        for k in range(row.size):
            row[k] = row[k] / a
        least = min(least, row.min())
    return A, least


def without_stores(A, n):
    bits = 0
    for i in range(n - 1, -1, -2):
        k = 0
        while k < A.shape[1] and A[i, k] < 5:
            k += 1
        bits ^= k << 2
    return bits


def too_large(A):
    total, product = np.float64(1.0), 1
    for i in range(A.shape[0]):
        A[i, 0] = 1.0
        product *= 3
        total *= A[i].sum() * 1e10
    return A, total, product


def sum_of_quotients(A, x):
    total = np.float64(0.0)
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j]
        A[i, 0] = s
        total += s / x[i]
    return A, total


POINTS = np.linspace(-1.9, 0.5, 23), np.linspace(-1.1, 1.1, 17)
MATRIX = rng.standard_normal((N, N)) + 5
STARTS = np.concatenate(([0], np.cumsum(rng.integers(0, 6, N))))


@pytest.mark.parametrize(
    "user, arguments",
    [
        (product, (rng.standard_normal((N, 7)), rng.standard_normal((7, 9)))),
        (product, (rng.standard_normal((7, N)).T, rng.standard_normal((18, 14))[::2, ::2][:7])),
        (mandelbrot_by_pixels, (*POINTS, 30)),
        (sparse_rows, (rng.random(STARTS[-1]), rng.integers(0, N, STARTS[-1]), STARTS, rng.random(N))),
        (pairs, (rng.random(N), rng.random(N))),
        (elimination, (MATRIX,)),
        (elimination, (np.asfortranarray(MATRIX),)),
        (by_columns, (MATRIX, rng.random(N))),
        (scaled, (MATRIX, rng.random(N))),
        (rows_of_arrays, (MATRIX, rng.random((N, N)))),
        (one_level, (rng.random(5000), rng.random(5000))),
        (distances, (rng.standard_normal((N, 7)), np.zeros((N, N)))),
        (total, (rng.random(N),)),
        (energy, (rng.integers(0, 99, (N, 3)) / 8, rng.integers(0, 99, N) / 4)),  # sums are exact
        (several_sums, (MATRIX - 5, rng.random(N) - 0.5)),
        (over_rows, (MATRIX, rng.random(N))),
        (over_rows, (MATRIX[:, ::-1], rng.random(N))),
        (over_rows_and_elements, (MATRIX, rng.random(N) + 1)),
        (over_rows_and_elements, (MATRIX, np.arange(2 * N)[:N] % 13 - 9.0)),
        (without_stores, (MATRIX, N)),
        (too_large, (MATRIX,)),
        (sum_of_quotients, (MATRIX, np.arange(N) % 13 - 8.0)),
        (pairs_that_fail, (np.where(np.eye(N), np.arange(N) % 11 - 9.0, MATRIX), np.zeros(N))),
    ],
)
def test_independent_iterations(user, arguments):
    agrees(user, *arguments)


@pytest.mark.parametrize("n", (N, 6 * N))  # from 3 * N on all threads keep what was there
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda a: np.repeat(a, 2, 0)[::-2, ::-1]])
def test_whole_arrays_are_put_back(n, layout):
    """Attempts that end with an error, early and late, become rare."""
    compiled = npc.compile(pairs_that_fail)
    for at in (3, n - 4, n // 2):
        A = layout(rng.standard_normal((n, n)) + 5)
        A[at, at] = 0.0
        theirs, ours = (outcome(f, pairs_that_fail, cloned((A, np.zeros(n)))) for f in (pairs_that_fail, compiled))
        for a, b in zip(ours, theirs):
            assert same(a, b)
    assert parallel_runs(compiled)


@pytest.mark.parametrize("n", range(40, 45))
def test_grains_of_several_iterations(n, monkeypatch):
    """Whatever the last of them holds: one iteration among others."""
    for name, value in LONG_GRAINS.items():
        monkeypatch.setattr(parallel_loops, name, value)
    agrees(without_the_first, rng.integers(-3, 4, (N, n)).astype(float))  # sums of whole numbers are exact


def columns_upwards(A, x, first):
    for j in range(first, A.shape[1]):
        for i in range(A.shape[0]):
            A[i, j] = x[i] / A[i, j]


def columns_downwards(A, x, first):
    for j in range(A.shape[1] - 1 - first, -1, -1):
        for i in range(A.shape[0]):
            A[i, j] = x[i] / A[i, j]


def columns_and_rows(A, x, first):
    for i in range(first, x.size):
        for j in range(i + 1, x.size):
            A[i, j] = A[j, i] = x[i] / (x[j] - A[i, i])


@pytest.mark.parametrize("dtype", ("f4", "f8", "c16"))
@pytest.mark.parametrize("user", (columns_upwards, columns_downwards, columns_and_rows))
def test_columns_on_lines_of_the_cache(user, dtype, monkeypatch):
    """Wherever the first of them lies on its line, and whichever iteration stops the others."""
    monkeypatch.setattr(parallel_loops, "PIECES", 1)
    compiled = npc.compile(user)
    n = 90
    runs = []
    for first in range(20):
        memory = np.empty((n, n + 20), dtype)
        A = memory[:, first : first + n]
        A[...] = rng.standard_normal((n, n)) + 5
        x = rng.standard_normal(n).astype(dtype)
        if first % 3 == 1:
            at = int(rng.integers(n))
            A[at, at] = x[-1] if user is columns_and_rows else 0
        theirs, ours = (outcome(f, user, cloned((A, x, first % 5))) for f in (user, compiled))
        for a, b in zip(ours, theirs):
            assert same(a, b), first
        runs.append(parallel_runs(compiled))
    assert runs[-1] > runs[1]


def neighbours(x, y):
    for i in range(1, x.size):
        y[i] = x[i] + y[i - 1]
    return y


def products_that_need_the_sum(x):
    s = 0.0
    for i in range(x.size):
        x[i] = s * x[i]
        s += x[i]
    return s


def set_anew(x):
    s = 0.0
    for i in range(x.size):
        s += x[i]
        if s > 5.0:
            s = 0.0
    return s


def last_of(x):
    t = 0.0
    for i in range(x.size):
        if x[i] > 0.5:
            t = x[i]
    return t


def ended_early(x, y):
    for i in range(x.size):
        y[i] = x[i]
        if x[i] > 0.9:
            break
    return y


def places_that_are_data(x, places):
    for i in range(x.size):
        x[places[i]] = i
    return x


def same_place(x, y):
    for i in range(x.size):
        y[0] = x[i]
        y[i // 2] = x[i]
    return y


def rows_and_columns(A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = A[j, i] + 1
    return A


def another_name(n):
    x = np.zeros(n)
    for i in range(n):
        x[i] = i * i
    y = x[1:]
    for i in range(n - 1):
        x[i] = y[i] + 1
    return x


def another_name_in_a_loop(n):
    x = np.ones(n)
    for k in range(3):
        y = x[::-1]
        for i in range(n):
            x[i] = y[i] + k
    return x


def counted(x, total):
    for i in range(x.size):
        x[i] = np.bincount(x)[3] + i % 4
        total[i] = x[i]
    return x, total


@pytest.mark.parametrize(
    "user, arguments",
    [
        (counted, (rng.integers(0, 4, N), np.zeros(N))),
        (neighbours, (rng.random(N), rng.random(N))),
        (last_of, (rng.random(N),)),
        (products_that_need_the_sum, (rng.random(N),)),
        (set_anew, (rng.random(N),)),
        (ended_early, (rng.random(N), np.zeros(N))),
        (places_that_are_data, (np.zeros(N), rng.integers(0, N, N))),
        (same_place, (rng.random(N), np.zeros(N))),
        (rows_and_columns, (MATRIX,)),
    ],
)
def test_dependent_iterations_stay_in_order(user, arguments):
    agrees(user, *arguments, parallel=False)


def quotients(A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = A[i, j] / x[i]
    return A, i


def test_views_of_what_the_program_made():
    for user, independent in ((another_name, 1), (another_name_in_a_loop, 0)):
        compiled = npc.compile(user)
        assert same(compiled(60), user(60))
        before = parallel_runs(compiled)
        assert same(compiled(60), user(60))
        assert parallel_runs(compiled) == before + independent


def into_bytes(A, out):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j]
    return out


def found_at(A, places, out):
    for i in range(A.shape[0]):
        t = 2.0 * i
        for j in range(A.shape[1]):
            A[i, j] = A[i, j] + A.shape[0]
        out[i] = places[places[i]] + t
    return A, out, t


def caught(A, places, out):
    t = -1.0
    try:
        for i in range(A.shape[0]):
            out[i] = i
            for j in range(A.shape[1]):
                A[i, j] = A[i, j] + places[places[i]]
            t = A[i, 0] + i
    except IndexError:
        return A, out, t, i
    return A, out, t


def in_every_other_column(x):
    return np.repeat(x, 2, 1)[:, ::2]


@pytest.mark.parametrize(
    "user, at, layout",
    [
        (quotients, [0], np.asfortranarray),
        (quotients, [*range(3, N, 9)], np.ascontiguousarray),
        (into_bytes, [1], np.flip),
        (found_at, [N - 1], in_every_other_column),
        (found_at, [2], np.asfortranarray),
        (caught, [20, N - 1], np.ascontiguousarray),
        (caught, [N - 1], np.flip),
    ],
)
def test_an_iteration_that_has_to_leave(user, at, layout):
    A, x, places = layout(MATRIX), rng.random(N) + 1, rng.integers(0, N, N)
    if user is quotients:
        x[at] = 0.0
        agrees(user, A, x)
    elif user is into_bytes:
        A[at, 3] = -1.0
        agrees(user, A, np.zeros((N, N), np.uint8))
    else:
        places[at] = 1000
        agrees(user, A, places, np.zeros(N))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("views", [lambda x: (x[:N], x[:N]), lambda x: (x[:N], x[1 : N + 1]), lambda x: (x[1 : N + 1], x[:N])])
def test_arrays_that_overlap(views):
    base = rng.random(2 * N)
    compiled = npc.compile(one_level)
    for round in range(5):
        ours, theirs = base.copy(), base.copy()
        before = runs_so_far(compiled)
        assert same(compiled(*views(ours)), one_level(*views(theirs)))
        assert same(ours, theirs)
        assert round < 3 or before == parallel_runs(compiled)  # until then programs come that other tests have run


def test_an_array_that_overlaps_itself():
    compiled = npc.compile(scaled)
    for round in range(5):
        ours, theirs = np.arange(2.0 * N), np.arange(2.0 * N)
        windows = [np.lib.stride_tricks.as_strided(x, (N, N), (8, 8)) for x in (ours, theirs)]
        before = runs_so_far(compiled)
        assert same(compiled(windows[0], np.ones(N) + 1), scaled(windows[1], np.ones(N) + 1))
        assert same(ours, theirs)
        assert round < 3 or before == parallel_runs(compiled)  # until then programs come that other tests have run


def whole_loop(x, most):
    for i in range(x.size):
        k = 0
        while k < most:
            k += 1
            x[i] = x[i] * 0.5 + k
    return x


def test_interrupted():
    compiled = npc.compile(whole_loop)
    compiled(np.zeros(8), 10)
    ends_when_interrupted(lambda: compiled(np.zeros(8), 1 << 50))
    assert same(compiled(np.zeros(8), 10), whole_loop(np.zeros(8), 10))


def test_random_programs():
    check_examples(draw_program, check_on_threads, "cpu", 3)


def neighbours(cells, out):
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            count = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di or dj:
                        count += cells[(i + di) % cells.shape[0], (j + dj) % cells.shape[1]]
            out[i, j] = count
    return out


def test_loops_of_few_iterations_have_no_chunks():
    cells = np.random.default_rng(3).integers(0, 2, (12, 9))
    compiled = npc.compile(neighbours)
    for _ in range(3):
        assert np.array_equal(compiled(cells, np.zeros_like(cells)), neighbours(cells, np.zeros_like(cells)))
    line = neighbours.__code__.co_firstlineno
    chunks = [p.place for p in passes(compiled, "parallelize").values() if p.fired]
    assert chunks == [f"the loop at line {line + 1}"], "not the sum over neighbours"
