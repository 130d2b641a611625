"""All sides of a program at one size, timed one at a time, in rounds of changing order."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from benchmarks.measure import SHORTEST_SAMPLE, Row, Timing
from benchmarks.programs.preparing import Held, Sides
from benchmarks.programs.program import SIZES, Program
from benchmarks.programs.workers import IMPORTS, Stopped, processors

MEMORY = "copy in C"  # takes part where memory alone limits a program
NUMBA = ("numba plain", "numba parallel")
# In the order in which they begin: those that compile for long early.
COMPARED: Sides = {
    "NumPy": None,
    "torch.compile": False,
    "numba parallel": False,
    "numba plain": False,
    "JAX": False,
    "npcompile": True,
    MEMORY: None,
}
PEERS = ("numba", "JAX", "torch.compile")
SLOW = 20  # times NumPy's time: a side that takes longer is measured once
WARMED = 1.0  # seconds of a call, on the busy machine that compiled it, up to which one call comes before each sample
SHORT = 1e-4  # seconds of the quickest side: all sides of a round begin on one processor, as these are not equally fast
FEWEST_SAMPLES, LONGEST_SAMPLING = 3, 1.0  # samples of a side whose calls take so many seconds together


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
    run: str = ""  # the options of the run that measured it
    sources: str = ""  # of npcompile and the programs, as `machine.sources` names them

    def speedup(self, over: str = "NumPy", of: str = "npcompile") -> float | None:
        """How many times faster `of` is than `over`. None where one of them has no time."""
        if over not in self.timings or of not in self.timings:
            return None
        return self.timings[over].median / self.timings[of].median

    def best_peer(self) -> str | None:
        present = [side for side in PEERS if side in self.timings]
        return min(present, key=lambda side: self.timings[side].median, default=None)


def is_installed(side: str) -> bool:
    return not IMPORTS[side] or importlib.util.find_spec(IMPORTS[side]) is not None


def why_not(program: Program, side: str) -> str | None:
    """Why a side does not take part. None when it does."""
    if side == MEMORY:
        return None if program.moved else "memory is not its only limit"
    return program.why_not(IMPORTS[side]) if IMPORTS[side] else None


def wanted_sides(peers: list[str]) -> Sides:
    """The sides of a run that are installed, and how their answers are compared."""
    chosen = [side for side in COMPARED if side.split()[0] in peers or side in (*peers, "NumPy", "npcompile", MEMORY)]
    return {side: COMPARED[side] for side in chosen if is_installed(side)}


def held(program: Program, size: str, sides: Iterable[str]) -> Held:
    return Held(program, size, {side: why for side in sides if (why := why_not(program, side))})


def measure(held: Held, repetitions: int, cap: float) -> ProgramRow:
    """A row of timings, one side at a time. A side over `cap` seconds for a sample is stopped, and says so."""
    program, size, absent = held.program, held.size, dict(held.absent)
    row = ProgramRow(program.name, program.case(size).title, absent=absent, family=program.family, size=size)
    row.is_loop, row.is_chain = program.is_loop, program.is_chain
    turns = list(held.workers)
    samples: dict[str, list[float]] = {side: [] for side in turns}
    counts = {side: max(1, int(SHORTEST_SAMPLE / max(held.second[side], 1e-7))) for side in turns}
    shuffle = random.Random(SIZES.index(size)).shuffle
    seats = processors()
    for round in range(repetitions):
        shuffle(turns)
        if seats and not round % len(seats):
            shuffle(seats)
        is_short = size == SIZES[0] or min(chain(held.second.values(), *samples.values())) < SHORT
        seat = seats[round % len(seats)] if seats and is_short else None
        if round:
            turns = [side for side in turns if side not in absent and not is_enough(side, samples, counts)]
        for side in turns:
            try:
                seconds = held.workers[side].sample(counts[side], held.second[side] < WARMED, cap, seat)
            except Stopped as stopped:
                absent[side] = f"FAILED: {stopped}"
                continue
            if not samples[side] and counts[side] * seconds < SHORTEST_SAMPLE / 2:  # its second call was not yet its quickest
                counts[side] = max(1, int(SHORTEST_SAMPLE / max(seconds, 1e-7)))
                if round < repetitions - 1:
                    continue
            samples[side].append(seconds)
    row.timings = {side: Timing.of(seconds) for side, seconds in samples.items() if seconds and side not in absent}
    row.once = tuple(side for side in row.timings if is_slow(side, samples))
    best_of_numba(row)
    return row


def is_slow(side: str, samples: dict[str, list[float]]) -> bool:
    own, numpy = samples[side], samples.get("NumPy")
    return bool(own and numpy) and own[0] > max(SLOW * numpy[0], 10 * SHORTEST_SAMPLE)


def is_enough(side: str, samples: dict[str, list[float]], counts: dict[str, int]) -> bool:
    """Whether a side takes so long, beside NumPy or for the whole run, that it needs no further sample."""
    return is_slow(side, samples) or len(samples[side]) >= FEWEST_SAMPLES and sum(samples[side]) * counts[side] > LONGEST_SAMPLING


def best_of_numba(row: ProgramRow) -> None:
    """Numba's time is that of its faster way; it is absent where both are."""
    timings = {way: row.timings.pop(way) for way in NUMBA if way in row.timings}
    reasons = [row.absent.pop(way) for way in NUMBA if way in row.absent]
    if timings:
        row.numba = min(timings, key=lambda way: timings[way].median)
        row.timings["numba"] = timings[row.numba]
    elif reasons:
        row.absent["numba"] = reasons[0]
