"""Exact results: mpmath's numbers of 240 bits, and long double where many results are wanted.

An error is told in units in the last place (ULP) of the exact result: its distance in multiples of the gap between the two
numbers of the dtype around it. A result that overflows counts as the first power of two that is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from mpmath import MPContext

mp = MPContext()
mp.prec = 240
mpf = mp.mpf

LARGEST_EXPONENT = 100_000  # of a result that is still computed: beyond any dtype, and beyond it mpmath takes long


def clipped(x):
    return max(min(x, mpf(LARGEST_EXPONENT)), mpf(-LARGEST_EXPONENT))


def bounded(function: Callable) -> Callable:
    """An exponential, where its result is within any dtype's range; else that of a bound, which is as far out of it."""
    return lambda x: function(mp.mpc(clipped(x.real), x.imag) if isinstance(x, mp.mpc) else clipped(x))


def turned(function: Callable) -> Callable:
    """The same for a function of which the imaginary part is the exponent."""
    return lambda z: function(mp.mpc(z.real, clipped(z.imag)))


def widened(function: Callable) -> Callable:
    """An inverse tangent, which mpmath computes as a difference of logarithms, with the bits more that it may lose to that."""

    def with_bits(z):
        exponents = [exponent(part) for part in (z.real, z.imag) if part]
        with mp.workprec(mp.prec + 4 * max(map(abs, exponents))):
            return function(z)

    return with_bits


def power(x, y):
    if not x:
        return mpf(1) if not y else mpf(0) if y > 0 else mp.inf
    if mp.isint(y) or x > 0:
        size = mp.exp(clipped(y * mp.log(abs(x))))
        return -size if x < 0 and int(y) % 2 else size
    return mp.nan


def log_of_sum(log1p: Callable, exp: Callable) -> Callable:
    def logaddexp(x, y):
        low, high = sorted((x, y))
        return high + log1p(bounded(exp)(low - high))

    return logaddexp


LN_2 = mp.log(2)
REAL: dict[str, Callable] = {
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "sinh": bounded(mp.sinh),
    "cosh": bounded(mp.cosh),
    "tanh": bounded(mp.tanh),
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "exp": bounded(mp.exp),
    "exp2": bounded(lambda x: mp.exp(x * LN_2)),
    "expm1": bounded(mp.expm1),
    "log": mp.log,
    "log2": lambda x: mp.log(x) / LN_2,
    "log10": lambda x: mp.log(x) / mp.log(10),
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x if x else mp.inf,
    "degrees": lambda x: x * 180 / mp.pi,
    "radians": lambda x: x * mp.pi / 180,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y if y else mp.nan if not x else mp.inf,
    "power": power,
    "float_power": power,
    "arctan2": mp.atan2,
    "hypot": mp.hypot,
    "logaddexp": log_of_sum(mp.log1p, mp.exp),
    "logaddexp2": log_of_sum(lambda x: mp.log1p(x) / LN_2, lambda x: mp.exp(x * LN_2)),
}
REAL |= {"rad2deg": REAL["degrees"], "deg2rad": REAL["radians"]}


def complex_exp2(z):
    """With the bits of an angle that are whole turns."""
    with mp.workprec(mp.prec + max(exponent(z.imag) if z.imag else 0, 0)):
        return bounded(mp.exp)(z * mp.log(2))


def complex_power(z, w):
    """With the bits of an angle, or of an exponent whose parts cancel, that are beyond the point, and those that tell an angle
    from whole quarter turns."""
    parts = [exponent(part) for part in (z.real, z.imag) if part]
    bits = max([0, *(exponent(part) for part in (w.real, w.imag) if part)])
    with mp.workprec(mp.prec + 20 + bits + max(parts) - min(parts)):
        if not w.imag and mp.isint(w.real) and abs(w.real) < 100:
            return z ** int(w.real)
        return bounded(mp.exp)(w * mp.log(z))


COMPLEX = {
    name: REAL[name] for name in "arcsin arccos arcsinh arccosh sinh cosh tanh exp exp2 expm1 log log2 log10 log1p sqrt".split()
}
COMPLEX |= {name: turned(function) for name, function in (("sin", mp.sin), ("cos", mp.cos), ("tan", mp.tan))}
COMPLEX |= {name: REAL[name] for name in ("square", "reciprocal", "add", "subtract", "multiply", "divide")}
COMPLEX |= {name: widened(function) for name, function in (("arctan", mp.atan), ("arctanh", mp.atanh))}
COMPLEX |= {"absolute": abs, "exp2": complex_exp2, "power": complex_power, "float_power": complex_power}


def exact(name: str, *operands: np.ndarray) -> list:
    """The exact result for each element, NaN where there is none that is real."""
    if operands[0].dtype.kind == "c":
        return [COMPLEX[name](*(mp.mpc(x.real, x.imag) for x in xs)) for xs in zip(*(x.tolist() for x in operands))]
    found = (REAL[name](*map(mpf, xs)) for xs in zip(*(x.tolist() for x in operands)))
    return [mp.nan if isinstance(x, mp.mpc) else x for x in found]


def exponent(x) -> int:
    return x.exp + x.bc - 1


def units(x, dtype: np.dtype):
    """The distance of the numbers of a real dtype around x."""
    about = np.finfo(dtype)
    lowest, highest = int(about.minexp), int(about.maxexp) - 1
    return mp.ldexp(1, (min(max(exponent(x), lowest), highest) if x else lowest) - int(about.nmant))


def error(got: float, wanted, dtype: np.dtype) -> float:
    """In units in the last place of `wanted`. Infinite where one of both is NaN."""
    if mp.isnan(wanted) or math.isnan(got):
        return 0.0 if mp.isnan(wanted) and math.isnan(got) else math.inf
    limit = mp.ldexp(1, int(np.finfo(dtype).maxexp))
    there, here = (max(min(mpf(x), limit), -limit) for x in (wanted, got))
    return float(abs(here - there) / units(there, dtype))


def errors(got: np.ndarray, wanted: Sequence) -> np.ndarray:
    return np.array([error(x, y, got.dtype) for x, y in zip(got.tolist(), wanted)])


def errors_of_parts(got: np.ndarray, wanted: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Of complex numbers: as distance in units of the exact number's size, and as the worse of both parts in its own units."""
    part = got.real.dtype
    by_size, by_part = np.zeros(len(got)), np.zeros(len(got))
    limit = mp.ldexp(1, int(np.finfo(part).maxexp))
    for k, (z, w) in enumerate(zip(got.tolist(), wanted)):
        w = mp.mpc(w)
        if not (math.isfinite(z.real) and math.isfinite(z.imag)) or abs(w) >= limit / 4:
            continue  # where an overflow begins is compared with NumPy's, not with a number
        by_size[k] = float(abs(mp.mpc(z) - w) / units(abs(w), part))
        by_part[k] = max(error(z.real, w.real, part), error(z.imag, w.imag, part))
    return by_size, by_part


def nearly_exact(name: str, *operands: np.ndarray) -> np.ndarray:
    """NumPy's result of long double: 11 bits more than float64 where the machine has them. Many at a time."""
    with np.errstate(all="ignore"):
        return getattr(np, name)(*(x.astype(np.longdouble) if x.dtype.kind == "f" else x for x in operands))


def near_errors(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """`errors` for wanted results in a wider dtype than those of `got`."""
    about = np.finfo(got.dtype)
    limit = wanted.dtype.type(2) ** int(about.maxexp)
    with np.errstate(all="ignore"):
        there, here = np.clip(wanted, -limit, limit), np.clip(got.astype(wanted.dtype), -limit, limit)
        exponents = np.clip(np.frexp(there)[1] - 1, about.minexp, about.maxexp - 1) - about.nmant
        found = np.ldexp(np.abs(here - there), -exponents).astype(np.float64)
    found[np.isnan(wanted) & np.isnan(got)] = 0
    found[np.isnan(wanted) != np.isnan(got)] = np.inf
    return found
