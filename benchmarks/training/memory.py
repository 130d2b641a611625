"""Peak memory of a side: `python -m benchmarks.training.memory PROGRAM SIDE` in a new process prints MiB.

The most that the process has during five steps, less what it has before them. Not the growth of `ru_maxrss`: making the
inputs leaves that higher than what is kept, on sides that copy them, and steps that fit below it would seem free.
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.processes import ROOT
from benchmarks.training.programs import PROGRAMS
from benchmarks.training.sides import SIDES

STEPS = 5


def mebibytes(name: str) -> float:
    """VmRSS, what this process has in memory, or VmHWM, the most since `forget_most`. Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


def forget_most() -> None:
    Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak to what there is


def measure(program_name: str, side_name: str) -> float:
    program = next(p for p in PROGRAMS if p.name == program_name)
    side = next(s for s in SIDES if s.name == side_name)
    importlib.import_module(side.requires)
    rng = np.random.default_rng(0)
    step = side.prepare(program, program.parameters(rng), program.data(rng))
    gc.collect()
    forget_most()
    before = mebibytes("VmRSS")
    for _ in range(STEPS):
        step.run()
    return mebibytes("VmHWM") - before


def in_new_process(program: str, side: str) -> float:
    """Compiled twice, so that no compiler is in the figure where a cache can do without it."""
    command = [sys.executable, "-m", "benchmarks.training.memory", program, side]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return float(done.stdout)


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))
