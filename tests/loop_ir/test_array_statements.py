"""Statements about whole arrays where execution can be resumed: one nest for an expression, exact wherever it is left."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.memory import MOST_TURNS
from npcompile.tensor_core.loop_ir.ops import Alloc, For, Load, Program, View
from npcompile.tensor_core.loop_ir.pipeline import before, run_passes
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments
from tests.loop_ir.programs import LARGE, numbers, with_
from tests.loop_ir.test_front_end import agrees


def heat(u, steps):
    for _ in range(steps):
        u[1:-1] += 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:])
    return u


def relaxed(a, b, steps):
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a, b = b, a
    return a


def roots(c, tolerance):
    x = c * 1.0
    while np.abs(x * x - c).max() > tolerance:
        x = 0.5 * (x + c / x)
    return x


def eliminated(a):
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def shifted(x, y, n):
    for k in range(n):
        x[1:] = x[:-1] + y[1:]
        y[::-1] = x * 0.5
    return x, y


def shortest(d):
    for k in range(d.shape[0]):
        d[:] = np.minimum(d, d[:, k, None] + d[k])


def least_and_greatest(x, n):
    s = 0.0
    for k in range(n):
        s = s + (x[k:] * 2.0).max() - x.min()
    return s


def kept_for_long(x, n):
    y = z = x
    for _ in range(n):
        x, y, z = x * 0.5 + z, x, y
    return x, y, z


def of_other_sizes(x, n):
    for k in range(n):
        y = x[k:] * 2.0
        x[k:] = y + 1.0
    return y


def integers(x, n):
    for _ in range(n):
        x += x * 3
    return x


def ignoring(x, n):
    with np.errstate(all="ignore"):
        for _ in range(n):
            x[1:] = x[:-1] / x[1:]
    return x


def whole(x, y, n):
    """Elements and statements in turns."""
    for k in range(n):
        x[k] = y[0]
        y = x + y
        x[0] = y[k]
    return y


def onto_itself(x, y, n):
    for _ in range(n):
        y = y * 2.0
        x[1:] = x[1:]
    return x, y


CASES: dict[FunctionType, list[Arguments]] = {
    heat: [(numbers(9), 3), (with_(numbers(9), 4, LARGE), 2), (numbers(2), 2), (numbers(1), 2), (numbers(30)[::-2], 2)],
    relaxed: [(numbers(5, 6), numbers(5, 6, seed=1), 3), (numbers(5, 6), numbers(4, 6, seed=1), 3)],
    roots: [(np.abs(numbers(9)) + 1.0, 1e-9), (np.zeros(3), 1e-9), (np.zeros(0), 1e-9), (np.full(40, 2.0), 1e-9)],
    eliminated: [(numbers(5, 5) + 5 * np.eye(5),), (np.zeros((3, 3)),), (numbers(4, 5),)],
    shifted: [(numbers(6), numbers(6, seed=1), 3), (numbers(6), numbers(5, seed=1), 3), (numbers(6), numbers(1), 1)],
    shortest: [(np.abs(numbers(5, 5)),), (np.abs(numbers(4, 5)),)],
    least_and_greatest: [(numbers(50), 3), (with_(numbers(50), 40, np.nan), 3), (numbers(2), 3), (numbers(17), 1)],
    kept_for_long: [(numbers(5), 9), (numbers(5), 1)],
    of_other_sizes: [(numbers(8), 6), (numbers(8), 0)],
    integers: [(np.arange(5), 3), (np.array([1, 2**61]), 3)],
    ignoring: [(numbers(5), 3), (np.zeros(5), 3)],
    onto_itself: [(numbers(5), numbers(5), 3), (numbers(5), with_(numbers(5), 1, LARGE), 3)],
    whole: [(numbers(5), numbers(5, seed=1), 4), (numbers(5), numbers(4, seed=1), 4)],
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_statements_agree_wherever_they_are_left(function: FunctionType) -> None:
    agrees(function, *CASES[function])


def test_arrays_that_share_memory_agree() -> None:
    memory = numbers(12)
    agrees(shifted, (memory[:8], memory[2:10], 3), (memory[2:10], memory[:8], 3), (memory[:8], memory[:8], 2))


def traced(function: FunctionType, arguments: Arguments) -> Program:
    program = trace(function, arguments).program
    run_passes(program, passes=before("value ranges"))
    return program


def loops(program: Program) -> list[For]:
    return [op for op in walk(program.body) if isinstance(op, For)]


def outer(x, y, z, n):
    x = x * y
    for _ in range(n):
        x = (x * y + z) / (np.abs(x) + 1.0)
    return x


def test_one_nest_computes_an_expression() -> None:
    program = traced(outer, (numbers(5), numbers(5), numbers(5), 2))
    assert len(loops(program)) == 3  # that of the user's, and one of each statement
    assert sum(isinstance(op, Alloc) for op in walk(program.body)) == 2


def test_parts_of_an_array_are_read_where_they_lie() -> None:
    program = traced(heat, CASES[heat][0])
    views = {op.result for op in walk(program.body) if isinstance(op, View)}
    assert views.isdisjoint(op.array for op in walk(program.body) if isinstance(op, Load))


def arrays_of(function: Callable[..., object], arguments: Arguments) -> list[Alloc]:
    assert isinstance(function, FunctionType)
    program = trace(function, arguments).program
    run_passes(program)
    return [op for op in walk(program.body) if isinstance(op, Alloc)]


def test_memory_is_taken_again() -> None:
    assert {op.again for op in arrays_of(heat, CASES[heat][0])} == {True}
    assert 2 in {op.turns for op in arrays_of(roots, CASES[roots][0])}
    assert MOST_TURNS in {op.turns for op in arrays_of(kept_for_long, CASES[kept_for_long][0])}


def in_an_inner_loop(x, n):
    y = x
    for _ in range(n):
        y = x
        for _ in range(n):
            x = x * 0.5
    return x, y


def test_memory_that_a_loop_around_has_is_not_taken_again() -> None:
    agrees(in_an_inner_loop, (numbers(5), 4))
    assert 0 in {op.turns for op in arrays_of(in_an_inner_loop, (numbers(5), 4))}
