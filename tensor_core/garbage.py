"""Searches for garbage, which each look at all objects of the process: the many new ones of a compilation would start some."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

STOPPED_BY: set[int] = set()  # threads


@contextmanager
def without_collections() -> Iterator[None]:
    """No search begins within the block, but where `with_collections` lets it. None is begun where there are none anyway."""
    thread = get_ident()
    if thread in STOPPED_BY or not gc.isenabled():
        yield
        return
    STOPPED_BY.add(thread)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        STOPPED_BY.discard(thread)


@contextmanager
def with_collections() -> Iterator[None]:
    """While this thread waits, others may run for long."""
    thread = get_ident()
    if thread not in STOPPED_BY:
        yield
        return
    STOPPED_BY.discard(thread)
    gc.enable()
    try:
        yield
    finally:
        STOPPED_BY.add(thread)
        gc.disable()


def forget_other_threads() -> None:
    """In a forked child: those that would let searches begin again are not there."""
    others = STOPPED_BY - {get_ident()}
    STOPPED_BY.difference_update(others)
    if others and not STOPPED_BY:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_other_threads)
