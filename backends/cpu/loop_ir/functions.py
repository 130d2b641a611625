"""NumPy's functions of float64 in loops: those of kernels, of which compilers make vectors. Python's `math` has the C library's.

Of one number a function gives one result wherever it is computed, in a vector or alone: backends/cpu/c_functions.py says how.
"""

from __future__ import annotations

from typing import Final

from npcompile.backends.cpu.c_functions import VECTORISED, functions_text
from npcompile.backends.cpu.dots import dot_text
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.primitives import NUMPY_LIBM, PRIMITIVES
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Call, Let, Program
from npcompile.tensor_core.loop_ir.rows import ROWS
from npcompile.tensor_core.loop_ir.types import F64

LIBM: Final = {name: f for name, f in NUMPY_LIBM.items() if f in VECTORISED["f8"].split() and f != "pow" and name in ROWS}
OPERANDS: Final = {name: ("a", "b")[: ROWS[name].arity] for name in LIBM}
BRACES: Final = {name: ", ".join(["{}"] * len(operands)) for name, operands in OPERANDS.items()}
# By row and kind of the operands: Python's numbers are computed as Python does.
TEXTS: Final = {f"{name}.f64": f"npc_f64_{name}({BRACES[name]})" for name in LIBM} | {
    f"{name}.float": f"{f}({BRACES[name]})" for name, f in LIBM.items()
}


DOTS: Final = (
    dot_text("f8")
    + """static __attribute__((noinline, unused)) double npc_dot(char* x, int64_t n, int64_t s, char* y, int64_t m, int64_t t) {
  return npc_dot_f8(x, s, y, t, n);
}
"""
)


def definitions(program: Program) -> str:
    """What stands before the text of a program that calls functions and products of vectors. Raises NoCompiler."""
    has_dots = any(isinstance(op, Call) for op in walk(program.body))
    return (DOTS if has_dots else "") + functions_called(program)


def functions_called(program: Program) -> str:
    lets = (op for op in walk(program.body) if isinstance(op, Let) and op.op in LIBM)
    called = sorted({op.op for op in lets if F64 in map(program.types.__getitem__, op.args)})
    if not called:
        return ""
    made = "".join(
        f"static inline __attribute__((unused)) double npc_f64_{name}({', '.join(f'double {x}' for x in OPERANDS[name])}) "
        f"{{ return {PRIMITIVES[name]['f'].format(*OPERANDS[name], K='f8', s='')}; }}\n"
        for name in called
    )
    plain = "".join(f"#undef {LIBM[name]}\n" for name in called)  # where they have other names
    return functions_text(made, loader().compiler) + made + plain
