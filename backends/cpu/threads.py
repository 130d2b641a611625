"""How many threads a parallel loop may use."""

from __future__ import annotations

import os
from pathlib import Path


def thread_limit() -> int:
    """The least of NPCOMPILE_NUM_THREADS, OMP_NUM_THREADS, the processors this process may run on and its CPU quota.

    Asked once. OpenMP's own limit is asked at every loop, so that threadpoolctl and omp_set_num_threads are obeyed.
    """
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


def cpu_quota(groups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Processors that the control groups of this process grant, rounded up; None without a quota.

    Version 2 has `quota period` in cpu.max, version 1 has a file for each
    (https://docs.kernel.org/admin-guide/cgroup-v2.html). Every group above has its say.
    """
    quotas = []
    for line in read(groups).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            quotas += [read(group / "cpu.max").split() for group in upwards(mount, path)]
        elif "cpu" in controllers.split(","):
            quotas += [
                [*read(group / "cpu.cfs_quota_us").split(), *read(group / "cpu.cfs_period_us").split()]
                for name in {"cpu", controllers}
                for group in upwards(mount / name, path)
            ]
    granted = [-(-int(q[0]) // int(q[1])) for q in quotas if len(q) == 2 and all(part.isdecimal() for part in q) and int(q[1])]
    return max(1, min(granted)) if granted else None


def upwards(mount: Path, path: str) -> list[Path]:
    """A control group and those above it. In a container the path may be the host's, and only the mount exists."""
    inner = mount / path.lstrip("/")
    return [inner, *(parent for parent in inner.parents if parent == mount or mount in parent.parents)]


def read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
