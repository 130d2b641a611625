"""Which gradients of programs with loops are native, and why others are not: `python -m benchmarks.native_gradients [NAME]`.

The programs are the loops of benchmarks/programs, tests/gradients, benchmarks/loop_gradients and benchmarks/loop_losses. The
loss of a program that gives more than a number is the sum of the first floating-point result.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import loop_gradients
from benchmarks.programs.families import PROGRAMS
from npcompile import loop_questions
from npcompile.backends.cpu.loop_ir.native import compile_native
from npcompile.loop_gradients import LoopGradients, has_loops
from tests.gradients import algebra, arrays, learning, physics, statistics

NATIVE = "native"


@dataclass(frozen=True)
class Question:
    """A function that gives a number, and arguments."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    argnums: tuple[int, ...]


def answer(question: Question) -> str:
    """NATIVE, or why it is not."""
    made = LoopGradients(loop_questions.Question(question.argnums), compile_native)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = made(question.function, copy.deepcopy(question.arguments))  # type: ignore[arg-type]
    return NATIVE if found is not None else next(iter(made.reasons.values()), "it was left")


def floating(x: Any) -> bool:
    return isinstance(x, float | np.floating | np.ndarray) and np.asarray(x).dtype.kind in "fc"


def loss_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The function, or one that gives the sum of its first floating-point result."""
    with np.errstate(all="ignore"):
        found = function(*copy.deepcopy(arguments))
    place = None
    if isinstance(found, tuple | list):
        place, found = next(((k, x) for k, x in enumerate(found) if floating(x)), (None, None))
    if not floating(found):
        return None
    names = ", ".join(f"x{k}" for k in range(len(arguments)))
    result = f"function({names})" + ("" if place is None else f"[{place}]")
    text = f"def loss({names}):\n    return " + (f"np.sum({result})" if np.ndim(found) else result)
    namespace: dict[str, Any] = {"np": np, "function": function}
    exec(compile(text, f"<loss of {function.__name__}>", "exec"), namespace)
    made: Callable[..., Any] = namespace["loss"]
    return made


def questions() -> Iterator[Question]:
    for each in loop_gradients.PROGRAMS:
        yield Question(f"losses: {each.function.__name__}", each.function, each.arguments(), each.argnums)
    for module in (algebra, arrays, learning, physics, statistics):
        for tested in module.PROGRAMS:
            if has_loops(tested.function):  # type: ignore[arg-type]
                arguments = tested.make(np.random.default_rng(0))
                yield Question(f"tests: {tested.name}", tested.function, arguments, tested.numbers)
    for program in PROGRAMS.values():
        if program.is_loop:
            arguments = program.arguments("small")
            function = loss_of(program.function, arguments)
            wanted = tuple(k for k, x in enumerate(arguments) if floating(x))
            if function is not None and wanted:
                yield Question(f"programs: {program.name}", function, arguments, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_gradients", description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of programs' names; all by default")
    names = parser.parse_args().names
    found: dict[str, str] = {}
    for question in questions():
        if not names or any(name in question.name for name in names):
            found[question.name] = answer(question)
            print(f"{question.name}: {found[question.name]}", flush=True)
    counts = Counter(found.values())
    print(f"\n{counts[NATIVE]} of {len(found)} are native")


if __name__ == "__main__":
    main()
