"""Seconds of one side's first call, its libraries imported before: `python -m benchmarks.first_call SIDE`, in a new process."""

from __future__ import annotations

import importlib
import sys
import time

import numpy as np

from benchmarks.cases.ten_ops import CASE
from benchmarks.measure import disagreement
from benchmarks.sides import SIDES, numba_side


def first_call_seconds(name: str) -> float:
    side = next(side for side in SIDES if side.name == name)
    importlib.import_module(side.requires)
    inputs = CASE.inputs(np.random.default_rng(0))
    began = time.perf_counter()
    call = numba_side(CASE, inputs, cache=True) if name == "numba" else side.prepare(CASE, inputs)
    assert call is not None, name
    answer = call()
    seconds = time.perf_counter() - began
    wrong = disagreement(CASE, CASE.function(*inputs), answer, exact_type=not side.is_peer)
    if wrong:
        raise SystemExit(f"{name}: {wrong}")
    return seconds


if __name__ == "__main__":
    print(first_call_seconds(sys.argv[1]))
