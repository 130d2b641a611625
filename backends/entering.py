"""What each call of a compiled function asks first, as one native call: does it run compiled, and what does it enter?"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Entering:
    """Holds the functions, when a backend has them.

    `npc_entered(handle)` gives what is in a slot of the object that the weak reference is to; None where another slot of another
    object does not hold False, or something traces. `begin(slots, gettrace, get_tool, *tools)` says which slots they are.
    """

    begin: Callable[..., Any] | None = None
    npc_entered: Callable[..., Any] | None = None

    def __reduce__(self) -> str:
        return "ENTERING"  # of which code holds a method: it may be pickled


ENTERING = Entering()


def slot_number(example: Any, value: Any) -> int:
    """Which word of an object is the slot that holds the value."""
    words = (ctypes.c_void_p * (type(example).__basicsize__ // ctypes.sizeof(ctypes.c_void_p))).from_address(id(example))
    return [*words].index(id(value))
