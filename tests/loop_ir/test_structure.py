"""Control flow that has no form of its own: loops with several entries, and what stays in blocks."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.flow import flow_of
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Cfg, For, If, Policy, Program, Scope, While
from npcompile.tensor_core.loop_ir.outcome import Returned
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.peel import peel
from npcompile.tensor_core.loop_ir.pipeline import SCALAR_PASSES, before, run_passes
from npcompile.tensor_core.loop_ir.structure import structure
from npcompile.tensor_core.loop_ir.tidy import tidy
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import checks_in, compiled, happened, interpreted
from tests.loop_ir.programs import CASES, NAMES

# Blocks 1 and 2 are a loop that both are entered from outside: it counts k down and adds it up, twice per round.
TWO_ENTRIES = """def f(k_0: int = 0, n_1: int = 1):  # f.py
    with cfg():
        with block(0):
            v2: int = constant(0)  # 1
            v3: bool = less(v2, n_1)  # 1
            branch(v3, 1, [k_0, v2], 2, [k_0, v2])  # 1
        with block(1, k_4=int, s_5=int):
            s_6: int = add(s_5, k_4)  # 2
            v7: int = constant(1)  # 2
            k_8: int = subtract(k_4, v7)  # 2
            jump(2, [k_8, s_6])  # 2
        with block(2, k_9=int, s_10=int):
            v11: int = constant(0)  # 3
            s_12: int = add(s_10, k_9)  # 3
            v13: bool = greater(k_9, v11)  # 3
            branch(v13, 1, [k_9, s_12], 3, [s_12])  # 3
        with block(3, s_14=int):
            return s_14  # 4
"""


def run(program: Program, *arguments: int) -> object:
    outcome, _ = interpret(program, arguments)
    assert isinstance(outcome, Returned)
    compiled = compile_program(program)(arguments).outcome
    assert compiled == outcome
    return outcome.value


ARGUMENTS = [(5, 1), (5, 0), (0, 1), (0, 0), (1, 1)]


def cfg_of(program: Program) -> Cfg:
    (cfg,) = program.body
    assert isinstance(cfg, Cfg)
    return cfg


def test_a_loop_with_two_entries_stays_in_blocks() -> None:
    program = parse_program(TWO_ENTRIES)
    assert flow_of(cfg_of(program)).irreducible
    wanted = [run(program, *arguments) for arguments in ARGUMENTS]
    assert not structure(program)
    verify(program)
    assert [run(program, *arguments) for arguments in ARGUMENTS] == wanted


def test_its_first_iteration_is_peeled() -> None:
    program = parse_program(TWO_ENTRIES)
    wanted = [run(program, *arguments) for arguments in ARGUMENTS]
    assert peel(program) == 1
    verify(program)
    assert not flow_of(cfg_of(program)).irreducible
    assert [run(program, *arguments) for arguments in ARGUMENTS] == wanted
    assert structure(program)
    verify(program)
    assert [run(program, *arguments) for arguments in ARGUMENTS] == wanted


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("smoothing", {For: 1, If: 1}),
        ("weighted", {For: 2, If: 1}),
        ("product", {For: 6, If: 1}),  # two versions of three loops
        ("triangular", {For: 2, If: 1}),
        ("crossings", {For: 1, If: 2, Scope: 1}),
        ("diffuse", {For: 3, If: 1}),
        ("roots", {For: 2, While: 2, Scope: 2}),  # how many branches there are depends on the version of CPython
    ],
)
def test_forms_of_the_programs(name: str, forms: dict[type, int]) -> None:
    case = CASES[NAMES.index(name)]
    program = trace(case.function, case.arguments[0]()).program
    run_passes(program, passes=SCALAR_PASSES)
    found = [type(op) for op in walk(program.body)]
    kinds = [kind for kind in (For, While, Scope, If, Cfg) if kind in found and (kind is not If or If in forms)]
    assert {kind: found.count(kind) for kind in kinds} == forms


def half_and_a_third(p, out):
    for i in range(p.shape[0]):
        s = 0.0
        for j in range(p.shape[0]):
            s = s + p[j]
        out[i] = s * 2.0 + s / 3.0


def lengths(p, out):
    for i in range(p.shape[0]):
        s = 0.0
        for k in range(p.shape[1]):
            s += p[i, k] * p[i, k]
        out[i] = np.sqrt(s)


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (half_and_a_third, lambda n: (np.arange(float(n)), np.zeros(n))),  # Python divides what no iteration has added to
        (lengths, lambda n: (np.arange(3.0 * n).reshape(3, n), np.zeros(3))),
        (lengths, lambda n: (np.arange(3.0 * n).reshape(3, n), np.zeros(2))),  # out[2] raises
    ],
)
def test_a_loop_whose_versions_end_differently_counts(function: FunctionType, make: Callable[[int], tuple[object, ...]]) -> None:
    program = trace(function, make(4)).program
    run_passes(program, lambda _: verify(program))
    assert not any(isinstance(op, While) for op in walk(program.body))
    loop = compile_program(program)
    for n in (0, 1, 2, 5):
        wanted = happened(function, make(n))
        for leave_at in (-1, *range(checks_in(program, make(n)))):
            assert happened(interpreted(function, program, leave_at), make(n)).same(wanted)
            assert happened(compiled(function, loop, leave_at), make(n)).same(wanted)


ROTATED = """def f(n_0: int = 0, k_1: int = 1):  # f.py
    v2: int = constant(1)  # 1
    v3: bool = less(k_1, n_0)  # 1
    s_4: int
    with scope(0):
        if v3:  # 1
            with loop(1, k_5=k_1, s_6=k_1):  # 2
                s_7: int = add(s_6, s_6)  # 2
                k_8: int = add(k_5, v2)  # 2
                v9: bool = less(k_8, n_0)  # 2
                if v9:  # 2
                    again(1, [k_8, s_7])  # 2
                else:
                    v10: int = add(s_6, k_5)  # 3
                    leave(0, [v10])  # 3
        else:
            leave(0, [k_1])  # 3
    return s_4  # 4
"""


def test_a_loop_that_tests_at_its_end_hands_on_what_is_read_after_it() -> None:
    program = parse_program(ROTATED)
    wanted = [run(program, *arguments) for arguments in ARGUMENTS]
    tidy(program)
    verify(program)
    assert [type(op) for op in walk(program.body) if isinstance(op, For | While)] == [For]
    assert [run(program, *arguments) for arguments in ARGUMENTS] == wanted


def test_a_loop_that_may_not_run_as_often_stays() -> None:
    """Without the test before it, it runs once where a For runs not at all."""
    program = parse_program(ROTATED.replace("less(k_1, n_0)", "less(v2, n_0)"))
    wanted = [run(program, *arguments) for arguments in ARGUMENTS]
    tidy(program)
    assert any(isinstance(op, While) for op in walk(program.body))
    assert [run(program, *arguments) for arguments in ARGUMENTS] == wanted


def first_below(x: np.ndarray, limit: float, out: np.ndarray) -> None:
    """The statement after the inner loop stands on two ways to the next iteration."""
    for i in range(x.shape[0]):
        found = 0.0
        for j in range(x.shape[1]):
            if x[i, j] < limit:
                found = x[i, j] * 2.0
                break
        out[i] = found


def test_a_loop_that_several_ways_go_on_with_counts() -> None:
    x, limit, out = np.array([[3.0, 1.0, 0.0], [3.0, 3.0, 3.0], [0.5, 1.0, 1.0]]), 2.0, np.zeros(3)
    program = trace(first_below, (x, limit, out), Policy.ABORT).program
    run_passes(program, passes=before("views"))
    verify(program)
    assert not any(isinstance(op, While) for op in walk(program.body))
    interpret(program, (x, limit, out))
    assert out.tolist() == [2.0, 0.0, 1.0]
