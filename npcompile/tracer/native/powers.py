"""Powers of arrays of floating-point numbers: by the power function, or what NumPy takes in its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops, is_float
from npcompile.tracer.native.arrays import applied, integer_text, is_array, is_dense, kind_of, known, promoted, tree_of
from npcompile.tracer.native.types import Formula, Scalar

HALF = (0.5).hex()


def raised(code: ScalarLoops, base: Any, exponent: Any, fail: Fail) -> Formula:
    """`base ** exponent`. ndarray takes another function for some of Python's numbers (fast_scalar_power in numpy's number.c)."""
    if is_array(base) and isinstance(exponent, Scalar):
        whole = known(integer_text(exponent)) if exponent.kind == "int" else None
        if whole == 2:
            return applied(code, np.square, [base], fail)
        if whole == -1 and is_float(kind_of(base)):
            return applied(code, np.reciprocal, [base], fail)
        if exponent.kind == "float" and exponent.text == HALF and is_float(kind_of(base)):
            return applied(code, np.sqrt, [base], fail)
    return power(code, base, exponent, fail)


def power(code: ScalarLoops, base: Any, exponent: Any, fail: Fail) -> Formula:
    """np.power. Where its loops see one exponent, 0.5, they take square roots, which are others of -inf and -0.0."""
    if not all(is_array(x) or isinstance(x, Scalar) for x in (base, exponent)):
        raise NoForm("powers of other than arrays and numbers")
    _, result = promoted(np.power, (kind_of(base), kind_of(exponent)))
    if result not in ("f8", "f4"):
        raise NoForm(f"powers that are {result}")
    if isinstance(exponent, Scalar):
        require_no_half(code, exponent, fail)
    else:
        require_several(code, base, exponent, fail)
    return applied(code, np.power, [base, exponent], fail)


def require_no_half(code: ScalarLoops, exponent: Scalar, fail: Fail) -> None:
    if not is_float(exponent.kind) and exponent.kind != "float":
        return
    if exponent.text == HALF or code.pointwise is not None:
        raise NoForm("powers that may be square roots")
    code.leave_if(f"{exponent.text} == 0.5", fail)


def require_several(code: ScalarLoops, base: Any, exponent: Any, fail: Fail) -> None:
    """Of a vector of exponents, that it is longer than 1, and has each element for itself."""
    (size, *others) = tree_of(exponent)[1]
    if others or code.pointwise is not None or (is_array(base) and len(tree_of(base)[1]) > 1):
        raise NoForm("powers to the elements of arrays of several axes")
    code.leave_if(f"{size} == 1", fail)
    if isinstance(exponent, Part) and not is_dense(exponent):
        code.leave_if(f"{exponent.strides[0]} == 0", fail)
