"""Memory of the device: where the buffers of a program lie, and what happens when there is none left."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

ALIGNMENT = 512  # what CuPy's pool gives: copies and wide reads are whole lines of the cache

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer of `size` bytes that is needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def plan_memory(lifetimes: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Where each buffer lies in one arena, and the bytes of that: buffers needed at one time share no byte.

    Offsets are multiples of `alignment`; a buffer of no size still has an offset. Large buffers are placed first, each in the
    least gap that it fits in: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference" (2020).

    Examples
    --------
    >>> plan_memory([Lifetime(1000, 0, 1), Lifetime(1000, 1, 2), Lifetime(1000, 2, 3)])
    ([0, 1024, 0], 2048)
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    end = 0
    for k in sorted(range(len(lifetimes)), key=lambda k: (-lifetimes[k].size, lifetimes[k].first, k)):
        size = rounded(lifetimes[k].size, alignment)
        taken = sorted((offsets[j], rounded(lifetimes[j].size, alignment)) for j in placed if lifetimes[j].meets(lifetimes[k]))
        best, at = None, 0  # the least gap between buffers in the way, and the place after them all
        for offset, room in taken:
            gap = offset - at
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, at)
            at = max(at, offset + room)
        offsets[k] = at if best is None else best[1]
        placed.append(k)
        end = max(end, offsets[k] + size)
    return offsets, end


def rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


# --- running out of it


class Cache(Protocol):
    """What holds memory of a device that it can do without."""

    def release(self) -> None: ...


caches: weakref.WeakSet[Any] = weakref.WeakSet()  # of Cache: asked to let go when an allocation fails


def release_caches() -> None:
    for cache in list(caches):
        cache.release()


def retried(call: Callable[[], T], release: Callable[[], None], describe: Callable[[], str]) -> T:
    """`call()`, and once more after caches and pools were freed if memory was short.

    Raises MemoryError with the text of `describe` when there is not enough even then.
    """
    with suppress(MemoryError):  # what the traceback keeps alive is let go with it
        return call()
    release_caches()
    gc.collect()
    release()
    try:
        return call()
    except MemoryError as error:
        message = f"{error} {describe()}".strip()
    raise MemoryError(message)
