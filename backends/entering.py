"""What each call of a compiled function asks first, as one native call: does it run compiled, and what does it enter?

Where a call is a graph, or a loop, and nothing else, that native call is the whole call: a fast path.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


@dataclass(slots=True)
class Entering:
    """Holds the functions, when a backend has them.

    `npc_entered(handle)` gives what is in a slot of the object that the weak reference is to; None where another slot of another
    object does not hold False, or something traces. `begin(slots, gettrace, get_tool, *tools)` says which slots they are.

    `npc_fast_path(handle, *state)` asks the same, and then takes the first of the paths in a third slot, the words of FastPaths,
    whose facts hold for the arguments. It gives the handle where none do.
    """

    begin: Callable[..., Any] | None = None
    npc_entered: Callable[..., Any] | None = None
    npc_fast_path: Callable[..., Any] | None = None

    def __reduce__(self) -> str:
        return "ENTERING"  # of which code holds a method: it may be pickled


ENTERING = Entering()
MOST_TAKEN = 16  # parameters, and arguments of what a fast path runs, as the runtime has it
METH_FASTCALL = 0x80


class FastPath(NamedTuple):
    """One around what is entered: `run` is called with `held` and with the parameters at `places`.

    Where there are facts (`likeness.as_array`), only if they hold for the parameters at `asked`. After an error
    `on_error(error, *state)` goes on; after a result that is a list `on_exit(result, *state)`, unless it begins with OTHERS.
    """

    run: Callable[..., Any]
    places: tuple[int, ...]  # 1 is the first
    held: tuple[Any, ...] = ()
    facts: np.ndarray | None = None
    asked: tuple[int, ...] = ()
    on_error: Callable[..., Any] | None = None
    on_exit: Callable[..., Any] | None = None


class FastPaths:
    """Those around one thing that is entered, and only that."""

    def __init__(self, enter: Callable[..., Any], paths: Sequence[FastPath]) -> None:
        self.enter, self.paths = enter, tuple(paths)
        words = [id(enter), id(self), len(paths)]
        for path in paths:
            words += native_call(path.run)
            words += [0 if each is None else id(each) for each in (path.on_error, path.on_exit, path.facts)]
            words += [len(path.asked), len(path.held), len(path.places), *path.asked, *map(id, path.held), *path.places]
        self.words = np.array(words, np.int64)  # as the runtime reads them


def native_call(run: Callable[..., Any]) -> tuple[int, int]:
    """Addresses of a function of C, and of what it takes as `self`."""
    api, given = ctypes.pythonapi, ctypes.py_object
    ask = ctypes.PYFUNCTYPE(ctypes.c_size_t, given)
    return ask(("PyCFunction_GetFunction", api))(run), ask(("PyCFunction_GetSelf", api))(run)


def is_native(run: Callable[..., Any]) -> bool:
    """Is it a function of C that takes what METH_FASTCALL passes?"""
    return (
        isinstance(run, types.BuiltinFunctionType)
        and ctypes.pythonapi.PyCFunction_GetFlags(ctypes.py_object(run)) == METH_FASTCALL
    )


def slot_number(example: Any, value: Any) -> int:
    """Which word of an object is the slot that holds the value."""
    words = (ctypes.c_void_p * (type(example).__basicsize__ // ctypes.sizeof(ctypes.c_void_p))).from_address(id(example))
    return [*words].index(id(value))
