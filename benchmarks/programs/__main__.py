"""`python -m benchmarks.programs [NAME...]`: measure the programs, check every answer, write docs/performance.md.

A NAME is a program or a family. Results go into one file as they come, and rows measured before on the same machine stay
there, so a run may be stopped and taken up again, or repeated for some programs.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.measure import Timing
from benchmarks.programs import first_calls, page
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.measure import MEMORY, PEERS, SIDES, ProgramRow, is_installed, measure
from benchmarks.programs.program import SIZES
from benchmarks.programs.workers import Worker

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "programs.json"
PAGE = ROOT / "docs" / "performance.md"
SAME_MACHINE = ("cpu", "cores", "system", "python", "versions")


def read(path: Path, about: dict[str, str]) -> tuple[list[ProgramRow], dict[str, Any]]:
    """What was measured before on this machine with these versions; nothing of another."""
    if not path.exists():
        return [], {}
    stored = json.loads(path.read_text())
    if any(stored["machine"].get(key) != about[key] for key in SAME_MACHINE):
        return [], {}
    rows = [ProgramRow(**row) for row in stored["rows"]]
    for row in rows:
        row.timings = {side: Timing(**timing) for side, timing in row.timings.items()}  # type: ignore[arg-type]
        row.once = tuple(row.once)
    return [row for row in rows if row.name in PROGRAMS], stored["first_calls"]


def write(path: Path, about: dict[str, str], rows: list[ProgramRow], first: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row.as_json()) for row in rows)  # a row a line: as short, and readable as a difference
    path.write_text(f'{{"machine": {json.dumps(about)},\n"first_calls": {json.dumps(first)},\n"rows": [\n{lines}\n]}}\n')


def in_order(rows: list[ProgramRow]) -> list[ProgramRow]:
    places = list(PROGRAMS)
    return sorted(rows, key=lambda row: (places.index(row.name), SIZES.index(row.size)))


def choose(parser: argparse.ArgumentParser, names: list[str]) -> list[str]:
    families = {program.family for program in PROGRAMS.values()}
    if unknown := set(names) - set(PROGRAMS) - families - {first_calls.NAME}:
        parser.error(f"no such program or family: {', '.join(sorted(unknown))}")
    return [name for name, program in PROGRAMS.items() if not names or name in names or program.family in names]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs or families, all by default; first_calls")
    parser.add_argument("--repeat", type=int, default=7, help="samples of each side")
    parser.add_argument("--sizes", default=",".join(SIZES), help="some of small,middle,large")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)}, or none")
    parser.add_argument("--cap", type=float, default=60, help="seconds that a side may take to compile and answer twice")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the results' file; the page is written for the default only")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page from the results")
    chosen = parser.parse_args(arguments)
    names = choose(parser, chosen.names)
    peers = [] if chosen.peers == "none" else chosen.peers.split(",")
    if unknown := [size for size in chosen.sizes.split(",") if size not in SIZES] + [p for p in peers if p not in PEERS]:
        parser.error(f"no such size or peer: {', '.join(unknown)}")

    about = machine.describe()
    if chosen.page:
        about = json.loads(chosen.out.read_text())["machine"]
    rows, first = read(chosen.out, about)
    wrong = False
    if not chosen.page:
        wanted = ("NumPy", "npcompile", MEMORY, *peers)
        workers = {side: Worker(side) for side in SIDES if side.split()[0] in wanted or side in wanted if is_installed(side)}
        for name in names:
            for size in chosen.sizes.split(","):
                row = measure(PROGRAMS[name], size, workers, chosen.repeat, chosen.cap)
                row.measured = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
                rows = in_order([r for r in rows if (r.name, r.size) != (name, size)] + [row])
                wrong |= "npcompile" not in row.timings
                print(page.line(row), file=sys.stderr, flush=True)
                write(chosen.out, about, rows, first)
        for worker in workers.values():
            worker.stop()
        if not chosen.names or first_calls.NAME in chosen.names:
            first = first_calls.measure(max(1, chosen.repeat // 2))
            write(chosen.out, about, rows, first)
    if chosen.out == RESULTS:
        page.write(PAGE, about, rows, first)
    else:
        print(page.markdown(about, rows, first))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
