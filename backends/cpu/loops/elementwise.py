"""NumPy's functions of single numbers in native loops: the C that kernels have for elements of arrays, so the same bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.c_functions import C_TYPES
from npcompile.backends.cpu.elements import PART_OF_COMPLEX
from npcompile.backends.cpu.loops.scalar_loops import Fail, ScalarLoops, complex_numbers, is_complex
from npcompile.backends.cpu.numpy_loops import number_text
from npcompile.backends.cpu.primitives import primitive_text
from npcompile.tensor_core.op import OPS

# Also of what is not finite.
WITHOUT_REPORT = "floor ceil rint trunc fabs maximum minimum fmax fmin copysign heaviside"


def applied(code: ScalarLoops, op: str, kinds: Sequence[str], result: str, values: Sequence[str], fail: Fail) -> str:
    """The result of a primitive. What is not finite is left to NumPy, whose errors depend on the reason."""
    given, dtypes = [operand(x, k) for x, k in zip(values, kinds)], [np.dtype(k) for k in kinds]
    if is_numpys(code, op, kinds[0]):
        text = number_text(getattr(np, op), given, dtypes, "one")
    else:
        text = primitive_text(op, given, dtypes, np.dtype(result))
    made = code.new(result, as_complex(text, result) if is_complex(result) else text)
    if op not in WITHOUT_REPORT.split():
        require_finite(code, made, result, fail)
    return made


def is_numpys(code: ScalarLoops, op: str, kind: str) -> bool:
    """Does NumPy's own loop have to compute it, as its last bits are asked for?"""
    letters = OPS[op].inexact
    return code.is_bitwise and isinstance(letters, str) and np.dtype(kind).char in letters


def power(code: ScalarLoops, base: str, kind: str, exponent: int, fail: Fail) -> str:
    """A complex number to a small power that the program knows."""
    made = code.new(kind, as_complex(f"npc_known_power_{kind}({operand(base, kind)}, {exponent})", kind))
    require_finite(code, made, kind, fail)
    return made


def operand(text: str, kind: str) -> str:
    return f"npc_pair_{kind}(__real__ {text}, __imag__ {text})" if is_complex(kind) else text


def as_complex(text: str, kind: str) -> str:
    """A structure of the kernels' as a complex number of C."""
    return f"({{ const {C_TYPES[kind]} npc_made = {text}; __builtin_complex(npc_made.re, npc_made.im); }})"


def require_finite(code: ScalarLoops, made: str, kind: str, fail: Fail) -> None:
    if is_complex(kind):
        complex_numbers.require_finite(code, complex_numbers.parts(code, made, kind), PART_OF_COMPLEX[kind], [], fail)
    else:
        code.leave_if_new(made, kind, f"!__builtin_isfinite({made})", fail)
