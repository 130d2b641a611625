"""docs/coverage.md: what is captured of SciPy's functions. Write it anew, and the times with it:

    python -m tests.scipy_functions.coverage

The table is what test_scipy_functions.py compares with: graphs and breaks may become fewer, not more.
"""

from __future__ import annotations

import datetime
import os
import platform
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy

from npcompile.explanation import counted
from tests.scipy_functions import SAMPLES
from tests.scipy_functions.measure import Measured, measure

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
HEADER = "| function | calls | graphs | breaks | programs | first call, ms | warm |"
COMMON = 12  # causes that are listed

ABOUT = """{functions} functions of SciPy that are NumPy in Python, each called with several arguments in turn: the first ones
twice, then other sizes, dtypes, keywords, and what it refuses. `tests/scipy_functions` holds the calls, and compares results,
types, flags, arguments, exceptions and warnings with SciPy's own. `python -m tests.scipy_functions.coverage` writes this page."""
COLUMNS = """{clean} functions have no break, {small} more have one to three. Graphs, breaks and programs (what was compiled,
at the start of the function and after breaks) are those of all calls together. The first call includes
compiling what the disk cache does not hold yet. Warm: how many times as quick as SciPy the first call is when
repeated; these arguments have few elements, so it is overhead against overhead."""


@dataclass(frozen=True)
class Row:
    calls: int
    graphs: int
    breaks: int


def versions() -> str:
    """What the numbers depend on: the text of SciPy's and NumPy's functions, and the instructions that it is compiled to."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"SciPy {scipy.__version__}, NumPy {np.__version__}, CPython {python}"


def committed() -> tuple[str, dict[str, Row]]:
    """The versions that the page was written with, and its rows."""
    lines = PAGE.read_text().splitlines()
    written_with = next(line for line in lines if line.startswith("Measured with ")).removeprefix("Measured with ")
    rows = {}
    for line in lines[lines.index(HEADER) + 2 :]:
        if not line.startswith("|"):
            break
        name, calls, graphs, breaks = (part.strip(" `") for part in line.split("|")[1:5])
        rows[f"scipy.{name}"] = Row(int(calls), int(graphs), int(breaks))
    return written_with.partition(";")[0], rows


def page(measured: dict[str, Measured]) -> str:
    breaks = [b for m in measured.values() for b in m.breaks]
    clean = sum(not m.breaks for m in measured.values())
    small = sum(len(m.breaks) in range(1, 4) for m in measured.values())
    day = datetime.datetime.now(datetime.UTC).date()
    machine = f"{os.cpu_count()} cores ({platform.machine()})"
    reasons = Counter(b.reason for b in breaks)
    functions = {reason: sum(any(b.reason == reason for b in m.breaks) for m in measured.values()) for reason in reasons}
    lines = [
        "# What is captured of SciPy",
        "",
        *textwrap.wrap(ABOUT.format(functions=len(measured)), 128),
        "",
        f'Measured with {versions()}; {day}, {machine}, backend "cpu", others at work on the machine.',
        "",
        *textwrap.wrap(COLUMNS.format(clean=clean, small=small), 128),
        "",
        "## Functions",
        "",
        HEADER,
        "|---|---|---|---|---|---|---|",
    ]
    for name, m in measured.items():
        times = f"{m.cold * 1e3:.0f} | {m.ratio:.2f}"
        what = f"{len(SAMPLES[name].calls)} | {m.graphs} | {len(m.breaks)} | {m.captures}"
        lines.append(f"| `{name.removeprefix('scipy.')}` | {what} | {times} |")
    lines += ["", "## What breaks most often", "", "| breaks | functions | reason |", "|---|---|---|"]
    lines += [f"| {n} | {functions[reason]} | {shown(reason)} |" for reason, n in reasons.most_common(COMMON)]
    lines += ["", "## Breaks of each function", "", "Where: the line that broke, in the file of the function that it is in.", ""]
    for name, m in measured.items():
        if m.breaks:
            found = Counter((b.reason, str(b.location)) for b in m.breaks)
            lines.append(f"- `{name.removeprefix('scipy.')}`")
            lines += [f"    - {shown(reason)} ({place}{f', {n} times' if n > 1 else ''})" for (reason, place), n in found.items()]
    return "\n".join(lines) + "\n"


def shown(reason: str) -> str:
    return reason.replace("|", "\\|").replace("<", "\\<").replace("_", "\\_").replace("*", "\\*")


def main() -> None:
    measured = {}
    for name, sample in SAMPLES.items():
        counts, timed = measure(sample, backend="eager"), measure(sample, timed=True)  # what is repeated is captured otherwise
        made = replace(counts, cold=timed.cold, ratio=timed.ratio, problems=[*counts.problems, *timed.problems])
        measured[name] = made
        print(f"{name}: {counted(made.graphs, 'graph')}, {counted(len(made.breaks), 'break')}", *made.problems, sep="\n    ")
    PAGE.write_text(page(measured))


if __name__ == "__main__":
    main()
