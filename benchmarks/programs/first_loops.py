"""First calls of the programs whose work is a loop, in new processes with empty caches, beside Numba's.

    python -m benchmarks.programs.first_loops [NAMES] [--size small]

prints the seconds of each, and what both sides' processors did meanwhile, compilers included.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import tempfile
import time

from benchmarks.processes import in_new_process
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.measure import is_installed, why_not
from benchmarks.programs.program import SIZES
from benchmarks.programs.workers import IMPORTS, prepare

OURS, THEIRS = "npcompile", "numba plain"


def one(side: str, name: str, size: str) -> str:
    """Seconds of the first call and of the processors, in this process, after the imports."""
    importlib.import_module(IMPORTS[side] or side)
    call, before = prepare(side, name, size), sum(os.times()[:4])
    assert call is not None, (side, name)
    began = time.perf_counter()
    call()
    return f"{time.perf_counter() - began} {sum(os.times()[:4]) - before}"


def both(side: str, name: str, size: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as cache:
        printed = in_new_process("-m", "benchmarks.programs.first_loops", name, "--size", size, "--one", side, cache=cache)
    seconds, processors = map(float, printed.split())
    return seconds, processors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all loops")
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--one", help="a side to measure in this process")
    options = parser.parse_args()
    if options.one:
        print(one(options.one, *options.names, options.size))
        return
    names = options.names or [name for name, program in PROGRAMS.items() if program.is_loop]
    sides = [side for side in (OURS, THEIRS) if is_installed(side)]
    found: dict[str, list[float]] = {side: [] for side in sides}
    print(f"| program | {' | '.join(f'{side}, s | of processors, s' for side in sides)} |")
    print(f"|---|{'---|---|' * len(sides)}")
    for name in names:
        texts = []
        for side in sides:
            if why_not(PROGRAMS[name], side):
                texts.append("– | –")
                continue
            seconds, processors = both(side, name, options.size)
            found[side].append(seconds)
            texts.append(f"{seconds:.2f} | {processors:.2f}")
        print(f"| {name} | {' | '.join(texts)} |", flush=True)
    print(", ".join(f"median of {side}: {statistics.median(found[side]):.2f} s" for side in sides if found[side]))


if __name__ == "__main__":
    main()
