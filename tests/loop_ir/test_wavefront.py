"""Rows of tables that run side by side: which do, and that answers, errors and writes stay Python's."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import CompiledLoop, compile_program
from npcompile.tensor_core.loop_ir import wavefront as wavefront_module
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Program, Speculate
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import Ran, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import Invalid, Rule, verify
from npcompile.tensor_core.loop_ir.wavefront import ROWS, Rows, Skewing
from npcompile.tracer.loop_ir.front_end import trace
from tests.covering import pairs
from tests.loop_ir.agreement import Arguments, compiled, happened, interpreted
from tests.loop_ir.programs import LARGE, numbers, with_


def least_way(d, a):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            best = d[i - 1, j]
            if d[i, j - 1] < best:
                best = d[i, j - 1]
            if d[i - 1, j - 1] < best:
                best = d[i - 1, j - 1]
            d[i, j] = abs(a[i] - a[j]) * 2.0 + best


def edits(d, a):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            cost = 0 if a[i - 1] == a[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)


def relaxed(d, a):
    for _ in range(2):
        for i in range(1, d.shape[0] - 1):
            for j in range(1, d.shape[1] - 1):
                d[i, j] = 0.25 * (d[i - 1, j] + d[i + 1, j] + d[i, j - 1] + d[i, j + 1])


def all_around(d, a):
    for i in range(1, d.shape[0] - 1):
        for j in range(1, d.shape[1] - 1):
            d[i, j] = d[i - 1, j + 1] + d[i, j - 1] * 0.5 + d[i + 1, j - 1] + d[i + 1, j + 1]


def far_ahead(d, a):
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1] - 2):
            d[i, j] = d[i - 1, j + 2] * 0.5 + d[i, j - 1]


def transposed(d, a):
    for j in range(1, d.shape[1]):
        for i in range(1, d.shape[0]):
            d[i, j] = d[i - 1, j] * 0.5 + d[i, j - 1]


def chosen_rows(d, a):
    for i in range(1, d.shape[0]):
        scale = a[i] * 0.5
        for j in range(2, d.shape[1]):
            d[i, j] = d[i - 1, j] * scale + d[i, j - 2]


def down_alone(d, a):
    for i in range(1, d.shape[0]):
        for j in range(d.shape[1]):
            d[i, j] = d[i - 1, j] * 0.5 + d[i, j]


def along_alone(d, a):
    for i in range(d.shape[0]):
        for j in range(1, d.shape[1]):
            d[i, j] = d[i, j - 1] * 0.5 + d[i, j]


def triangle(d, a):
    for i in range(1, d.shape[0]):
        for j in range(1, i):
            d[i, j] = d[i - 1, j] * 0.5 + d[i, j - 1]


def from_below(d, a):
    n = d.shape[0]
    for i in range(1, n):
        for j in range(1, d.shape[1]):
            d[n - 1 - i, j] = d[n - i, j] * 0.5 + d[n - 1 - i, j - 1]


SHAPES = [(ROWS + 1, 40), (2 * ROWS + 4, 60), (3, 40), (2 * ROWS + 1, 5), (1, 9), (0, 0), (40, 2), (ROWS + 2, 2 * ROWS + 3)]
FIRING = [least_way, relaxed, all_around, far_ahead, transposed, chosen_rows]
LEFT = [down_alone, along_alone, triangle, from_below]


def tables() -> Iterator[Arguments]:
    for shape in SHAPES:
        yield numbers(*shape), numbers(60)


@functools.cache
def compiled_rows(function: FunctionType) -> tuple[Program, CompiledLoop]:
    program, _ = optimised(function, (numbers(9, 9), numbers(60)))
    return program, compile_program(program)


def optimised(function: FunctionType, arguments: Arguments, without: str = "") -> tuple[Program, dict[str, Ran]]:
    program = trace(function, arguments).program
    ran = run_passes(program, lambda _: verify(program), without)
    return program, {each.name: each for each in ran}


@pytest.mark.parametrize("function", [*FIRING, *LEFT])
@pytest.mark.parametrize("without", ["", "wavefront"])
def test_answers_are_pythons(function: FunctionType, without: str) -> None:
    program, ran = optimised(function, (numbers(9, 9), numbers(60)), without)
    assert without or bool(ran["wavefront"].fired) == (function in FIRING)
    assert parse_program(print_program(program)) == program
    calls = [interpreted(function, program)] + ([] if without else [compiled(function, compile_program(program))])
    for arguments in tables():
        for call in calls:
            assert happened(call, arguments).same(happened(function, arguments))


@pytest.mark.parametrize("function", FIRING)
def test_what_ran_too_early_is_undone(function: FunctionType) -> None:
    """A number overflows in the middle: the warning finds later rows as they were, and rows above are done."""
    program, loop = compiled_rows(function)
    for row, column, value in pairs((0, 1, 3, ROWS, 2 * ROWS, 2 * ROWS + 3), (0, 1, 7, 20, 38), (LARGE, np.inf, -np.inf)):
        arguments = (with_(with_(numbers(2 * ROWS + 4, 40), (row, column), value), (row, 39 - column), -value), numbers(60))
        wanted = happened(function, arguments)
        for call in (interpreted(function, program), compiled(function, loop)):
            assert happened(call, arguments).same(wanted), (row, column, value)


@pytest.mark.parametrize("place", [(0, 0), (1, 0), (4, 3), (ROWS + 3, 20)])
def test_integers_that_leave_their_word(place: tuple[int, int]) -> None:
    small = np.random.default_rng(0).integers(0, 9, (2 * ROWS + 4, 30))
    program, ran = optimised(edits, (small, np.arange(40) % 3))
    assert ran["wavefront"].fired
    loop = compile_program(program)
    for value in (2**63 - 1, 2**63 - 20, -(2**63), 5):
        d = np.full(small.shape, 2**63 - 30)
        arguments = (with_(d, place, value), np.arange(40) % 3)
        for call in (interpreted(edits, program), compiled(edits, loop)):
            assert happened(call, arguments).same(happened(edits, arguments))
    fits = (small, np.arange(40) % 3)
    assert happened(compiled(edits, loop), fits).same(happened(edits, fits))


def test_an_index_outside_raises_where_python_does() -> None:
    program, loop = compiled_rows(least_way)
    for length in (0, 3, ROWS + 3, 20, 50):
        arguments = (numbers(2 * ROWS + 2, 40), numbers(length))
        for call in (interpreted(least_way, program), compiled(least_way, loop)):
            assert happened(call, arguments).same(happened(least_way, arguments))


@pytest.mark.parametrize("offset", [0, 1, 45])
def test_arrays_that_share_memory(offset: int) -> None:
    program, loop = compiled_rows(least_way)

    def run(call: FunctionType) -> np.ndarray:
        memory = numbers(900)
        call(memory[:800].reshape(20, 40), memory[offset : offset + 60])
        return memory

    for call in (interpreted(least_way, program), compiled(least_way, loop)):
        assert np.array_equal(run(call), run(least_way))  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [least_way, relaxed])
def test_it_can_be_left_at_each_look_for_signals(function: FunctionType) -> None:
    arguments = (numbers(2 * ROWS + 4, 20), numbers(60))
    program, loop = compiled_rows(function)
    for leave_at in range(12):
        for call in (interpreted(function, program, leave_at), compiled(function, loop, leave_at)):
            assert happened(call, arguments).same(happened(function, arguments)), leave_at


def test_rows_that_are_too_near_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    lag = Skewing.lag
    monkeypatch.setattr(Skewing, "lag", lambda *args: (1, lag(*args)[1]))
    arguments = (numbers(2 * ROWS + 4, 40), numbers(60))
    program, ran = optimised(far_ahead, arguments)
    assert ran["wavefront"].fired
    assert not happened(interpreted(far_ahead, program), arguments).same(happened(far_ahead, arguments))


def test_without_what_is_kept_aside_the_verifier_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = Rows.moving

    def only_kept(self, *args, keeps):  # type: ignore[no-untyped-def]
        made = moving(self, *args, keeps=True)
        return made if keeps else wavefront_module.replace(made, body=[made.body[-1]])

    monkeypatch.setattr(Rows, "moving", only_kept)
    with pytest.raises(Invalid) as refused:
        optimised(relaxed, (numbers(9, 9), numbers(60)))
    assert refused.value.rule is Rule.UNDO


def test_rows_are_a_block() -> None:
    program, _ = optimised(relaxed, (numbers(9, 9), numbers(60)))
    assert any(isinstance(op, Speculate) for op in walk(program.body))
