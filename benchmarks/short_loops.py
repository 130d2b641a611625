"""What more threads make of short statements that follow each other: `python -m benchmarks.short_loops`.

A smoothing step of a line, two statements, a thousand times in one call; microseconds of one statement by its elements and the
threads. What a statement takes with more threads than it is worth is what sharing it out costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

import npcompile as npc
from benchmarks.measure import interleave

STEPS = 1_000
ELEMENTS = (1_000, 4_000, 16_000, 64_000, 256_000)


def smooth(x: np.ndarray, y: np.ndarray, steps: int) -> None:
    for _ in range(steps):
        y[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
        x[1:-1] = 0.25 * y[:-2] + 0.5 * y[1:-1] + 0.25 * y[2:]


def on_threads(pools: Any, count: int, call: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    def limited() -> None:
        with pools.limit(limits=count):
            call(*arguments)

    return limited


def main() -> None:
    cores = len(os.sched_getaffinity(0))
    counts = [1 << k for k in range(cores.bit_length()) if 1 << k <= cores]
    print("| elements |" + "".join(f" {n} thread{'s' * (n > 1)} |" for n in counts) + "\n" + "|---" * (1 + len(counts)) + "|")
    compiled, pools = npc.compile(smooth), ThreadpoolController()
    for n in ELEMENTS:
        x = np.random.default_rng(0).random(n)
        y = x.copy()
        compiled(x, y, STEPS)
        timings = interleave({str(k): on_threads(pools, k, compiled, x, y, STEPS) for k in counts}, repetitions=10)
        print(f"| {n:,} |" + "".join(f" {timings[str(k)].median / (2 * STEPS) * 1e6:.2f} us |" for k in counts))


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    main()
