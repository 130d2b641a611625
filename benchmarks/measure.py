"""Interleaved timing of several callables, and the check that all of them answer alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.case import Case
from benchmarks.sides import SIDES, ChangingCall

SHORTEST_SAMPLE = 10e-3  # seconds: calls quicker than this are timed in batches
LOOK = 10e-3  # seconds
QUIET = 0.1  # share of LOOK that threads which sleep may take
LONGEST_REST = 1.0  # seconds


@dataclass(frozen=True)
class Timing:
    """Seconds of one call, over all samples."""

    median: float
    least: float
    most: float
    samples: int

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


@dataclass
class Row:
    """One line of the report."""

    name: str
    title: str
    target: str = ""
    kind: str = "call"  # or "process": each sample from a new one
    got: float | None = None
    is_met: bool | None = None
    timings: dict[str, Timing] = field(default_factory=dict)  # per side
    absent: dict[str, str] = field(default_factory=dict)  # side to reason

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def batch_seconds(call: Callable[[], Any], count: int, clock: Callable[[], float] = time.perf_counter) -> float:
    if isinstance(call, ChangingCall):
        return call.seconds(count, clock)
    began = clock()
    for _ in range(count):
        call()
    return (clock() - began) / count


def rest(used: Callable[[], float] = time.process_time, wait: Callable[[float], None] = time.sleep) -> None:
    """Wait until this process's threads sleep: OpenBLAS's spin for 100 ms after a product, and would slow the next side down.

    `used` gives the seconds that the process's threads have run.
    """
    for _ in range(int(LONGEST_REST / LOOK)):
        before = used()
        wait(LOOK)
        if used() - before < QUIET * LOOK:
            return


def interleave(
    calls: Mapping[str, Callable[[], Any]],
    repetitions: int,
    seed: int = 0,
    *,
    clock: Callable[[], float] = time.perf_counter,
    rests: bool = True,
) -> dict[str, Timing]:
    """Time each call once a round, in an order that changes: a machine that drifts drifts for all of them.

    `clock` is time.thread_time for what one thread does alone, which `rests` for no other: a machine that does other things too
    does not show in it.
    """
    counts = {name: max(1, int(SHORTEST_SAMPLE / max(batch_seconds(call, 3), 1e-9))) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    order, shuffle = list(calls), random.Random(seed).shuffle
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repetitions):
            shuffle(order)
            for name in order:
                if rests:
                    rest()
                calls[name]()  # untimed: wakes this side's threads
                samples[name].append(batch_seconds(calls[name], counts[name], clock))
    finally:
        if was_enabled:
            gc.enable()
    return {name: Timing.of(seconds) for name, seconds in samples.items()}


def disagreement(case: Case, expected: Any, answer: Any, exact_type: bool) -> str | None:
    """Why `answer` is not NumPy's. None when it is."""
    if exact_type and (type(answer) is not type(expected) or answer.dtype != expected.dtype or answer.shape != expected.shape):
        return f"{type(answer).__name__} {answer.dtype}{answer.shape}, NumPy gives {expected.dtype}{expected.shape}"
    given = np.asarray(answer)
    if given.shape != np.shape(expected):
        return f"shape {given.shape} instead of {np.shape(expected)}"
    scale = float(np.max(np.abs(expected))) if np.size(expected) else 0.0
    if np.allclose(given, expected, rtol=case.relative_error, atol=case.relative_error * scale, equal_nan=True):
        return None
    return f"differs by {float(np.max(np.abs(given - expected))):.3g}"


def measure(case: Case, repetitions: int, wanted: set[str] | None = None) -> Row:
    """Prepare every side, check its answer, time those that are right."""
    row = Row(case.name, case.title, str(case.target or ""))
    inputs = case.inputs(np.random.default_rng(20240229))
    expected = case.function(*inputs)
    calls = {}
    for side in SIDES:
        if wanted and side.name not in wanted:
            continue
        if not side.is_installed():
            row.absent[side.name] = "not installed"
            continue
        call = side.prepare(case, inputs)
        if call is None:
            row.absent[side.name] = "cannot express it"
            continue
        call()  # compiles
        wrong = disagreement(case, expected, call(), exact_type=not side.is_peer)
        if wrong:
            row.absent[side.name] = f"WRONG: {wrong}"
            continue
        calls[side.name] = call
    row.timings = interleave(calls, repetitions)
    judge(row, case.target)
    return row


def judge(row: Row, target: Any) -> None:
    """Fill in what was reached of the target."""
    own, numpy = row.timings.get("npcompile"), row.timings.get("NumPy")
    if target is None or own is None:
        return
    peers = {side.name: row.timings[side.name].median for side in SIDES if side.is_peer and side.name in row.timings}
    row.got = target.got(own.median, numpy.median if numpy else None, peers)
    row.is_met = None if row.got is None else target.is_met(row.got)
