"""Single elements of arrays: how they are read and converted, and what integers among them do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npcompile.tensor_core.loop_ir.ops import Load
from npcompile.tensor_core.loop_ir.types import KINDS, TRUTHS, Kind, Memref, Scalar
from npcompile.tracer.loop_ir import numbers
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.builder import Builder

COMPARED = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def read(b: Builder, array: int, index: Sequence[int]) -> int:
    kind = b.type(array)
    assert isinstance(kind, Memref), kind
    result = b.new(Scalar(kind.element))
    b.emit(Load(result, array, list(index), b.at))
    return result


def constant(b: Builder, value: Any) -> int:
    made = b.constant(value.item() if isinstance(value, np.generic) else value)
    match b.type(made):
        case Scalar(Kind.FLOAT):
            return b.let("to_f64", made)
        case Scalar(Kind.INT):
            return b.let("to_i64", made)
    return made


def converted(b: Builder, value: int, dtype: np.dtype) -> int:
    kind, wanted = numbers.kind_of(b, value), KINDS.get(dtype)
    if kind in TRUTHS and wanted in (Kind.F64, Kind.I64):
        return b.let("choose", value, constant(b, dtype.type(1)), constant(b, dtype.type(0)))
    if wanted is Kind.F64 and kind in (*numbers.WORDS, *numbers.DOUBLES):
        return b.let("to_f64", value)
    if wanted is Kind.B1 and kind in (*numbers.WORDS, *numbers.DOUBLES):
        return b.let("not_equal", value, constant(b, 0.0 if kind in numbers.DOUBLES else 0))
    if wanted is Kind.I64 and kind in numbers.WORDS:
        return as_kind(b, value, Kind.I64)
    raise Unsupported(f"a conversion of {kind.value} to {dtype}")


def as_kind(b: Builder, value: int, wanted: Kind) -> int:
    """The number as an array of this kind keeps it."""
    kind = numbers.kind_of(b, value)
    if kind is wanted:
        return value
    if wanted is Kind.F64 and kind in (*numbers.WORDS, *numbers.DOUBLES):
        return numbers.as_f64(b, value)
    if wanted is Kind.I64 and kind is Kind.INT or wanted is Kind.B1 and kind is Kind.BOOL:
        return numbers.converted(b, value, wanted)
    raise Unsupported(f"a {kind.value} among {wanted.value}")


def of_integers(b: Builder, op: str, args: list[int]) -> int:
    """Of elements: what leaves 64 bits would wrap around, and is left to Python."""
    match op, args:
        case "add" | "subtract" | "multiply", [x, y]:
            b.check_not(b.let(f"{op}_overflows", x, y))
            return b.let(op, x, y)
        case "negative", [x]:
            return of_integers(b, "subtract", [constant(b, 0), x])
        case "absolute", [x]:
            return b.let("choose", b.let("less", x, constant(b, 0)), of_integers(b, "negative", [x]), x)
        case "maximum" | "minimum", [x, y]:
            return b.let("choose", b.let("greater" if op == "maximum" else "less", x, y), x, y)
        case _, [x, y] if op in COMPARED:
            return b.let(op, x, y)
    raise Unsupported(f"{op} of integers")
