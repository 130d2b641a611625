"""What each call of a compiled function asks first, as one native call: does it run compiled, and what does it enter?

Where a call is a graph, or a loop, and nothing else, that native call is the whole call: a fast path.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


@dataclass(slots=True)
class Entering:
    """Holds the functions, when a backend has them.

    `npc_entered(handle)` gives what is in a slot of the object that the weak reference is to; None where another slot of another
    object does not hold False, or something traces. `begin(slots, gettrace, get_tool, *tools)` says which slots they are, and the
    address that `names_of_tools` gives.

    `npc_is_of_kind(words, *state)`: do the values have the types of one of some kinds? `words_of` makes the words.

    `npc_fast_path(handle, *state)` asks the same, and then takes the steps of the paths in a third slot, the words of FastPaths:
    the first that is for the arguments gives the result of the call. It gives the handle where none is.
    """

    begin: Callable[..., Any] | None = None
    npc_entered: Callable[..., Any] | None = None
    npc_is_of_kind: Callable[..., bool] | None = None
    npc_fast_path: Callable[..., Any] | None = None

    def __reduce__(self) -> str:
        return "ENTERING"  # of which code holds a method: it may be pickled


ENTERING = Entering()
MOST_PARAMETERS, MOST_VALUES, MOST_GIVEN = 16, 64, 32  # of what fast paths take, as the runtime has it
METH_FASTCALL = 0x80


def words_of(kinds: Sequence[tuple[type, ...]]) -> bytes:
    """The types of some kinds of arguments. They are not kept: another class may get the place of one that is gone."""
    return np.array([len(kinds), *(id(each) for kind in kinds for each in kind)], np.int64).tobytes()


class Step(IntEnum):
    """What a fast path does next, as the runtime has it: the operands that follow, and "->" where it gives a value.

    An operand is the number of a value, the first after those of the parameters, or the address of an object that stays. Until
    `RUN` what does not hold, or raises, says that the call is not for this path.
    """

    LIKE = 0  # count, facts (`array_guards.as_array`), objects: do these hold?
    IS = auto()  # object, object, answer
    IN = auto()  # object, container, answer
    HOLDS = auto()  # object, answer: is it true?
    SIZE = auto()  # array, is it a stride, axis ->
    TYPE = auto()  # object ->
    ATTRIBUTE = auto()  # object, name ->
    ITEM = auto()  # container, key ->
    PART = auto()  # tuple, place ->
    UNARY = auto()  # address of a function of C, object ->
    BINARY = auto()  # the same of two objects ->
    POWER = auto()  # number, exponent ->
    COMPARE = auto()  # object, object, how ->
    CALL = auto()  # callable, count, objects ->
    TUPLE = auto()  # count, objects ->
    LIST = auto()  # count, objects ->
    SET_ATTRIBUTE = auto()  # 3, object, name, value
    SET_ITEM = auto()  # 3, container, key, value
    RUN = auto()  # address of a function of C, its `self`, or 0 and a callable; count, objects -> what was compiled is called
    GIVE = auto()  # object: the result of the call
    LEAVE = auto()  # the call is entered


class FastPath(NamedTuple):
    """What a variant does, in steps. After an error of `RUN` `on_error(error, *state)` gives the result.

    After a result that is a list `on_exit(result, *state)` does. Where that begins with OTHERS the call is not for this path.
    """

    words: tuple[int, ...]
    held: tuple[Any, ...]  # objects whose addresses are among the words
    on_error: Callable[..., Any] | None = None
    on_exit: Callable[..., Any] | None = None


class FastPaths:
    """Those around one thing that is entered, and only that."""

    def __init__(self, enter: Callable[..., Any], paths: Sequence[FastPath]) -> None:
        self.enter, self.paths = enter, tuple(paths)
        words = [id(enter), id(self), len(paths)]
        for path in paths:
            following = [0 if each is None else id(each) for each in (path.on_error, path.on_exit)]
            words += [len(path.words), *following, *path.words]
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


UNUSED = (3, 4)  # numbers of tools of sys.monitoring that are set aside for no purpose
FURTHEST = 1 << 20  # bytes of an interpreter's state that are searched


def names_of_tools() -> int:
    """The address of the names of the tools that use sys.monitoring: a word each, by number, and 0 where there is no tool.

    Each call of a compiled function would have to call `get_tool` for each of them. CPython tells nobody the address, so it is
    searched for: a number that no tool uses is given a name, which then stands in the interpreter's state. 0 where the search
    is not sure.
    """
    if not hasattr(sys, "monitoring"):
        return 0
    begin = ctypes.PYFUNCTYPE(ctypes.c_size_t)(("PyInterpreterState_Get", ctypes.pythonapi))()
    try:
        places = {int(place) - number for number in UNUSED for place in named_words(begin, number)}
    except OSError:  # a system without /proc
        return 0
    return begin + places.pop() * np.dtype(np.uintp).itemsize if len(places) == 1 else 0


def named_words(begin: int, number: int) -> np.ndarray[Any, Any]:
    """Which words from an address on hold the name of a tool of that number, and nothing once it has none.

    No words where there is such a tool.
    """
    name = f"npcompile looks for {begin}"
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    try:
        monitoring.use_tool_id(number, name)
    except ValueError:
        return np.arange(0)
    during = readable_words(begin)
    monitoring.free_tool_id(number)
    after = readable_words(begin)
    places = np.flatnonzero(during[: len(after)] == id(name))  # fewer bytes may be readable by now
    return places[after[places] == 0]


def readable_words(begin: int) -> np.ndarray[Any, Any]:
    """The words from an address on, up to where memory ends: reading a file does not end the process there."""
    with Path("/proc/self/mem").open("rb", buffering=0) as memory:
        memory.seek(begin)
        read = memory.read(FURTHEST)
    return np.frombuffer(read, np.uintp, len(read) // np.dtype(np.uintp).itemsize)
