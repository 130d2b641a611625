"""Numbers that loops count with: where they cannot leave a word no iteration asks, else it is asked once before a loop."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import For, Let, Program
from npcompile.tensor_core.loop_ir.outcome import Exited
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import PASSES, before, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.value_ranges import ValueRanges
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import compiled, happened, interpreted
from tests.loop_ir.programs import numbers

Arguments = tuple[Any, ...]


def above(x, level):
    n = 0
    for i in range(x.size):
        if x[i] > level:
            n += 1
    return n


def up_and_down(x, k):
    n = k - k
    for i in range(x.size):
        if x[i] > 1.0:
            n += 3
        elif x[i] > 0.7:
            n -= 2
    return n


def pairs(x, near, n, m):
    for i in range(x.size):
        for j in range(m):
            if abs(x[i] - x[j]) < near:
                n += 1
    return n


def fewer(x, near, n, m):
    for i in range(x.size):
        for j in range(m):
            if x[i] < near:
                n -= 1
            else:
                n += 1
    return n


def doubling(x, n):
    for i in range(x.size):
        for j in range(x.size):
            n += n
    return n


MOST, LEAST = 2**63 - 1, -(2**63) + 1
CASES: list[tuple[FunctionType, list[Arguments]]] = [
    (above, [(numbers(9), 1.0), (numbers(0), 1.0)]),
    (up_and_down, [(numbers(30), 5), (numbers(0), 5)]),
    (pairs, [(numbers(5), 0.3, n, m) for n in (0, MOST - 4, MOST, LEAST) for m in (5, 0, -3)]),
    (pairs, [(numbers(5), 0.3, 0, 7)]),  # x[5] raises
    (fewer, [(numbers(4), 1.0, n, m) for n in (0, MOST - 2, LEAST + 2) for m in (4, -1)]),
    (doubling, [(numbers(9), 1), (numbers(9), 0)]),
]
IDS = [f"{function.__name__} {k}" for k, (function, _) in enumerate(CASES)]


def made(
    function: FunctionType, arguments: Arguments, without: str = "", after: Callable[[Program], None] | None = None
) -> Program:
    program = trace(function, arguments).program

    def check(_: object) -> None:
        verify(program)
        if after is not None:
            after(program)

    run_passes(program, check, without)
    return program


def questions_in(program: Program) -> int:
    """How many questions innermost loops ask about words."""
    loops = [op for op in walk(program.body) if type(op) is For and not any(type(each) is For for each in walk(op.body))]
    return sum(type(each) is Let and each.op.endswith("_overflows") for loop in loops for each in walk(loop.body))


@pytest.mark.parametrize(("function", "cases"), CASES, ids=IDS)
def test_answers_are_pythons_after_every_pass(function: FunctionType, cases: list[Arguments]) -> None:
    def same(program: Program) -> None:
        for arguments in cases:
            assert happened(interpreted(function, program), arguments).same(happened(function, arguments))

    program = made(function, cases[0], after=same)
    assert parse_program(print_program(program)) == program
    for arguments in cases:
        expected = happened(function, arguments)
        assert happened(compiled(function, compile_program(program)), arguments).same(expected)


@pytest.mark.parametrize(("function", "cases"), CASES, ids=IDS)
def test_answers_do_not_depend_on_the_pass(function: FunctionType, cases: list[Arguments]) -> None:
    program = made(function, cases[0], without="value ranges")
    for arguments in cases:
        assert happened(interpreted(function, program), arguments).same(happened(function, arguments))


@pytest.mark.parametrize("function", [above, up_and_down, pairs, fewer])
def test_no_iteration_asks(function: FunctionType) -> None:
    arguments = next(cases for each, cases in CASES if each is function)[0]
    program = trace(function, arguments).program
    run_passes(program, passes=before("value ranges"))
    assert questions_in(program) > 0
    run_passes(program, passes=PASSES[len(before("value ranges")) :][:1])
    assert questions_in(program) == 0


def test_what_is_not_counted_is_asked() -> None:
    assert questions_in(made(doubling, (numbers(9), 1))) > 0


def test_a_count_that_leaves_its_word_is_left_before_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python goes on at the beginning of the inner loop. Without the question the answer is another one."""
    arguments = (np.ones(3), 0.5, MOST - 1, 3)
    program = made(pairs, arguments)
    outcome, _ = interpret(program, arguments)
    assert isinstance(outcome, Exited) and happened(interpreted(pairs, program), arguments).result == MOST + 8
    monkeypatch.setattr(ValueRanges, "asked", lambda *_: True)
    sabotaged = made(pairs, arguments)
    wrong = happened(compiled(pairs, compile_program(sabotaged)), arguments)
    assert not wrong.same(happened(pairs, arguments))
