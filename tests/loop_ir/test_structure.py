"""Control flow that has no form of its own: loops with several entries, and what stays in blocks."""

from __future__ import annotations

import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.flow import flow_of
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Cfg, For, If, Program, Scope, While
from npcompile.tensor_core.loop_ir.outcome import Returned
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.peel import peel
from npcompile.tensor_core.loop_ir.pipeline import SCALAR_PASSES, run_passes
from npcompile.tensor_core.loop_ir.structure import structure
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
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
