"""Programs of the loop IR that begin at a loop, where the capture of a graph arrives, and those that end behind their loops."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tracer.entry import compiled_function
from tests.loop_ir.agreement import Arguments, happened
from tests.loop_ir.programs import numbers, with_
from tests.native_loops.agreement import signalled


def begins(compiled: Any) -> list[bool]:
    """Of each Point with a program of the loop IR: is it the function's start?"""
    points = compiled_function(compiled).points.values()
    ran = [(point, each.name) for point in points for made in point.variants if made.compiled for each in made.compiled.passes]
    return [*dict.fromkeys(point.is_start for point, name in ran if name == "vectorize")]


def after_a_graph(x, a):
    y = np.fft.rfft(x).real
    s = 0.0
    for i in range(y.size):
        s = s * a + y[i]
    return s


def with_statements_behind(x, a):
    y = np.fft.rfft(x).real
    s = 0.0
    for i in range(y.size):
        s = s * a + y[i]
    return np.cumsum(y) * s


def with_loops_behind(x, a):
    y = np.fft.rfft(x).real
    s = t = 0.0
    for i in range(y.size):
        s = s * a + y[i]
    y = np.fft.rfft(y).real
    for i in range(y.size):
        t = t * a + y[i]
    return s, t


def inside_another(x, a, n):
    s = 0.0
    for _ in range(n):
        y = np.fft.rfft(x).real
        for i in range(y.size):
            s = s * a + y[i]
            y[i] = s
        x = np.cumsum(y)
    return s, x


def outside_of_memory(x, a):
    y = np.fft.rfft(x).real
    s = 0.0
    for i in range(y.size + 2):
        s = s * a + y[i]
    return s


def unbound(x, n):
    y = np.fft.rfft(x).real
    for _ in range(n):
        d = x[0]
        d = d + 1.0
    s = 0.0
    for i in range(y.size):
        s = s * d + y[i]
    return s


def with_other_objects(x, a, names, given):
    y = np.fft.rfft(x).real
    s = 0.0
    for i in range(y.size):
        s = s * a + y[i]
    return s, names, given


def left_early(x, a):
    y = np.fft.rfft(x).real
    s = 0.0
    for i in range(y.size):
        s = s * a + y[i]
        if s > 1e6:
            break
    else:
        s = -s
    return s, i


def iterator_of_others(x, a):
    y = np.fft.rfft(x).real
    s, places = 0.0, iter(range(y.size))
    for i in places:
        s = s * a + y[i]
        if s > 1.0:
            break
    return s, i, [*places]


AT_LOOPS: dict[str, tuple[FunctionType, Callable[[], Arguments]]] = {
    "after a graph": (after_a_graph, lambda: (numbers(90), 0.5)),
    "statements behind": (with_statements_behind, lambda: (numbers(90), 0.5)),
    "loops behind": (with_loops_behind, lambda: (numbers(90), 0.5)),
    "inside another": (inside_another, lambda: (numbers(90), 0.5, 3)),
    "an index outside": (outside_of_memory, lambda: (numbers(90), 0.5)),
    "overflow": (after_a_graph, lambda: (numbers(90), 1e300)),
    "bound": (unbound, lambda: (numbers(90), 3)),
    "other objects": (with_other_objects, lambda: (numbers(90), 0.5, ("a", 1), [1, "b"])),
}


@pytest.mark.parametrize("name", AT_LOOPS)
def test_programs_that_begin_at_a_loop(name: str) -> None:
    function, make = AT_LOOPS[name]
    compiled = npc.compile(function)
    for _ in range(3):
        assert happened(compiled, make()).same(happened(function, make()))
    assert begins(compiled) == [False]


@pytest.mark.parametrize("function", [unbound, left_early, iterator_of_others])
def test_what_python_has_at_a_loop(function: FunctionType) -> None:
    compiled = npc.compile(function)
    for last in (0.5, 3, 0):
        for _ in range(2):
            assert happened(compiled, (numbers(90), last)).same(happened(function, (numbers(90), last)))


def test_objects_that_are_handed_on_are_the_ones_that_were() -> None:
    compiled, names, given = npc.compile(with_other_objects), ("a", 1), [1, "b"]
    for _ in range(2):
        _, one, other = compiled(numbers(90), 0.5, names, given)
        assert one is names and other is given


def test_an_interrupt_in_a_program_that_begins_at_a_loop() -> None:
    def long(x, n):
        y, s = np.fft.rfft(x).real, 0.0
        for _ in range(n):
            s = s * 0.5 + y[0] * s
        return s

    compiled = npc.compile(long)
    assert compiled(numbers(9), 100) == long(numbers(9), 100) and begins(compiled) == [False]
    with signalled(), pytest.raises(KeyboardInterrupt):
        compiled(numbers(9), 10**12)


def named(x, a):
    s = 0.0
    for i in range(x.size):
        s = s * a + x[i]
    return {"sum": s, "of": x}


def told(x, a):
    s = 0.0
    for i in range(x.size):
        s = s * a + x[i]
    return f"{s:.3f}"


def summed(x, a):
    s = 0.0
    for i in range(x.size):
        s = s * a + x[i]
    return np.cumsum(x)[:3] * s


@pytest.mark.parametrize(("function", "size"), [(named, 40), (told, 40), (summed, 5000)])
def test_programs_that_end_behind_their_loops(function: FunctionType, size: int) -> None:
    compiled = npc.compile(function)
    for _ in range(3):
        mine, pythons = (call(numbers(size), 0.5) for call in (compiled, function))
        assert repr(mine) == repr(pythons)
    assert begins(compiled) == [True]
    assert happened(compiled, (with_(numbers(size), 9, np.nan), 0.5)).warnings == []
