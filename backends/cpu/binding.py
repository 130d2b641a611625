"""From a shared library to Python functions of C."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from npcompile.backends.cpu.numpy_loops import give_loops
from npcompile.backends.entering import METH_FASTCALL


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library in this process. That of the runtime is never unloaded: arrays point into it."""

    handle: ctypes.PyDLL
    path: Path
    was_cached: bool


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


@dataclass(slots=True, eq=False)
class Unit:
    """What is known of a unit while its function is there, with which its library goes."""

    library: Library
    table: int
    seconds: float = 0.0


DTYPES: dict[tuple[tuple[np.dtype, str], ...], Any] = {}  # arrays of pointers to dtypes, which libraries point to
UNITS: WeakKeyDictionary[Callable[..., Any], Unit] = WeakKeyDictionary()
MAKERS: dict[int, Callable[..., Any]] = {}  # of functions that own something, by the address of a runtime's table


def bind(library: Library, table: int, dtypes: Sequence[np.dtype]) -> Callable[..., tuple[Any, ...]]:
    """The Python function of a unit: CPython calls `npc_run` directly. Its library is unloaded after it is gone."""
    objects = DTYPES.setdefault(tuple((dtype, dtype.char) for dtype in dtypes), (ctypes.py_object * max(1, len(dtypes)))(*dtypes))
    library.handle.npc_bind(ctypes.c_void_p(table), objects)
    give_loops(library.handle)
    drop = address_of(library, "npc_drop") if hasattr(library.handle, "npc_drop") else None
    function = MAKERS[table](address_of(library, "npc_run"), b"npc_run", library.handle._handle, drop, None)
    UNITS[function] = Unit(library, table)
    return function


def beside(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Another Python function of the unit of `function`, which goes no sooner."""
    unit = UNITS[function]
    return MAKERS[unit.table](address_of(unit.library, name), name.encode(), None, None, id(function))


def address_of(library: Library, name: str) -> int:
    address = ctypes.cast(getattr(library.handle, name), ctypes.c_void_p).value
    assert address is not None
    return address


def python_function(library: Library, name: str, owner: Any = None) -> Callable[..., Any]:
    """A function that takes what METH_FASTCALL passes, of a library that is never unloaded; pickled as its owner's attribute."""
    definition = MethodDef(name.encode(), address_of(library, name), METH_FASTCALL, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # for good: CPython reads it at the end of a process too
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = make(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(definition), owner, None)
    return made
