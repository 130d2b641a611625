"""Many random programs in one process: `python -m tests.fuzz 20000 --seed 7`.

Each difference is shown at its smallest, and the run goes on. Program `i` of a seed is the same in every run:
`--first i 1` is that program alone.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import warnings

from tests.fuzz.generate import draw_program
from tests.fuzz.outcomes import difference
from tests.fuzz.programs import Program
from tests.fuzz.shrink import smallest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("programs", type=int, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # a drawn size may be anything
    start, different = time.perf_counter(), 0
    for k in range(given.programs):
        program = drawn_program(given.seed, given.first + k)
        found = difference(program, given.backend)
        if found is not None:
            different += 1
            shown = program if given.no_shrink else smallest(program, given.backend)
            print(f"--- program {given.first + k}: {difference(shown, given.backend) or found}{shown}", flush=True)
        if (k + 1) % 500 == 0 or k + 1 == given.programs:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            seconds = time.perf_counter() - start
            print(f"{k + 1} programs, {different} different, {seconds:.0f} s, {memory} MiB at most", flush=True)
    return int(different > 0)


def drawn_program(seed: str, number: int) -> Program:
    return draw_program(random.Random(f"{seed} {number}").randint)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
