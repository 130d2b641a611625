"""No floating-point error is lost by a compiler that drops, delays or merges what it can; none is made in an arm not taken."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.backends.cpu.loop_ir.target import CPU
from npcompile.backends.loop_ir import statements
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.pins import Needed, needed_results
from npcompile.backends.loop_ir.statements import print_function
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Let, Program, Speculate
from npcompile.tensor_core.loop_ir.pipeline import PASSES, SCALAR_PASSES, run_passes
from npcompile.tensor_core.loop_ir.rows import sets_flags
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import compiled, happened
from tests.loop_ir.programs import LARGE, numbers, with_


def counted(x, y):
    n = 0
    for i in range(x.size):
        if x[i] * 10.0 > y[i]:
            n += 1
    return n


def counted_in_nests(x, y):
    n = 0
    for i in range(x.size):
        for j in range(y.size):
            if x[i] * y[j] < 1.0:
                n += 1
    return n


def summed(x, y):
    s = 0.0
    for i in range(x.size):
        s += x[i] * 10.0
    return s


def last(x, y):
    s = 0.0
    for i in range(x.size):
        s = x[i] * 10.0
    return s


def unused(x, y):
    for i in range(x.size):
        x[i] * 10.0


def stored(x, y):
    for i in range(x.size):
        y[i] = x[i] * 10.0 + 1.0


def stored_twice(x, y):
    for i in range(x.size):
        y[i] = x[i] * 10.0
        y[i] = 2.0


def stored_at_one_place(x, y):
    for i in range(x.size):
        y[0] = x[i] * 10.0


def stored_over(x, y):
    for i in range(x.size):
        y[i] = x[i] * 10.0
        for j in range(y.size):
            y[j] = 1.0


def same_in_both_arms(x, y):
    k = 1
    for i in range(x.size):
        if x[i] * 10.0 > y[i]:
            k = i + 1
        else:
            k = i + 1
    return k


def same_stores(x, y):
    for i in range(x.size):
        if x[i] * 10.0 > 4.0:
            y[i] = i + 1.0
        else:
            y[i] = i + 1.0


def in_one_arm(x, y):
    for i in range(x.size):
        s = x[i] * 10.0
        if y[i] > 1.0:
            y[i] = s


def one_of_two(x, y):
    for i in range(x.size):
        s = x[i] * 10.0
        y[i] = s if y[i] > 1.0 else 0.5


def summed_where(x, y):
    total = 0.0
    for i in range(x.size):
        s = x[i] * 10.0
        if y[i] > 1.0:
            total += s
    return total


def not_taken(x, y):
    for i in range(x.size):
        if x[i] < 1e300:
            y[i] = x[i] * 10.0


def chosen(x, y):
    best = 0.0
    for i in range(x.size):
        if x[i] * 10.0 > y[i]:
            best = x[i]
    return best


def times_one(x, y):
    n = 1
    for i in range(x.size):
        if x[i] * 10.0 > y[i]:
            n = n * 1
    return n


def handed_on(x, y):
    a, b = x[0], x[0]
    for i in range(x.size):
        a, b = b, x[i] * 10.0
    return a


FUNCTIONS = [
    *(counted, counted_in_nests, summed, last, unused, stored, stored_twice, stored_at_one_place, stored_over),
    *(same_in_both_arms, same_stores, in_one_arm, one_of_two, summed_where, not_taken, chosen, times_one, handed_on),
]
ARGUMENTS = [(numbers(20), numbers(20, seed=1))]
ARGUMENTS += [(with_(numbers(20), place, LARGE), numbers(20, seed=1)) for place in (0, 7, 18, 19)]
ARGUMENTS += [(with_(numbers(1), 0, LARGE), numbers(1)), (numbers(0), numbers(0))]


def made(function: FunctionType, count: int = len(PASSES)) -> Program:
    program = trace(function, ARGUMENTS[0]).program
    run_passes(program, passes=PASSES[:count])
    return program


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("count", [len(SCALAR_PASSES), len(PASSES)], ids=["scalar passes", "all passes"])
def test_errors_are_those_of_python(function: FunctionType, count: int) -> None:
    loop = compile_program(made(function, count))
    for arguments in ARGUMENTS:
        assert happened(compiled(function, loop), arguments).same(happened(function, arguments))


def pinned(function: FunctionType) -> list[str]:
    """The ops with pins, of the loops that are run where nothing is reported."""
    program = made(function)
    lets = [op for each in walk(program.body) if isinstance(each, Speculate) for op in walk(each.body) if isinstance(op, Let)]
    text = unit(print_function(program, CPU)[0])
    return [op.op for op in lets if f"NPC_PIN(v{op.result});" in text]


@pytest.mark.parametrize("function", [counted, counted_in_nests, stored, chosen])
def test_what_decides_or_is_stored_needs_no_pin(function: FunctionType) -> None:
    assert pinned(function) == []


MAY_BE_DROPPED = [last, unused, stored_twice, same_in_both_arms, same_stores, in_one_arm, times_one]


@pytest.mark.parametrize("function", MAY_BE_DROPPED)
def test_what_may_be_dropped_is_pinned(function: FunctionType) -> None:
    assert "multiply" in pinned(function)


def test_without_pins_errors_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(program: Program) -> Needed:
        found = needed_results(program)
        lets = [op for op in walk(program.body) if isinstance(op, Let)]
        found.values |= {op.result for op in lets if sets_flags(op.op, program.types[op.result])}
        return found

    monkeypatch.setattr(statements, "needed_results", all_of_them)
    lost: list[Any] = []
    for function in (unused, stored_twice, same_in_both_arms):
        loop = compile_program(made(function))
        lost += [function for args in ARGUMENTS if not happened(compiled(function, loop), args).same(happened(function, args))]
    assert {*lost} == {unused, stored_twice, same_in_both_arms}


def test_an_infinite_number_is_no_error() -> None:
    x = with_(numbers(20), 3, np.inf)
    assert happened(compiled(counted, compile_program(made(counted))), (x, numbers(20))).warnings == []
