"""Searches for garbage, which each look at all objects of the process: the many new ones of a compilation would start some."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Pause(threading.local):
    """Has this thread stopped the searches?"""

    is_on = False


PAUSE = Pause()


@contextmanager
def without_collections() -> Iterator[None]:
    """No search begins within the block, but where `with_collections` lets it. None is begun where there are none anyway."""
    if PAUSE.is_on or not gc.isenabled():
        yield
        return
    PAUSE.is_on = True
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        PAUSE.is_on = False


@contextmanager
def with_collections() -> Iterator[None]:
    """While this thread waits, others may run for long."""
    if not PAUSE.is_on:
        yield
        return
    PAUSE.is_on = False
    gc.enable()
    try:
        yield
    finally:
        gc.disable()
        PAUSE.is_on = True
