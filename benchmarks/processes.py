"""What a new process pays: the first call with an empty cache, with a warm one, and the import."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.case import Target
from benchmarks.measure import Row, Timing, judge
from benchmarks.sides import SIDES, Side

ROOT = Path(__file__).resolve().parent.parent
FIRST_CALL_SIDES = tuple(side for side in SIDES if side.name not in ("numba fastmath", "numexpr"))

SCIPY_PARTS = "import sys, npcompile; print(*sorted(name for name in sys.modules if name.startswith('scipy')))"
IMPORT_SECONDS = """
import importlib, sys, time
import numpy
for name in sys.argv[1:]:
    importlib.import_module(name)
began = time.perf_counter()
import npcompile
print(time.perf_counter() - began)
"""


def cache_environment(folder: str) -> dict[str, str]:
    """Every side's disk cache in `folder`."""
    return {
        "NPCOMPILE_CACHE_DIR": f"{folder}/npcompile",
        "NUMBA_CACHE_DIR": f"{folder}/numba",
        "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch",
    }


def in_new_process(*arguments: str, cache: str) -> str:
    """What a fresh interpreter prints. CalledProcessError shows what it said instead."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | cache_environment(cache)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode beside it
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=300
    )
    return done.stdout.strip()


def first_call(side: Side, cache: str) -> float:
    return float(in_new_process("-m", "benchmarks.first_call", side.name, cache=cache))


def cold(side: Side) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return first_call(side, cache)


def in_turn(row: Row, sides: Iterable[Side], one: Callable[[Side], float], repetitions: int) -> Row:
    """Rounds over all sides, each sample from its own process."""
    present = [side for side in sides if side.is_installed()]
    row.absent = {side.name: "not installed" for side in sides if side not in present}
    seconds: dict[str, list[float]] = {side.name: [] for side in present}
    for _ in range(repetitions):
        for side in present:
            try:
                seconds[side.name].append(one(side))
            except subprocess.CalledProcessError as error:  # what it said is on standard error
                row.absent[side.name] = f"FAILED with status {error.returncode}"
    row.timings = {name: Timing.of(each) for name, each in seconds.items() if name not in row.absent}
    return row


def measure_cold(repetitions: int) -> Row:
    target = Target("seconds", 0.6)
    row = Row("cold", "first call of 10 ops, new process, empty cache", str(target), kind="process")
    judge(in_turn(row, FIRST_CALL_SIDES, cold, repetitions), target)
    return row


def measure_warm(repetitions: int) -> Row:
    target = Target("seconds", 0.1)
    row = Row("warm", "first call of 10 ops, new process, warm cache", str(target), kind="process")
    with tempfile.TemporaryDirectory() as cache:
        for side in FIRST_CALL_SIDES:
            if side.is_installed():
                first_call(side, cache)  # fills it
        in_turn(row, FIRST_CALL_SIDES, lambda side: first_call(side, cache), repetitions)
    judge(row, target)
    return row


def measure_import(repetitions: int) -> Row:
    target = Target("seconds", 0.15)
    row = Row("import", "import npcompile, beyond NumPy and the SciPy parts it uses", str(target), kind="process")
    with tempfile.TemporaryDirectory() as cache:
        parts = in_new_process("-c", SCIPY_PARTS, cache=cache).split()
        own = [side for side in SIDES if side.name == "npcompile"]
        in_turn(row, own, lambda side: float(in_new_process("-c", IMPORT_SECONDS, *parts, cache=cache)), repetitions)
    judge(row, target)
    return row


PROCESS_ROWS = {"cold": measure_cold, "warm": measure_warm, "import": measure_import}
