"""Packages with every function compiled, against the same calls plain: `python -m benchmarks.packages [-o FILE] [PACKAGE ...]`.

`--imports MODULE,...` compiles nothing: the other process imports these modules, which tells what a larger process alone costs.

Each package has two processes, one in which `npc.compile_package` has compiled it. They take turns at the same call: some calls
first, until no compiler runs beside them, then rounds of a few milliseconds. A row is the median over the rounds of the compiled
seconds over the plain ones of the same round. Seconds are those of the process's threads: what a call costs, also on a machine
with other work. The first call and all that are made before measuring are told beside. A row above 1.05 is measured again in
other processes, as one process is quicker than another by some percent all its life: the median counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.packages.calls import CALLS

ROOT = Path(__file__).resolve().parents[2]
BEFORE = 50  # calls before the first that is measured
ROUNDS = 15
SHORTEST = 4e-3  # seconds of a round
SETTLING, MOST_SETTLING, QUIET = 0.2, 60, 5  # seconds of calls between two looks, how many, and how many without compiling
NOISE, AGAIN = 1.05, 2  # what is above is measured again so often


class Worker:
    """A process that makes calls of one package."""

    def __init__(self, package: str, *options: str):
        command = [sys.executable, "-m", "benchmarks.packages", "--worker", package, *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended at {what}")
        return json.loads(answer)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def pair(package: str, imports: str) -> tuple[Worker, Worker]:
    """One as it is, and one that is compared with it."""
    return Worker(package), Worker(package, *(["--imports", imports] if imports else ["--compiled"]))


def work(package: str, is_compiled: bool, imports: str) -> None:
    """Answer the lines of standard input: {"call": name, "count": n} by the seconds of a call, or by why there is none."""
    warnings.simplefilter("ignore")
    for name in filter(None, imports.split(",")):
        importlib.import_module(name)
    calls = dict(CALLS[package])
    made: dict[str, Callable[[], Any]] = {}
    if is_compiled:
        import npcompile as npc

        npc.config.tiers = "measured"
        npc.compile_package(package)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked["call"] not in made:
                made[asked["call"]] = calls[asked["call"]]()
            call, count = made[asked["call"]], asked["count"]
            if asked.get("settles") and is_compiled:
                settle(call)
            began = time.process_time()
            for _ in range(count):
                call()
            answer = {"seconds": (time.process_time() - began) / count}
        except Exception as error:  # noqa: BLE001  (a version of the package without it)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def settle(call: Callable[[], Any]) -> None:
    """Make calls until no compiler runs beside them, and for a while nothing was compiled, though something might have been."""
    from npcompile.backends.background import BESIDE
    from npcompile.tracer.profitability import BUDGET

    quiet = 0
    for _ in range(MOST_SETTLING):
        jobs, spent = [job for job in [*BESIDE.running] if job.is_alive()], BUDGET.spent
        for job in jobs:
            job.join()
        end = time.perf_counter() + SETTLING
        while time.perf_counter() < end:
            call()
        quiet = quiet + 1 if not jobs and spent == BUDGET.spent and BUDGET.allows() else 0
        if quiet == QUIET:
            return


def measured(plain: Worker, compiled: Worker, name: str) -> dict[str, float] | str:
    """Seconds of the first call, of the calls before measuring, and of both sides; or why it cannot be called."""
    first: dict[str, float] = {}
    for side, worker in (("plain", plain), ("compiled", compiled)):
        answer = worker.ask(call=name, count=1)
        if "error" in answer:
            return f"{side}: {answer['error']}"
        warm = worker.ask(call=name, count=BEFORE)["seconds"]
        first |= {f"first_{side}": answer["seconds"], f"before_{side}": answer["seconds"] + BEFORE * warm}
    compiled.ask(call=name, count=1, settles=True)
    count = max(1, math.ceil(SHORTEST / max(plain.ask(call=name, count=3)["seconds"], 1e-7)))
    rounds = []
    for k in range(ROUNDS):
        order = [(plain, "plain"), (compiled, "compiled")][:: 1 if k % 2 else -1]
        rounds.append({side: worker.ask(call=name, count=count)["seconds"] for worker, side in order})
    return first | {
        "plain": statistics.median(r["plain"] for r in rounds),
        "compiled": statistics.median(r["compiled"] for r in rounds),
        "ratio": statistics.median(r["compiled"] / r["plain"] for r in rounds),
    }


def measured_again(package: str, name: str, found: dict[str, float], imports: str) -> dict[str, float]:
    """The row whose ratio is the median of this one and those of other processes."""
    rows = [found]
    for _ in range(AGAIN):
        workers = pair(package, imports)
        row = measured(*workers, name)
        assert isinstance(row, dict)
        rows.append(row)
        for worker in workers:
            worker.end()
    return sorted(rows, key=lambda row: row["ratio"])[len(rows) // 2]


def rows_of(package: str, select: str, imports: str, absent: list[str]) -> dict[str, dict[str, float]]:
    """Rows of the package's calls with `select` in their names; of those that cannot be made `absent` is told why."""
    plain, compiled = pair(package, imports)
    rows = {}
    for name, _ in CALLS[package]:
        if select not in name:
            continue
        found = measured(plain, compiled, name)
        if isinstance(found, str):
            absent.append(f"{package} {name} ({found})")
            continue
        if found["ratio"] > NOISE:
            found = measured_again(package, name, found, imports)
        rows[name] = found
        print(f"{package} {name}: {found['ratio']:.2f}", file=sys.stderr, flush=True)
    for worker in (plain, compiled):
        worker.end()
    return rows


def table(rows: dict[str, dict[str, dict[str, float]]], absent: list[str], imports: str) -> str:
    lines = ["# Packages with every function compiled", "", machine_line(), ""]
    if imports:
        lines += [f'Nothing is compiled: "compiled" stands for a process that has imported {imports.replace(",", ", ")}.', ""]
    lines += [
        "Compiled over plain, small inputs, after 50 calls and the compilers beside them: `python -m benchmarks.packages`.",
        "",
    ]
    lines += ["| package | calls | geometric mean | largest | above 1.05 |", "|---|---:|---:|---:|---:|"]
    ratios = {package: [row["ratio"] for row in found.values()] for package, found in rows.items() if found}
    for package, each in [*ratios.items(), ("all", [r for found in ratios.values() for r in found])]:
        if each:
            above = sum(r > NOISE for r in each)
            lines.append(f"| {package} | {len(each)} | {statistics.geometric_mean(each):.2f} | {max(each):.2f} | {above} |")
    lines += ["", "| call | plain | compiled | ratio | first call | 51 calls, plain | 51 calls, compiled |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for package, found in rows.items():
        for name, row in sorted(found.items(), key=lambda each: -each[1]["ratio"]):
            cells = [f"{row[k] * 1e6:.1f} us" for k in ("plain", "compiled")] + [f"{row['ratio']:.2f}"]
            cells += [f"{row[k]:.3f} s" for k in ("first_compiled", "before_plain", "before_compiled")]
            lines.append(f"| {package} {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, *(["", "Not called: " + "; ".join(absent)] if absent else []), ""])


def machine_line() -> str:
    names = ("numpy", "scipy", "scikit-learn", "PyWavelets", "astropy", "statsmodels", "networkx", "colour-science")
    versions = [f"{name} {version}" for name in names if (version := machine.version_of(name))]
    return f"{machine.cpu_model()}, Python {sys.version.split()[0]}, {', '.join(versions)}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(CALLS)}")
    parser.add_argument("-o", dest="file", type=Path, help="where to write the table")
    parser.add_argument("-k", dest="select", default="", help="calls with this in their names")
    parser.add_argument("--imports", default="", metavar="MODULE,...", help="compile nothing: import these in the other process")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="packages, on a machine with processors for all")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.compiled, given.imports)
        return
    absent: list[str] = []
    packages = given.packages or list(CALLS)
    with ThreadPoolExecutor(given.at_once) as pool:
        measure = partial(rows_of, select=given.select, imports=given.imports, absent=absent)
        rows = dict(zip(packages, pool.map(measure, packages)))
    text = table(rows, absent, given.imports)
    print(text)
    if given.file:
        given.file.write_text(text)


if __name__ == "__main__":
    main()
