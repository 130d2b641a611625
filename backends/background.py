"""Units that are made while the program goes on: callers that do not wait are told `NotYet`, and ask again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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
    """What goes on beside the program, and ends with it: nobody waits for it."""


class NotYet(Exception):
    """The unit is being made, or has to wait for others: it is to be asked for again when `job` has ended."""

    def __init__(self, job: Job):
        super().__init__("a unit is still being compiled")
        self.job = job


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
