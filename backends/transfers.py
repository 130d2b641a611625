"""Copies between the host and a device that compiled programs make: `explain` counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from npcompile.tensor_core.context import set_within


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy."""

    to_device: bool
    nbytes: int
    location: Any  # the user's line, a Location; None where a program does not know it

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location is not None else ""
        return f"{self.nbytes} bytes to the {'device' if self.to_device else 'host'}{where}"


_recorded: ContextVar[list[Transfer] | None] = ContextVar("npcompile_transfers", default=None)


def note(to_device: bool, nbytes: int, location: Any) -> None:
    transfers = _recorded.get()
    if transfers is not None:
        transfers.append(Transfer(to_device, nbytes, location))


@contextmanager
def recorded() -> Iterator[list[Transfer]]:
    """The transfers made in the block, in order."""
    made: list[Transfer] = []
    with set_within(_recorded, made):
        yield made
