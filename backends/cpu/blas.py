"""Addresses of BLAS routines: those of the library that NumPy itself calls, so that products are as accurate as NumPy's."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any

import numpy as np

ROUTINES = ("sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv", "cgemv", "zgemv", "ssyrk", "dsyrk", "sdot", "ddot")
LONG, INT = 2**63 - 1, 2**31 - 1  # the largest size that a build takes
NAMES = (  # how builds of BLAS name their Fortran interface
    ("scipy_{}_64_", LONG),  # OpenBLAS in NumPy's wheels
    ("{}$NEWLAPACK$ILP64", LONG),  # Accelerate
    ("{}_64_", LONG),
    ("{}64_", LONG),
    ("scipy_{}_", INT),
    ("{}_", INT),
)


def find_blas() -> tuple[list[int], int]:
    """The address of each of ROUTINES, and the largest size that they take. SciPy's when NumPy's is not reachable."""
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # a symbol is looked for in what it is linked to as well
    for name, limit in NAMES:
        try:
            return [address(getattr(library, name.format(routine))) for routine in ROUTINES], limit
        except AttributeError:
            continue
    exported = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__
    return [capsule_pointer(exported[routine]) for routine in ROUTINES], INT


@functools.cache
def is_openblas() -> bool:
    """Is it OpenBLAS, which makes small products on the thread that calls it?"""
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)
    return any(hasattr(library, prefix + "openblas_get_config" + suffix) for prefix in ("scipy_", "") for suffix in ("64_", ""))


def address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def capsule_pointer(capsule: object) -> int:
    """What a PyCapsule holds."""
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    return pointer(capsule, name(capsule))
