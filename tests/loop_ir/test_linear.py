"""Passes and printers take time in proportion to the ops: lines that Python's interpreter goes through, counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import pytest

from npcompile.backends.cpu.loop_ir.target import CPU
from npcompile.backends.loop_ir.c_text import unit
from npcompile.backends.loop_ir.statements import print_function
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.programs import numbers

STATEMENTS = ("y[i] = x[i] * {k}.5 + y[i] * 0.5", "a[i, {k}] = x[i] * {k}.5", "y[i] = y[i] + x[i + {k}]")


def steps(call: Callable[[], Any]) -> int:
    """So many lines Python's interpreter goes through: each turn of a loop or of a comprehension is one."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def made(statement: str, times: int) -> None:
    lines = ["def many(a, x, y, n):", "    for i in range(n):", *("        " + statement.format(k=k) for k in range(times))]
    names: dict[str, FunctionType] = {}
    exec("\n".join(lines), names)
    program = trace(names["many"], (numbers(9, 99), numbers(99), numbers(9), 9)).program
    run_passes(program)
    unit(print_function(program, CPU)[0])


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_many_ops_more_take_as_many_steps_more(statement):
    made(statement, 2)
    few, more, most = (steps(lambda: made(statement, times)) for times in (20, 30, 40))
    assert most - more < 1.05 * (more - few)
