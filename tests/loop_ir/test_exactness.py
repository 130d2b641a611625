"""What makes leaving exact is needed: each kind of op dropped, something fails; and signals are seen in a long loop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.forms import all_regions
from npcompile.tensor_core.loop_ir.ops import Check, FpCheck, Op, Program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.verifier import Invalid, Rule, verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import compiled, happened, interpreted
from tests.loop_ir.programs import CASES, Case


def without(case: Case, kind: type[Op]) -> Program:
    program = trace(case.function, case.arguments[0]()).program
    run_passes(program)
    for region in all_regions(program.body):
        region[:] = [op for op in region if not isinstance(op, kind)]
    return program


def test_without_checks_answers_differ() -> None:
    found = []
    for case in CASES:
        program = without(case, Check)
        verify(program)
        run = interpreted(case.function, program)
        agree = [happened(run, make()).same(happened(case.function, make())) for make in case.arguments]
        if not all(agree):
            found.append(case.function.__name__)
    assert "roots" in found  # it catches the error; elsewhere the interpreter's arrays raise the same one


def test_without_looks_at_flags_the_verifier_refuses() -> None:
    for case in CASES:
        if case.function.__name__ != "crossings":  # it only compares
            with pytest.raises(Invalid) as caught:
                verify(without(case, FpCheck))
            assert caught.value.rule is Rule.FLAGS


def test_without_looks_at_flags_warnings_are_lost() -> None:
    case = next(case for case in CASES if case.function.__name__ == "weighted")
    warned = [happened(case.function, make()).warnings for make in case.arguments]
    assert any(warned)
    program = without(case, FpCheck)
    assert [happened(interpreted(case.function, program), make()).warnings for make in case.arguments] != warned


class Rang(Exception):
    """A handler of signals raises it."""


@pytest.fixture
def alarm() -> Iterator[Callable[[], None]]:
    """Sets the alarm: after the program has been compiled."""

    def ring(*_: Any) -> None:
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.2)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def counts(x, n):
    for i in range(n):
        x[0] = x[0] + 1.0
    return n


def counts_until(x, n):
    try:
        for i in range(n):
            x[0] = x[0] + 1.0
    except Rang:
        return i
    return -1


def test_a_handler_that_raises_ends_a_long_loop(alarm: Callable[[], None]) -> None:
    x = np.zeros(1)
    program = trace(counts, (x, 10**12)).program
    run_passes(program)
    call = compiled(counts, compile_program(program))
    alarm()
    with pytest.raises(Rang):
        call(x, 10**12)
    assert 0 < x[0] < 10**12 and x[0] == int(x[0])


def test_what_a_handler_raises_is_caught_where_the_loop_is(alarm: Callable[[], None]) -> None:
    x = np.zeros(1)
    program = trace(counts_until, (x, 10**12)).program
    run_passes(program)
    call = compiled(counts_until, compile_program(program))
    alarm()
    at = call(x, 10**12)
    assert x[0] == at + 1  # nothing is done twice, and nothing left out
