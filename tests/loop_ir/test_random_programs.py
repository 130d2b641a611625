"""Random functions agree with plain Python, after every pass in the interpreter, and in C.

`python -m tests.loop_ir.test_random_programs N` runs N of them; `... N FIRST typed` those over arrays of any dtypes, and
`... N FIRST native` those of the loop compiler's grammar.
"""

from __future__ import annotations

import itertools
import random
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FunctionType

import pytest

from npcompile.backends.cpu.loop_ir.program import compile_program
from npcompile.tensor_core.loop_ir import parallelize
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of, verify
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import Arguments, checks_in, compiled, happened, interpreted
from tests.loop_ir.generate import TYPED, random_arguments, random_cases, random_function
from tests.native_loops.random.generate import draw_program

NATIVE = "native "  # seeds of programs of the loop compiler's grammar begin with it


@contextmanager
def all_loops_on_threads() -> Iterator[None]:
    """Small loops are worth it, too."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("WORTH", 0), ("GRAIN", 16), ("KEEPING", 0)):
            patch.setattr(parallelize, name, value)
        yield


def agrees(seed: str, in_c: bool) -> str:
    """Check one function. What became of it, or why it has no IR."""
    return function_agrees(seed, *random_function(seed), random_cases(seed), in_c)


def native_agrees(seed: str, in_c: bool) -> str:
    """The same for a program of the loop compiler's grammar."""
    drawn = draw_program(random.Random(seed).randint)
    return function_agrees(seed, drawn.function(), drawn.source, [drawn.values], in_c)


def function_agrees(seed: str, function: FunctionType, text: str, cases: list[Arguments], in_c: bool) -> str:
    try:
        program = trace(function, cases[0]).program
    except Unsupported as error:
        return error.reason
    wanted = [happened(function, arguments) for arguments in cases]
    choose = random.Random(seed)

    def check(when: str, which: slice = slice(None), exits: int = 2) -> None:
        try:
            verify(program)
        except Exception as error:
            raise AssertionError(f"{seed} {when}\n{text}\n{print_program(program)}") from error
        if which == slice(None):
            assert parse_program(print_program(program)) == program, (when, text)
        for arguments, expected in zip(cases[which], wanted[which]):
            count = checks_in(program, arguments)
            for leave_at in (-1, *(choose.randrange(count) for _ in range(exits if count else 0))):
                got = happened(interpreted(function, program, leave_at), arguments)
                assert got.same(expected), f"{seed} {when}, left at {leave_at}\n{text}{arguments}\n{got}\n{expected}"

    check("traced", exits=1)
    turns = itertools.cycle(range(len(cases)))
    with all_loops_on_threads() if choose.randrange(2) else nullcontext():
        # Which pass broke it one of the cases tells, in turn, and all together tell what the passes made.
        run_passes(program, lambda each: check(each.name, slice(turn := next(turns), turn + 1), exits=1))
    check("after all passes", exits=4)
    if in_c:
        loop = compile_program(program)
        for arguments, expected in zip(cases, wanted):
            for leave_at in (-1, choose.randrange(10)):
                got = happened(compiled(function, loop, leave_at), arguments)
                assert got.same(expected), f"{seed} in C, left at {leave_at}\n{text}{arguments}\n{got}\n{expected}"
    return "structured" if stage_of(program) is Stage.STRUCTURED else "blocks"


@pytest.mark.parametrize("seed", [str(k) for k in range(21)])
def test_random_programs_agree(seed: str) -> None:
    agrees(seed, in_c=int(seed) % 3 == 0)


@pytest.mark.parametrize("seed", [f"{TYPED}{k}" for k in range(18)])
def test_random_programs_of_any_dtypes_agree(seed: str) -> None:
    agrees(seed, in_c=int(seed.removeprefix(TYPED)) % 3 == 0)


@pytest.mark.parametrize("seed", [f"share {k}" for k in range(20)])
def test_random_programs_of_the_loop_compiler_agree(seed: str) -> None:
    native_agrees(seed, in_c=True)


@pytest.mark.parametrize("seed", ["4", "268", "3043", "3107", "6020", "20007", "700064", "700117"])
def test_programs_that_found_mistakes_agree(seed: str) -> None:
    agrees(seed, in_c=True)


def test_most_random_programs_have_ir() -> None:
    found = Counter()
    for seed in range(60):
        function, _ = random_function(str(seed))
        try:
            trace(function, random_arguments(f"{seed} 0"))
            found["ir"] += 1
        except Unsupported as error:
            found[error.reason] += 1
    assert found["ir"] > 40, found


def main(count: int, first: int, prefix: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            agree = native_agrees if prefix == NATIVE else agrees
            found[agree(f"{prefix}{seed}", in_c=seed % (4 if prefix else 20) == 0)] += 1
        except Exception:
            found["different"] += 1
            print(f"--- {seed}\n{traceback.format_exc()[-3000:]}", flush=True)
    print(found)


if __name__ == "__main__":
    grammar = next((each for each in (TYPED, NATIVE) if each.strip() in sys.argv), "")
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, grammar)
