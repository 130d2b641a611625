"""What it costs to keep old contents of arguments for NumPy's floating-point errors: `python -m benchmarks.kept_arguments`."""

from __future__ import annotations

from functools import partial

import numpy as np

import npcompile as npc
from benchmarks.measure import interleave

SIZES = (1_000, 100_000, 4_000_000)


def kept(x: np.ndarray, y: np.ndarray) -> None:
    x += y * 2


def not_kept(x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        x += y * 2


def main() -> None:
    functions = {"kept": npc.compile(kept), "not kept": npc.compile(not_kept), "NumPy": kept}
    print(f"| elements | {' | '.join(functions)} |\n|---|{'---|' * len(functions)}")
    for size in SIZES:
        x, y = np.ones(size), np.full(size, 1e-9)
        calls = {name: partial(f, x, y) for name, f in functions.items()}
        for call in calls.values():
            call()  # compiles
        timings = interleave(calls, repetitions=60)
        print(f"| {size:,} | {' | '.join(f'{t.median * 1e6:.3g} us' for t in timings.values())} |")


if __name__ == "__main__":
    npc.config.tiers = "always"  # what is compiled is measured
    main()
