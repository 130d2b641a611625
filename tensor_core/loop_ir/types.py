"""Types of loop IR values. A type is a version key: two blocks for one instruction differ in the types of their arguments.

Python's numbers and NumPy's are kinds of their own: `float` overflows to inf silently, `f64` sets a flag that NumPy reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np


class Kind(Enum):
    """What a scalar is to the user. The value is the name in printed programs."""

    __hash__ = object.__hash__  # Enum's is a function of Python's, and passes look types up all the time

    BOOL = "bool"  # Python's
    INT = "int"  # Python's, held in a signed 64-bit word: every op that may leave it stands after a Check
    FLOAT = "float"
    COMPLEX = "complex"
    B1 = "b1"  # NumPy's
    I64 = "i64"
    F64 = "f64"
    C128 = "c128"


DTYPES = {
    Kind.B1: np.dtype(np.bool_),
    Kind.I64: np.dtype(np.int64),
    Kind.F64: np.dtype(np.float64),
    Kind.C128: np.dtype(np.complex128),
}
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
PYTHON = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, complex: Kind.COMPLEX}
NUMPYS = {
    Kind.BOOL: Kind.B1,
    Kind.INT: Kind.I64,
    Kind.FLOAT: Kind.F64,
    Kind.COMPLEX: Kind.C128,
}  # NumPy's kind with the same values


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, or a vector of `lanes` numbers that are computed with one instruction."""

    kind: Kind
    lanes: int = 1

    @property
    def is_numpys(self) -> bool:
        return self.kind in DTYPES


@dataclass(frozen=True, slots=True)
class Memref:
    """An array: its data, sizes, strides and identity. The flags are facts, and False where nothing is known."""

    element: Kind
    rank: int
    contiguous: bool = False  # C order, no gaps
    writeable: bool = False
    owned: bool = False  # made by this program: nothing else refers to its memory yet


@dataclass(frozen=True, slots=True)
class List:
    """A Python list of numbers of one kind, which can grow."""

    element: Kind


@dataclass(frozen=True, slots=True)
class Object:
    """A Python object that the program only hands on."""


Type = Scalar | Memref | List | Object

BOOL, INT, FLOAT, COMPLEX = (Scalar(kind) for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.COMPLEX))
B1, I64, F64, C128 = (Scalar(kind) for kind in (Kind.B1, Kind.I64, Kind.F64, Kind.C128))
OBJECT = Object()


def type_of(value: object) -> Type | None:
    """The type of an argument. None for what has none: the front end declines it.

    >>> type_of(1.0), type_of([1.0])
    (Scalar(kind=<Kind.FLOAT: 'float'>, lanes=1), None)
    """
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        kind = KINDS.get(value.dtype)
        if kind is None or not value.dtype.isnative or not value.flags.aligned or value.ndim == 0:
            return None
        return Memref(kind, value.ndim, value.flags.c_contiguous, value.flags.writeable)
    if isinstance(value, np.generic):
        kind = KINDS.get(value.dtype)
        return Scalar(kind) if kind is not None else None
    kind = PYTHON.get(type(value))
    if kind is Kind.INT and not -(2**63) <= value < 2**63:  # type: ignore[operator]
        return None
    return Scalar(kind) if kind is not None else None
