"""Types of loop IR values. A type is a version key: two blocks for one instruction differ in the types of their arguments.

Python's numbers and NumPy's are kinds of their own: `float` overflows to inf silently, `f64` sets a flag that NumPy reports.
Types are tuples, whose `==` and hash are C's: passes compare and look up types all the time. No two classes' can be equal.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import NamedTuple

import numpy as np


class Kind(Enum):
    """What a scalar is to the user. The value is the name in printed programs."""

    __hash__ = object.__hash__  # Enum's is a function of Python's, and passes look types up all the time

    BOOL = "bool"  # Python's
    INT = "int"  # Python's, held in a signed 64-bit word: every op that may leave it stands after a Check
    FLOAT = "float"
    COMPLEX = "complex"
    B1 = "b1"  # NumPy's
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F32 = "f32"
    F64 = "f64"
    C128 = "c128"


DTYPES = {
    Kind.B1: np.dtype(np.bool_),
    Kind.I8: np.dtype(np.int8),
    Kind.I16: np.dtype(np.int16),
    Kind.I32: np.dtype(np.int32),
    Kind.I64: np.dtype(np.int64),
    Kind.U8: np.dtype(np.uint8),
    Kind.U16: np.dtype(np.uint16),
    Kind.U32: np.dtype(np.uint32),
    Kind.U64: np.dtype(np.uint64),
    Kind.F32: np.dtype(np.float32),
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


def dtype_of(kind: Kind) -> np.dtype:
    """Of NumPy's kind with the same values."""
    return DTYPES[NUMPYS.get(kind, kind)]


def zero_of(kind: Kind) -> bool | int | float | complex:
    return dtype_of(kind).type(0).item()  # type: ignore[no-any-return]


TRUTHS, INTEGERS, FLOATING = (frozenset(kind for kind in Kind if dtype_of(kind).kind in letters) for letters in ("b", "iu", "f"))
LIMITS = {kind: (int((word := np.iinfo(dtype_of(kind))).min), int(word.max)) for kind in INTEGERS}  # the least and the greatest
MOST_ELEMENTS = 2**60  # along an axis: NumPy makes no larger array of 8 bytes an element, also where another axis is empty
OPERANDS = {**DTYPES, Kind.BOOL: DTYPES[Kind.B1], Kind.INT: 0, Kind.FLOAT: 0.0, Kind.COMPLEX: 0j}  # for np.result_type


@cache
def promoted(*kinds: Kind) -> Kind | None:
    """The kind of arithmetic on numbers of these kinds: NumPy's where one is (NEP 50), else Python's. None: it has none here.

    >>> promoted(Kind.F32, Kind.FLOAT), promoted(Kind.F32, Kind.I64)
    (<Kind.F32: 'f32'>, <Kind.F64: 'f64'>)
    """
    if not any(kind in DTYPES for kind in kinds):
        return max(kinds, key=list(PYTHON.values()).index)
    return KINDS.get(np.result_type(*(OPERANDS[kind] for kind in kinds)))  # type: ignore[arg-type]


class Scalar(NamedTuple):
    """A number, or a vector of `lanes` numbers that are computed with one instruction."""

    kind: Kind
    lanes: int = 1

    @property
    def is_numpys(self) -> bool:
        return self.kind in DTYPES


class Memref(NamedTuple):
    """An array: its data, sizes, strides and identity. The flags are facts, and False where nothing is known."""

    element: Kind
    rank: int
    contiguous: bool = False  # C order, no gaps
    writeable: bool = False
    owned: bool = False  # made by this program: nothing else refers to its memory yet


class List(NamedTuple):
    """A Python list of numbers of one kind, which can grow."""

    element: Kind


class Object(NamedTuple):
    """A Python object that the program only hands on, and asks what it is: the text of None or of a string, else its class.
    An int is one that is not in the range of a word."""

    name: str


Type = Scalar | Memref | List | Object

BOOL, INT, FLOAT, COMPLEX = (Scalar(kind) for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.COMPLEX))
B1, I64, F32, F64, C128 = (Scalar(kind) for kind in (Kind.B1, Kind.I64, Kind.F32, Kind.F64, Kind.C128))


def kind_in_words(kind: Type) -> str:
    """What users call a value of this type.

    >>> kind_in_words(Memref(Kind.F64, 1)), kind_in_words(FLOAT)
    ('an array of float64 with 1 axis', 'a Python float')
    """
    match kind:
        case Scalar(element):
            return f"a NumPy {DTYPES[element]}" if element in DTYPES else f"a Python {element.value}"
        case Memref(element, rank):
            return f"an array of {dtype_of(element)} with {rank} {'axis' if rank == 1 else 'axes'}"
        case List(element):
            return f"a list of {element.value if element in NUMPYS else DTYPES[element]}"
        case Object("int"):
            return "an integer of more than 64 bits"
        case Object(name):
            return f"a {name}" if name in ("dict", "set", "frozenset") else name


def kind_of_dtype(dtype: np.dtype) -> Kind | None:
    """None also for a dtype that equals a kind's and whose numbers are of another type, as np.longlong's are."""
    kind = KINDS.get(dtype)
    return kind if kind is not None and DTYPES[kind].type is dtype.type else None


def type_of(value: object) -> Type | None:
    """The type of an argument. None for what has none: the front end declines it.

    >>> type_of(1.0), type_of([1.0])
    (Scalar(kind=<Kind.FLOAT: 'float'>, lanes=1), None)
    """
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        kind = kind_of_dtype(value.dtype)
        if kind is None or not value.dtype.isnative or not value.flags.aligned or value.ndim == 0:
            return None
        if value.itemsize < 8 and max(value.shape) > MOST_ELEMENTS:
            return None
        return Memref(kind, value.ndim, value.flags.c_contiguous, value.flags.writeable)
    if isinstance(value, np.generic):
        kind = kind_of_dtype(value.dtype)
        return Scalar(kind) if kind is not None else None
    if value is None or type(value) is str:
        return Object(repr(value))
    if type(value) in (dict, set, frozenset):
        return Object(type(value).__name__)
    kind = PYTHON.get(type(value))
    if kind is Kind.INT and not -(2**63) <= value < 2**63:  # type: ignore[operator]
        return Object("int")
    return Scalar(kind) if kind is not None else None
