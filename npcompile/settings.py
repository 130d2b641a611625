"""`npcompile.config`: what is the same for every compiled function of the process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

INTERNAL_ERRORS = ("warn", "raise")
BOOLEANS = ("enabled", "compile_while_traced", "fallback_random", "native_loops")


def enabled_in_environment() -> bool:
    """What NPCOMPILE_DISABLE says. ValueError for another value than 0 and 1."""
    value = os.environ.get("NPCOMPILE_DISABLE", "")
    if value not in ("", "0", "1"):
        raise ValueError(f"NPCOMPILE_DISABLE is {value!r}: set it to 1, so that functions run uncompiled, or to 0")
    return value != "1"


@dataclass(slots=True)
class Config:
    """Settings that hold from the next compilation on, if they say nothing else. What is compiled stays: see `npcompile.reset`.

    >>> config.recompile_limit = 16
    >>> with config.patch(internal_errors="raise"):
    ...     pass
    """

    recompile_limit: int = 8
    """How many programs are compiled for one place of a function: its start, or where it goes on after a graph break. For
    arguments that none of them fits, the function then runs natively from there, with one warning that names the guard that
    failed and the value that changed."""

    internal_errors: str = "warn"
    """What a mistake of npcompile itself does while it captures a function. "warn": the function runs natively from there on,
    with one warning that holds the error, to be reported. "raise": the error is raised, as it is with `fullgraph=True`; so is
    that of a C compiler that refuses what npcompile wrote."""

    fallback_random: bool = True
    """Are random numbers those of NumPy's own streams? False: those that a graph can compute by itself come from a counter-based
    generator, whose key is one number of the user's generator (docs/random.md). Asked at every call that draws, so that what is
    compiled already is not used under the other setting."""

    native_loops: bool = True
    """Do loops over single elements run as native programs? False: an iteration at a time, whose graph is compiled. To find out
    which of the two is at fault."""

    enabled: bool = field(default_factory=enabled_in_environment)
    """Do compiled functions run compiled? False: as they are, from the next call on. It is False from the start where the
    environment has NPCOMPILE_DISABLE=1; `npcompile.disabled` switches off for a `with` block."""

    compile_while_traced: bool = False
    """Do functions stay compiled while a debugger, coverage or a line profiler traces? False: they run as they are then, so that
    breakpoints stop and lines are counted. True is for test suites that measure coverage and are to test what is compiled."""

    def __setattr__(self, name: str, value: Any) -> None:
        names = [f.name for f in fields(self)]
        if name not in names:
            raise AttributeError(f"npcompile.config has no setting {name!r}: choose one of {', '.join(names)}")
        if name == "recompile_limit" and (not isinstance(value, int) or value < 0):
            raise ValueError(f"recompile_limit is a number of programs, not {value!r}")
        if name == "internal_errors" and value not in INTERNAL_ERRORS:
            raise ValueError(f"unknown internal_errors {value!r}: choose one of {', '.join(INTERNAL_ERRORS)}")
        if name in BOOLEANS and not isinstance(value, bool):
            raise ValueError(f"{name} is True or False, not {value!r}")
        object.__setattr__(self, name, value)
        for call in after_change:
            call()

    @contextmanager
    def patch(self, **changes: Any) -> Iterator[None]:
        """These settings inside of a `with` block."""
        before = {name: getattr(self, name) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


after_change: list[Callable[[], None]] = []  # to be called when a setting was set
config = Config()
