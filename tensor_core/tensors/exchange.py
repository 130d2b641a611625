"""DLPack of bfloat16, which NumPy exchanges with nobody: its memory goes out and comes in as uint16, under its own name."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

UINT, BFLOAT = 1, 4  # DLDataTypeCode
# The code of the dtype in the structure that a capsule of this name holds, in bytes from its start (dlpack.h).
PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}

POINTER = ctypes.pythonapi.PyCapsule_GetPointer
POINTER.restype, POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
NAME = ctypes.pythonapi.PyCapsule_GetName
NAME.restype, NAME.argtypes = ctypes.c_char_p, [ctypes.py_object]


def code_of(capsule: Any) -> ctypes.c_uint8:
    """The kind of number in a DLPack capsule that nobody has taken: its `value` may be read and set."""
    name = NAME(capsule)
    return ctypes.c_uint8.from_address(POINTER(capsule, name) + PLACES[name])


def to_dlpack(bits: Any, **keywords: Any) -> Any:
    """A capsule of bfloat16 numbers. `bits` are the same numbers as uint16."""
    capsule = bits.__dlpack__(**keywords)
    code_of(capsule).value = BFLOAT
    return capsule


class Incoming:
    """What exports DLPack, as others may read it: bfloat16 numbers are uint16 to them."""

    def __init__(self, exporter: Any):
        self.exporter, self.is_bfloat16 = exporter, False

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.exporter.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, **keywords: Any) -> Any:
        capsule = self.exporter.__dlpack__(**keywords)
        code = code_of(capsule)
        if code.value == BFLOAT:
            self.is_bfloat16, code.value = True, UINT
        return capsule


def from_dlpack(x: Any, take: Callable[[Any], Any]) -> Any:
    """The array that `take`, a from_dlpack of NumPy or a device's library, gives for what exports DLPack.

    BufferError: it holds bfloat16, which NumPy does not know before the package ml_dtypes is imported.
    """
    incoming = Incoming(x)
    taken = take(incoming)
    if not incoming.is_bfloat16:
        return taken
    try:
        return taken.view(np.dtype("bfloat16"))
    except TypeError as error:
        raise BufferError("bfloat16 is a dtype of the package ml_dtypes: import it before arrays of it are taken.") from error
