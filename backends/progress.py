"""A line on a terminal while something takes longer than a second: that a program waits for a compiler, and for how long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TextIO

AFTER = 1.0  # seconds before anything is shown
EVERY = 0.5  # seconds between two lines


@dataclass(slots=True)
class Setting:
    """`npcompile.config.progress`."""

    is_wanted: bool | None = None


SETTING = Setting()


def is_wanted() -> bool:
    """The setting; where that is None, whether standard error is a terminal."""
    if SETTING.is_wanted is not None:
        return SETTING.is_wanted
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


class Waiting:
    """Shows `what` while somebody waits in the `with` block: by rich where that is installed, else a line that is written again.

    The one who waits calls `tick` at least every EVERY seconds, so that no thread is needed; it says for how long it may wait.
    """

    def __init__(self, what: Callable[[], str]):
        self.what, self.began, self.shown = what, time.monotonic(), False
        self.status: Any = None

    def __enter__(self) -> Self:
        return self

    def tick(self) -> float:
        passed = time.monotonic() - self.began
        if not is_wanted():
            return 60.0
        if passed < AFTER:
            return AFTER - passed
        self.show(f"npcompile: {self.what()}, {passed:.1f} s")
        return EVERY

    def show(self, text: str) -> None:
        if not self.shown:
            self.shown, self.status = True, status_of_rich(text)
        if self.status is not None:
            self.status.update(text)
        else:
            write(sys.stderr, f"\r{text}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.status is not None:
            self.status.stop()
        elif self.shown:
            write(sys.stderr, "\r\x1b[K")


def status_of_rich(text: str) -> Any:
    """rich's line with a spinner, begun. None where rich is not installed."""
    try:
        from rich.console import Console  # here: where it is, importing it takes 50 ms
    except ImportError:
        return None
    status = Console(stderr=True).status(text)
    status.start()
    return status


def write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()
