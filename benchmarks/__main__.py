"""`python -m benchmarks [NAME...]`: measure, print the table, write benchmarks/results/."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.cases import CASES
from benchmarks.measure import measure
from benchmarks.processes import PROCESS_ROWS
from benchmarks.sides import SIDES


def main(arguments: list[str] | None = None) -> int:
    names = [case.name for case in CASES] + list(PROCESS_ROWS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="npcompile beside NumPy and its peers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"cases to run, all by default: {', '.join(names)}")
    parser.add_argument("--repeat", type=int, default=21, help="samples per side (processes: a fifth of it)")
    parser.add_argument("--side", action="append", choices=[side.name for side in SIDES], help="run these sides only")
    parser.add_argument("--out", type=Path, help="where to write; by default benchmarks/results when every case was run")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(names):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")

    about, rows = machine.describe(), []
    for case in CASES:
        if not chosen.names or case.name in chosen.names:
            print(f"{case.name} ...", file=sys.stderr, flush=True)
            rows.append(measure(case, chosen.repeat, set(chosen.side or ())))
    for name, measure_row in PROCESS_ROWS.items():
        if not chosen.names or name in chosen.names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows.append(measure_row(max(1, chosen.repeat // 5)))

    print(report.markdown(about, rows))
    folder = chosen.out or (None if chosen.names or chosen.side else Path(__file__).parent / "results")
    if folder:
        report.write(folder, about, rows)
    return 0 if all("npcompile" in row.timings for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
