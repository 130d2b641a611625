"""`python -m benchmarks.programs [NAME...]`: measure the programs, check every answer, write docs/performance.md.

A NAME is a program or a family. Programs are compiled a batch at a time, a process on each core, then measured one by one.
Results go into one file as they come. Rows measured before on the same machine stay there, and are not measured again unless
the sources or the options have changed, so a run may be stopped (`--minutes`, or by anything) and taken up again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.measure import Timing
from benchmarks.programs import first_calls, page
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.measure import MEMORY, PEERS, ProgramRow, held, measure, wanted_sides
from benchmarks.programs.preparing import Held, Sides, prepare_together
from benchmarks.programs.program import SIZES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "programs.json"
PAGE = ROOT / "docs" / "performance.md"
REDO = ("none", "changed", "all")
CORES = len(os.sched_getaffinity(0))
BATCH = 2 * CORES  # programs compiled before any is measured
SAME_MACHINE = ("cpu", "cores", "system", "python", "versions")


@dataclass
class Results:
    """What is measured, and where it is kept."""

    path: Path
    about: dict[str, str]  # the machine
    rows: list[ProgramRow]
    first: dict[str, Any]  # seconds of first calls by their ops, and the sources measured

    def replace(self, row: ProgramRow) -> None:
        places = list(PROGRAMS)
        rows = [other for other in self.rows if (other.name, other.size) != (row.name, row.size)]
        self.rows = sorted([*rows, row], key=lambda row: (places.index(row.name), SIZES.index(row.size)))
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(row.as_json()) for row in self.rows)  # a row a line: as short, and readable as a difference
        text = f'{{"machine": {json.dumps(self.about)},\n"first_calls": {json.dumps(self.first)},\n"rows": [\n{lines}\n]}}\n'
        written = self.path.with_suffix(".written")  # whole or not at all, as a run may be stopped anywhere
        written.write_text(text)
        written.replace(self.path)


def read(path: Path, about: dict[str, str]) -> Results:
    """What was measured before on this machine with these versions; nothing of another."""
    if not path.exists():
        return Results(path, about, [], {})
    stored = json.loads(path.read_text())
    if any(stored["machine"].get(key) != about[key] for key in SAME_MACHINE):
        return Results(path, about, [], {})
    rows = [ProgramRow(**row) for row in stored["rows"]]
    for row in rows:
        row.timings = {side: Timing(**timing) for side, timing in row.timings.items()}  # type: ignore[arg-type]
        row.once = tuple(row.once)
    return Results(path, about, [row for row in rows if row.name in PROGRAMS], stored["first_calls"])


def is_kept(row: ProgramRow, redo: str, run: str, sources: str) -> bool:
    """Whether a row that is known is not measured again."""
    return redo == "none" or redo == "changed" and (row.run, row.sources) == (run, sources)


def choose(parser: argparse.ArgumentParser, names: list[str]) -> list[str]:
    families = {program.family for program in PROGRAMS.values()}
    if unknown := set(names) - set(PROGRAMS) - families - {first_calls.NAME}:
        parser.error(f"no such program or family: {', '.join(sorted(unknown))}")
    return [name for name, program in PROGRAMS.items() if not names or name in names or program.family in names]


def batches(wanted: list[Held], sides: Sides, cap: float, until: float) -> Iterator[list[Held]]:
    """Programs ready to be measured, a batch at a time, each smaller where the time left is."""
    began, done = time.monotonic(), 0
    while done < len(wanted) and (left := until - time.monotonic()) > 0:
        fitting = int(done * left / (time.monotonic() - began)) if done else BATCH
        if not fitting:
            return
        batch = prepare_together(wanted[done : done + min(BATCH, fitting)], sides, cap, CORES, until)
        seconds = time.monotonic() - until + left
        print(f"{len(batch)} of {len(wanted) - done} compiled in {seconds:.0f} s", file=sys.stderr, flush=True)
        try:
            yield batch
        finally:
            for each in batch:
                each.stop()
        done += len(batch)


def check_answers(wanted: list[Held], sides: Sides, cap: float, until: float) -> bool:
    """Whether all answers are NumPy's; those that are not are printed."""
    right, checked = True, 0
    for batch in batches(wanted, sides, cap, until):
        for each in batch:
            checked += 1
            for side in sides:
                if each.absent.get(side, "").startswith(("WRONG", "FAILED")):
                    print(f"{each.program.name} {each.size}, {side}: {each.absent[side]}", flush=True)
                    right = False
    print(f"{checked} of {len(wanted)} programs and sizes checked")
    return right and checked == len(wanted)


def measure_all(
    results: Results, wanted: list[tuple[str, str]], sides: Sides, run: str, chosen: argparse.Namespace, until: float
) -> None:
    """What is wanted and not known yet, until the time is over; `run` is how the page names the options."""
    sources = machine.sources()
    known = {(row.name, row.size) for row in results.rows if is_kept(row, chosen.redo, run, sources)}
    left = [entry for entry in wanted if entry not in known]
    measured = 0
    for batch in batches([held(PROGRAMS[name], size, sides) for name, size in left], sides, chosen.cap, until):
        for each in batch:
            if time.monotonic() > until:
                break
            row = measure(each, chosen.repeat, chosen.cap)
            each.stop()
            row.measured, row.run, row.sources = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), run, sources
            results.replace(row)
            print(page.line(row), file=sys.stderr, flush=True)
            measured += 1
    if measured < len(left):
        print(f"{len(left) - measured} of {len(wanted)} are left: run it again", file=sys.stderr)
    elif first_calls.NAME in chosen.names or not chosen.names and results.first.get("sources") != sources:
        results.first = first_calls.measure(max(1, chosen.repeat // 2)) | {"sources": sources}
        results.write()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs or families, all by default; first_calls")
    parser.add_argument("--repeat", type=int, default=7, help="samples of each side")
    parser.add_argument("--sizes", default=",".join(SIZES), help="some of small,middle,large")
    parser.add_argument("--peers", help=f"some of {','.join(PEERS)}, all by default, or none")
    parser.add_argument("--cap", type=float, default=60, help="seconds that a side may take to compile and answer twice")
    parser.add_argument("--minutes", type=float, default=24 * 60, help="stop after so many; the next run goes on")
    parser.add_argument(
        "--redo",
        choices=REDO,
        default="changed",
        help="rows measured before to measure again: none, those of other sources or options, all",
    )
    parser.add_argument("--answers", action="store_true", help="measure nothing, check answers; without peers by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the results' file; the page is written for the default only")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page from the results")
    chosen = parser.parse_args(arguments)
    until = time.monotonic() + 60 * chosen.minutes
    names, sizes = choose(parser, chosen.names), chosen.sizes.split(",")
    everyone = "none" if chosen.answers else ",".join(PEERS)
    peers = [peer for peer in (chosen.peers or everyone).split(",") if peer != "none"]
    if unknown := [size for size in sizes if size not in SIZES] + [peer for peer in peers if peer not in PEERS]:
        parser.error(f"no such size or peer: {', '.join(unknown)}")
    sides = wanted_sides(peers)
    wanted = [(name, size) for name in names for size in sizes]
    if chosen.answers:
        sides.pop(MEMORY)
        return 0 if check_answers([held(PROGRAMS[name], size, sides) for name, size in wanted], sides, chosen.cap, until) else 1

    about = machine.describe()
    if chosen.page:
        about = json.loads(chosen.out.read_text())["machine"]
    results = read(chosen.out, about)
    if not chosen.page:
        run = f"--peers {','.join(peers) or 'none'} --repeat {chosen.repeat} --cap {chosen.cap:g}"
        measure_all(results, wanted, sides, run, chosen, until)
    if chosen.out == RESULTS:
        page.write(PAGE, about, results.rows, results.first)
    else:
        print(page.markdown(about, results.rows, results.first))
    return 1 if any("npcompile" not in row.timings for row in results.rows if (row.name, row.size) in wanted) else 0


if __name__ == "__main__":
    raise SystemExit(main())
