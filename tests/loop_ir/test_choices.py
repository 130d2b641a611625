"""Choices in an iteration: which become straight lines, and which stay branches; answers are exact to the last write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.if_conversion import Line
from npcompile.tensor_core.loop_ir.ops import Check, For, FpCheck, If, Let, LoopKind, Program, Store
from npcompile.tensor_core.loop_ir.types import Scalar
from tests.loop_ir.agreement import happened, interpreted
from tests.loop_ir.programs import LARGE, limited, numbers, with_
from tests.loop_ir.test_vectors import agrees, optimized


def clipped(x, most, out):
    for i in range(x.size):
        if x[i] > most:
            out[i] = most
        elif x[i] < -most:
            out[i] = -most
        else:
            out[i] = x[i]


def raised(x, least):
    for i in range(x.size):
        if x[i] < least:
            x[i] = least * 2.0


def parted(x, above, below):
    for i in range(x.size):
        if x[i] > 1.0:
            above[i] = x[i]
        else:
            below[i] = x[i]


def of_those_above(x, least):
    s = 0.0
    for i in range(x.size):
        if x[i] <= least:
            continue
        s += x[i] * x[i]
    return s


def less_those_above(x, least):
    s = -0.0
    for i in range(x.size):
        if x[i] > least:
            s -= x[i]
    return s


def unequal_steps(x, a, out):
    s = x[0]
    for i in range(x.size):
        d = x[i] - s
        s = s + a * d if d > 0.0 else s + 0.1 * d
        out[i] = s


def greatest(x):
    best = x[0]
    for i in range(1, x.size):
        if x[i] > best:
            best = x[i]
    return best


def integers(k, most, out):
    for i in range(k.size):
        out[i] = k[i] if k[i] < most else most


def whole_grid(u, out):
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            c = u[i, j]
            if c > 1.0:
                out[i, j] = c * (c - u[i, j - 1])
            else:
                out[i, j] = c * (u[i, j + 1] - c)


def fired(x, a, out):
    v = 0.0
    for i in range(x.size):
        v = v + 0.1 * (x[i] - v)
        if v > a:
            v = 0.0
            out[i] = 1.0


def divided(x, out):
    for i in range(x.size):
        if x[i] != 0.0:
            out[i] = 1.0 / x[i]


def counted_places(x, k, out):
    for i in range(x.size):
        if x[i] > 1.0:
            out[k[i]] = x[i]


def fast_loops(program: Program) -> list[For]:
    """Innermost loops in which nothing leaves."""
    loops = [op for op in walk(program.body) if isinstance(op, For)]
    return [op for op in loops if not any(isinstance(each, For | Check | FpCheck) for each in walk(op.body))]


def choices(program: Program) -> list[If]:
    return [each for loop in fast_loops(program) for each in walk(loop.body) if isinstance(each, If)]


def some(n: int, seed: int = 1) -> np.ndarray:
    return numbers(n, seed=seed)


STRAIGHT = [
    (clipped, [lambda n=n: (some(n), 0.8, np.zeros(n)) for n in (0, 1, 9, 600)]),
    (clipped, [lambda: (with_(some(20), 3, np.nan), np.float64(0.8), np.zeros(12))]),
    (raised, [lambda: (some(600), 1.0), lambda: (with_(some(600), 550, LARGE), LARGE)]),
    (parted, [lambda: (some(600), np.zeros(600), np.ones(600)), lambda: (some(9), np.zeros(5), np.ones(9))]),
    (of_those_above, [lambda: (some(600), 1.0), lambda: (with_(some(600), 520, LARGE), 1.0), lambda: (some(3), 9.0)]),
    (of_those_above, [lambda: (-with_(some(600), 520, LARGE), 1.0)]),  # an arm that is not taken overflows
    (less_those_above, [lambda: (some(600), 1.0), lambda: (some(600), 9.0), lambda: (with_(some(9), 2, np.inf), 1.0)]),
    (unequal_steps, [lambda: (some(600), 0.3, np.zeros(600)), lambda: (with_(some(600), 530, LARGE), -9.0, np.zeros(600))]),
    (greatest, [lambda: (some(600),), lambda: (with_(some(600), 0, np.nan),), lambda: (with_(some(60), 7, np.nan),)]),
    (integers, [lambda: (np.arange(600), 9, np.zeros(600, int)), lambda: (np.arange(9), 5, np.zeros(4, int))]),
    (
        whole_grid,
        [lambda: (numbers(9, 11), np.zeros((9, 11))), lambda: (with_(numbers(9, 11), (4, 4), LARGE), np.zeros((9, 11)))],
    ),
    (limited, [lambda: (some(600), 1.0, np.zeros(600)), lambda: (some(9), 1.0, np.zeros(5))]),
]
Makes = list[Callable[[], tuple[Any, ...]]]


@pytest.mark.parametrize(("function", "makes"), STRAIGHT, ids=[f"{k}-{f.__name__}" for k, (f, _) in enumerate(STRAIGHT)])
def test_choices_become_straight_lines(function: FunctionType, makes: Makes) -> None:
    program, ran = optimized(function, makes[0]())
    assert ran["if-conversion"].fired and not choices(program)
    plain, _ = optimized(function, makes[0](), without="if-conversion")
    assert choices(plain)
    for make in makes:
        agrees(function, program, make)
    agrees(function, plain, makes[-1], in_c=False)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (fired, (some(600), 0.8, np.zeros(600))),  # the next iteration waits for the choice
        (divided, (with_(some(600), 3, 0.0), np.zeros(600))),  # an arm that is not taken would divide by 0
        (counted_places, (some(9), np.arange(9), np.zeros(9))),  # stores anywhere
    ],
)
def test_choices_that_stay(function: FunctionType, arguments: tuple[Any, ...]) -> None:
    program, ran = optimized(function, arguments)
    assert not ran["if-conversion"].fired
    agrees(function, program, lambda: copy.deepcopy(arguments))


@pytest.mark.parametrize("function", [clipped, integers])
def test_vectors_of_choices_are_left_to_the_target(function: FunctionType) -> None:
    """No lanes of its own: the loop is marked, and lost where choices are branches."""
    arguments = (some(20), 0.8, np.zeros(20)) if function is clipped else (np.arange(20), 9, np.zeros(20, int))
    for without, is_marked in (("", True), ("if-conversion", False)):
        program, ran = optimized(function, arguments, without)
        marked = [op for op in fast_loops(program) if op.kind is LoopKind.SIMD and is_about(op, "choose")]
        assert bool(marked) == bool(ran["vectorize"].fired) == is_marked
        assert all(not isinstance(kind, Scalar) or kind.lanes == 1 for kind in program.types)


def is_about(loop: For, name: str) -> bool:
    return any(isinstance(op, Let) and op.op == name for op in loop.body)


def test_what_is_added_does_not_wait_for_a_choice() -> None:
    """-0.0 is added where an arm adds nothing: it changes neither zero."""
    program, _ = optimized(of_those_above, (some(600), 1.0))
    [loop] = [op for op in fast_loops(program) if is_about(op, "choose")]
    [total] = [op for op in loop.body if isinstance(op, Let) and op.op == "add" and loop.args[0] in op.args]
    assert not any(isinstance(op, Let) and op.op == "choose" and total.result in op.args for op in loop.body)
    for zero in (0.0, -0.0):
        agrees(less_those_above, optimized(less_those_above, (np.array([zero]), 1.0))[0], lambda: (np.array([zero]), 1.0))


@pytest.mark.parametrize("function", [clipped, unequal_steps])
def test_arms_that_are_exchanged_are_found(function: FunctionType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sabotage: the other number is chosen."""
    chosen = Line.chosen
    monkeypatch.setattr(Line, "chosen", lambda self, one, other: chosen(self, other, one))
    arguments = (some(20), 0.8, np.zeros(20))
    program, _ = optimized(function, arguments)
    assert not happened(interpreted(function, program), arguments).same(happened(function, arguments))


def test_a_store_that_is_left_out_is_found() -> None:
    """Sabotage: both arms store, so what stands there must be stored again."""
    program, _ = optimized(raised, (some(20), 1.0))
    for loop in fast_loops(program):
        for op in loop.body:
            if isinstance(op, Store) and is_about(loop, "choose"):
                [chosen] = [each for each in loop.body if isinstance(each, Let) and each.op == "choose"]
                op.value = chosen.args[1]
    arguments = (some(20), 1.0)
    assert not happened(interpreted(raised, program), arguments).same(happened(raised, arguments))
