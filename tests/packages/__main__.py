"""Packages' own tests, plain and with every function compiled: `python -m tests.packages scipy.signal networkx`.

A suite passes when each test that passes plain passes compiled. What differs is printed with the end of its traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIERS = ("always", "measured")
ROOT = Path(__file__).parents[2]
MOST_LIMITED = 0.03  # of the functions called; where more met the recompile limit it is said which, and why


@dataclass
class Run:
    """What one run of a suite wrote."""

    outcomes: dict[str, str] = field(default_factory=dict)  # test -> passed, failed, skipped, or crashed
    texts: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    end: str = ""  # how the run ended, where that was not after the last test
    summary: dict[str, Any] = field(default_factory=dict)

    def read(self, path: Path) -> Run:
        for line in path.read_text().splitlines():
            facts = json.loads(line)
            match facts.pop("event"):
                case "start":
                    self.outcomes[facts["test"]] = "crashed"  # until it ends
                case "end" if self.outcomes[facts["test"]] != "failed":  # an error after a test fails it
                    self.outcomes[facts["test"]] = facts["outcome"]
                    self.texts[facts["test"]] = facts["text"]
                    self.seconds += facts["seconds"]
                case "compiled" | "summary":
                    self.summary |= facts
        return self

    @property
    def processor(self) -> float:
        """Seconds of the processor that the tests took."""
        return float(self.summary.get("processor", 0.0))

    def passed(self) -> list[str]:
        return [test for test, outcome in self.outcomes.items() if outcome == "passed"]


def run_suite(
    suite: str,
    *,
    compiled: str = "",
    cases: int = 0,
    timeout: float = 7200,
    select: str = "",
    tiers: str = "always",
    has_cold_cache: bool = False,
) -> Run:
    """Run the tests of `suite` ("scipy.signal", or "scipy.signal.tests.test_windows"); `compiled`: the package to compile."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.jsonl"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
        command += ["-p", "tests.packages.plugin", f"--outcomes={outcomes}", f"--compile={compiled}"]
        command += [f"--cases={cases}", f"--tiers={tiers}"]
        command += ["-c", os.devnull, "--rootdir", folder, "--pyargs", suite, *(["-k", select] if select else [])]
        cache = {"NPCOMPILE_CACHE_DIR": str(Path(folder) / "cache")} if has_cold_cache else {}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **cache}
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
            )
            end = f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        except subprocess.TimeoutExpired:
            end = f"stopped after {timeout:.0f} seconds"
        if not outcomes.exists():
            raise RuntimeError(f"{' '.join(command)}\n{end}")
        run = Run().read(outcomes)
        run.end = "" if "called" in run.summary else end
        return run


def compare(suite: str, *, cases: int, select: str = "", package: str = "", tiers: str = "always") -> list[str]:
    """The tests that pass plain and not compiled, after a line about the suite. `package`: what is compiled, if not its own.

    Or that nothing was compared: a suite that does not begin has lost no test.
    """
    package = package or suite.partition(".tests")[0]
    plain = run_suite(suite, cases=cases, select=select)
    compiled = run_suite(suite, compiled=package, cases=cases, select=select, tiers=tiers)
    lost = [test for test in plain.passed() if compiled.outcomes.get(test) != "passed"]
    facts = compiled.summary
    share = facts.get("limited", 0) / max(1, facts.get("called", 0))
    print(
        f"{suite:<24} {len(plain.passed()):>5} pass plain, {len(compiled.passed()):>5} compiled, {len(lost)} lost; "
        f"{facts.get('called', '?')} functions called, {share:.0%} met the recompile limit; "
        f"{plain.seconds:.1f} s plain, {compiled.seconds:.1f} s compiled",
        flush=True,
    )
    if compiled.end:
        print(f"{sum(test not in compiled.outcomes for test in lost)} were not run: {compiled.end}", flush=True)
    if plain.end or not plain.passed():
        print(f"the plain run: {plain.end or 'no test passed'}", flush=True)
        lost.append(f"{suite} plain")
    for test in lost:
        if test in compiled.outcomes:
            print(f"--- {test}: {compiled.outcomes[test]}\n{compiled.texts.get(test, '')[-1500:]}", flush=True)
    if share > MOST_LIMITED:
        print("\n".join(facts["limits"]), flush=True)
    return lost


def first_runs(suite: str, count: int, *, cases: int, select: str = "", package: str = "", tiers: str = "measured") -> str:
    """A row of a table: seconds of the tests of a suite, plain and compiled with nothing in the cache, in turn.

    Those of the clock say little on a machine with other work; those of the processor leave out the compilers beside the tests.
    """
    package = package or suite.partition(".tests")[0]
    ways: dict[str, list[Run]] = {"": [], package: []}
    for _ in range(count):
        for compiled, runs in ways.items():
            runs.append(run_suite(suite, compiled=compiled, cases=cases, select=select, tiers=tiers, has_cold_cache=True))
    columns = [suite, str(len(ways[package][-1].passed()))]
    for seconds in (
        [[r.seconds for r in runs] for runs in ways.values()],
        [[r.processor for r in runs] for runs in ways.values()],
    ):
        ratio = statistics.median(b / max(a, 1e-9) for a, b in zip(*seconds, strict=True))
        columns += [f"{value:.2f}" for value in (*map(statistics.median, seconds), ratio)]
    return f"| {' | '.join(columns)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    parser.add_argument(
        "suites",
        nargs="+",
        metavar="SUITE",
        help="a package, or one module of its tests (scipy.signal.tests.test_windows)",
    )
    parser.add_argument("--cases", type=int, default=0, help="at most so many cases of each parametrized test")
    parser.add_argument("--compile", dest="package", default="", help="the package to compile, if not the suite's (networkx)")
    parser.add_argument("-k", dest="select", default="", help="pytest's -k")
    parser.add_argument(
        "--tiers", choices=TIERS, default="always", help='"measured": functions that are quicker as they are run so'
    )
    parser.add_argument(
        "--first-runs",
        type=int,
        default=0,
        metavar="N",
        help="a table of N runs plain and compiled, with an empty cache each",
    )
    given = parser.parse_args()
    named = {"cases": given.cases, "select": given.select, "package": given.package, "tiers": given.tiers}
    if given.first_runs:
        kinds = "clock: plain | compiled | ratio | processor: plain | compiled | ratio"
        print(f"| tests | pass compiled | {kinds} |\n|{'---|' * 8}", flush=True)
        for suite in given.suites:
            print(first_runs(suite, given.first_runs, **named), flush=True)
        return 0
    lost = [test for suite in given.suites for test in compare(suite, **named)]
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
