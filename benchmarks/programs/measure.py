"""All sides of a program at one size, in turn: answers checked against NumPy's first, then rounds in changing order."""

from __future__ import annotations

import importlib.util
import random
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import SETTLE, SHORTEST_SAMPLE, Row, Timing
from benchmarks.programs.answers import difference
from benchmarks.programs.program import SIZES, Program
from benchmarks.programs.workers import Prepared, Stopped, Worker

MEMORY = "copy in C"  # takes part where memory alone limits a program
NUMBA = ("numba plain", "numba parallel")
# Sides to what they import, which is also the name of their versions.
SIDES = {"NumPy": "", "npcompile": "", **dict.fromkeys(NUMBA, "numba"), "JAX": "jax", "torch.compile": "torch", MEMORY: ""}
PEERS = ("numba", "JAX", "torch.compile")
SLOW = 20  # times NumPy's time: a side that takes longer is measured once


@dataclass
class ProgramRow(Row):
    """One program at one size."""

    family: str = ""
    size: str = ""
    is_loop: bool = False
    is_chain: bool = False
    measured: str = ""  # when
    once: tuple[str, ...] = ()  # sides that were measured once, being slow
    numba: str = ""  # which of its two ways was the faster
    first_calls: dict[str, float] | None = None  # seconds, compilation included

    def speedup(self, over: str = "NumPy", of: str = "npcompile") -> float | None:
        """How many times faster `of` is than `over`. None where one of them has no time."""
        if over not in self.timings or of not in self.timings:
            return None
        return self.timings[over].median / self.timings[of].median

    def best_peer(self) -> str | None:
        present = [side for side in PEERS if side in self.timings]
        return min(present, key=lambda side: self.timings[side].median, default=None)


def is_installed(side: str) -> bool:
    return not SIDES[side] or importlib.util.find_spec(SIDES[side]) is not None


def why_not(program: Program, side: str) -> str | None:
    """Why a side does not take part. None when it does."""
    if side == MEMORY:
        return None if program.moved else "memory is not its only limit"
    return program.why_not(SIDES[side]) if SIDES[side] else None


def prepared_sides(program: Program, size: str, workers: dict[str, Worker], cap: float, row: ProgramRow) -> dict[str, Prepared]:
    """The sides that gave NumPy's answer, and their first two calls. They compile side by side: nothing here is timed."""
    ready: dict[str, Prepared] = {}
    expected: Any = None
    row.absent = {side: why for side in workers if (why := why_not(program, side))}
    asked = {side: worker for side, worker in workers.items() if side not in row.absent}
    for worker in asked.values():
        worker.send("prepare", program.name, size)
    began = time.perf_counter()
    for side, worker in asked.items():
        try:
            prepared = worker.receive(cap, began)
        except Stopped as stopped:
            row.absent[side] = f"FAILED: {stopped}"
            continue
        assert prepared is not None, (program.name, side)
        if side == "NumPy":
            expected = prepared.answer
        elif side != MEMORY and (wrong := difference(program, expected, prepared.answer, exact=side == "npcompile")):
            row.absent[side] = f"WRONG: {wrong}"
            continue
        ready[side] = Prepared(None, prepared.first, prepared.second)  # without the answer, which may be large
    return ready


def measure(program: Program, size: str, workers: dict[str, Worker], repetitions: int, cap: float) -> ProgramRow:
    """A row of timings. Sides over `cap` seconds to prepare or to sample are stopped, and say so."""
    row = ProgramRow(program.name, program.case(size).title, family=program.family, size=size)
    row.is_loop, row.is_chain = program.is_loop, program.is_chain
    ready = prepared_sides(program, size, workers, cap, row)
    row.first_calls = {side: prepared.first for side, prepared in ready.items()}
    samples: dict[str, list[float]] = {side: [] for side in ready}
    if "NumPy" in ready:
        limit = max(SLOW * ready["NumPy"].second, 10 * SHORTEST_SAMPLE)
        row.once = tuple(side for side in ready if ready[side].second > limit)
    turns = list(ready)
    counts = {side: max(1, int(SHORTEST_SAMPLE / max(ready[side].second, 1e-7))) for side in turns}
    shuffle = random.Random(SIZES.index(size)).shuffle
    for round in range(repetitions):
        shuffle(turns)
        for side in [side for side in turns if not (round and side in row.once)]:
            time.sleep(SETTLE)
            try:
                seconds = workers[side].sample(counts[side], ready[side].second < 0.1, cap)
            except Stopped as stopped:
                row.absent[side] = f"FAILED: {stopped}"
                turns.remove(side)
                continue
            if not samples[side] and counts[side] * seconds < SHORTEST_SAMPLE / 2:  # its second call was not yet its quickest
                counts[side] = max(1, int(SHORTEST_SAMPLE / max(seconds, 1e-7)))
            samples[side].append(seconds)
    row.timings = {side: Timing.of(seconds) for side, seconds in samples.items() if seconds and side not in row.absent}
    best_of_numba(row)
    return row


def best_of_numba(row: ProgramRow) -> None:
    """Numba's time is that of its faster way; it is absent where both are."""
    timings = {way: row.timings.pop(way) for way in NUMBA if way in row.timings}
    reasons = [row.absent.pop(way) for way in NUMBA if way in row.absent]
    if timings:
        row.numba = min(timings, key=lambda way: timings[way].median)
        row.timings["numba"] = timings[row.numba]
    elif reasons:
        row.absent["numba"] = reasons[0]
