"""A time limit around code that may not end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class TooLong(BaseException):
    """The code took longer than it may; no program's own handler keeps this."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in the main thread after so many seconds of processor time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def raise_too_long(number: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, raise_too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
