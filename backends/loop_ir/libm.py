"""Functions of NumPy's of real numbers that the C library has, and the short ones that it has not: in C and CUDA C++ alike."""

from __future__ import annotations

from typing import Final

BUILT_IN = ("exp", "sin", "cos", "sqrt", "fabs")  # declared with the other helpers
ROUNDING = ("floor", "ceil", "trunc", "rint", "fabs")
EXPONENTIAL = ("exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt")
HYPERBOLIC = ("sinh", "cosh", "tanh")
OF_ONE: Final = {
    **{f: f for f in (*EXPONENTIAL, "tan", *HYPERBOLIC, *ROUNDING)},
    **{f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", *HYPERBOLIC)},
}
OF_TWO: Final = {"hypot": "hypot", "arctan2": "atan2", "copysign": "copysign", "nextafter": "nextafter"}
DECLARATIONS: Final = (
    "".join(
        f"double {f}({operands});\n"
        for functions, operands in ((OF_ONE, "double"), (OF_TWO, "double, double"))
        for f in functions.values()
        if f not in BUILT_IN
    )
    + "double fmod(double, double); float fmodf(float, float); float copysignf(float, float); float floorf(float);\n"
)
# Where one number is NaN both comparisons are false.
HELPERS: Final = """NPC_INLINE double npc_maximum(double a, double b) { return a > b || a != a ? a : b; }
NPC_INLINE double npc_minimum(double a, double b) { return a < b || a != a ? a : b; }
NPC_INLINE double npc_square(double x) { return x * x; }
"""
PRIMITIVES: Final = {
    **{op: f"{f}({{}})" for op, f in OF_ONE.items()},
    **{op: f"{f}({{}}, {{}})" for op, f in OF_TWO.items()},
    "maximum": "npc_maximum({}, {})",
    "minimum": "npc_minimum({}, {})",
    "square": "npc_square({})",
    "reciprocal": "1.0 / {}",
}
