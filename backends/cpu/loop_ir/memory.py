"""Memory that a compiled program made: what is handed over becomes arrays and lists of Python's, the rest is freed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core.loop_ir.types import Kind

Interface: TypeAlias = dict[str, "int | str | tuple[int, ...] | tuple[int, bool]"]
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
HEADER = 64  # bytes of struct npc_block


class Frame(ctypes.Structure):
    """struct npc_frame."""

    _fields_ = [
        ("errors", ctypes.c_int64),
        ("fuel", ctypes.c_int64),
        ("leaves", ctypes.c_int64),
        ("way", ctypes.c_int64),
        ("blocks", ctypes.c_void_p),
        ("lists", ctypes.c_void_p),
    ]


class ListHeader(ctypes.Structure):
    """struct npc_list."""

    _fields_ = [("next", ctypes.c_void_p), ("length", ctypes.c_int64), ("capacity", ctypes.c_int64), ("data", ctypes.c_void_p)]


class Owner:
    """A block of memory, freed with its last array."""

    __slots__ = ("address",)

    def __init__(self, address: int):
        self.address = address

    def __del__(self) -> None:
        libc.free(self.address)


class Part:
    """Memory that numpy.asarray makes an array of, and who owns it."""

    __slots__ = ("owner", "__array_interface__")

    def __init__(self, owner: object, interface: Interface):
        self.owner = owner
        self.__array_interface__ = interface


@dataclass(slots=True)
class Heap:
    """The blocks and lists of one run."""

    frame: Frame
    arguments: Sequence[object]
    owners: dict[int, Owner] = field(default_factory=dict)
    arrays: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)  # one object for one array
    lists: dict[int, list[object]] = field(default_factory=dict)

    def array(
        self, data: int, owner: int, is_view: bool, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
    ) -> object:
        if owner < len(self.arguments):
            argument = self.arguments[owner]
            if not is_view:
                return argument
            return self.part(argument, data, sizes, strides, dtype)
        if owner not in self.owners:
            self.owners[owner] = Owner(owner)
        key = (data, is_view, *sizes, *strides)
        if key not in self.arrays:
            self.arrays[key] = self.part(self.owners[owner], data, sizes, strides, dtype)
        return self.arrays[key]

    def part(self, owner: object, data: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        is_read_only = isinstance(owner, np.ndarray) and not owner.flags.writeable
        interface: Interface = {
            "version": 3,
            "data": (data, is_read_only),
            "shape": sizes,
            "strides": strides,
            "typestr": dtype.str,
        }
        return np.asarray(Part(owner, interface))

    def items(self, address: int, kind: Kind) -> list[object]:
        if address not in self.lists:
            header = ListHeader.from_address(address)
            is_float = kind in (Kind.FLOAT, Kind.F64)
            array = ((ctypes.c_double if is_float else ctypes.c_int64) * header.length).from_address(header.data or address)
            found: list[object] = list(array)
            numpys = {Kind.F64: np.float64, Kind.I64: np.int64}.get(kind)
            self.lists[address] = found if numpys is None else [numpys(x) for x in found]
        return self.lists[address]

    def free_rest(self) -> None:
        block = self.frame.blocks
        while block:
            following = ctypes.c_void_p.from_address(block).value
            if block not in self.owners:
                libc.free(block)
            block = following
        items = self.frame.lists
        while items:
            header = ListHeader.from_address(items)
            following = header.next
            libc.free(header.data)
            libc.free(items)
            items = following
