"""Is this checkout slower than another? `python -m benchmarks.gate BASE [NAME ...]`.

BASE is a revision of this repository or the folder of a checkout, NAME a program or a family of `benchmarks.programs`. Each side
is a process; they take turns at the same call, in rounds. A row is the median over the rounds of this side's seconds over BASE's
of the same round, with the interval in which the median lies with 99 % certainty. A row whose interval is apart from 1 and whose
median is further from it than `--limit` is measured again in new processes, and has moved if it is so again.

First calls are those of an empty cache, in seconds of the processors: their ratio is told, of one call, and not judged.
Exit status: 1 if a row is slower, or this side does not run what BASE runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import SHORTEST_SAMPLE
from benchmarks.programs.families import PROGRAMS
from benchmarks.programs.program import SIZES

ROOT = Path(__file__).resolve().parents[2]
CERTAINTY = 0.99


@dataclass
class Row:
    """A program at one size."""

    name: str
    size: str
    base: float = math.nan  # median seconds of a call
    ratios: list[float] = field(default_factory=list)  # this side over the base, of each round
    first: float = math.nan  # the same of the first call
    failed: dict[str, str] = field(default_factory=dict)  # side -> why

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    def interval(self) -> tuple[float, float]:
        return interval_of_median(self.ratios)

    def moved(self, limit: float) -> int:
        """1 slower, -1 faster, 0 neither, or not surely."""
        low, high = self.interval()
        return (low > 1 and self.ratio > 1 + limit) - (high < 1 and self.ratio < 1 / (1 + limit))


def interval_of_median(values: Sequence[float], certainty: float = CERTAINTY) -> tuple[float, float]:
    """Between which of the values the median lies, by the binomial distribution; all of them where they are few."""
    n, ordered = len(values), sorted(values)
    outside, k = 0.0, 0
    while k < n // 2 and (outside := outside + 2 * math.comb(n, k) / 2**n) <= 1 - certainty:
        k += 1
    return ordered[max(0, k - 1)], ordered[min(n - 1, n - k)]


class Side:
    """A process that makes calls with one checkout."""

    def __init__(self, checkout: Path, cache: Path, clock: str):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, str(ROOT / "benchmarks" / "gate" / "worker.py"), str(checkout), clock]
        environment = os.environ | {"NPCOMPILE_CACHE_DIR": str(cache)}
        self.process = subprocess.Popen(
            command, cwd=cache, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, row: Row, count: int) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"name": row.name, "size": row.size, "count": count}), file=self.process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"error": "its process ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return float(answer["seconds"])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(row: Row, sides: dict[str, Side], rounds: int) -> None:
    """Fill in what the sides, "base" and "own", take for the row."""
    first, second = {}, {}
    for name, side in sides.items():
        try:
            first[name] = side.seconds(row, 1)
            second[name] = min(side.seconds(row, 1) for _ in range(3))
        except RuntimeError as error:
            row.failed[name] = str(error)
    if row.failed:
        return
    row.first = first["own"] / first["base"]
    count = max(1, int(SHORTEST_SAMPLE / max(*second.values(), 1e-7)))
    taken: list[dict[str, float]] = []
    for k in range(rounds):
        order = list(sides)[:: 1 if k % 2 else -1]
        taken.append({name: sides[name].seconds(row, count) for name in order})
    row.base = statistics.median(each["base"] for each in taken)
    row.ratios = [each["own"] / each["base"] for each in taken]


@contextlib.contextmanager
def checkout_of(base: str) -> Iterator[Path]:
    """The folder of BASE: itself, or a revision checked out for as long as this lasts."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="npcompile-gate-") as folder:
        tree = Path(folder) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(tree), base], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def chosen_rows(names: Sequence[str], sizes: Sequence[str]) -> list[Row]:
    known = {each for program in PROGRAMS.values() for each in (program.name, program.family)}
    if unknown := sorted(set(names) - known):
        raise SystemExit(f"python -m benchmarks.gate: no such program or family: {', '.join(unknown)}")
    programs = [p for p in PROGRAMS.values() if not names or p.name in names or p.family in names]
    return [Row(p.name, size) for p in programs for size in sizes]


def run(rows: Sequence[Row], base: Path, rounds: int, clock: str) -> None:
    with tempfile.TemporaryDirectory(prefix="npcompile-gate-") as folder:
        checkouts = {"base": base, "own": ROOT}
        sides = {name: Side(checkout, Path(folder) / name, clock) for name, checkout in checkouts.items()}
        try:
            for row in rows:
                measure(row, sides, rounds)
                for name in row.failed:  # it may have died of it
                    sides[name].end()
                    sides[name] = Side(checkouts[name], Path(folder) / name, clock)
                print(line(row), file=sys.stderr, flush=True)
        finally:
            for side in sides.values():
                side.end()


def line(row: Row) -> str:
    if row.failed:
        return f"| {row.name} | {row.size} | {'; '.join(f'{side}: {why}' for side, why in row.failed.items())} |"
    low, high = row.interval()
    return f"| {row.name} | {row.size} | {row.base * 1e6:.4g} us | {row.ratio:.3f} | {low:.3f} to {high:.3f} | {row.first:.2f} |"


def report(rows: Sequence[Row], again: Sequence[Row], limit: float) -> tuple[str, bool]:
    """The text, and whether this side holds."""
    measured = [row for row in rows if not row.failed]
    moved = {sign: [row for row in again if not row.failed and row.moved(limit) == sign] for sign in (1, -1)}
    lost = [row for row in rows if "own" in row.failed and "base" not in row.failed]
    head = ["| program | size | base | this over base | its interval | first call |", "|---|---|---:|---:|---:|---:|"]
    lines = []
    for title, found in (("Slower", moved[1]), ("Faster", moved[-1]), ("Lost", lost)):
        lines += [f"{title}: {len(found)}", *(["", *head, *map(line, found), ""] if found else [])]
    if measured:
        mean = statistics.geometric_mean(row.ratio for row in measured)
        first = statistics.geometric_mean(row.first for row in measured)
        lines.append(f"{len(measured)} rows: geometric mean {mean:.3f} of the base's seconds, of first calls {first:.3f}")
    return "\n".join(lines), not moved[1] and not lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__.split("\n", 1)[0])
    parser.add_argument("base", metavar="BASE", help="a revision, or the folder of a checkout")
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs or families, all by default")
    parser.add_argument("--sizes", default="small,middle", help="of %(default)s and large")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=5, help="percent that a row may move (%(default)s)")
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: of all threads, on a machine with other work"
    )
    given = parser.parse_args()
    sizes = given.sizes.split(",")
    if unknown := set(sizes) - set(SIZES):
        parser.error(f"sizes are {', '.join(SIZES)}, not {', '.join(sorted(unknown))}")
    rows, limit = chosen_rows(given.names, sizes), given.limit / 100
    with checkout_of(given.base) as base:
        run(rows, base, given.rounds, given.clock)
        again = [Row(row.name, row.size) for row in rows if not row.failed and row.moved(limit)]
        if again:
            print("once more:", file=sys.stderr)
            run(again, base, 2 * given.rounds, given.clock)
    text, holds = report(rows, again, limit)
    print(text)
    return int(not holds)


if __name__ == "__main__":
    raise SystemExit(main())
