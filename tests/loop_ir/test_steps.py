"""Steps of loops around statements about arrays: which run without looks at flags, and that nothing else changes."""

from __future__ import annotations

from collections import Counter
from types import FunctionType

import numpy as np
import pytest

from npcompile.tensor_core.loop_ir import nest_threads, step_blocks
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.in_place import InPlace
from npcompile.tensor_core.loop_ir.invalid import Invalid, Rule
from npcompile.tensor_core.loop_ir.ops import Alloc, For, LoopKind, Op, Program, Speculate, Store
from npcompile.tensor_core.loop_ir.pipeline import Ran, before, run_passes
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments, happened, interpreted
from tests.loop_ir.programs import LARGE, numbers, with_
from tests.loop_ir.test_front_end import agrees


def relaxed(a, b, steps):
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a, b = b, a
    return a


def eliminated(a):
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def scaled(x, y, out):
    for k in range(x.shape[0]):
        out[k] = x[k] * y + k
        x[k, 0] = out[k, 1]


def in_two_loops(x, y, out):
    for _ in range(3):
        for k in range(x.shape[0]):
            out[k] = x[k] * y + out[k]


def half_and_whole(x, y, out):
    """One statement may go where it belongs at once, the other one reads what it stores."""
    for _ in range(4):
        out[:] = x * y
        x[1:] = x[:-1] + out[1:]


def made_anew(x, n):
    for _ in range(n):
        x = x * 0.5 + 1.0
    return x


def onto_its_neighbours(x, n):
    for _ in range(n):
        x[1:] = x[:-1] * 0.5
    return x


def three(rows: int = 6, columns: int = 5) -> Arguments:
    return numbers(rows, columns), numbers(columns, seed=1), numbers(rows, columns, seed=2)


CASES: dict[FunctionType, list[Arguments]] = {
    relaxed: [
        (numbers(5, 6), numbers(5, 6, seed=1), 40),
        (numbers(5, 6), numbers(5, 6, seed=1), 0),
        (np.full((9, 8), LARGE), numbers(9, 8), 5),  # the second step overflows
        (numbers(5, 6), numbers(4, 6, seed=1), 3),
        (numbers(2, 1), numbers(2, 1), 3),
    ],
    eliminated: [(numbers(9, 9) + 9 * np.eye(9),), (np.zeros((4, 4)),), (with_(numbers(6, 6), 5, LARGE) + np.eye(6),)],
    scaled: [three(), three(1, 3), (with_(numbers(6, 5), 4, LARGE), np.full(5, 1e9), numbers(6, 5))],
    in_two_loops: [three(), (with_(numbers(6, 5), 4, LARGE), np.full(5, 1e9), numbers(6, 5)), three(3, 0)],
    half_and_whole: [three(), (with_(numbers(6, 5), 2, np.inf), numbers(5), np.full((6, 5), -np.inf))],
}


def optimised(function: FunctionType, arguments: Arguments) -> tuple[Program, Ran]:
    program = trace(function, arguments).program
    ran = {each.name: each for each in run_passes(program, passes=(*before("wavefront"),))}
    return program, ran["steps"]


@pytest.mark.parametrize("share", [0, step_blocks.SHARE])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_steps_agree_wherever_they_are_left(function: FunctionType, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a `share` of 0 each block is one step, and nests run on threads, one row at a time."""
    monkeypatch.setattr(step_blocks, "SHARE", share)
    if not share:
        monkeypatch.setattr(nest_threads, "WORTH", 0)
        monkeypatch.setattr(nest_threads, "GRAIN", 0)
    assert optimised(function, CASES[function][0])[1].fired
    agrees(function, *CASES[function])


def test_arrays_that_share_memory_agree() -> None:
    memory = numbers(10, 6)
    for a, b in ((memory[:5], memory[3:8]), (memory[:5], memory[:5]), (memory[:5], memory[5:])):
        agrees(relaxed, (a, b, 3))


def test_an_error_that_is_raised_finds_memory_as_python_leaves_it() -> None:
    def raising(call, arguments):  # type: ignore[no-untyped-def]
        with np.errstate(all="raise"):
            return happened(call, arguments)

    for function, cases in CASES.items():
        program = trace(function, cases[0]).program
        run_passes(program)
        for arguments in cases:
            assert raising(interpreted(function, program), arguments).same(raising(function, arguments))


def steps_of(program: Program) -> list[Op]:
    (block,) = (op for op in walk(program.body) if isinstance(op, Speculate))
    return walk(block.body)


def test_what_is_stored_at_once_has_no_memory_between() -> None:
    program, _ = optimised(relaxed, CASES[relaxed][0])
    fast = steps_of(program)
    assert sum(isinstance(op, Store) for op in fast) == 2  # on threads, and on one
    assert not any(isinstance(op, Alloc) for op in fast)
    kinds = Counter(op.kind for op in fast if isinstance(op, For))
    assert kinds == {LoopKind.SERIAL: 5, LoopKind.PARALLEL: 1}  # steps, rows and columns of both


@pytest.mark.parametrize("function", [made_anew, onto_its_neighbours])
def test_loops_of_which_nothing_is_stored_at_once_stay(function: FunctionType) -> None:
    _, ran = optimised(function, (numbers(9), 3))
    assert not ran.fired
    assert [each.reason for each in ran.said if each.reason]


def test_what_is_not_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = step_blocks.Emitting.moving

    def only_kept(self, condition, arrays, rooms, keeps):  # type: ignore[no-untyped-def]
        return moving(self, condition, arrays if keeps else arrays[:1], rooms if keeps else rooms[:1], keeps)

    monkeypatch.setattr(step_blocks.Emitting, "moving", only_kept)
    program, _ = optimised(relaxed, CASES[relaxed][0])
    with pytest.raises(Invalid) as refused:
        verify(program)
    assert refused.value.rule is Rule.UNDO


def test_stores_that_iterations_see_give_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npcompile.tensor_core.loop_ir.in_place.pairs_apart", lambda *_: [])
    arguments = (numbers(9), 3)
    program, ran = optimised(onto_its_neighbours, arguments)
    assert ran.fired
    assert not happened(interpreted(onto_its_neighbours, program), arguments).same(happened(onto_its_neighbours, arguments))


def test_nothing_stored_at_once_is_seen_by_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InPlace, "region", lambda self, region: None)
    _, ran = optimised(relaxed, CASES[relaxed][0])
    assert not ran.fired
