"""Loops that hand on what they store: which do, and that answers stay Python's to the last write."""

from __future__ import annotations

from types import FunctionType

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.forwarding import Forwarding
from npcompile.tensor_core.loop_ir.ops import For, Load, Program
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import Ran, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments, compiled, happened, interpreted
from tests.loop_ir.programs import LARGE, numbers, with_


def prefix(x, y):
    for i in range(1, x.size):
        x[i] = x[i - 1] * 0.5 + x[i]


def backwards(x, y):
    n = x.size
    for i in range(1, n):
        x[n - 1 - i] = x[n - i] * 0.5 + y[n - 1 - i]


def least_way(x, y):
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[1]):
            best = x[i - 1, j]
            if x[i, j - 1] < best:
                best = x[i, j - 1]
            x[i, j] = best + y[i, j]


def counts(x, y):
    for i in range(1, x.size):
        if y[i] > 1:
            x[i] = x[i - 1] + 1
        else:
            x[i] = 0


def two_before(x, y):
    for i in range(2, x.size):
        x[i] = x[i - 2] * 0.5 + x[i]


def from_another(x, y):
    for i in range(1, x.size):
        x[i] = y[i - 1] * 0.5 + x[i]


def twice(x, y):
    for i in range(1, x.size):
        x[i] = x[i - 1] * 0.5
        x[i - 1] = 2.0


def two_tables(x, y):
    c, d = np.zeros(x.size), np.empty(x.size)
    d[:1] = 0.5
    for i in range(1, x.size):
        c[i] = 1.0 / (2.0 - y[i] * c[i - 1])
        d[i] = (x[i] - d[i - 1]) * c[i]
    return c, d


def maybe_one_table(x, y):
    for i in range(1, x.size):
        x[i] = x[i - 1] * 0.5 + y[i - 1]
        y[i] = y[i - 1] * 0.25 + x[i]


def jumping(x, y):
    k = 0
    for i in range(1, x.size):
        k = 3 - k
        x[i + k - k] = x[i - 1] * 0.5 + k


def grid(seed: int = 0) -> np.ndarray:
    return numbers(6, 7, seed=seed)


def whole(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 4, 30)


SHARED = numbers(10)
CASES: list[tuple[FunctionType, bool, list[Arguments]]] = [
    (prefix, True, [(numbers(n), numbers(n)) for n in (9, 2, 1, 0)] + [(with_(numbers(9), 3, LARGE) * 1.0, numbers(9))]),
    (backwards, True, [(numbers(9), numbers(9)), (numbers(1), numbers(1)), (numbers(9), numbers(4))]),
    (least_way, True, [(grid(), grid(1)), (grid()[:1], grid(1)), (grid(), grid(1)[:4]), (grid()[:, :1].copy(), grid(1))]),
    (counts, False, [(whole(), whole(1)), (whole(), whole(1)[:9])]),
    (two_before, False, [(numbers(9), numbers(9))]),
    (from_another, False, [(numbers(9), numbers(9))]),
    (twice, False, [(numbers(9), numbers(9))]),
    (
        two_tables,
        True,
        [(numbers(9), numbers(9)), (numbers(1), numbers(1)), (numbers(9), numbers(4)), (numbers(9), 2.0 + 0 * numbers(9))],
    ),
    (maybe_one_table, False, [(numbers(9), numbers(9)), (SHARED[:9], SHARED[:9]), (SHARED[:9], SHARED[1:])]),
    (jumping, True, [(numbers(9), numbers(9))]),
]
IDS = [function.__name__ for function, _, _ in CASES]


def optimised(function: FunctionType, arguments: Arguments, without: str = "") -> tuple[Program, dict[str, Ran]]:
    program = trace(function, arguments).program
    ran = run_passes(program, lambda _: verify(program), without)
    return program, {each.name: each for each in ran}


@pytest.mark.parametrize(("function", "fires", "cases"), CASES, ids=IDS)
@pytest.mark.parametrize("without", ["", "forward stores"])
def test_answers_are_pythons(function: FunctionType, fires: bool, cases: list[Arguments], without: str) -> None:
    program, ran = optimised(function, cases[0], without)
    assert without or bool(ran["forward stores"].fired) == fires
    assert parse_program(print_program(program)) == program
    loop = compile_program(program)
    for arguments in cases:
        for call in (interpreted(function, program), compiled(function, loop)):
            assert happened(call, arguments).same(happened(function, arguments))


def test_the_next_iteration_loads_nothing() -> None:
    arguments = CASES[0][2][0]
    loads = []
    for without in ("forward stores", ""):
        program, _ = optimised(prefix, arguments, without)
        loops = [op for op in walk(program.body) if type(op) is For and op.args and any(type(x) is Load for x in op.body)]
        loads.append(min((sum(type(x) is Load for x in op.body) for op in loops), default=2))
    assert loads == [2, 1]


@pytest.mark.parametrize("shift", [-1, 0, 1, 2])
def test_arrays_that_share_memory(shift: int) -> None:
    memory = numbers(30)
    program, _ = optimised(backwards, (numbers(9), numbers(9)))

    def run(call: FunctionType) -> np.ndarray:
        mine = memory.copy()
        call(mine[5:15], mine[5 + shift : 15 + shift])
        return mine

    assert np.array_equal(run(interpreted(backwards, program)), run(backwards))  # type: ignore[arg-type]
    assert np.array_equal(run(compiled(backwards, compile_program(program))), run(backwards))  # type: ignore[arg-type]


def test_without_the_question_of_places_answers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forwarding, "is_just_stored", lambda self, op, load, store, own: load.array == store.array)
    arguments = (numbers(9), numbers(9))
    program, ran = optimised(two_before, arguments)
    assert ran["forward stores"].fired
    assert not happened(interpreted(two_before, program), arguments).same(happened(two_before, arguments))
