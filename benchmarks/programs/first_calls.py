"""First calls in new processes with empty caches: chains of 10, 200 and 1,000 ops.

    python -m benchmarks.programs.first_calls OPS

prints the seconds of one, npcompile and NumPy imported before.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.processes import in_new_process

NAME = "first_calls"
BOUNDS = {10: 0.4, 200: 1.0, 1000: 3.0}  # ops to seconds
LINES = ("{b} = np.sin({a}) * y", "{b} = np.abs({a}) + x", "{b} = np.sqrt({a} * {a} + {c})", "{b} = np.maximum({a}, y) - {c}")


def chain(ops: int) -> Any:
    """A function of so many different ops, two or three a line, as if a user had written it out."""
    text, count, name = ["def chain(x, y):", "    t0 = x"], 0, 0
    while count < ops:
        line = LINES[name % len(LINES)]
        text.append("    " + line.format(a=f"t{name}", b=f"t{name + 1}", c=f"{1 + name / 7:.3f}"))
        count, name = count + (3 if "sqrt" in line else 2), name + 1
    namespace: dict[str, Any] = {"np": np}
    exec("\n".join([*text, f"    return t{name}"]), namespace)
    return namespace["chain"]


def first_call_seconds(ops: int) -> float:
    import npcompile

    function = chain(ops)
    x, y = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    expected = function(x, y)
    began = time.perf_counter()
    answer = npcompile.compile(function)(x, y)
    seconds = time.perf_counter() - began
    np.testing.assert_allclose(answer, expected, rtol=1e-9)
    return seconds


def measure(repetitions: int) -> dict[str, float]:
    """Medians by the number of ops."""
    found = {}
    for ops in BOUNDS:
        seconds = []
        for _ in range(repetitions):
            with tempfile.TemporaryDirectory() as cache:
                seconds.append(float(in_new_process("-m", "benchmarks.programs.first_calls", str(ops), cache=cache)))
        found[str(ops)] = statistics.median(seconds)
    return found


if __name__ == "__main__":
    print(first_call_seconds(int(sys.argv[1])))
