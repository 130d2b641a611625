"""NumPy's functions of float64 in loops: those of kernels, of which compilers make vectors. Python's `math` has the C library's.

Of one number a function gives one result wherever it is computed, in a vector or alone: backends/cpu/c_functions.py says how.
"""

from __future__ import annotations

from typing import Final

from npcompile.backends.cpu.c_functions import VECTORISED, functions_text
from npcompile.backends.cpu.c_sums import block_text
from npcompile.backends.cpu.dots import REGISTER
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.pairwise import BLOCK, PAIRWISE_HELPERS
from npcompile.backends.cpu.primitives import NUMPY_LIBM, PRIMITIVES
from npcompile.backends.cpu.vector_products import vector_products_text
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Call, Let, Program, Routine
from npcompile.tensor_core.loop_ir.rows import ROWS
from npcompile.tensor_core.loop_ir.types import F64

LIBM: Final = {name: f for name, f in NUMPY_LIBM.items() if f in VECTORISED["f8"].split() and f != "pow" and name in ROWS}
OPERANDS: Final = {name: ("a", "b")[: ROWS[name].arity] for name in LIBM}
BRACES: Final = {name: ", ".join(["{}"] * len(operands)) for name, operands in OPERANDS.items()}
# By row and kind of the operands: Python's numbers are computed as Python does.
TEXTS: Final = {f"{name}.f64": f"npc_f64_{name}({BRACES[name]})" for name in LIBM} | {
    f"{name}.float": f"{f}({BRACES[name]})" for name, f in LIBM.items()
}


UNUSED: Final = "static __attribute__((noinline, unused))"
DOTS: Final = f"""{UNUSED} double npc_dot(char* x, int64_t n, int64_t s, char* y, int64_t m, int64_t t) {{
  return npc_dot_f8(x, s, y, t, n);
}}
"""
MATVEC: Final = f"""/* Where NumPy's BLAS decides which NaN there are, an invalid operation is noted, and NumPy is asked. */
{UNUSED} int npc_of_matvec(char* out, char* a, int64_t rows, int64_t row, int64_t columns, int64_t column, char* x,
                           int64_t step) {{
  if (npc_matvec_f8(a, row, column, x, step, out, rows, columns)) return 1;
  volatile double zero = 0;
  if (npc_not_finite_f8((const double*)out, rows) &&
      (npc_has_infinity_f8(a, rows, row, columns, column) || npc_has_infinity_f8(x, columns, step, 1, 0))) zero /= zero;
  return 0;
}}
"""
SUMS: Final = """static double npc_sum_of_pairs(char* x, int64_t n, int64_t s) {
  double block[BLOCK];
  if (n > BLOCK) {
    const int64_t half = npc_left_half(n);
    const double sum = npc_sum_of_pairs(x, half, s);
    return sum + npc_sum_of_pairs(x + half * s, n - half, s);
  }
  if (s == sizeof(double)) return npc_block_f8((const double*)x, n);
  for (int64_t i = 0; i < n; i++) block[i] = *(const double*)(x + i * s);
  return npc_block_f8(block, n);
}
UNUSED double npc_sum(char* x, int64_t n, int64_t s) { return npc_sum_of_pairs(x, n, s) + 0.0; }
""".replace("BLOCK", str(BLOCK)).replace("UNUSED", UNUSED)
MATRIX: Final = "char* {0}, int64_t {0}0, int64_t {0}_0, int64_t {0}1, int64_t {0}_1"  # its memory; size and stride of each axis
TURNED: Final = {"": "", "_of_turned": "a", "_by_turned": "b", "_of_both_turned": "ab"}


def matrix_products() -> str:
    """The routines of Routine ops: products of matrices, of which either may be turned over."""
    text = "#define NPC_ALL ((int64_t)1 << 62) /* of the summed axis, in one block */\n" + MATVEC
    for name, turned in TURNED.items():
        (m, k), (q, n) = ("10" if "a" in turned else "01"), ("10" if "b" in turned else "01")
        if "b" not in turned:
            text += (
                f"{UNUSED} int npc_by_matvec{name}(char* out, {MATRIX.format('a')}, char* x, int64_t x0, int64_t x_0) {{\n"
                f"  return npc_of_matvec(out, a, a{m}, a_{m}, a{k}, a_{k}, x, x_0);\n}}\n"
            )
        text += (
            f"{UNUSED} int npc_by_matmul{name}(char* out, {MATRIX.format('a')}, {MATRIX.format('b')}) {{\n"
            f"  return rt->product_f8(out, 8 * b{n}, 8, a, a_{m}, a_{k}, b, b_{q}, b_{n}, a{m}, b{n}, a{k}, NPC_ALL);\n}}\n"
        )
    return text


def definitions(program: Program) -> str:
    """What stands before the text of a program that calls functions and routines. Raises NoCompiler."""
    ops = walk(program.body)
    called = {op.op for op in ops if isinstance(op, Call | Routine)}
    text = ""
    if called - {"sum"}:
        text += REGISTER + vector_products_text("f8") + DOTS
    if any(isinstance(op, Routine) for op in ops):
        text += matrix_products()
    if "sum" in called:
        text += PAIRWISE_HELPERS + block_text("f8") + SUMS
    return text + functions_called(program)


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
