"""Loops whose graphs would do less than entering them takes run as they are, and only those."""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from npcompile.tracer import plain_loops
from npcompile.tracer.profitability import LOOKED_AT_HOPS, SMALL

X = np.arange(200.0)


def plain_points(compiled: Any) -> int:
    """How many Points have run the rest of their loop as it is."""
    known = compiled_function(compiled)
    assert known is not None
    return sum(point.beyond is not None for point in known.points.values())


def by_text(x, most):
    """Numbers through texts, which no native program has: several graphs an iteration."""
    total, seen = 0.0, []
    for k in range(x.size):
        n = int(str(int(x[k])))
        if n == most:
            break
        total += x[n] * 0.5 + x[-n - 1]
        if n % 50 == 0:
            seen.append(str(int(total)))
    else:
        total = -total
    return total, seen, x * 2


def returns_inside(x, most):
    for k in range(x.size):
        n = int(str(int(x[k])))
        if n > most:
            return k, x[n]
        x[n] += 1
    return x.sum()


def handles_errors(x, most):
    met = 0
    for k in range(x.size):
        try:
            n = int(str(int(x[k])))
            x[n + most] += x[k]
        except IndexError:
            met += 1
    return met, x


def nested(x, most):
    found = []
    for k in range(12):
        for j in range(12):
            n = int(str(int(x[j])))
            if n > most:
                break
            x[j] += x[n] * 0.25
        found.append(str(int(x[k])))
    return found, x


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    else:
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("program", [by_text, returns_inside, handles_errors, nested])
@pytest.mark.parametrize("most", [0, 150, 500])
def test_answers(program: Any, most: int) -> None:
    compiled = npc.compile(program)
    for _ in range(3):
        mine, users = X.copy(), X.copy()
        same(compiled(mine, most), program(users, most))
        np.testing.assert_array_equal(mine, users)


def test_a_long_loop_over_numbers_runs_as_it_is_whatever_the_size() -> None:
    compiled = npc.compile(by_text)
    compiled(X[:10].copy(), 500)
    assert not plain_points(compiled)  # too few hops to tell
    compiled(X.copy(), 500)
    assert plain_points(compiled)
    large = np.arange(float(4 * SMALL))
    same(compiled(large, 5000), by_text(large, 5000))


def halves(x, n):
    for k in range(n):
        m = int(str(k))
        x = x * 0.5 + m
    return x


def test_arrays_that_are_not_small_are_compiled_for() -> None:
    compiled, large = npc.compile(halves), np.ones(2 * SMALL)
    same(compiled(X, 300), halves(X, 300))
    assert plain_points(compiled)
    known = compiled_function(compiled)
    assert known is not None
    calls: list[int] = []

    def counted(enter: Any) -> Any:
        def entered(*state: Any) -> Any:
            calls.append(len(state))
            return enter(*state)

        return entered

    for point in known.points.values():
        if point.plain:
            point.enter = counted(point.enter)
    same(compiled(large, 300), halves(large, 300))
    assert len(calls) >= 300
    calls.clear()
    same(compiled(X, 300), halves(X, 300))
    assert not calls


def much(x, n):
    total = 0.0
    for k in range(n):
        m = int(str(k))
        for _ in range(10):
            x = np.sin(x) * 0.5 + m
        total = total + x[0] + x[-1]
    return total


def test_graphs_that_are_worth_entering_are_entered() -> None:
    compiled = npc.compile(much)
    np.testing.assert_allclose(compiled(X, 300), much(X, 300), rtol=1e-12)
    assert not plain_points(compiled)


def helper(x, k):
    print(end="")
    return np.cos(x).sum() + k


def calls_a_function(x, n):
    total = 0.0
    for k in range(n):
        total += helper(x, int(str(k)))
    return total


def test_functions_that_are_called_stay_compiled() -> None:
    compiled = npc.compile(calls_a_function)
    np.testing.assert_allclose(compiled(X, 300), calls_a_function(X, 300), rtol=1e-12)
    assert not plain_points(compiled)


def divides(x, n):
    for k in range(n):
        m = int(str(k))
        x[m % 5] = x[1] / (x[0] - m)
    raise ValueError(m)


def test_warnings_and_errors_are_those_of_the_lines() -> None:
    def outcome(function: Any) -> Any:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            with pytest.raises(ValueError, match="299") as raised:
                function(np.array([200.0, 1, 2, 3, 4]), 300)
        lines = [f.lineno for f in traceback.extract_tb(raised.tb) if f.name == "divides"]
        return [(w.category, w.lineno) for w in met if w.filename == __file__], lines

    compiled = npc.compile(divides)
    for _ in range(2):
        assert outcome(compiled) == outcome(divides)
    assert plain_points(compiled)


class Held:
    def __init__(self, events: list[str]) -> None:
        self.events = events

    def __del__(self) -> None:
        self.events.append("gone")


def drops(x, events):
    held = Held(events)
    for k in range(x.size):
        x[k] += int(str(k))
        held = None
        if k == 150:
            events.append("in the loop")
    return held


def test_objects_of_classes_are_not_kept_until_the_loop_ends() -> None:
    compiled = npc.compile(drops)
    compiled(X.copy(), [])  # what a call is compiled for may live until the garbage is collected
    for _ in range(3):
        events: list[str] = []
        compiled(X.copy(), events)
        assert events == ["gone", "in the loop"]


class Pair:
    __slots__ = ("__weakref__", "seen", "x", "y")

    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.x + other.x, self.y + other.y)

    def __mul__(self, factor: float) -> Pair:
        return Pair(self.x * factor, self.y * factor)


def adds_pairs(first, n, watch):
    events, step, total = [], first, Pair(0.0, 1.0)
    ended = watch(total, events)
    for k in range(n):
        total = total + step * 0.5
        if k == 150:
            events.append("in the loop")
    return total.x, total.y, events, ended is None


def watched(value, events):
    return weakref.finalize(value, events.append, "gone")


@pytest.mark.parametrize(("watch", "is_plain"), [(lambda value, events: None, True), (watched, False)])
def test_objects_whose_end_nobody_sees_are_kept(watch: Any, is_plain: bool) -> None:
    compiled = npc.compile(adds_pairs)
    compiled(Pair(1.0, 2.0), 200, watch)
    for _ in range(3):
        assert compiled(Pair(1.0, 2.0), 200, watch) == adds_pairs(Pair(1.0, 2.0), 200, watch)
    assert bool(plain_points(compiled)) or not is_plain


class Linked:
    """An object of objects, one of which leads back to it, as a graph and its views do."""

    def __init__(self) -> None:
        self.view, self.pair = View(self), Pair(1.0, 2.0)


class View:
    def __init__(self, of: Linked) -> None:
        self.of = of


def reads_linked(linked, n):
    total, seen = 0.0, weakref.ref(linked)
    for k in range(n):
        total += linked.view.of.pair.x * int(str(k))
    return total, seen() is linked


def replaces_linked(linked, n):
    first, linked, events = linked, Linked(), []
    seen = weakref.ref(linked)
    for k in range(n):
        if k == 80:
            linked = first
        if k == 150:
            gc.collect()
            events.append(seen() is None)
        events += [int(str(k))] if linked.pair.x == k else []
    return events


@pytest.mark.parametrize(("program", "is_plain"), [(reads_linked, True), (replaces_linked, False)])
def test_objects_whose_variable_the_loop_does_not_bind_anew_may_be_any(program: Any, is_plain: bool) -> None:
    compiled = npc.compile(program)
    for _ in range(4):
        assert compiled(Linked(), 200) == program(Linked(), 200)
    assert bool(plain_points(compiled)) == is_plain


def test_a_loop_that_keeps_an_object_is_looked_at_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    monkeypatch.setattr(plain_loops, "is_simple", lambda value: looks.append(value) or False)
    compiled = npc.compile(replaces_linked)
    for _ in range(3):
        compiled(Linked(), 5000)
    assert 1 <= len(looks) < 100 and not plain_points(compiled)


def arrays_held(size: int) -> int:
    """How many arrays of that size variables of the functions that run hold."""
    frame, found = sys._getframe(), {}
    while frame is not None:
        found |= {id(v): v for v in frame.f_locals.values() if isinstance(v, np.ndarray) and v.size == size}
        frame = frame.f_back
    return len(found)


def test_arrays_that_a_loop_replaces_are_not_kept_by_the_frame_that_it_began_in() -> None:
    def steps(x, n):
        a, held = x * 2 + 1, []
        for k in range(n):
            a = a * 0.5 + x
            if int(str(k)) in (5, 90):
                held.append(arrays_held(100_000))
        return held

    compiled = npc.compile(steps)
    for _ in range(3):
        assert compiled(np.ones(100_000), 100)[-1] == steps(np.ones(100_000), 100)[-1] == 2


def test_objects_of_large_arrays_are_compiled_for() -> None:
    def steps(pair, n):
        for _ in range(n):
            pair.x = pair.x * 0.5 + pair.y
            str(n)
        return pair.x

    compiled = npc.compile(steps)
    large = Pair(np.ones(100_000), np.ones(100_000))
    for _ in range(3):
        assert np.array_equal(compiled(Pair(large.x, large.y), 100), steps(Pair(large.x, large.y), 100))
    assert not plain_points(compiled)


def by_queue(starts, neighbours, first):
    distance = np.full(starts.size - 1, -1)
    distance[first] = 0
    queue = [first]
    while queue:
        at = queue.pop(0)
        for k in range(starts[at], starts[at + 1]):
            other = neighbours[k]
            if distance[other] < 0:
                distance[other] = distance[at] + 1
                queue.append(other)
    return distance


def by_rows(edges, first):
    seen, order, queue = np.zeros(edges.shape[0], bool), [], [first]
    seen[first] = True
    while queue:
        at = queue.pop()
        order.append(at)
        for other in np.nonzero(edges[at])[0]:
            if not seen[other]:
                seen[other] = True
                queue.append(other)
    return order


@pytest.mark.parametrize("size", [12, 300])
def test_searches_in_graphs_run_as_they_are(size: int) -> None:
    """Native programs of a few iterations, rows of a large matrix, lists that grow: no reason to go from Point to Point."""
    random = np.random.default_rng(size)
    degrees = random.integers(1, 6, size)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    neighbours, edges = random.integers(0, size, starts[-1]), random.random((size, size)) < 3 / size
    edges[0, 1:5] = True
    for program, arguments in ((by_queue, (starts, neighbours, 0)), (by_rows, (edges, 0))):
        compiled = npc.compile(program)
        for _ in range(12):
            same(compiled(*arguments), program(*arguments))
        assert plain_points(compiled)


def seldom_texts(x, n):
    total, seen = 0.0, []
    for k in range(n):
        total += x[k % 100] * 0.5
        if k % 500 == 499:
            seen.append(str(int(total)))
    return total, seen


def test_native_programs_of_many_iterations_stay() -> None:
    compiled = npc.compile(seldom_texts)
    for _ in range(3):
        same(compiled(X, 60_000), seldom_texts(X, 60_000))
    assert not plain_points(compiled)


def threshold_of(counts):
    below, weight, best, found = 0.0, 0.0, 0.0, 0
    total = np.dot(np.arange(counts.size), counts)
    for i in range(counts.size):
        below += counts[i]
        if below == 0 or below == counts.sum():
            continue
        weight += i * counts[i]
        gain = below * (weight / below - total) ** 2
        if gain >= best:
            found, best = i, gain
    return found, counts > best


def test_native_programs_that_return_stay() -> None:
    compiled, counts = npc.compile(threshold_of), np.random.default_rng(1).integers(0, 9, 250)
    for _ in range(LOOKED_AT_HOPS * 2):
        same(compiled(counts), threshold_of(counts))
    assert not plain_points(compiled)
