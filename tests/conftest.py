"""Mistakes of npcompile itself fail tests: users get a warning and a native run."""

import gc
from collections.abc import Iterator

import pytest

import npcompile as npc

npc.config.internal_errors = "raise"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tens of thousands of tests are objects that stay: the garbage collector need not look at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
