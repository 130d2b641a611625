"""Which dtypes graphs can hold, and what kind of number each is.

bfloat16 is the dtype of the package ml_dtypes, whose loops and casts say what operations on it mean. NumPy takes it for plain
memory (kind "V"). It is recognised when an array of it arrives: nothing here imports the package.
"""

from __future__ import annotations

import numpy as np

NUMBERS = frozenset("?bBhHiIlLqQefdgFD")  # characters of NumPy's own, clongdouble apart


def is_bfloat16(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


def is_number(dtype: np.dtype) -> bool:
    """Can graphs and Tensors hold it? Booleans, integers, floats and complex numbers in native byte order."""
    return (dtype.char in NUMBERS and dtype.isnative) or is_bfloat16(dtype)


def is_same_dtype(a: np.dtype, b: np.dtype) -> bool:
    """The same type of number: C's long and long long are equal as dtypes, and those of their scalars are two types."""
    return a == b and a.char == b.char


def kind_of(dtype: np.dtype) -> str:
    """As `dtype.kind`, but "f" for bfloat16."""
    return "f" if dtype.kind == "V" and is_bfloat16(dtype) else dtype.kind


def short(dtype: np.dtype) -> str:
    """Kind and bytes, as `f8`; `bf16` is bfloat16."""
    name = dtype.str[1:]
    return "bf16" if name == "V2" else name


def dtype_of_char(char: str) -> np.dtype:
    return np.dtype("bfloat16" if char == "E" else char)


def canonical(dtype: np.dtype) -> np.dtype:
    """Of C's integer types of one size the same: long, where long long has as many bits."""
    return dtype if is_bfloat16(dtype) else np.dtype(dtype.str)


def name_of(dtype: np.dtype) -> str:
    """What np.dtype() makes the dtype of again."""
    if is_bfloat16(dtype):
        return "bfloat16"
    return dtype.str if canonical(dtype).char == dtype.char else dtype.char


def precision_of(dtype: np.dtype) -> int:
    """Bits of the significand of a floating point or complex dtype, without the hidden one."""
    return 7 if is_bfloat16(dtype) else int(np.finfo(dtype).nmant)
