"""`python -m benchmarks.cuda_loops [NAME...]`: loops over CuPy's arrays by npcompile, NumPy and kernels written by hand.

Every side is given arrays on the device and leaves its answer there: NumPy's time has the copies in it. Answers are compared with
NumPy's. The table goes to benchmarks/results/cuda_loops.md.
"""

from __future__ import annotations

import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks import machine
from benchmarks.command import Command
from benchmarks.cuda_loops.by_hand import launcher
from benchmarks.cuda_loops.programs import PROGRAMS, Program

RESULTS = Path(__file__).resolve().parent.parent / "results" / "cuda_loops.md"
LEAST, MOST = 3, 15  # calls of each side
ENOUGH, LONG = 0.5, 2.0  # seconds of one side, for most calls and for the least number of them
COLUMNS = (
    "program",
    "size",
    "npcompile",
    "NumPy on the host",
    "times NumPy",
    "by hand",
    "times by hand",
    "first call",
    "runs on",
)


@dataclass
class Row:
    program: Program
    seconds: dict[str, float] = field(default_factory=dict)
    first: float = 0.0
    place: str = ""
    wrong: str = ""

    def cells(self) -> list[str]:
        ours, numpys, by_hand = (self.seconds.get(side) for side in ("npcompile", "NumPy", "by hand"))
        return [
            self.program.name,
            f"{self.program.size:,}",
            self.wrong or milliseconds(ours),
            milliseconds(numpys),
            "" if not ours or not numpys else f"{numpys / ours:.2f}",
            milliseconds(by_hand),
            "" if not ours or not by_hand else f"{by_hand / ours:.2f}",
            f"{self.first:.2f} s",
            self.place,
        ]


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3f} ms"


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def host(x: Any) -> Any:
    return x.get() if hasattr(x, "get") else x


def put(cp: Any, arguments: Sequence[Any]) -> list[Any]:
    return [cp.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments]


def median(prepare: Callable[[], Any], call: Callable[[Any], Any], wait: Callable[[], None]) -> float:
    """Seconds of a call on arguments of its own, which are ready before."""
    found: list[float] = []
    while sum(found) < (LONG if len(found) < LEAST else ENOUGH) and len(found) < MOST:
        given = prepare()
        wait()
        began = time.perf_counter()
        call(given)
        wait()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def where(function: Any, arguments: Sequence[Any]) -> str:
    """By explain: which way was chosen, and how many of its loops run on threads."""
    passes = npc.explain(function)(*arguments).passes
    chosen = [each for each in passes if each.name == "loops on the device"]
    if not chosen:
        return "neither"
    return "device" if chosen[-1].fired else "host"


def measure(cp: Any, program: Program) -> Row:
    row, given = Row(program), program.arguments(program.size)
    expected = program.in_numpy(*given)
    wait = cp.cuda.Device().synchronize
    compiled, by_hand = npc.compile(program.function), launcher(cp, program.name)
    sides: dict[str, Callable[[Sequence[Any]], Any]] = {"npcompile": lambda x: compiled(*x)}
    if by_hand is not None:
        sides["by hand"] = by_hand
    for side, call in sides.items():
        ours = put(cp, given)
        began = time.perf_counter()
        result = call(ours)
        wait()
        row.first = row.first or time.perf_counter() - began
        found = np.asarray(host(program.outcome(result, ours)))
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-12):
            row.wrong += f"{side} WRONG "
    row.place = where(compiled, put(cp, given))
    for side, call in sides.items():
        row.seconds[side] = median(lambda: put(cp, given), call, wait)

    def in_numpy(there: Sequence[Any]) -> None:
        cp.asarray(program.in_numpy(*map(host, there)))

    row.seconds["NumPy"] = median(lambda: put(cp, given), in_numpy, wait)
    return row


def report(rows: Sequence[Row], device: str) -> str:
    ratios = [row.seconds["NumPy"] / row.seconds["npcompile"] for row in rows if not row.wrong]
    mean = statistics.geometric_mean(ratios) if ratios else float("nan")
    about = [f"- {name}: {text}" for name, text in {**machine.describe(), "device": device}.items()]
    table = [line(COLUMNS), line(["---"] * len(COLUMNS)), *(line(row.cells()) for row in rows)]
    text = (
        "Loops over the elements of CuPy's arrays. All arrays are on the device before and after each call, NumPy's copies count."
    )
    mean_line = f"Geometric mean: {mean:.1f} times NumPy's speed; {sum(r < 0.95 for r in ratios)} slower than 0.95 of it."
    return "\n".join(["# Loops on a device", "", text, "", *about, "", *table, "", mean_line, ""])


def main() -> int:
    names = Command("cuda_loops", __doc__, {program.name for program in PROGRAMS}).given().names
    import cupy as cp

    rows = []
    for program in PROGRAMS:
        if names and program.name not in names:
            continue
        try:
            rows.append(measure(cp, program))
            print(line(rows[-1].cells()), flush=True)
        except Exception:  # noqa: BLE001  (the others are measured, and the exit code says it)
            traceback.print_exc()
            rows.append(Row(program, wrong="FAILED"))
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    text = report(rows, name)
    if not names:
        RESULTS.write_text(text)
    print(text)
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
