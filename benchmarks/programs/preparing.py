"""Programs compiled at the same time, a process for each side of each, and their answers checked. Nothing here is timed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from benchmarks.programs.answers import difference
from benchmarks.programs.program import Program
from benchmarks.programs.workers import TIME_TO_START, Stopped, Worker

Sides = dict[str, bool | None]  # whether a side's answer must be NumPy's exactly; None: it is not compared
ONE_THREAD = "torch.compile"  # compiles on one thread, so that alone it is no quicker than beside as many as there are cores
FREE_MEMORY = 0.35  # share of the machine's: with less, what is held is measured before more is prepared


@dataclass
class Held:
    """A program at one size: the processes that hold its compiled forms, of the sides whose answers are NumPy's."""

    program: Program
    size: str
    absent: dict[str, str] = field(default_factory=dict)  # side to reason
    workers: dict[str, Worker] = field(default_factory=dict)
    second: dict[str, float] = field(default_factory=dict)  # seconds of the second call, on a busy machine
    expected: Any = None  # NumPy's answer, until all sides' are checked
    early: dict[str, Any] = field(default_factory=dict)  # answers given before NumPy's
    late: set[str] = field(default_factory=set)  # sides that took too long beside others

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()
        self.workers.clear()


@dataclass(frozen=True)
class Task:
    """A side of a program; `exact` as in Sides."""

    held: Held
    side: str
    exact: bool | None


@dataclass
class Preparing:
    """A process that starts, then compiles and answers."""

    task: Task
    worker: Worker
    until: float
    is_started: bool = False


def free_memory() -> float:
    """The share of the machine's memory that nobody uses. 1 where the system does not say."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return 1.0
    lines = dict(line.split(":") for line in path.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) / int(lines["MemTotal"].split()[0])


def check(held: Held, side: str, answer: Any, exact: bool) -> None:
    if wrong := difference(held.program, held.expected, answer, exact):
        held.absent[side] = f"WRONG: {wrong}"
        held.workers.pop(side).stop()


def take(preparing: Preparing, cap: float) -> bool:
    """What the process has to say. True when it is ready, or gone."""
    held, side, exact, worker = preparing.task.held, preparing.task.side, preparing.task.exact, preparing.worker
    try:
        reply = worker.receive(0.0, f"does not compile and answer in {cap:.0f} s" if preparing.is_started else "does not start")
    except Stopped as stopped:
        held.absent[side] = f"FAILED: {stopped}"
        if preparing.until <= time.monotonic() and side != ONE_THREAD:
            held.late.add(side)
        held.workers.pop(side)
        return True
    if not preparing.is_started:
        preparing.is_started, preparing.until = True, time.monotonic() + cap
        return False
    held.second[side] = reply.second
    if side == "NumPy":
        held.expected = reply.answer
        for other, (answer, is_exact) in held.early.items():
            check(held, other, answer, is_exact)
        held.early.clear()
    elif exact is None:
        pass  # nothing to compare
    elif "NumPy" in held.second:
        check(held, side, reply.answer, exact)
    else:
        held.early[side] = reply.answer, exact
    return True


def run(tasks: Iterator[Task], cap: float, at_once: int, until: float) -> None:
    """Start processes, so many at a time, and take what they say, until all are ready or the time is over."""
    running: dict[Any, Preparing] = {}
    while time.monotonic() <= until:
        while len(running) < at_once and (task := next(tasks, None)):
            held, side = task.held, task.side
            held.workers[side] = worker = Worker(side, held.program.name, held.size)
            running[worker.pipe] = Preparing(task, worker, time.monotonic() + TIME_TO_START)
        if not running:
            return
        first = min(until, *(each.until for each in running.values()))
        spoken = connection.wait(list(running), max(0.0, first - time.monotonic()))
        late = [pipe for pipe, each in running.items() if each.until <= time.monotonic()]
        for pipe in dict.fromkeys([*spoken, *late]):
            if take(running[pipe], cap):
                del running[pipe]


def prepare_together(wanted: Iterable[Held], sides: Sides, cap: float, at_once: int, until: float) -> list[Held]:
    """All sides of the programs, `at_once` processes at a time; NumPy's must be among the sides, as first.

    A side that is `absent` already takes no part. Fewer programs than wanted are begun where memory runs out, always one;
    none are ready if it is `until`, in time.monotonic's seconds, before all are.
    """
    begun: list[Held] = []
    tasks = (Task(held, side, sides[side]) for held in admitted(wanted, begun) for side in sides if side not in held.absent)
    run(tasks, cap, at_once, until)
    late = [Task(held, side, sides[side]) for held in begun for side in sides if side in held.late]
    for task in late:  # perhaps the others took its time: once more, alone
        del task.held.absent[task.side]
    run(iter(late), cap, 1, until)
    if time.monotonic() > until:
        for held in begun:
            held.stop()
        return []
    for held in begun:
        if held.early:  # NumPy has no answer to compare with
            held.absent |= dict.fromkeys(held.early, "FAILED: NumPy gave no answer")
            held.stop()
        held.expected = None
    return begun


def admitted(wanted: Iterable[Held], begun: list[Held]) -> Iterator[Held]:
    for held in wanted:
        if begun and free_memory() < FREE_MEMORY:
            return
        begun.append(held)
        yield held
