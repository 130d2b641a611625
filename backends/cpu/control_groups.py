"""What the control groups of this process grant it: Linux's limits for containers and services.

https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def cpu_quota(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int | None:
    """Processors granted, rounded up; None without a quota.

    Version 2 has `quota period` in cpu.max, version 1 has a file for each.
    """
    quotas = []
    for group, is_unified in groups_of("cpu", membership, mount):
        files = ["cpu.max"] if is_unified else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        quotas.append([word for file in files for word in read(group / file).split()])
    granted = [-(-int(q[0]) // int(q[1])) for q in quotas if len(q) == 2 and all(part.isdecimal() for part in q) and int(q[1])]
    return max(1, min(granted)) if granted else None


def memory_quota(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int | None:
    """Bytes granted; None without a limit."""
    limits = [
        read(group / ("memory.max" if is_unified else "memory.limit_in_bytes")).strip()
        for group, is_unified in groups_of("memory", membership, mount)
    ]
    return min((int(limit) for limit in limits if limit.isdecimal()), default=None)


def groups_of(controller: str, membership: Path, mount: Path) -> Iterator[tuple[Path, bool]]:
    """The folders of every group that limits this process, itself and those above, each with: is it of version 2?"""
    for line in read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from ((group, True) for group in upwards(mount, path))
        elif controller in controllers.split(","):
            names = {controller, controllers}
            yield from ((group, False) for name in names for group in upwards(mount / name, path))


def upwards(mount: Path, path: str) -> list[Path]:
    """A control group and those above it. In a container the path may be the host's, and only the mount exists."""
    inner = mount / path.lstrip("/")
    return [inner, *(parent for parent in inner.parents if parent == mount or mount in parent.parents)]


def read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
