"""np.polyval of one number in native programs."""

from __future__ import annotations

from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, ScalarLoops
from npcompile.tracer.native.arrays import is_array, memory, statements
from npcompile.tracer.native.types import Scalar


def polyval(code: ScalarLoops, coefficients: Any, x: Any, fail: Fail) -> Scalar:
    """One coefficient after the other, the highest first (numpy/lib/_polynomial_impl.py)."""
    if not is_array(coefficients) or not isinstance(x, Scalar) or x.kind not in ("float", "f8"):
        raise NoForm("np.polyval of other than a float64 number")
    part = memory(code, coefficients, fail)
    if part.ndim != 1 or part.dtype.str[1:] != "f8":
        raise NoForm("np.polyval with other than a vector of float64")
    (size,), (step,) = part.sizes, part.strides
    statements(code).work([size])
    if code.accesses is not None:
        code.accesses.memory(part.data)
    code.leave_if(f"{size} == 0", fail)  # that is an array
    found = code.room("f8")
    element = f"*(double*)({part.data} + k * {step})"
    code.line(f"for (int64_t k = 0; k < {size}; k++) {found} = {found} * {x.text} + {element};")
    code.leave_if(f"!__builtin_isfinite({found})", fail)  # what has overflowed, or is invalid, stays so to the end
    return Scalar("f8", found)
