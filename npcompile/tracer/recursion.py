"""Functions that call themselves through breaks: past some depth they run as they are, to be as deep as Python lets them."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

from npcompile.backends.device_arrays import array_types

# Between two frames of the user's there are up to five of ours, and some of them take C's stack, of which there is no end
# to be seen. Divide and conquer does not come to this depth. From there on two frames are left, of generated
# Python that calls Python, which takes no C stack.
COMPILED_DEPTH = 32


class Nesting(threading.local):
    depth = 0  # parts of compiled functions that run natively inside one another


nesting = Nesting()
_lock = threading.Lock()
_limits: list[tuple[int, int]] = []  # Python's limit before and since, for each thread that is that deep


def is_deep() -> bool:
    """Are so many compiled functions inside one another that the next runs as it is? While a device is in use, none does."""
    return nesting.depth >= COMPILED_DEPTH and not array_types()


@contextlib.contextmanager
def room_for_entries() -> Iterator[None]:
    """Let the user's functions be about as deep as without entries, which Python's limit counts too: two for each call."""
    with _lock:
        before = sys.getrecursionlimit()
        _limits.append(_limits[0] if _limits else (before, 3 * before + 8 * COMPILED_DEPTH))
        sys.setrecursionlimit(max(before, _limits[0][1]))
    try:
        yield
    finally:
        with _lock:
            before, since = _limits.pop()
            if not _limits and sys.getrecursionlimit() == since:  # else the user has set another meanwhile
                # It refuses a limit below the depth that this thread came to under another thread's.
                with contextlib.suppress(RecursionError):
                    sys.setrecursionlimit(before)
