"""What runs in a process with a sanitizer: `python -m tests.sanitizers.programs`, which `python -m tests.sanitizers` starts."""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import npcompile as npc
from tests.fuzz.generate import draw_program as draw_any
from tests.fuzz.outcomes import check_program
from tests.native_loops.agreement import check
from tests.native_loops.random import array_statements, generate, independent_iterations, inner_sums, pointwise, time_steps
from tests.random_programs import Check, Draw
from tests.sanitizers.kernels import KERNELS, check_kernels

RANDOM: dict[str, tuple[Callable[[Draw], Any], Check]] = {
    "programs": (draw_any, check_program),
    "loops": (generate.draw_program, check),
    "array statements": (array_statements.draw_program, check),
    "independent iterations": (independent_iterations.draw_program, independent_iterations.check_on_threads),
    "pointwise": (pointwise.draw_program, check),
    "time steps": (time_steps.draw_program, time_steps.check_on_threads),
    "inner sums": (inner_sums.draw_program, check),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizers.programs", description=__doc__)
    parser.add_argument("count", type=int, help="random programs of each kind")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", choices=["kernels", *RANDOM], nargs="+", default=["kernels", *RANDOM])
    given = parser.parse_args()
    npc.config.internal_errors = "raise"
    different = 0
    for kind in given.only:
        for k in range(given.count if kind in RANDOM else len(KERNELS)):
            name = f"{kind} {k}" if kind in RANDOM else list(KERNELS)[k]
            print(f"    {name}", flush=True)  # a report ends the process: the last name is that of its program
            try:
                run(kind, k, given.seed)
            except Exception as error:  # a difference: the other programs may still have a report
                different += 1
                print(f"--- {name}: {type(error).__name__}: {str(error)[:500]}", flush=True)
    print(f"{different} different", flush=True)
    return int(different > 0)


def run(kind: str, k: int, seed: str) -> None:
    if kind not in RANDOM:
        return check_kernels(list(KERNELS)[k])
    draw_program, check_one = RANDOM[kind]
    check_one(draw_program(random.Random(f"{seed} {k}").randint), "cpu")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
