"""Small functions that go through the loop IR as a whole: they agree with Python wherever they are left."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments, checks_in, compiled, happened, interpreted

MOST_EXITS = 40  # that are tried in a run


def agrees(function: Callable[..., object], *cases: Arguments) -> None:
    """All cases have the types of the first one."""
    assert isinstance(function, FunctionType)
    wanted = [happened(function, arguments) for arguments in cases]
    program = trace(function, cases[0]).program
    for passes in ("none", "all"):
        verify(program)
        for arguments, expected in zip(cases, wanted):
            for leave_at in (-1, *range(min(MOST_EXITS, checks_in(program, arguments)))):
                got = happened(interpreted(function, program, leave_at), arguments)
                assert got.same(expected), (passes, leave_at, got, expected)
        if passes == "none":
            run_passes(program)
    loop = compile_program(program)
    for arguments, expected in zip(cases, wanted):
        for leave_at in (-1, 0, 1, 3):
            got = happened(compiled(function, loop, leave_at), arguments)
            assert got.same(expected), (leave_at, got, expected)


def asks_what_it_is(x, q):
    s = 0
    for i in range(x.size):
        if q is None:
            s += 1
        elif q == "text" and i:
            x[i] = s
        if not q or i in (1, 3):
            s += i
        if x[i] is not None and q != 3:
            s += 1
    return s, q


@pytest.mark.parametrize("q", [None, "text", ""])
def test_objects_are_asked_what_they_are(q: object) -> None:
    agrees(asks_what_it_is, (np.ones(5), q), (np.zeros(0), q))


def hands_it_on(x, q):
    for i in range(x.size):
        x[i] += 1
    return q


@pytest.mark.parametrize("q", [{"text": 1.5}, 2**70], ids=["dict", "int"])
def test_an_object_that_is_handed_on_is_the_same(q: object) -> None:
    x = np.ones(3)
    program = trace(hands_it_on, (x, q)).program
    run_passes(program)
    assert compiled(hands_it_on, compile_program(program))(x, q) is q
    assert compiled(hands_it_on, compile_program(program), leave_at=1)(x, q) is q


def test_an_integer_of_more_than_a_word_may_equal_a_number() -> None:
    def finds(x, q):
        for i in range(x.size):
            if q == 2.0**70:
                return i
        return -1

    with pytest.raises(Unsupported, match="more than 64 bits"):
        trace(finds, (np.ones(3), 2**70))


def makes_arrays(x, n):
    y = x.copy()
    z = np.ones((n, 2), np.int16)
    w = np.zeros(n, np.float32)
    v = np.full(n, 2.5)
    u = np.zeros_like(x)
    for i in range(n):
        y[i] += z[i, 1] + w[i] + v[i]
        u[i] = y[i]
        w[i] = i
        z[i] = 3
    z[1:, 0] = -n
    w[:] = 2
    return x, y, z, w, v, u


def test_arrays_are_made_and_filled() -> None:
    agrees(makes_arrays, (np.arange(4.0)[::-1], 4), (np.zeros(6)[::2], 3))


def test_what_an_array_does_not_hold_is_left_to_python() -> None:
    def fills(x, n):
        for i in range(3):
            x[i:] = n
        return x

    agrees(fills, (np.zeros(4, np.uint8), 3), (np.zeros(4, np.uint8), 256), (np.zeros(2, np.uint8), -1))


def goes_over(x, y):
    s = 0
    for step in (-1, 0, 2):
        for v in x:
            s += v * step
        for i in range(8, 0, -3):
            y[i] = s
        for row in y[:4].copy():
            s = s + row
    return s


def test_what_a_loop_goes_over() -> None:
    agrees(goes_over, (np.arange(4.0)[::-1], np.zeros(9)), (np.zeros(0), np.ones(9)))
    agrees(goes_over, (np.arange(4, dtype=np.int8), np.zeros(9, np.float32)), (np.full(3, 100, np.int8), np.ones(9, np.float32)))


def grows(x, n):
    seen = [x[0]]
    most = [0, 1] * n
    for i in range(x.size):
        if x[i] > seen[-1]:
            seen.append(x[i])
            most[i % 2] = i
    return seen, most


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i8", "?"])
def test_lists_that_do_not_begin_empty(dtype: str) -> None:
    x = np.array([0, 1, 1, 3, 2, 7]).astype(dtype)
    agrees(grows, (x, 2), (x[:0], 1), (x[::-1], 0), (x[1:], -3))


def ends_in_python(x, n):
    s = 0.0
    for i in range(x.size):
        s += x[i]
    if s > 3:
        x[0] = s
        return np.roll(x, 1), [s, n]
    y = np.cumsum(x)[::2]
    return y, {"n": n}, x[n]


def test_what_follows_the_loops_may_be_left_to_python() -> None:
    agrees(ends_in_python, (np.ones(5), 2), (np.zeros(3), 1), (np.zeros(3), 3))


def test_a_loop_that_follows_has_ir_or_there_is_none() -> None:
    def twice(x):
        for i in range(x.size):
            x[i] += 1
        x = np.sort(x)
        for i in range(x.size):
            x[i] += 1
        return x

    with pytest.raises(Unsupported, match="sort"):
        trace(twice, (np.ones(3),))


def rounds(x):
    s = 1e300
    for i in range(x.size):
        s = s - x[i]
    return s


def test_a_number_that_float32_does_not_hold_is_reported() -> None:
    agrees(rounds, (np.ones(3, np.float32),), (np.ones(0, np.float32),))


def fails_late(x, n):
    s = 0
    try:
        for i in range(x.size):
            if x[i] > n:
                s = ~x[i]
            s += i
            x[i] = s
    except TypeError:
        s = -s
    return s


def test_an_operator_that_python_refuses_is_left_to_it() -> None:
    agrees(fails_late, (np.arange(5.0), 3), (np.arange(5.0), 9))
