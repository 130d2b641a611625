"""What generated units call, in C: one unit of several files, which are compiled once, after the types of prelude.py."""

from __future__ import annotations

from pathlib import Path

from npcompile.backends.cpu.c_library import LIBRARY, SYSTEM

FOLDER = Path(__file__).parent
FILES = (
    "declarations.c",
    "errors.c",
    "processors.c",
    "threads.c",
    "arrays.c",
    "objects.c",
    "array_guards.c",
    "entering.c",
    "powers.c",
    "functions.c",
    "start.c",
)


def runtime_source() -> str:
    """The text; the compiler's messages name the file and the line."""
    return LIBRARY + SYSTEM + "".join(f'#line 1 "{name}"\n{(FOLDER / name).read_text()}' for name in FILES)
