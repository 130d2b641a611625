"""Seconds of the first call of long straight functions, with nothing in the disk cache: `python -m benchmarks.compile_time`.

Each function has COUNT statements of one family. Its first call is timed in a process of its own, after a call of another
function: seconds by the clock, and of processors, those of the C compiler among them.
`python -m benchmarks.compile_time FAMILY COUNT --profile` shows where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import npcompile as npc

COUNTS = (100, 200, 400, 1000, 4000, 10000)
LIMIT = 120  # seconds after which a function is given up


class Record:
    """What the statements of a family read attributes of."""

    def __init__(self, count: int) -> None:
        self.weights = np.linspace(0.5, 1.5, 7)
        for k in range(count):
            setattr(self, f"a{k}", np.linspace(0.5, 1.5, 7) + k)


# family -> the text of a function with that many statements, and its arguments.
FAMILIES: dict[str, tuple[Callable[[int], list[str]], Callable[[int], tuple[Any, ...]]]] = {
    "element stores": (
        lambda n: ["def f(y, x, c):", *(f"    y[{k}] = x[{k}] * c + {k}" for k in range(n)), "    return y"],
        lambda n: (np.zeros(n), np.linspace(0, 1, n), 0.5),
    ),
    "whole arrays": (
        lambda n: ["def f(x, c):", *(f"    a = x * c + {k}" for k in range(n)), "    return a"],
        lambda n: (np.linspace(0, 1, 50), 0.5),
    ),
    "a chain": (
        lambda n: ["def f(x, c):", *(f"    x = x * c + {k}" for k in range(n)), "    return x"],
        lambda n: (np.linspace(0, 1, 50), 0.5),
    ),
    "many results": (
        lambda n: [
            "def f(x, c):",
            *(f"    a{k} = x * c + {k}" for k in range(n)),
            f"    return [{', '.join(f'a{k}' for k in range(n))}]",
        ],
        lambda n: (np.linspace(0, 1, 50), 0.5),
    ),
    "scalars": (
        lambda n: ["def f(t, c):", *(f"    t = t * c + {k}" for k in range(n)), "    return t"],
        lambda n: (np.float64(0.5), 0.25),
    ),
    "dict reads": (
        lambda n: ["def f(x, d):", "    s = x", *(f"    s = s + d['k{k}'] * {k}" for k in range(n)), "    return s"],
        lambda n: (np.linspace(0, 1, 7), {f"k{k}": np.linspace(0, 1, 7) for k in range(n)}),
    ),
    "attributes": (
        lambda n: ["def f(x, r):", "    s = x", *(f"    s = s + r.a{k} * r.weights" for k in range(n)), "    return s"],
        lambda n: (np.linspace(0, 1, 7), Record(n)),
    ),
    "functions": (
        lambda n: [
            "def f(x, c):",
            *(f"    x = np.{('sin', 'cos', 'sqrt', 'tanh', 'abs')[k % 5]}(x) * c + np.maximum(x, {k % 7})" for k in range(n)),
            "    return x",
        ],
        lambda n: (np.linspace(0, 1, 50), 0.5),
    ),
    "reductions": (
        lambda n: ["def f(x, y):", "    s = 0.0", *(f"    s = s + np.sum(x * {k}.5 + y)" for k in range(n)), "    return s"],
        lambda n: (np.linspace(0, 1, 50), np.linspace(1, 2, 50)),
    ),
    "slices": (
        lambda n: [
            "def f(x, y):",
            *(f"    y[{k % 40}:{k % 40 + 9}] += x[{k % 30}:{k % 30 + 9}] * {k}" for k in range(n)),
            "    return y",
        ],
        lambda n: (np.linspace(0, 1, 50), np.linspace(1, 2, 50)),
    ),
}


def function(family: str, count: int) -> tuple[types.FunctionType, Callable[[], tuple[Any, ...]]]:
    """The function, and what makes its arguments."""
    lines, arguments = FAMILIES[family]
    namespace: dict[str, Any] = {"np": np}
    exec("\n".join(lines(count)), namespace)
    return namespace["f"], lambda: arguments(count)


def first_call_seconds(family: str, count: int, is_profiled: bool) -> str:
    npc.compile(lambda x: x * 2 + 1)(np.ones(3))  # the libraries are imported, the compiler is known
    plain, arguments = function(family, count)
    compiled, given = npc.compile(plain), arguments()
    profile = cProfile.Profile()
    if is_profiled:
        profile.enable()
    began, used = time.perf_counter(), sum(os.times()[:4])
    answer = compiled(*given)
    seconds, processors = time.perf_counter() - began, sum(os.times()[:4]) - used
    if is_profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    np.testing.assert_allclose(answer, plain(*arguments()), rtol=1e-12)
    return f"{seconds:.2f}/{processors:.2f}"


def in_new_process(family: str, count: int) -> str:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "benchmarks.compile_time", family, str(count)]
        try:
            done = subprocess.run(
                command, env=os.environ | {"NPCOMPILE_CACHE_DIR": cache}, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return f"> {LIMIT}"
        return done.stdout.split()[-1] if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_time", description=__doc__)
    parser.add_argument("family", nargs="?", choices=[*FAMILIES, "all"], default="all")
    parser.add_argument("count", nargs="?", type=int, help="time one call, in this process")
    parser.add_argument("--counts", type=lambda text: [int(k) for k in text.split(",")], default=COUNTS)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    if chosen.count is not None:
        print(first_call_seconds(chosen.family, chosen.count, chosen.profile))
        return
    print(f"{'statements':16}", *(f"{count:>12}" for count in chosen.counts))
    for family in FAMILIES if chosen.family == "all" else [chosen.family]:
        print(f"{family:16}", end="", flush=True)
        for count in chosen.counts:
            print(f" {in_new_process(family, count):>12}", end="", flush=True)
        print()


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    main()
