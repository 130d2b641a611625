"""Units that are made while the program goes on: callers that do not wait are told `NotYet`, and ask again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import Any, Generic, Protocol, TypeVar

Made = TypeVar("Made")

MOST = 2  # compilers at a time, beside the program
BETWEEN = 2e-3  # seconds between two looks at them


class InBackground(threading.Thread):
    """A call that runs beside this thread: `result()` waits for what it returns or raises."""

    def __init__(self, function: Callable[[], Any], daemon: bool = True):
        super().__init__(daemon=daemon)
        self.function = function
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self.function()
        except BaseException as error:  # noqa: BLE001  (raised again by `result`)
            self.error = error

    def result(self) -> Any:
        self.join()
        if self.error is not None:
            raise self.error
        return self.outcome


class Work(Protocol):
    """A process that was started: it ends with `__exit__`, which may come twice."""

    def has_ended(self) -> bool: ...
    def __exit__(self, *raised: object) -> None: ...


SomeWork = TypeVar("SomeWork", bound=Work)


class Job(Generic[SomeWork, Made]):
    """What a process makes beside the program, and ends with it. At most MOST are at work, others wait for these.

    No thread waits for it: a process that ever had two takes glibc's locks and atomic operations in each `malloc` from then on,
    in others' C++ libraries too. Whoever asks `is_alive` looks.
    """

    def __init__(self, begin: Callable[[], SomeWork], finish: Callable[[SomeWork], Made]):
        self.begin, self.finish = begin, finish
        self.work: SomeWork | None = None
        self.error: Exception | None = None  # why it did not begin
        with LOOKING:
            RUNNING.append(self)
            look()

    def is_alive(self) -> bool:
        if self in RUNNING and perf_counter() >= Looks.next:
            look()
        return self in RUNNING

    def join(self) -> None:
        while self.is_alive():
            sleep(BETWEEN)

    def result(self) -> Made:
        """What `finish` makes of the ended process; waits for it. Once."""
        self.join()
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        assert self.work is not None
        try:
            return self.finish(self.work)
        finally:
            self.end()

    def end(self) -> None:
        """Stop the process, if it goes on. What it has made is gone."""
        with LOOKING:
            RUNNING[:] = [job for job in RUNNING if job is not self]
        if self.work is not None:
            self.work.__exit__()

    def is_at_work(self) -> bool:
        return self.work is not None and not self.work.has_ended()

    def start(self) -> None:
        try:
            self.work = self.begin()
        except Exception as error:  # noqa: BLE001  (raised again by `result`)
            self.error = error


class Looks:
    """When the processes are looked at again, by `perf_counter`."""

    next = 0.0


LOOKING = threading.RLock()
RUNNING: list[Job[Any, Any]] = []  # in the order in which they begin


def look() -> None:
    """Take those that have ended from RUNNING, and let those begin that have waited for them."""
    with LOOKING:
        Looks.next = perf_counter() + BETWEEN
        at_work = [job for job in RUNNING if job.is_at_work()]
        waiting = [job for job in RUNNING if job.work is None]
        for job in waiting[: MOST - len(at_work)]:
            job.start()
        RUNNING[:] = [*at_work, *(job for job in waiting if job.error is None)]


def blocking() -> Job[Any, Any] | None:
    """A job that is to end before something else is looked at that needs a compiler, if there is one."""
    if len(RUNNING) < MOST:
        return None
    return next((job for job in [*RUNNING] if job.is_alive()), None) if len(RUNNING) >= MOST else None


OF_PARENT: list[Job[Any, Any]] = []  # in a forked child: their processes and folders are not its own


def forget_jobs() -> None:
    global LOOKING
    LOOKING = threading.RLock()
    OF_PARENT.extend(RUNNING)
    RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_jobs)


class NotYet(Exception):
    """The unit is being made, or has to wait for others: it is to be asked for again when `job` has ended."""

    def __init__(self, job: Job[Any, Any]):
        super().__init__("a unit is still being compiled")
        self.job = job
        self.goes_on: Callable[[Any], Any] | None = None  # what asks for it again, and goes on with what was found before


def all_made(made: Iterable[Callable[[], Made]]) -> list[Made]:
    """What these calls give. Where some are told NotYet, all are made first, so that their compilers are at work together."""
    found: list[Made] = []
    waiting = None
    for call in made:
        try:
            found.append(call())
        except NotYet as error:
            waiting = error
    if waiting is not None:
        try:
            raise waiting
        finally:
            del waiting
    return found


class Patience(threading.local):
    """Does this thread wait for compilers?"""

    waits = True


PATIENCE = Patience()


@contextmanager
def going_on(is_asked: bool) -> Iterator[None]:
    """Where that is asked, raise NotYet instead of waiting for a compiler, within the block and this thread."""
    before = PATIENCE.waits
    PATIENCE.waits = before and not is_asked
    try:
        yield
    finally:
        PATIENCE.waits = before
