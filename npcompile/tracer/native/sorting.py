"""np.sort and np.median of vectors in native programs."""

from __future__ import annotations

from typing import Any

from npcompile.backends.cpu.array_expressions import Part
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, Fail, NoForm, ScalarLoops
from npcompile.backends.cpu.loops.sorts import text_of
from npcompile.tracer.native.arrays import memory, statements
from npcompile.tracer.native.types import Scalar


def sort(code: ScalarLoops, x: Any, fail: Fail) -> Part:
    """A sorted copy. The program leaves where NumPy's algorithm shows: see `backends/cpu/loops/sorts.py`."""
    part = memory(code, x, fail)
    kind = part.dtype.str[1:]
    if part.ndim != 1 or kind not in ("f8", "f4", "i8", "i4"):
        raise NoForm(f"np.sort of {part.ndim} axes of {kind}")
    made = statements(code).fresh(part.dtype, list(part.sizes))
    statements(code).folds.setdefault(f"sorts of {kind}", text_of(part.dtype))
    if code.accesses is not None:
        code.accesses.memory(part.data)
    code.line(f"NPC_COMPUTED({part.sizes[0]});")
    given = f"{part.data}, {part.strides[0]}, ({C_OF_KIND[kind]}*){made.data}, {part.sizes[0]}"
    code.leave_if(f"npc_sorted_{kind}({given})", fail)
    return made


def median(code: ScalarLoops, x: Any, fail: Fail) -> Scalar:
    """The mean of the two in the middle, or of the one."""
    ordered = sort(code, x, fail)
    size, kind = ordered.sizes[0], ordered.dtype.str[1:]
    if size.isdigit() and int(size) == 0:
        raise NoForm("the median of nothing")
    code.leave_if(f"{size} == 0", fail)
    made = kind if kind[0] == "f" else "f8"
    c, elements = C_OF_KIND[made], f"(({C_OF_KIND[kind]}*){ordered.data})"
    low, high = f"({c}){elements}[({size} - 1) / 2]", f"({c}){elements}[{size} / 2]"
    # Sums begin with 0, so that of -0.0 is 0.0.
    middle = code.new(made, f"0 + ({size} % 2 ? {low} : ({low} + {high}) / 2)")
    code.leave_if(f"!__builtin_isfinite({middle})", fail)  # an overflow is reported
    return Scalar(made, middle)
