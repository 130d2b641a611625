"""The interpreters whose bytecode is known: on others functions run as they are."""

from __future__ import annotations

import sys
from typing import Final

KNOWN: Final = ((3, 11), (3, 12), (3, 13))  # versions of CPython


def why_unknown() -> str | None:
    """Why nothing is captured in this process, as text for users. None on a CPython whose bytecode is known.

    A free-threaded build (`t` in its ABI's flags) has the same instructions, and other objects and locks.
    """
    version = sys.version_info[:2]
    name = "CPython" if sys.implementation.name == "cpython" else sys.implementation.name
    is_free_threaded = "t" in getattr(sys, "abiflags", "")
    if name == "CPython" and version in KNOWN and not is_free_threaded:
        return None
    build = "a free-threaded build of " if is_free_threaded else ""
    return (
        f"npcompile compiles with CPython {', '.join(f'{major}.{minor}' for major, minor in KNOWN)}, and this is "
        f"{build}{name} {version[0]}.{version[1]}: functions run uncompiled, at NumPy's speed"
    )


WHY_UNKNOWN: Final = why_unknown()
