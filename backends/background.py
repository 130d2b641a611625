"""Units that are made while the program goes on: callers that do not wait are told `NotYet`, and ask again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Made = TypeVar("Made")

MOST = 2  # compilers at a time, beside the program


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


class Job(InBackground):
    """What goes on beside the program, and ends with it: nobody waits for it. At most MOST are at work, others wait for these."""

    def run(self) -> None:
        with SLOTS:
            super().run()


SLOTS = threading.Semaphore(MOST)
RUNNING: set[Job] = set()


def blocking() -> Job | None:
    """A job that is to end before something else is looked at that needs a compiler, if there is one."""
    if len(RUNNING) < MOST:
        return None
    alive = [job for job in [*RUNNING] if job.is_alive()]
    RUNNING.intersection_update(alive)
    return alive[0] if len(alive) >= MOST else None


class NotYet(Exception):
    """The unit is being made, or has to wait for others: it is to be asked for again when `job` has ended."""

    def __init__(self, job: Job):
        super().__init__("a unit is still being compiled")
        self.job = job


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
        raise waiting
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
