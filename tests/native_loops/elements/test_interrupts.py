"""What a native loop leaves behind when the user interrupts it, or memory is lacking: what the program's statements so far did.

Python looks for signals between its instructions. A native loop looks where an iteration begins, so what is seen then is what
some iterations have done, the same number of all they do.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import fired, outcome, same, signalled
from tests.native_loops.test_native_loops import native_loops

FOREVER = 10**12
BIG = 1 << 22  # elements of vectors of whose products no address space has room


class Counted:
    def __init__(self) -> None:
        self.count, self.steps, self.last, self.stops = 0, np.zeros(1), np.float64(0), False

    def numbers(self, n: int, x: Any) -> None:
        for _ in range(n):
            self.count += 1
            self.steps[0] += 1

    def whole_arrays(self, n: int, x: Any) -> None:
        for _ in range(n):
            self.count += 1
            x += 1
            self.steps[0] += 1

    def elements(self, n: int, x: Any) -> None:
        for _ in range(n):
            self.count += 1
            self.steps[0] += 1
            for i in range(len(x)):
                x[i] = x[i] * 0.5 + 1

    def sums(self, n: int, x: Any) -> None:
        for _ in range(n):
            self.count += 1
            self.steps[0] += 1
            s = 0.0
            for j in range(len(x)):
                s = s * 0.5 + x[j]
            self.last = s

    def guarded(self, n: int, x: Any) -> int:
        try:
            for _ in range(n):
                self.count += 1
                self.steps[0] += 1
        except KeyboardInterrupt:
            return self.count
        return -1

    def until_told(self, n: int, x: Any) -> None:
        for _ in range(n):
            if self.stops:
                break
            self.count += 1
            self.steps[0] += 1


METHODS = [Counted.numbers, Counted.whole_arrays, Counted.elements, Counted.sums]


@pytest.mark.parametrize("length", [1000, 1_000_000])  # in one pass, and on threads
@pytest.mark.parametrize("method", METHODS)
def test_attributes_are_those_of_the_iterations_so_far(method: Any, length: int) -> None:
    compiled, given = npc.compile(method), Counted()
    compiled(given, 100, np.zeros(length))
    with signalled(), pytest.raises(KeyboardInterrupt):
        compiled(given, FOREVER, np.zeros(length))
    assert 100 < given.count < FOREVER
    # A statement over large arrays that runs as a graph of its own comes before the attributes of its iteration.
    assert 0 <= given.steps[0] - given.count <= (method is Counted.whole_arrays)
    compiled(given, 100, np.zeros(length))


def time_steps(n, x, done):
    for _ in range(n):
        done[0] += 1
        for i in range(1, len(x) - 1):
            x[i] = x[i] * 0.5 + 1


def relaxation(n, x, done):
    y = x.copy()
    for _ in range(n):
        done[0] += 1
        for i in range(1, len(x) - 1):
            y[i] = 0.5 * (x[i - 1] + x[i + 1])
        for i in range(1, len(x) - 1):
            x[i] = y[i]


@pytest.mark.parametrize("program", [time_steps, relaxation])
def test_loops_inside_on_threads_count(program: Any) -> None:
    """Each takes less time than there is between two looks."""
    compiled, done = npc.compile(program), np.zeros(1)
    compiled(3, np.zeros(1_000_000), done)
    with signalled(), pytest.raises(KeyboardInterrupt):
        compiled(FOREVER, np.zeros(1_000_000), done)
    assert 3 < done[0] < FOREVER


def around(n, A):
    count = 0
    try:
        for _ in range(n):
            count += 1
            A[0] += 1
    except KeyboardInterrupt:
        A[1] = -count
    return count


def inside(n, A):
    count = 0
    for _ in range(n):
        try:
            for _ in range(10**6):
                count += 1
                A[0] += 1
        except KeyboardInterrupt:
            break
    return count


def of_arrays(n, A):
    count, total = 0, np.zeros(10, A.dtype)
    try:
        for _ in range(n):
            count += 1
            A += 1
            total = total + A
    except KeyboardInterrupt:
        A[1] = total[1]
    return count


def leaves_often(n, A):
    count, seen = 0, {}
    try:
        for i in range(n):
            count += 1
            A[0] += 1
            if i % 3_000_000 == 0:  # fewer than there are between two looks
                seen["count"] = count
    except KeyboardInterrupt:
        A[1] = count
    return count


def finally_noted(n, A):
    count = 0
    try:
        for _ in range(n):
            count += 1
            A[0] += 1
    finally:
        A[1] = count


def with_cells(n, A):
    count = 0

    def noted():
        A[1] = count

    try:
        for _ in range(n):
            count += 1
            A[0] += 1
    except KeyboardInterrupt:
        noted()
    return count


@pytest.mark.parametrize("program", [around, inside, of_arrays, with_cells, leaves_often])
def test_handlers_see_the_variables_of_the_iterations_so_far(program: Any) -> None:
    compiled = npc.compile(program)
    assert compiled(100, np.zeros(10, int)) >= 100
    A = np.zeros(10, int)
    with signalled(after=0.6):
        count = compiled(FOREVER, A)
    assert 100 < count == A[0] < FOREVER
    if program is of_arrays:
        assert A[1] == count * (count + 1) // 2
    elif program is not inside:
        assert abs(A[1]) == count


def test_finally_sees_them_too() -> None:
    compiled, A = npc.compile(finally_noted), np.zeros(2)
    compiled(100, A)
    with signalled(), pytest.raises(KeyboardInterrupt):
        compiled(FOREVER, A)
    assert 100 < A[1] == A[0] - 100


def test_a_handler_inside_a_method() -> None:
    compiled, given = npc.compile(Counted.guarded), Counted()
    assert compiled(given, 100, None) == -1
    with signalled():
        count = compiled(given, FOREVER, None)
    assert 100 < count == given.count == given.steps[0]


class Told(Exception):
    pass


def tell(*_: Any) -> None:
    raise Told("by a handler of signals")


def told(n, A):
    count = 0
    try:
        for _ in range(n):
            count += 1
            A[0] += 1
    except Told as error:
        return count, str(error), error.__traceback__.tb_next is not None
    return count


def test_exceptions_of_handlers_of_signals() -> None:
    compiled, A = npc.compile(told), np.zeros(1)
    compiled(100, A)
    with signalled(signal.SIGUSR1, tell):
        count, text, has_frames = compiled(FOREVER, A)
    assert (count, text, has_frames) == (A[0] - 100, "by a handler of signals", True)


def test_handlers_of_signals_see_attributes_and_set_them() -> None:
    compiled, given, seen = npc.compile(Counted.until_told), Counted(), []

    def stop(*_: Any) -> None:
        seen.append((given.count, float(given.steps[0])))
        given.stops = True

    compiled(given, 100, None)
    with signalled(signal.SIGUSR1, stop):
        compiled(given, FOREVER, None)
    assert seen == [(given.count, given.steps[0])] and 100 < given.count < FOREVER


# --- no memory


class Products:
    def __init__(self) -> None:
        self.count, self.last = 0, 0.0

    def run(self, x: Any, y: Any, found: Any) -> None:
        for i in range(found.size):
            self.count += 1
            t = y * i
            u = x[:, None] * t
            self.last = u[0, 0]


def lacking_inside(x, y, found):
    count = 0
    for i in range(found.size):
        try:
            count += 1
            t = y * i
            u = x[:, None] * t
            found[i] = u[0, 0]
        except MemoryError:
            found[i] = -count
    return count


def lacking_around(x, y, found):
    count = 0
    try:
        for i in range(found.size):
            count += 1
            t = y * i
            u = x[:, None] * t
            found[i] = u[0, 0]
    except MemoryError:
        found[-1] = -count
        return count, t[:3]
    return count


@pytest.mark.parametrize("program", [lacking_inside, lacking_around])
def test_handlers_where_memory_is_lacking(program: Any) -> None:
    compiled = npc.compile(program)
    for size in (3, BIG, 3):
        x = np.ones(size)
        ours, theirs = (outcome(f, program, [x, x, np.zeros(20)]) for f in (compiled, program))
        assert same(ours, theirs)
    assert native_loops(compiled) and fired(compiled, "errors to handlers")


def test_attributes_where_memory_is_lacking() -> None:
    compiled = npc.compile(Products.run)
    for size in (3, BIG):
        ours, theirs, x = Products(), Products(), np.ones(size)
        results = [outcome(f, Products.run, [o, x, x, np.zeros(20)])[0] for f, o in ((compiled, ours), (Products.run, theirs))]
        assert same(*results) and vars(ours) == vars(theirs)
    assert native_loops(compiled)
