"""Functions of scipy.special in Triton: libdevice's, or made of its logarithm and exponential, with SciPy's special values.

They are within 4 units in the last place of the exact result, by the bounds that the CUDA C++ Programming Guide states of what
they are made of. For float64 the bound of erfc is 5, and lgamma has none near its zeros: SciPy's are called there. Functions of
float32 that are not libdevice's own, and lgamma, are computed in float64, but for expit.
"""

from __future__ import annotations

import numpy as np

from npcompile.tensor_core.ops.special import FORMS, OF_TWO

OF_FLOAT32 = ("erfc", "gammaln")  # SciPy's for float64

PRIMITIVES = {name: {"f": f"npc_{name}({'{0}, {1}' if name in OF_TWO else '{0}'})"} for name in FORMS}
PRIMITIVES |= {name: {"f": f"libdevice.{name}({{0}})"} for name in ("erf", "erfc")}


def has_program(name: str, dtype: np.dtype) -> bool:
    """Is there one of a function of `FORMS` for operands of this dtype?"""
    return dtype.char == "f" or dtype.char == "d" and name not in OF_FLOAT32


FUNCTIONS = {
    "npc_gammaln": """
def npc_gammaln(a):
    x = a.to(tl.float64)
    is_pole = (x <= 0) & (x == libdevice.floor(x))
    y = tl.where(tl.abs(x) == float("inf"), x, libdevice.lgamma(tl.where(is_pole, 1.0, x)))
    return tl.where(is_pole & (x > float("-inf")), float("inf"), y).to(a.dtype)
""",
    "npc_expit": """
def npc_expit(x):
    one = tl.full((), 1.0, x.dtype)
    return npc_divide(one, one + libdevice.exp(-1.0 * x))
""",
    "npc_logit": """
def npc_logit(a):
    x = a.to(tl.float64)
    y = 2 * (x - 0.5)
    far = libdevice.log(x / (1 - x))
    near = libdevice.log1p(y) - libdevice.log1p(-1.0 * y)
    return tl.where((x < 0.3) | (x > 0.65), far, near).to(a.dtype)
""",
    "npc_entr": """
def npc_entr(a):
    x = a.to(tl.float64)
    y = -1.0 * x * libdevice.log(tl.where(x > 0, x, 1.0))
    return tl.where(x > 0, y, tl.where(x == 0, 0.0, tl.where(x < 0, float("-inf"), x))).to(a.dtype)
""",
    "npc_xlogy": """
def npc_xlogy(a, b):
    x = a.to(tl.float64)
    y = b.to(tl.float64)
    return tl.where(x == 0, tl.where(y == y, 0.0, y), x * libdevice.log(y)).to(a.dtype)
""",
    "npc_xlog1py": """
def npc_xlog1py(a, b):
    x = a.to(tl.float64)
    y = b.to(tl.float64)
    return tl.where(x == 0, tl.where(y == y, 0.0, y), x * libdevice.log1p(y)).to(a.dtype)
""",
}
