"""C for functions of single numbers as Python and NumPy's scalars compute them: by libm, to the last bit.

Compilers know other values: of arguments that they know they compute the function themselves, rounded once, and of `pow(x, 2)`
they make `x * x`, which is another number than libm's for one x in a thousand.
"""

from __future__ import annotations

LIBM = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
)
LIBM_OF_TWO = ("atan2", "hypot")
EXACT = ("sqrt", "fabs", "floor", "ceil", "rint", "trunc", "copysign")  # where there is one way to round
WITHOUT_REPORT = ("fabs", "floor", "ceil", "rint", "trunc", "copysign")  # also of what is not finite

# Before it rounds, pow of glibc and of musl is wrong by less than 0.012 units in the last place where the result is near 1
# (sysdeps/ieee754/dbl-64/e_pow.c: 0.009 of its exponential, 0.011 without FMA, and 1.5 * 2^-68 of the logarithm times the
# exponent). So where the exact power is not nearer than that to the middle of two numbers, 0.5 / 1.025 away from one of them, it
# rounds as libm's. Elsewhere libm is asked: for one number in 40.
POWERS = r"""
static double (*volatile const npc_libm_pow_of)(double, double) = pow;
static float (*volatile const npc_libm_powf)(float, float) = powf;
#if defined(__FP_FAST_FMA) && defined(__linux__)
static inline uint64_t npc_bits_of_power(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
/* Of libm's square before it rounds, beside the result: five roundings of what is below 2^-8, 2^-62 each, the exponential's
   polynomial, 0.025 * 2^-60, and the logarithm's 1.5 * 2^-68 of at most 22.2. */
#define NPC_POWER_ERROR 0x1.7p-60
/* The exact power is made + rest, but for what is nothing beside the distance that is asked for, and between 2^-32 and 2^32.
   Beside chains of floating-point operations integers have units of their own, and bits of NaN need no second jump. */
static inline double npc_power_near(double made, double rest, double a, double b) {
  const uint64_t bits = npc_bits_of_power(made), beyond = npc_bits_of_power(fabs(made)) - ((uint64_t)(1023 - 32) << 52);
  const double nearby = __builtin_fma(1.025, rest, made);
  return UNLIKELY(npc_bits_of_power(nearby) != bits || beyond >= (uint64_t)64 << 52) ? npc_libm_pow_of(a, b) : made;
}
static inline double npc_libm_pow(double a, double b) {
  if (b == 2) {
    const double r = a * a;
    return npc_power_near(r, __builtin_fma(a, a, -r), a, b);
  }
  if (b == 3) {
    const double s = a * a, p = s * a;
    const double rest = __builtin_fma(s, a, -p) + __builtin_fma(a, a, -s) * a, r = p + rest;
    return npc_power_near(r, rest - (r - p), a, b);
  }
  if (b == 0.5) {
    const double r = sqrt(a);
    return npc_power_near(r, __builtin_fma(-r, r, a) * 0.5 / r, a, b);
  }
  if (b == -1) {
    const double r = 1 / a;
    return npc_power_near(r, __builtin_fma(-r, a, 1) * r, a, b);
  }
  return npc_libm_pow_of(a, b);
}
#else
static inline double npc_libm_pow(double a, double b) { return npc_libm_pow_of(a, b); }
#endif
"""
KNOWN = 'if (__builtin_constant_p({x})) __asm__("" : "+m"({x}));'


def helpers() -> str:
    lines = [POWERS]
    for c, s in (("double", ""), ("float", "f")):
        known = KNOWN.format(x="x")
        lines += [f"static inline {c} npc_libm_{n}{s}({c} x) {{ {known} return {n}{s}(x); }}" for n in LIBM]
        for n in LIBM_OF_TWO:
            lines.append(f"static inline {c} npc_libm_{n}{s}({c} y, {c} x) {{ {KNOWN.format(x='x')} return {n}{s}(y, x); }}")
    return "\n".join(lines)


def name_of(function: str, suffix: str) -> str:
    """Of the C function."""
    return f"{function}{suffix}" if function in EXACT else f"npc_libm_{function}{suffix}"
