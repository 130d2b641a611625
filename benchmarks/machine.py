"""The machine and the versions a result belongs to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ("npcompile", "numpy_shim", "tensor_core", "backends", "benchmarks/programs")
DISTRIBUTIONS = ("npcompile", "numpy", "scipy", "numba", "numexpr", "jax", "torch")


def cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def first_line_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "not found"


def sources() -> str:
    """A name for what is measured: other text of npcompile or of the programs has another."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in MEASURED for path in (ROOT / folder).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def describe() -> dict[str, str]:
    """What to print above the table."""
    versions = {name: version_of(name) for name in DISTRIBUTIONS}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "compiler": first_line_of("cc", "--version"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
    }
