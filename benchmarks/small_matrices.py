"""Stacks of 10,000 small matrices beside NumPy, which calls LAPACK for each: `python -m benchmarks.small_matrices`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import npcompile as npc
from benchmarks.measure import interleave

COUNT = 10_000
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "det": lambda a, b: np.linalg.det(a),
    "inv": lambda a, b: np.linalg.inv(a),
    "solve": lambda a, b: np.linalg.solve(a, b),
    "eigvalsh": lambda a, b: np.linalg.eigvalsh(a),
}


def main() -> None:
    rng = np.random.default_rng(0)
    print("| function | matrices | NumPy | npcompile | times faster |\n|---|---|---|---|---|")
    for name, function in FUNCTIONS.items():
        for rows in (2, 3, 4):
            a, b = rng.standard_normal((COUNT, rows, rows)), rng.standard_normal((COUNT, rows, 1))
            compiled = npc.compile(function)
            calls = {"NumPy": partial(function, a, b), "npcompile": partial(compiled, a, b)}
            for call in calls.values():
                call()  # compiles
            timings = interleave(calls, repetitions=30)
            numpy, ours = (timings[side].median for side in ("NumPy", "npcompile"))
            print(f"| {name} | {rows} x {rows} | {numpy * 1e6:,.0f} us | {ours * 1e6:,.0f} us | {numpy / ours:.1f} |")


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    main()
