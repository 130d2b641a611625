"""Numbers that are taken out of Tensors while a derivative is computed: it does not pass through them."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass

from npcompile.tensor_core.graph import Location


@dataclass(frozen=True, slots=True)
class Taken:
    place: Location
    is_meant: bool  # by `x.item()` or `x.tolist()`, and not `float(x)`, which `math.sin(x)` says too


# What the derivative that is being computed has lost so far; None where there is none.
TAKEN: ContextVar[list[Taken] | None] = ContextVar("TAKEN", default=None)


def note_taken(requires_grad: bool, is_meant: bool) -> None:
    """The caller of the method that calls this takes a number out of a Tensor."""
    found = TAKEN.get()
    if found is not None and requires_grad:
        code = (frame := sys._getframe(2)).f_code
        found.append(Taken(Location(code.co_filename, frame.f_lineno, code.co_qualname), is_meant))
