"""Peak memory of a side: `python -m benchmarks.training.memory PROGRAM SIDE` in a new process prints MiB.

What five steps add to the most that the process had with its libraries imported and its inputs made.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys

import numpy as np

from benchmarks.processes import ROOT
from benchmarks.training.programs import PROGRAMS
from benchmarks.training.sides import SIDES

STEPS = 5


def most_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(program_name: str, side_name: str) -> float:
    program = next(p for p in PROGRAMS if p.name == program_name)
    side = next(s for s in SIDES if s.name == side_name)
    importlib.import_module(side.requires)
    rng = np.random.default_rng(0)
    step = side.prepare(program, program.parameters(rng), program.data(rng))
    before = most_mebibytes()
    for _ in range(STEPS):
        step.run()
    return most_mebibytes() - before


def in_new_process(program: str, side: str) -> float:
    """Compiled twice, so that no compiler is in the figure where a cache can do without it."""
    command = [sys.executable, "-m", "benchmarks.training.memory", program, side]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return float(done.stdout)


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))
