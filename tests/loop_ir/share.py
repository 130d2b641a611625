"""What of the programs with loops goes through the loop IR, and why not the rest: `python -m tests.loop_ir.share`.

With `--write` the answers go to share.json. test_share.py fails where a program is taken no more. `--passes` runs the programs
that `npc.compile` leaves to the compiler of text, and counts for each of its passes the programs in which it fired.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.programs.families import PROGRAMS
from npcompile.backends.cuda.loop_ir.program import cuda_program
from npcompile.backends.loop_ir import target
from npcompile.loop_gradients import differentiated, has_loops
from npcompile.loop_questions import Question
from npcompile.tensor_core.loop_ir.no_derivative import NoDerivative
from npcompile.tensor_core.loop_ir.ops import Policy, Program
from npcompile.tensor_core.loop_ir.pipeline import run_passes
from npcompile.tracer.bytecode.analysis import analyse
from npcompile.tracer.entry import compiled_function
from npcompile.tracer.loop_ir import family
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import trace
from tests.loop_ir.agreement import happened
from tests.native_loops.random.generate import draw_program

FILE = Path(__file__).with_name("share.json")
RANDOM = 100
TAKEN = "taken"


def programs() -> Iterator[tuple[str, FunctionType, Sequence[Any]]]:
    """Those of the benchmark that have loops, and random ones."""
    for program in PROGRAMS.values():
        if isinstance(program.function, FunctionType) and has_loops(program.function):
            yield program.name, program.function, program.arguments("small")
    for seed in range(RANDOM):
        drawn = draw_program(random.Random(f"share {seed}").randint)
        yield f"random {seed}", drawn.function(), drawn.values


def traced(function: FunctionType, arguments: Sequence[Any], policy: Policy) -> Program:
    program = trace(function, arguments, policy).program
    run_passes(program)
    return program


def resumes(function: FunctionType, arguments: Sequence[Any]) -> None:
    traced(function, arguments, Policy.RESUME)


def aborts(function: FunctionType, arguments: Sequence[Any]) -> None:
    traced(function, arguments, Policy.ABORT)


def derivative(function: FunctionType, arguments: Sequence[Any]) -> None:
    asked = [k for k, x in enumerate(arguments) if getattr(x, "dtype", type(x)) in (np.float64, float)]
    if not asked:
        raise NoDerivative("no argument is a float64 array or a float")
    given = [np.float64(x) if type(x) is float else x for x in arguments]
    question = Question(tuple(asked))
    try:
        differentiated(function, given, question, (asked, []), merges=False)
    except NoDerivative:
        differentiated(function, given, question, (asked, []), merges=True)


def on_cuda(function: FunctionType, arguments: Sequence[Any]) -> None:
    cuda_program(trace(function, arguments, Policy.ABORT).program)


def compiled(function: FunctionType, arguments: Sequence[Any]) -> None:
    """As npc.compile does."""
    family.optimised(trace(function, arguments, with_statements=family.STATEMENTS), analyse(function.__code__), arguments)


WAYS: dict[str, Callable[[FunctionType, Sequence[Any]], None]] = {
    "exits resume": resumes,
    "exits abort": aborts,
    "gradient": derivative,
    "CUDA": on_cuda,
    "npc.compile": compiled,
}


def answers() -> dict[str, dict[str, str]]:
    """Way -> program -> "taken", or the reason why not."""
    found: dict[str, dict[str, str]] = {way: {} for way in WAYS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function, arguments in programs():
            for way, take in WAYS.items():
                try:
                    take(function, arguments)
                    found[way][name] = TAKEN
                except (Unsupported, NoDerivative, target.Unsupported) as error:
                    found[way][name] = getattr(error, "reason", "") or str(error)
    return found


def taken(answers: dict[str, str]) -> list[str]:
    return [name for name, answer in answers.items() if answer == TAKEN]


def refused(answers: dict[str, str]) -> list[tuple[str, int]]:
    """Reasons, the most frequent first, and how many programs are refused for each."""
    return Counter(answer for answer in answers.values() if answer != TAKEN).most_common()


def passes_of_text(found: dict[str, str]) -> Counter[str]:
    """Pass of the compiler of text -> in how many of the programs that are left to it the pass fired."""
    fired: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function, arguments in programs():
            if found[name] != TAKEN:
                compiled = npc.compile(function)
                happened(compiled, tuple(arguments))  # also where it raises
                variants = [each.compiled for point in compiled_function(compiled).points.values() for each in point.variants]
                ran = [each for made in variants for each in getattr(made, "passes", ())]
                fired.update({"(all)", *(each.name for each in ran if each.fired)})
    return fired


def main() -> None:
    found = answers()
    for way, of_programs in found.items():
        random_ones = {name: answer for name, answer in of_programs.items() if name.startswith("random ")}
        benchmark = {name: answer for name, answer in of_programs.items() if name not in random_ones}
        print(
            f"{way}: {len(taken(benchmark))} of {len(benchmark)} of the benchmark, {len(taken(random_ones))} of {RANDOM} random"
        )
        for reason, times in refused(of_programs)[:12]:
            print(f"    {times:>3} {reason}")
    if "--passes" in sys.argv:
        for name, times in passes_of_text(found["npc.compile"]).most_common():
            print(f"    {times:>3} {name}")
    if "--write" in sys.argv:
        stored = {way: {"taken": taken(each), "refused": dict(refused(each))} for way, each in found.items()}
        FILE.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
