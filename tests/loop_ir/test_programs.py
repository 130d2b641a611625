"""Each program agrees with plain Python after every pass, in the interpreter and in C, wherever it is left."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir.interpreter import interpret
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.loop_ir.outcome import Exited, Returned
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import PASSES, SCALAR_PASSES, run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import verify
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import checks_in, compiled, happened, interpreted
from tests.loop_ir.programs import CASES, NAMES, Case

ALL = pytest.mark.parametrize("case", CASES, ids=NAMES)
MOST_EXITS = 30  # that are tried of one run
FEW = 4  # one of so many is tried between passes


def traced(case: Case) -> Program:
    return trace(case.function, case.arguments[0]()).program


def agrees_interpreted(case: Case, program: Program, some: int | None = None) -> None:
    """With all arguments, and left at each Check in turn. `some`: which of the arguments and exits, others with each number."""
    for make in case.arguments if some is None else [case.arguments[some % len(case.arguments)]]:
        arguments = make()
        wanted = happened(case.function, arguments)
        count = checks_in(program, arguments)
        exits = range(0, count, 1 + count // MOST_EXITS) if some is None else range(some % FEW, count, FEW + count // MOST_EXITS)
        for leave_at in (-1, *exits):
            got = happened(interpreted(case.function, program, leave_at), arguments)
            assert got.same(wanted), (case.function.__name__, leave_at, got, wanted)


def agrees_compiled(case: Case, program: Program) -> None:
    """With all arguments, and left at each Poll in turn."""
    loop = compile_program(program)
    for make in case.arguments:
        wanted = happened(case.function, make())
        for leave_at in range(-1, 30):
            got = happened(compiled(case.function, loop, leave_at), make())
            assert got.same(wanted, case.is_exact), (case.function.__name__, leave_at, got, wanted)


@ALL
def test_the_interpreter_agrees_after_every_pass(case: Case) -> None:
    program = traced(case)
    verify(program)
    agrees_interpreted(case, program)
    numbers = itertools.count()

    def after(_: object) -> None:
        verify(program)
        agrees_interpreted(case, program, next(numbers))

    assert [each.name for each in run_passes(program, after)] == [*(each.name for each in PASSES), "renumber"]
    agrees_interpreted(case, program)


@ALL
def test_printed_programs_are_read_back_after_every_pass(case: Case) -> None:
    program = traced(case)
    texts = [print_program(program)]
    run_passes(program, lambda _: texts.append(print_program(program)))
    for text in texts:
        assert print_program(parse_program(text)) == text
    assert parse_program(texts[-1]) == program


@ALL
def test_c_agrees_in_blocks_and_at_the_end(case: Case) -> None:
    program = traced(case)
    agrees_compiled(case, program)
    run_passes(program)
    agrees_compiled(case, program)


@ALL
@pytest.mark.parametrize("name", [each.name for each in PASSES])
def test_answers_do_not_depend_on_a_pass(case: Case, name: str) -> None:
    program = traced(case)
    run_passes(program, without=name)
    verify(program)
    for make in case.arguments:
        assert happened(interpreted(case.function, program), make()).same(happened(case.function, make()))


def test_each_pass_fires_somewhere() -> None:
    fired = {each.name: 0 for each in PASSES}
    for case in CASES:
        for ran in run_passes(traced(case)):
            fired[ran.name] = fired.get(ran.name, 0) + ran.fired
    # Of these programs no loop has several entries, stores what it loads next, or makes an array: test_structure.py,
    # test_steps.py, test_wavefront.py, test_forwarding.py and test_array_statements.py have some.
    never = ["peel", "views", "steps", "wavefront", "forward stores", "memory", "renumber"]
    assert [name for name, count in fired.items() if not count] == never


def test_a_loop_without_checks_runs_where_sizes_allow() -> None:
    """The fast version of the product looks at no index, and at the flags once for a sum."""
    case = CASES[NAMES.index("product")]
    program = traced(case)
    run_passes(program, passes=SCALAR_PASSES)
    arguments = case.arguments[0]()
    assert checks_in(program, arguments) == 3 + 3 * 2 + 3 * 2 * 4 + 3 * 2  # polls of three loops, and flags


def test_values_stay_what_they_are() -> None:
    """Python's float comes out as one, NumPy's as NumPy's, and an array as itself."""

    def run(function, *arguments):  # type: ignore[no-untyped-def]
        program = trace(function, arguments).program
        run_passes(program)
        return compile_program(program)(arguments).outcome

    def last(x, n):  # type: ignore[no-untyped-def]
        s = 0.0
        for i in range(n):
            s = s + x[i]
        return s, x, n

    x = np.ones(3)
    for n, kind in ((0, float), (3, np.float64)):
        outcome = run(last, x, n)
        assert isinstance(outcome, Returned) and isinstance(outcome.value, tuple)
        assert type(outcome.value[0]) is kind and outcome.value[1] is x and outcome.value[2] == n


def test_an_exit_has_the_frame() -> None:
    case = CASES[NAMES.index("diffuse")]
    outcome, _ = interpret(traced(case), case.arguments[0](), 1)
    assert isinstance(outcome, Exited)
    assert len(outcome.stack) == 2  # of `with` and `for`
    assert sorted(outcome.locals) == [0, 1]


WITHOUT_FRONT_END = """
import sys, types
package = types.ModuleType("npcompile")
package.__path__ = [sys.argv[1]]
sys.modules["npcompile"] = package
sys.modules["npcompile.tracer"] = None
import numpy as np
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.backends.cpu.loop_ir.program import compile_program
x, w, out = np.arange(6.0), np.array([0.5]), np.zeros(6)
print(compile_program(parse_program(sys.stdin.read()))((x, w, out)).outcome.value, out.sum())
"""


def test_printed_text_runs_without_a_front_end() -> None:
    program = traced(CASES[NAMES.index("weighted")])
    run_passes(program)
    package = Path(__file__).resolve().parents[2] / "npcompile"
    command = [sys.executable, "-c", WITHOUT_FRONT_END, str(package)]
    done = subprocess.run(command, input=print_program(program), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4.03125", "10.96875"]


@pytest.mark.parametrize("seed", range(3))
def test_strided_arrays(seed: int) -> None:
    x, w = np.random.default_rng(seed).random(20)[::-2], np.array([0.25])
    case = CASES[NAMES.index("weighted")]
    arguments = (x, w, np.zeros(30)[::3])
    program = trace(case.function, arguments).program
    run_passes(program)
    assert happened(compiled(case.function, compile_program(program)), arguments).same(happened(case.function, arguments))
