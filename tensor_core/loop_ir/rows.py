"""The scalar ops: one row is the whole op. A backend adds its text, keyed by the name.

Names are those of NumPy's ufuncs and of the op table where these have the op. A meaning takes and gives Python's or NumPy's own
numbers, so the meaning of a row, NumPy's floating-point errors included, is Python's and NumPy's by construction.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from npcompile.tensor_core import ops  # noqa: F401  (the rows)
from npcompile.tensor_core.loop_ir.types import (
    BOOL,
    DTYPES,
    FLOAT,
    FLOATING,
    INT,
    INTEGERS,
    KINDS,
    LIMITS,
    PYTHON,
    TRUTHS,
    Kind,
    Scalar,
    Type,
    promoted,
)
from npcompile.tensor_core.op import OPS, Op

Number: TypeAlias = bool | int | float | complex | np.generic


class Rule(Enum):
    """How the type of a result follows from those of the operands."""

    PROMOTED = "promoted"  # NumPy's kind where one operand is NumPy's (NEP 50), else Python's
    BITWISE = "bitwise"  # the same, of truth values too
    COMPARED = "compared"
    MACHINE = "machine"  # integers and truth values of the program's own: Python's int or bool
    FLOATING = "floating"
    CONVERTED = "converted"  # the row says it
    CHOSEN = "chosen"  # that of the last two, which are alike


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One scalar op."""

    name: str
    arity: int
    rule: Rule
    sets_flags: bool = False  # may it set a floating-point flag that NumPy reports, where its result is NumPy's?
    result: Scalar | None = None  # for CONVERTED, and MACHINE


ROWS: dict[str, Row] = {}
REPORTED = (Kind.F32, Kind.F64, Kind.C128)  # whose floating-point errors NumPy reports
MEANINGS: dict[str, Callable[..., Number]] = {}  # what the interpreter calls


# What those do lane by lane that Python's operators do not.
OF_LANES: dict[str, Callable[..., Number]] = {"choose": np.where, "logical_not": np.logical_not, "logical_and": np.logical_and}


def row(
    name: str, arity: int, evaluate: Callable[..., Number], rule: Rule, sets_flags: bool = False, result: Scalar | None = None
) -> None:
    ROWS[name] = Row(name, arity, rule, sets_flags, result)
    MEANINGS[name] = evaluate


def result_type(name: str, operands: list[Type]) -> Scalar | None:
    """The type of `name(*operands)`. None where the row does not take these.

    >>> result_type("add", [F64, INT]) == F64
    True
    """
    found = ROWS.get(name)
    if found is None or len(operands) != found.arity:
        return None
    scalars = [t for t in operands if isinstance(t, Scalar)]
    if len(scalars) != len(operands) or len({t.lanes for t in scalars}) != 1:
        return None
    lanes = scalars[0].lanes
    if found.rule is Rule.CHOSEN:
        return scalars[2] if scalars[1] == scalars[2] else None
    if found.rule in (Rule.MACHINE, Rule.CONVERTED):
        return found.result and Scalar(found.result.kind, lanes)
    kinds = tuple(t.kind for t in scalars)
    if found.rule is Rule.COMPARED:
        return Scalar(Kind.B1 if any(kind in DTYPES for kind in kinds) else Kind.BOOL, lanes)
    kind = promoted(*kinds)
    if kind is None or kind not in TAKEN[found.rule]:
        return None  # arithmetic of truth values: the front end converts first
    return Scalar(kind, lanes)


# What a row of a rule gives.
TAKEN = {
    Rule.PROMOTED: frozenset(Kind) - TRUTHS,
    Rule.BITWISE: INTEGERS | TRUTHS,
    Rule.FLOATING: FLOATING,
}


def wrap(index: int, size: int) -> int:
    return index + size if index < 0 else index


def clip(bound: int, size: int) -> int:
    return min(max(wrap(bound, size), 0), size)


def leaves_word(exact: Callable[[int, int], int]) -> Callable[[Number, Number], bool]:
    """Does the exact result not fit in the word that the promoted kind of the operands is held in?"""

    def leaves(a: Number, b: Number) -> bool:
        kind = promoted(kind_of_number(a), kind_of_number(b))
        assert kind is not None, (a, b)
        least, greatest = LIMITS[kind]
        return not least <= exact(int(a.real), int(b.real)) <= greatest

    return leaves


def kind_of_number(x: Number) -> Kind:
    return KINDS[x.dtype] if isinstance(x, np.generic) else PYTHON[type(x)]


def shifted(a: int, count: int) -> int:
    return a << min(max(count, 0), 64)


def cast(dtype: np.dtype) -> Callable[[Number], Number]:
    """As C converts: what does not fit wraps around, or is any number. A Check has seen to it that it fits, or comes after it."""
    return lambda x: np.asarray(x).astype(dtype)[()]  # type: ignore[no-any-return]


# --- arithmetic, on numbers of Python and of NumPy
row("add", 2, operator.add, Rule.PROMOTED, True)
row("subtract", 2, operator.sub, Rule.PROMOTED, True)
row("multiply", 2, operator.mul, Rule.PROMOTED, True)
row("divide", 2, operator.truediv, Rule.FLOATING, True)  # for Python's numbers after a Check that the divisor is not 0
row("negative", 1, operator.neg, Rule.PROMOTED)
row("absolute", 1, abs, Rule.PROMOTED)
row("sign", 1, np.sign, Rule.FLOATING)  # of a derivative: 0 where the operand is
row("zero_or_multiply", 2, lambda a, b: a if a == 0 else a * b, Rule.PROMOTED, True)  # of a gradient and a slope: 0 where nothing
row(
    "zero_or_divide", 2, lambda a, b: a if a == 0 else a / b, Rule.FLOATING, True
)  # is asked for, also where the slope is infinite
row("sqrt", 1, np.sqrt, Rule.FLOATING, True)
row("exp", 1, np.exp, Rule.FLOATING, True)
row("sin", 1, np.sin, Rule.FLOATING, True)
row("cos", 1, np.cos, Rule.FLOATING, True)
for _ufunc in (
    *(np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh),
    *(np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.cbrt, np.floor, np.ceil, np.trunc, np.rint),
):
    row(_ufunc.__name__, 1, _ufunc, Rule.FLOATING, True)
row("power", 2, np.power, Rule.FLOATING, True)
row("arctan2", 2, np.arctan2, Rule.FLOATING, True)
row("hypot", 2, np.hypot, Rule.FLOATING, True)
row("maximum", 2, np.maximum, Rule.FLOATING)
row("minimum", 2, np.minimum, Rule.FLOATING)
# How much of a gradient the first operand gets: of equal ones each gets half, and a NaN gets what is its own.
row("share_of_maximum", 2, lambda a, b: type(a)(0.5 if a == b else float(a > b or a != a)), Rule.FLOATING)
row("share_of_minimum", 2, lambda a, b: type(a)(0.5 if a == b else float(a < b or a != a)), Rule.FLOATING)
# The larger of two, the first of which is the result so far of a reduction, and so many of its elements are equal to it.
row("running_maximum", 3, lambda a, count, b: np.maximum(a, b), Rule.FLOATING)
row("running_minimum", 3, lambda a, count, b: np.minimum(a, b), Rule.FLOATING)
row("choose", 3, lambda condition, a, b: a if condition else b, Rule.CHOSEN)
row("is_finite", 1, lambda a: bool(np.isfinite(a)), Rule.MACHINE, False, BOOL)
# --- after Checks that the divisor is not 0, and positive if it is an integer
row("floor_divide", 2, operator.floordiv, Rule.PROMOTED, True)
row("remainder", 2, operator.mod, Rule.PROMOTED, True)
# --- of integers and truth values
row("bitwise_and", 2, operator.and_, Rule.BITWISE)
row("bitwise_or", 2, operator.or_, Rule.BITWISE)
row("bitwise_xor", 2, operator.xor, Rule.BITWISE)
row("invert", 1, operator.invert, Rule.PROMOTED)  # of integers
row("left_shift", 2, operator.lshift, Rule.PROMOTED)  # after Checks that the second is a number of bits of the word
row("right_shift", 2, operator.rshift, Rule.PROMOTED)
# --- comparisons
row("less", 2, operator.lt, Rule.COMPARED)
row("less_equal", 2, operator.le, Rule.COMPARED)
row("greater", 2, operator.gt, Rule.COMPARED)
row("greater_equal", 2, operator.ge, Rule.COMPARED)
row("equal", 2, operator.eq, Rule.COMPARED)
row("not_equal", 2, operator.ne, Rule.COMPARED)
row("truth", 1, bool, Rule.MACHINE, False, BOOL)
row("logical_not", 1, operator.not_, Rule.MACHINE, False, BOOL)
row("logical_and", 2, lambda a, b: bool(a) and bool(b), Rule.MACHINE, False, BOOL)
# --- conversions
row("to_float", 1, float, Rule.CONVERTED, False, FLOAT)
row("to_int", 1, lambda x: int(cast(DTYPES[Kind.I64])(x).real), Rule.CONVERTED, False, INT)
for _kind, _dtype in DTYPES.items():
    row(f"to_{_kind.value}", 1, cast(_dtype), Rule.CONVERTED, _kind is Kind.F32, Scalar(_kind))
# --- the program's own integers: indices, bounds, counts
row("wrap_index", 2, wrap, Rule.MACHINE, False, INT)  # an index that may count from the end
row("is_index", 2, lambda index, size: 0 <= index < size, Rule.MACHINE, False, BOOL)
row("clip_bound", 2, clip, Rule.MACHINE, False, INT)  # a slice's bound, as slice.indices has it
row("span", 2, lambda start, stop: max(0, stop - start), Rule.MACHINE, False, INT)  # how many are in range(start, stop)
row("least", 2, min, Rule.MACHINE, False, INT)
row("add_overflows", 2, leaves_word(operator.add), Rule.MACHINE, False, BOOL)
row("subtract_overflows", 2, leaves_word(operator.sub), Rule.MACHINE, False, BOOL)
row("multiply_overflows", 2, leaves_word(operator.mul), Rule.MACHINE, False, BOOL)
row("left_shift_overflows", 2, leaves_word(shifted), Rule.MACHINE, False, BOOL)


def add_function(op: Op) -> None:
    """A ufunc that gives float64 of float64: a row, whose meaning is NumPy's."""
    if op.has_loop("d") and isinstance(op.numpy, np.ufunc) and op.name not in ROWS:
        row(op.name, op.numpy.nin, op.numpy, Rule.FLOATING, op.may_report([np.dtype(float)]))


OPS.for_each(add_function)


def sets_flags(name: str, result: Type) -> bool:
    """May `name` set a flag that NumPy reports, where its result is of this type?"""
    return ROWS[name].sets_flags and isinstance(result, Scalar) and result.kind in REPORTED
