"""Make the k-th call of a function of the operating system fail, for every k."""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import io
import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

# What can be made to fail: the names under which it is called, and what it raises then.
TARGETS: dict[str, tuple[list[tuple[Any, str]], OSError]] = {
    "open": ([(builtins, "open"), (io, "open")], OSError(errno.EMFILE, "Too many open files")),
    "os.open": ([(os, "open")], OSError(errno.ENOSPC, "No space left on device")),
    "replace": ([(os, "replace")], OSError(errno.EDQUOT, "Disk quota exceeded")),
    "mkdir": ([(os, "mkdir")], OSError(errno.EROFS, "Read-only file system")),
    "stat": ([(os, "stat"), (os, "lstat")], OSError(errno.EIO, "Input/output error")),
    "unlink": ([(os, "unlink")], PermissionError(errno.EPERM, "Operation not permitted")),
    "Popen": ([(subprocess, "Popen")], OSError(errno.EAGAIN, "Resource temporarily unavailable")),
    "dlopen": ([(ctypes, "PyDLL")], OSError("failed to map segment from shared object")),
}


class Fault:
    """Fails call number `at` (from 0); `calls` counts."""

    def __init__(self, original: Callable[..., Any], at: int, error: OSError):
        self.original, self.at, self.error = original, at, error
        self.calls = 0
        self.lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            number = self.calls
            self.calls += 1
        if number == self.at:
            raise self.error
        return self.original(*args, **kwargs)


@contextlib.contextmanager
def failing(target: str, at: int) -> Iterator[Fault]:
    """Inside, call number `at` of the target raises what a broken machine would."""
    places, error = TARGETS[target]
    fault = Fault(getattr(*places[0]), at, error)
    with contextlib.ExitStack() as stack:
        for module, name in places:
            stack.enter_context(mock.patch.object(module, name, fault))
        yield fault


def each_fault(target: str, attempt: Callable[[], Any]) -> Iterator[tuple[int, Any]]:
    """Run `attempt` with call 0, 1, 2, ... failing, until there is no such call. Gives each number and outcome."""
    for at in itertools.count():
        with failing(target, at) as fault:
            outcome = attempt()
        if fault.calls <= at:
            return
        yield at, outcome
