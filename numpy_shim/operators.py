"""Python's operators on traced arrays and scalars, as ndarray and NumPy's scalar types define them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npcompile.numpy_shim.registry import FUNCTIONS, Captured
from npcompile.numpy_shim.ufunc_operands import operand, resolve
from npcompile.numpy_shim.ufunc_pairs import call_divmod
from npcompile.numpy_shim.ufuncs import call_ufunc
from npcompile.tensor_core.array import Array, fresh
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.exactness import KNOWS_POWERS
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.ops.scalar import REPORTING, has_own_operator
from npcompile.tensor_core.source import Formula


def binary(ufunc: np.ufunc, builder: Builder, left: Any, right: Any) -> Any:
    require_numpy(left, right)
    before = len(builder.loud)
    result = call_ufunc(ufunc, builder, left, right)
    made = reporting(ufunc, result, left, right)
    if made is not result and len(builder.loud) > before:  # errors are those of the operator alone
        builder.loud.discard(result.node)
    return made


def reporting(ufunc: np.ufunc, result: Any, *operands: Any) -> Any:
    """The operator of scalars where it is another: of integers, which reports what overflows, and of complex numbers.

    Where scalars of two dtypes are both converted NumPy takes its ufunc: what is reported then says that the program is to run
    natively, which reports nothing.
    """
    are_scalars = not any(isinstance(o, Array) and o.meta.boxed for o in operands) and any(map(is_scalar, operands))
    if ufunc not in REPORTING or not are_scalars or result.meta.boxed or result.node.op != ufunc.__name__:
        return result
    if not has_own_operator(ufunc, result.node.inputs[0].dtype):
        return result
    return fresh(result.builder, result.builder.apply(REPORTING[ufunc], *result.node.inputs), boxed=False)


def require_numpy(left: Any, right: Any) -> None:
    """Decline where the operator is not NumPy's: Python's own type is asked first, and answers."""
    if is_scalar(right) and right.dtype == np.float64 and is_python_complex(left):
        raise Decline("complex takes np.float64 for a float: the result is a Python complex")
    if any(is_scalar(v) and v.dtype.char in "qQ" for v in (left, right)):
        raise Decline("scalars of C's long long stay what they are, unlike in ufuncs")


def order(ufunc: np.ufunc, builder: Builder, left: Any, right: Any) -> Any:
    """<, <=, > and >=. NumPy's complex scalars compare as if NaN were a number, unlike its arrays."""
    is_complex = any(isinstance(v, Array) and v.dtype.kind == "c" or is_python_complex(v) for v in (left, right))
    if is_complex and not any(isinstance(v, (list, tuple)) or isinstance(v, Array) and v.meta.boxed for v in (left, right)):
        raise Decline("complex scalars are ordered as NumPy's scalars are")
    return binary(ufunc, builder, left, right)


def is_scalar(value: Any) -> bool:
    return isinstance(value, Array) and not value.meta.boxed


def is_python_complex(value: Any) -> bool:
    return type(value) is complex or isinstance(value, Number) and value.type is complex


def multiply(builder: Builder, left: Any, right: Any) -> Any:
    for a, b in ((left, right), (right, left)):
        if isinstance(a, (list, tuple)) and is_scalar(b):
            raise Decline("a sequence times a NumPy integer repeats the sequence")
    return binary(np.multiply, builder, left, right)


def power(builder: Builder, left: Any, right: Any, out: Array | None = None) -> Any:
    """`left ** right`. ndarray takes a shorter way for some Python numbers (fast_scalar_power in numpy's number.c)."""
    require_numpy(left, right)
    if builder.root.is_bitwise and not KNOWS_POWERS:
        raise Decline("powers, in the ways of this version of NumPy")
    ufunc = short_power(left, right)
    if ufunc is not None:
        return call_ufunc(ufunc, builder, left, out=out)
    if out is None and not any(isinstance(v, Array) and v.meta.boxed for v in (left, right)):
        return power_of_scalars(builder, left, right)
    return call_ufunc(np.power, builder, left, right, out=out)


def power_of_scalars(builder: Builder, left: Any, right: Any) -> Array:
    """The C library's, where one of the scalars has the dtype of the power: where both are converted NumPy takes its ufunc."""
    operands = operand(builder, left), operand(builder, right)
    dtype = resolve(np.power, (*(o.type for o in operands), None))[-1]
    are_scalars = all(not o.shape for o in operands) and any(is_scalar(v) and v.dtype == dtype for v in (left, right))
    if not has_own_operator(np.power, dtype) or not are_scalars:  # a list is an array: NumPy's scalars leave it to the ufunc
        return call_ufunc(np.power, builder, left, right)
    return fresh(builder, builder.apply(REPORTING[np.power], *(o.node(builder, dtype) for o in operands)), boxed=False)


def short_power(base: Any, exponent: Any) -> np.ufunc | None:
    if not isinstance(base, Array) or not base.meta.boxed:
        return None
    inexact = base.dtype.kind in "fc"
    if isinstance(exponent, Dim):  # integers give the same in both ways
        return next((f for n, f in ((2, np.square), (-1, np.reciprocal)) if inexact and exponent == n), None)
    if isinstance(exponent, Number):
        if inexact and exponent.type is float and exponent.ask(Formula("{} == 0.5", exponent.source), exponent.hint == 0.5):
            return np.sqrt
        return None
    if type(exponent) is int and exponent == 2:
        return np.square
    if type(exponent) is int and exponent == -1 and inexact:
        return np.reciprocal
    if type(exponent) is float and exponent == 0.5 and inexact:
        return np.sqrt
    return None


def matmul(builder: Builder, left: Any, right: Any, **keywords: Any) -> Any:
    if np.matmul not in FUNCTIONS:
        raise Decline("matrix products run as NumPy")
    return FUNCTIONS[np.matmul](builder, left, right, **keywords)


def divmod_(builder: Builder, left: Any, right: Any) -> Any:
    require_numpy(left, right)
    return call_divmod(builder, left, right)


def in_place(ufunc: np.ufunc, builder: Builder, left: Any, right: Any) -> Any:
    """`left op= right`: writes an array, rebinds anything else."""
    if isinstance(left, Array) and left.meta.boxed:
        return call_ufunc(ufunc, builder, left, right, out=left)
    return binary(ufunc, builder, left, right)


def in_place_multiply(builder: Builder, left: Any, right: Any) -> Any:
    if isinstance(left, Array) and left.meta.boxed:
        return call_ufunc(np.multiply, builder, left, right, out=left)
    return multiply(builder, left, right)


def in_place_power(builder: Builder, left: Any, right: Any) -> Any:
    return power(builder, left, right, out=left if isinstance(left, Array) and left.meta.boxed else None)


def in_place_matmul(builder: Builder, left: Any, right: Any) -> Any:
    if not isinstance(left, Array) or not left.meta.boxed:
        return matmul(builder, left, right)
    if left.ndim < 2 or not isinstance(right, Array) or right.ndim < 2:
        raise Decline("@= on vectors runs as NumPy")
    return matmul(builder, left, right, out=left)


def unary(ufunc: np.ufunc, builder: Builder, value: Any) -> Any:
    return reporting(ufunc, call_ufunc(ufunc, builder, value), value)


ARITHMETIC: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}
EQUALITY: dict[str, np.ufunc] = {"==": np.equal, "!=": np.not_equal}
ORDER: dict[str, np.ufunc] = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}

# Python's symbol -> captured form (builder, left, right) or (builder, value). At least one operand is an Array.
BINARY: dict[str, Captured] = {symbol: partial(binary, ufunc) for symbol, ufunc in ARITHMETIC.items()} | {
    "*": multiply,
    "**": power,
    "@": matmul,
    "divmod": divmod_,
}
INPLACE: dict[str, Captured] = {f"{symbol}=": partial(in_place, ufunc) for symbol, ufunc in ARITHMETIC.items()} | {
    "*=": in_place_multiply,
    "**=": in_place_power,
    "@=": in_place_matmul,
}
COMPARE: dict[str, Captured] = {symbol: partial(binary, ufunc) for symbol, ufunc in EQUALITY.items()} | {
    symbol: partial(order, ufunc) for symbol, ufunc in ORDER.items()
}
UNARY: dict[str, Captured] = {
    "-": partial(unary, np.negative),
    "+": partial(unary, np.positive),
    "~": partial(unary, np.invert),
    "abs": partial(unary, np.absolute),
}
