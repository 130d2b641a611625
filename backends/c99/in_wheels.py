"""Calls a library of C that an exported function was made of. This file is part of each wheel, and needs NumPy alone."""

from __future__ import annotations

import builtins
import ctypes
import os
import weakref
from typing import Any

import numpy as np

NO_MEMORY, UNFIT = 1, 2
PYTHON: dict[str, Any] = {"bool": bool, "int": int, "float": float}
CTYPES: dict[str, Any] = {"bool": ctypes.c_bool, "int": ctypes.c_int64, "float": ctypes.c_double}
CTYPES |= {"?": ctypes.c_bool, "float64": ctypes.c_double, "float32": ctypes.c_float}  # ?: NumPy's bool
CTYPES |= {
    name: getattr(ctypes, f"c_{name}") for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
LEAST, MOST = -(2**63), 2**63 - 1
free = ctypes.CDLL(None).free
free.argtypes, free.restype = [ctypes.c_void_p], None


class ExportError(Exception):
    """The function has no answer for its arguments where Python has one: the message says why, with its file and line."""


def struct(rank: int) -> Any:
    """An array, as C has it."""
    fields = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
    return type(f"Array{rank}", (ctypes.Structure,), {"_fields_": [*fields, ("memory", ctypes.c_void_p)]})


STRUCTS = [struct(rank) for rank in range(9)]


def quickest(folder: str, levels: list[str]) -> str:
    """The path of the library for this processor: `levels` are those that there are, in order, or one for all."""
    if len(levels) > 1:
        ask = ctypes.CDLL(os.path.join(folder, "_level.so")).npc_level
        levels = [name for name in levels if int(name[-1]) <= ask()] or levels[:1]
    return os.path.join(folder, f"_{levels[-1]}.so")


class Function:
    """The function of a library.

    parameters: (name, dtype or Python's type, rank or None, is it in C order, is it written to, its shape or None).
    results: (dtype, rank or None). forms: by the number of the end, what is made of the results: ("number", k, type),
    ("array", k), ("fixed", value) or ("tuple", forms). A type "float|float64" is told by the call.
    """

    def __init__(
        self,
        path: str,
        name: str,
        parameters: list[Any],
        results: list[Any],
        forms: list[Any],
        errors: dict[int, tuple[str, str, str]],
    ):
        self.name, self.results, self.forms, self.errors = name, results, forms, errors
        self.parameters = [
            (each, PYTHON[dtype] if rank is None and dtype in PYTHON else np.dtype(dtype), rank, *rest)
            for each, dtype, rank, *rest in parameters
        ]
        self.dtypes = [np.dtype(dtype) for dtype, _ in results]
        self.library = ctypes.CDLL(path)
        self.call = getattr(self.library, name + "_told")

    def __call__(self, *args: Any) -> Any:
        given = [self.taken(parameter, x) for parameter, x in zip(self.parameters, args)]
        found = [CTYPES[dtype]() if rank is None else STRUCTS[rank]() for dtype, rank in self.results]
        told = (ctypes.c_int64 * (1 + 3 * len(found)))()
        references = [ctypes.byref(x) if isinstance(x, ctypes.Structure) else x for x in given]
        status = self.call(*references, *map(ctypes.byref, found), told)
        if status:
            raise self.error(status)
        way, *rest = told
        tags, owners, are_views = rest[0::3], rest[1::3], rest[2::3]
        arrays = self.arrays(args, found, owners, are_views)
        return self.made(self.forms[way], found, tags, arrays)

    def taken(self, parameter: tuple[Any, ...], x: Any) -> Any:
        """An argument as C takes it. Raises TypeError or ValueError."""
        name, dtype, rank, is_dense, is_written, shape = parameter
        where = f"{self.name}(): {name!r}"
        if rank is None:
            kind: Any = dtype.type if isinstance(dtype, np.dtype) else dtype
            if type(x) is not kind or kind is int and not LEAST <= x <= MOST:
                raise TypeError(f"{where} is {said_of(x)}, where a {kind.__module__}.{kind.__name__} is needed")
            return CTYPES[dtype.name if isinstance(dtype, np.dtype) else dtype.__name__](x)
        if type(x) is not np.ndarray or x.dtype != dtype or x.ndim != rank or not x.dtype.isnative:
            raise TypeError(f"{where} is {said_of(x)}, where an array of {dtype} with {rank} axes is needed")
        if is_dense and not x.flags.c_contiguous:
            raise ValueError(f"{where} is not in C order: give np.ascontiguousarray({name})")
        if not x.flags.aligned:
            raise ValueError(f"{where} is not aligned: give {name}.copy()")
        if is_written and not x.flags.writeable:
            raise ValueError(f"{where} is written to, and the array is read-only")
        if shape is not None and x.shape != shape:
            raise ValueError(f"{where} has the shape {x.shape}, where {shape} is needed")
        sizes = ctypes.c_int64 * rank
        return STRUCTS[rank](address(x), sizes(*x.shape), sizes(*x.strides), None)

    def error(self, status: int) -> Exception:
        if status == NO_MEMORY:
            return MemoryError(f"{self.name}(): not enough memory for an array")
        if status == UNFIT:
            return ValueError(f"{self.name}(): an array that is written to shares memory with another, or with itself")
        name, text, at = self.errors[status]
        if not name:
            return ExportError(f"{self.name}: {text} ({at})")
        kind = getattr(builtins, name)
        return kind(f"{text} ({at})") if name == "IndexError" else kind(text) if text else kind()

    def arrays(self, args: tuple[Any, ...], found: list[Any], owners: list[int], are_views: list[int]) -> dict[int, Any]:
        """By the number of the result: arguments, new arrays, and views of either. New arrays come first."""
        made: dict[int, Any] = {}
        of: dict[int, Any] = {k: x for k, x in enumerate(args) if isinstance(x, np.ndarray)}
        for k in sorted((k for k, (_, rank) in enumerate(self.results) if rank is not None), key=lambda k: bool(are_views[k])):
            x, owner, dtype = found[k], owners[k], self.dtypes[k]
            if owner not in of:
                of[owner] = Memory(x.memory) if are_views[k] else copied(x, dtype)
            base, start = of[owner], x.data
            if isinstance(base, np.ndarray) and owner >= len(args):
                start += address(base) - owner
            made[k] = np.asarray(View(base, start, x, dtype)) if are_views[k] else base
        return made

    def made(self, form: tuple[Any, ...], found: list[Any], tags: list[int], arrays: dict[int, Any]) -> Any:
        match form:
            case ("tuple", forms):
                return tuple(self.made(each, found, tags, arrays) for each in forms)
            case ("array", k):
                return arrays[k]
            case ("number", k, name):
                first, _, second = name.partition("|")
                dtype = second if second and not tags[k] else first
                value = found[k].value
                return value if dtype in PYTHON else np.dtype(dtype).type(value)
            case ("fixed", value):
                return value
        raise AssertionError(form)


class Memory:
    """Memory that C has made, which is freed when nobody has it."""

    def __init__(self, start: int):
        weakref.finalize(self, free, start)


class View:
    """What NumPy makes an array of: elements from `start` on in memory that `base` keeps."""

    def __init__(self, base: Any, start: int, x: Any, dtype: np.dtype):
        self.base = base
        is_read_only = isinstance(base, np.ndarray) and not base.flags.writeable
        self.__array_interface__ = {
            "version": 3,
            "data": (start, is_read_only),
            "typestr": dtype.str,
            "shape": tuple(x.shape),
            "strides": tuple(x.strides),
        }


def copied(x: Any, dtype: np.dtype) -> np.ndarray:
    """A new array, in the place of one that C has made."""
    made = np.empty(tuple(x.shape), dtype)
    ctypes.memmove(address(made), x.data, made.nbytes)
    free(x.memory)
    return made


def address(x: np.ndarray) -> int:
    """Of the first element. NumPy's own way takes several times as long, and is for what the quick one has no buffer of."""
    if x.size and x.flags.writeable and x.flags.c_contiguous:
        return ctypes.addressof(ctypes.c_char.from_buffer(x))
    return x.ctypes.data


def said_of(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"an array of {x.dtype} with {x.ndim} axes" if type(x) is np.ndarray else f"a {type(x).__name__}"
    kind = type(x)
    return "an int of more than 64 bits" if kind is int and not LEAST <= x <= MOST else f"a {kind.__module__}.{kind.__name__}"
