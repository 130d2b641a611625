"""Functions that are one native program from their start to their return."""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer.point import Point
from tests.native_loops.agreement import cloned, counts, outcome, same
from tests.native_loops.test_native_loops import agrees

rng = np.random.default_rng(8)
X, Y = rng.standard_normal(30), rng.standard_normal(30)
TABLE = np.arange(40) * 3


def programs(compiled: Any) -> dict[int, int]:
    """How many native programs each Point has."""
    known = compiled_function(compiled)
    assert known is not None
    points = known.points.values()
    return {p.number: n for p in points if (n := sum(v.graph is None and v.compiled is not None for v in p.variants))}


def variants(compiled: Any) -> list[Any]:
    known = compiled_function(compiled)
    assert known is not None
    return [v for p in known.points.values() for v in p.variants]


def is_whole(user: Any, *arguments: Any) -> Any:
    """It does what the plain function does, by one native program at its start."""
    compiled = agrees(user, *arguments)
    assert programs(compiled) == {0: 1}
    return compiled


# --- results


def numbers(x, k):
    total, count, small, flag = x[0], 0, np.float32(0), False
    for v in x:
        total += v
        count += 1
        small = np.float32(0.5) + small
        flag = total > k
    return total, count, small, flag, not flag, 2.5, None, "text", k, x.size, (total, (count,))


def views(x, y):
    out = np.zeros((x.size, 2))
    for i in range(x.size):
        out[i, 0], out[i, 1] = x[i], y[i] * 2
    return out[1:], out.T, x[::2], x, out, out[3], x[2:9][:, None]


def nothing(x):
    for i in range(x.size):
        x[i] *= 2


def early(x, most):
    for i in range(x.size):
        if x[i] > most:
            return i
    return x * 2


def sieve(n):
    prime = np.ones(n + 1, np.bool_)
    prime[:2] = False
    for p in range(2, int(n**0.5) + 1):
        if prime[p]:
            prime[p * p :: p] = False
    return np.nonzero(prime)[0], np.flatnonzero(prime[::3]), prime.nonzero()


def places_of_doubles(x):
    """The loop may run in chunks on threads, and so may what looks for the places."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = 2 * x[i]
    return np.nonzero(out)[0], np.flatnonzero(out > 1)


def several(x, y):
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = x[i] * y[i]
    total = 0.0
    k = 0
    while k < y.size:
        total += out[k]
        k += 1
    if total > 0:
        return total, out
    return out


def by_table(x):
    crc = 0
    for k in range(x.size):
        crc = (crc * 5 + TABLE[k % 40]) % 1009
    return crc, TABLE


def made(n, m):
    a, b, c = np.full((n, m), 2.5), np.arange(n), np.arange(-3, m)
    d, e = np.full(n, 7), np.full(m, True)
    f, g = np.full(n, 3, np.float32), np.ones(n, dtype=int)
    for i in range(n):
        b[i] += d[i] * g[i]
        for j in range(m):
            a[i, j] += b[i] + c[j] * e[j] + f[i]
    return a, b, c, d, e, f, g


def rolled(x, A, k):
    for i in range(x.size):
        x = np.roll(x, k) + np.roll(x * 0.5, -1) * 0.5
        A = np.roll(A, i, axis=0) - 0.25 * np.roll(A, k, 1) + np.roll(A[i % 3], 1)
    return x, A, np.roll(x, -k)


def twice_named(x):
    a = b = np.zeros(x.size)
    c, d = (np.ones(x.size),) * 2 if x.size > 90 else (a, b)
    e = f = x.copy()
    g = h = x * 1
    both = (x * 2, 0)
    for i in range(1, x.size):
        a[i] = b[i - 1] + x[i]
        c[i] = d[i] + e[i - 1]
        f[i] += e[i - 1] * 0.5
        g[2:] = h[:-2]
        both[0][i] += i
        x[i] = both[0][i - 1]
    return a, b, c, d, e, f, g, h, both[0], both


def counted(places, x, least):
    total = np.zeros(3)
    for k in range(least, 20 + least):
        n = np.bincount(places[k - least :])
        sums = np.bincount(places % 4, weights=x, minlength=least) + np.bincount(places[::-1], x)[1]
        total[:2] += sums[:2] + np.bincount(places, minlength=k + 9)[0] + n[0]
    return total, n, sums, np.bincount(places, None, least)


def forwarded(found, where, list):
    type = 0.0
    for i in range(found.size):
        type += found[i] * where[i]
    return type, list


CASES = [
    (numbers, X, 0.5),
    (views, X, Y),
    (nothing, X),
    (early, X, 1.0),
    (early, X, 100.0),
    (sieve, 60),
    (sieve, 20_000),
    (places_of_doubles, X),
    (several, X, Y),
    (several, X, -X),
    (by_table, X),
    (made, 20, 17),
    (made, 20, 0),
    (rolled, X, np.outer(X[:9], Y[:7]), 4),
    (rolled, X, np.outer(X[:9], Y[:7]), -40),
    (rolled, X, np.ones((5, 0)), 1),
    (counted, np.arange(30) // 4, X, 20),
    (counted, np.arange(30, dtype=np.uint8) // 7, X.astype("f4"), 0),
    (twice_named, X),
    (forwarded, X, Y, 3),
]


@pytest.mark.parametrize(
    "program, arguments", [(f, a) for f, *a in CASES], ids=[f"{f.__name__}-{k}" for k, (f, *_) in enumerate(CASES)]
)
def test_results(program, arguments):
    is_whole(program, *arguments)


def test_views_share_memory_and_arguments_are_themselves():
    compiled = npc.compile(views)
    for _ in range(2):
        x = X.copy()
        tail, turned, evens, whole, out, row, _ = compiled(x, Y)
        assert whole is x and evens.base is x
        assert tail.base is out and turned.base is out and row.base is out and out.base is None
    number = 1e300
    assert npc.compile(numbers)(X, number)[8] is number


def test_what_is_made_is_free_again():
    kept = is_whole(made, 20, 17)(20, 17)[1]
    watched = weakref.ref(kept)
    del kept
    gc.collect()
    assert watched() is None


# --- where it is left


def divided(x, y):
    out = np.zeros(x.size)
    scale = 1 / x[0]
    for i in range(x.size):
        out[i] = scale / y[i]
    rest = out[0] / y[1]
    return out, rest


@pytest.mark.parametrize("where", [(0, 0), (1, 5), (1, 29), (1, 1)])
def test_warnings_come_from_their_statements(where):
    arrays = X.copy(), Y.copy()
    compiled = is_whole(divided, *arrays)
    arrays[where[0]][where[1]] = 0.0
    for action in ("always", "error"):
        for state in ({}, {"all": "raise"}, {"all": "ignore"}, {"under": "warn"}):
            with np.errstate(**state):
                ours, theirs = (filtered(f, action, arrays) for f in (compiled, divided))
            assert all(map(same, ours, theirs))


def filtered(function: Any, action: str, arrays: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        if action == "always":
            return outcome(function, divided, [*arrays])
        try:
            return (function(*arrays),)
        except (RuntimeWarning, FloatingPointError) as error:
            return (repr(error),)


def test_errors_leave_what_was_done_before():
    def f(x, out, k):
        out[0] = 1
        for i in range(x.size):
            out[i + k] = x[i]
        out[-1] = 2
        return out

    compiled = is_whole(f, X, np.zeros(40), 5)
    for k in (12, -3, 45):
        ours, theirs = (outcome(g, f, [X, np.zeros(40), k]) for g in (compiled, f))
        assert all(map(same, ours, theirs))


@pytest.mark.parametrize("at, value", [(0, -1), (29, -(2**63)), (3, 2**55)])
def test_errors_of_counts(at, value):
    places = np.arange(30) // 4
    compiled = is_whole(counted, places, X, 20)
    wrong = places.copy()
    wrong[at] = value
    for arguments in ([places, X[:-1], 2], [places, X, -1], [places[:0], X[:0], 4], [wrong, X, 2]):
        ours, theirs = (outcome(f, counted, cloned(arguments)) for f in (compiled, counted))
        assert all(map(same, ours, theirs))


def test_statements_behind_loops_without_a_native_form():
    def f(x):
        total = 0.0
        for v in x:
            total += v
        return np.unique(x) * total, total

    compiled = agrees(f, X)
    assert programs(compiled) == {0: 1} and compiled_function(compiled).graphs


def test_statements_before_loops_without_a_native_form():
    def f(x):
        y = np.unique(x)
        total = 0.0
        for v in y:
            total += v
        if total > 1e300:
            raise ValueError(total)
        return total, y

    compiled = agrees(f, X)
    assert 0 not in programs(compiled) and len(programs(compiled)) == 1


def test_handlers_see_what_their_blocks_raise():
    def f(x, y):
        out = np.zeros(x.size)
        for i in range(x.size):
            out[i] = x[i]
        try:
            for i in range(x.size):
                out[i] += y[i]
        except IndexError as error:
            return out, str(error), i
        with np.errstate(divide="ignore"):
            for i in range(x.size):
                out[i] = np.float64(1) / (out[i] - out[i])
        return out

    agrees(f, X, Y)
    agrees(f, X, Y[:25])


def test_an_interrupt_ends_it():
    def f(n):
        x = np.ones(8)
        for k in range(n):
            x[k % 8] += 1
        return x

    compiled = is_whole(f, 100)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            compiled(10**13)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


# --- when it runs


class Marked(np.ndarray):
    pass


def test_other_arguments_are_other_programs():
    def f(x, a):
        total = a
        for i in range(x.size):
            total = total + x[i] * a
        return total, x[0], a

    compiled = npc.compile(f)
    fixed = np.arange(20.0)
    fixed.flags.writeable = False
    unaligned = np.zeros(8 * 20 + 1, np.uint8)[1:].view(np.float64)
    arrays = [
        X,
        X[::2],
        X.astype("f4"),
        X.astype(">f8"),
        np.arange(20),
        fixed,
        unaligned,
        X.view(Marked),
        np.arange(20).astype("q"),
        X[:, None][:, 0],
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*recompile_limit")
        for a in (2, 2.5, True, np.float64(0.5), 2**63, -(2**63), np.longlong(3), 1j):
            for x in arrays:
                ours, theirs = (outcome(g, f, [x, a])[0] for g in (compiled, f))
                assert same(ours, theirs) or type(theirs[1]) is Marked, (x.dtype, a)
    assert programs(compiled)


def test_rows_side_by_side_are_apart(monkeypatch):
    def swept(x, y):
        for i in range(1, x.size):
            y[1:] = x[:-1] * 0.5 + y[i]
            x[1:] = y[:-1]

    ours, theirs = np.tile(np.sin(TABLE), (2, 2, 1))
    monkeypatch.setattr(Point, "native", lambda *_: pytest.fail("Python runs what the program does not take"))
    compiled = npc.compile(swept)
    compiled(*ours)
    swept(*theirs)
    assert same(ours, theirs) and programs(compiled) == {0: 1}


def test_globals_and_functions_may_change(monkeypatch):
    compiled = is_whole(by_table, X)
    for table in (TABLE[::-1], np.arange(40.0), [1] * 40):
        monkeypatch.setitem(globals(), "TABLE", table)
        assert same(compiled(X)[0], by_table(X)[0]) and compiled(X)[1] is table
    monkeypatch.setattr(np, "zeros", np.ones)
    compiled = npc.compile(views)
    assert same(compiled(X, Y), views(X, Y))
    monkeypatch.undo()
    assert same(compiled(X, Y), views(X, Y)) and same(npc.compile(by_table)(X), by_table(X))


def test_statements_about_large_arrays_outside_of_loops_are_left_to_graphs():
    def f(x):
        y = x * 2 + x[::-1]
        total = 0.0
        for i in range(x.size):
            total += y[i]
        return total, y - total

    compiled = is_whole(f, X)
    for size in (5000, 60, 6000):
        x = rng.standard_normal(size)
        assert same(compiled(x), f(x))
    assert programs(compiled)[0] == 1 and len(programs(compiled)) == 2 and compiled_function(compiled).graphs


def test_attributes_of_libraries_are_one_native_question(monkeypatch):
    def least(x):
        D = np.full(x.size + 1, np.inf)
        for i in range(x.size):
            D[i + 1] = min(D[i], x[i] * math.pi + np.sqrt(2.0))
        return D, np.nan

    compiled = is_whole(least, X)
    (variant,) = variants(compiled)
    assert not variant.conditions
    monkeypatch.setattr(np, "inf", 3.0)
    assert same(compiled(X), least(X)) and least(X)[0][0] == 3
    monkeypatch.setattr(math, "pi", np.float64(-2.0))
    monkeypatch.setattr(np, "sqrt", np.exp)
    assert same(compiled(X), least(X))
    monkeypatch.undo()
    assert same(compiled(X), least(X))


def test_states_of_errors_that_programs_meet_later():
    def scaled(x):
        total = 0.0
        for i in range(x.size):
            total = total + x[i] * np.float64(1e-200)
            x[i] = total * 1e-200
        return x

    compiled = is_whole(scaled, X)
    for k in range(3):
        with np.errstate(all="warn", under="ignore", over=("warn", "ignore", "print")[k]):
            assert same(compiled(X.copy()), scaled(X.copy()))
        with np.errstate(under="raise"), pytest.raises(FloatingPointError):
            compiled(X.copy())
        with np.errstate(call=print, divide="call"):
            assert same(compiled(X.copy()), scaled(X.copy()))
    assert len(variants(compiled)) == 1


def test_infinities_of_libraries_are_reported_on():
    def differences(x):
        D = np.full((x.size, 3), np.inf)
        for i in range(1, x.size):
            D[i] = D[i - 1] - np.inf
        return D, np.inf - np.float64(np.inf)

    agrees(differences, X)


def test_small_arrays_that_a_call_is_done_with_are_those_of_the_next():
    def distances(x, keep):
        table, counts, given = np.zeros((x.size, 3)), np.zeros(x.size, np.int64), np.ones((x.size, 3))
        for i in range(1, x.size):
            table[i, 1] = table[i - 1, 1] + x[i]
            given[i, 2] = table[i, 1] * 2
            counts[i] = i
        if keep > 0:
            return table, given, counts
        return given[2:], counts[-1]

    compiled = is_whole(distances, X, 0)
    agrees(distances, X, 1)
    assert counts(compiled, "small arrays kept for the next call") == [3]
    results = []
    for k in range(12):
        for x in (X * k, X[:7] - k, np.zeros(2)):
            results += [(compiled(x, keep), distances(x, keep)) for keep in (0, 1, 0)]
    assert all(same(ours, theirs) for ours, theirs in results)
    arrays = [a for ours, _ in results for a in ours if isinstance(a, np.ndarray)]
    assert not any(np.may_share_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])
    assert all(a.flags.owndata and a.flags.writeable for a in arrays if a.base is None)
    changed, _ = compiled(X, 0)
    changed.base.setflags(write=False)
    del changed
    assert same(compiled(X, 0), distances(X, 0))


def sums_at_places(data, columns, rows, x):
    return np.bincount(rows, weights=data * x[columns], minlength=x.size)


def places_of_large_ones(data, columns, rows, x):
    found = np.flatnonzero(data > 0.5)
    return found, np.bincount(rows)


@pytest.mark.parametrize("user", [sums_at_places, places_of_large_ones])
def test_without_loops_where_data_decides_sizes(user: Any) -> None:
    """One program for all small sizes; it leaves for what NumPy refuses."""
    compiled, random = npc.compile(user), np.random.default_rng(8)

    def arguments(n: int, columns: int) -> tuple[Any, ...]:
        data, x = random.random(n), random.random(columns)
        return data, random.integers(0, columns, n), random.integers(0, columns + 2, n), x

    for n, columns in [(10, 5), (10, 5), (40, 3), (1, 1), (2000, 700), (30, 40)]:
        given = arguments(n, columns)
        assert same(compiled(*given), user(*given))
    assert programs(compiled) == {0: 1} and len(variants(compiled)) == 1
    data, columns, rows, x = arguments(10, 5)
    for wrong in (rows - 3, rows[:7], rows * 1.0, rows[:0]):
        assert same(outcome(compiled, user, [data, columns, wrong, x]), outcome(user, user, [data, columns, wrong, x]))
    given = arguments(50_000, 700)
    for found, expected in zip(compiled(*given), user(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
