"""Units that are made while the program goes on: callers that do not wait are told `NotYet`, and ask again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter, sleep
from typing import Any, Generic, Protocol, TypeVar

from npcompile.backends.errors import CompilerError
from npcompile.tensor_core.garbage import with_collections

Made = TypeVar("Made")

MOST = 2  # compilers at a time, beside the program
BETWEEN = 2e-3  # seconds between two looks at them
LATER = 0.02  # share of the time that somebody has waited, by which an end may be noticed later


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


class Pool:
    """Jobs of which at most `most` are at work, and others wait for these."""

    def __init__(self, most: int, between: float = BETWEEN):
        self.most, self.between = most, between
        self.running: list[Job[Any, Any]] = []  # in the order in which they begin
        self.next = 0.0  # when the processes are looked at again, by `perf_counter`
        self.lock = threading.RLock()

    def look(self) -> None:
        """Drop the jobs that have ended, and let those begin that have waited for them."""
        with self.lock:
            self.next = perf_counter() + self.between
            at_work = [job for job in self.running if job.is_at_work()]
            waiting = [job for job in self.running if job.work is None]
            free = self.most - len(at_work)
            self.running[:] = [*at_work, *(job for job in waiting[:free] if job.can_begin()), *waiting[free:]]

    def forget(self) -> None:
        """In a forked child: processes and folders of the parent are not its own."""
        self.lock = threading.RLock()
        OF_PARENT.extend(self.running)
        self.running.clear()


BESIDE = Pool(MOST)  # what no call waits for
OF_PARENT: list[Job[Any, Any]] = []


class Job(Generic[SomeWork, Made]):
    """What a process makes beside this one, and ends with it. `finish` takes None where the process could not begin.

    No thread waits for it: a process that ever had two takes glibc's locks and atomic operations in each `malloc` from then on,
    in others' C++ libraries too. Whoever asks `is_alive` looks.
    """

    def __init__(self, begin: Callable[[], SomeWork], finish: Callable[[SomeWork | None], Made], pool: Pool = BESIDE):
        self.begin, self.finish, self.pool = begin, finish, pool
        self.work: SomeWork | None = None
        with pool.lock:
            pool.running.append(self)
            try:
                pool.look()
            except BaseException:  # an interrupt: nobody has this job
                self.end()
                raise

    def is_alive(self) -> bool:
        if self in self.pool.running and perf_counter() >= self.pool.next:
            self.pool.look()
        return self in self.pool.running

    def join(self) -> None:
        began = perf_counter()
        with with_collections():
            while self.is_alive():
                sleep(max(self.pool.between, LATER * (perf_counter() - began)))

    def result(self) -> Made:
        """What `finish` makes of the ended process; waits for it. Once."""
        try:
            self.join()
            return self.finish(self.work)
        finally:
            self.end()

    def end(self) -> None:
        """Stop the process, if it goes on. What it has made is gone."""
        with self.pool.lock:
            self.pool.running[:] = [job for job in self.pool.running if job is not self]
        if self.work is not None:
            self.work.__exit__()

    def is_at_work(self) -> bool:
        return self.work is not None and not self.work.has_ended()

    def can_begin(self) -> bool:
        with suppress(CompilerError, OSError):  # `finish` is told so
            self.work = self.begin()
        return self.work is not None


def blocking() -> Job[Any, Any] | None:
    """A job that is to end before something else is looked at that needs a compiler, if there is one."""
    if len(BESIDE.running) < MOST:
        return None
    return next((job for job in [*BESIDE.running] if job.is_alive()), None) if len(BESIDE.running) >= MOST else None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BESIDE.forget)


class NotYet(Exception):
    """The unit is being made, or has to wait for others: it is to be asked for again when `job` has ended."""

    def __init__(self, job: Job[Any, Any]):
        super().__init__("a unit is still being compiled")
        self.job = job
        self.goes_on: Callable[[Any], Any] | None = None  # what asks for it again, and goes on with what was found before


class Patience(threading.local):
    """Does this thread wait for compilers? Does it give up those that fail repeatedly?"""

    waits = True
    gives_up = True


PATIENCE = Patience()


@contextmanager
def never_giving_up() -> Iterator[None]:
    """Within the block and this thread compilers are asked again that fail: for code that is known to be at fault."""
    before, PATIENCE.gives_up = PATIENCE.gives_up, False
    try:
        yield
    finally:
        PATIENCE.gives_up = before


@contextmanager
def going_on(is_asked: bool) -> Iterator[None]:
    """Where that is asked, raise NotYet instead of waiting for a compiler, within the block and this thread."""
    before = PATIENCE.waits
    PATIENCE.waits = before and not is_asked
    try:
        yield
    finally:
        PATIENCE.waits = before
