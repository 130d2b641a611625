"""C99 that needs neither Python nor NumPy: exported programs as a library of C, and as a wheel."""

from __future__ import annotations

from pathlib import Path

from npcompile.backends.c99.description import Description


def write_c(of: Description, folder: Path) -> list[Path]:
    """The paths of the files: see `project.Project`. Raises Unsupported, and ValueError for a name that C cannot have."""
    from npcompile.backends.c99.project import Project  # here: importing npcompile stays quick

    return Project(of).write(folder)


def write_wheel(of: Description, folder: Path, version: str) -> Path:
    """The path of the wheel: see `wheel.Wheel`. The same, and NoCompiler, and ValueError for a version that is none."""
    from npcompile.backends.c99.project import Project
    from npcompile.backends.c99.wheel import Wheel

    return Wheel(Project(of, tells=True), version).write(folder)
