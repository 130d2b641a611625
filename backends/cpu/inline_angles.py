"""sin, cos and tan inline, where no vector form is called: a branch for numbers far out, and in kernels none.

An angle beyond 2^30 (of float32: 2^40) is reduced by a table and long products, which take three times as long as all else.
`sin` asks about its number and branches: of a loop around that no compiler makes vectors. `npc_near_sin` does not ask. Kernels
look at a strip of numbers first (`c_near_angles.py`), and call it where none is far out. Both give a number the same result.

Nearer angles lose whole quarter turns in three parts, by fused operations. Processors without these (x86-64 before AVX2) call
the C library's functions. Those of float32 are computed in float64, by shorter polynomials.
"""

from __future__ import annotations

from npcompile.backends.cpu.vector_math import F8

FUNCTIONS = {f"{f}{suffix}": (f, suffix) for suffix in ("", "f") for f in ("sin", "cos", "tan")}
IS_INLINE = "NPC_ANGLES_ARE_INLINE"  # a macro

QUARTER = r"""
#define NPC_NEAR 0x1p30
#define NPC_NEARf 0x1p40f
#define NPC_QUARTER 0x1.921fb54442d18p+0
#define NPC_QUARTER_LOW 0x1.1a62633145c07p-54
#define NPC_QUARTER_OVER 0x1.f1976b7ed8fbcp-110 /* by which both are more than a quarter turn */
"""
# What n quarter turns leave of an angle, in two parts, and the functions of that. For float64 nothing may be lost: `a` is exact,
# and so is what `a - turns` loses. Singles have bits to spare.
SERIES = {
    "": r"""
static inline double npc_rest_of(double x, double n, double* low) {
  const double a = FUSED(n, -NPC_QUARTER, x), turns = n * NPC_QUARTER_LOW, b = a - turns;
  const double lost = FUSED(n, NPC_QUARTER_OVER, (a - b - turns) - FUSED(n, NPC_QUARTER_LOW, -turns)), r = b + lost;
  *low = lost - (r - b);
  return r;
}
static inline double npc_sine_of(double r, double low) {
  const double r2 = r * r;
  return r + FUSED(r2 * POLYNOMIAL(SIN, r2), r, low * FUSED(r2, -HALF, 1));
}
static inline double npc_cosine_of(double r, double low) {
  const double r2 = r * r, most = FUSED(r2, -HALF, 1);
  return most + FUSED(r2 * POLYNOMIAL(COS, r2), r2, FUSED(r2, -HALF, 1 - most) - r * low);
}
""",
    "f": r"""
static inline double npc_rest_off(double x, double n, double* low) {
  *low = 0;
  return FUSED(n, -NPC_QUARTER_LOW, FUSED(n, -NPC_QUARTER, x));
}
static inline double npc_sine_off(double r, double low) {
  const double r2 = r * r;
  return FUSED(r2 * POLYNOMIAL(SIN:f4, r2), r, r);
}
static inline double npc_cosine_off(double r, double low) {
  const double r2 = r * r;
  return FUSED(r2 * POLYNOMIAL(COS:f4, r2), r2, FUSED(r2, -HALF, 1));
}
""",
}
# The size after so many quarter turns, of which `odd` is -1 where they are odd and 0 elsewhere, and what changes its sign
VALUES = {
    "sin": ("npc_either_f8(odd, cosine, sine)", "((int64_t)((uint64_t)quarters << 62) ^ npc_bits_of_f8(x))"),
    "cos": ("npc_either_f8(odd, sine, cosine)", "(int64_t)((uint64_t)(quarters + 1) << 62)"),
    "tan": ("npc_either_f8(odd, cosine, sine) / npc_either_f8(odd, sine, cosine)", "(odd ^ npc_bits_of_f8(x))"),
}
FUNCTION = r"""
static inline REAL npc_turned_@$(int64_t quarters, double r, double low, double x) {
  const int64_t odd = -(quarters & 1);
  const double sine = npc_sine_of$(r, low), cosine = npc_cosine_of$(r, low), value = VALUE;
  return (REAL)npc_number_of_f8(npc_bits_of_f8(value) ^ (SIGN & ~SIZE));
}
static __attribute__((noinline, cold)) REAL npc_far_@$(REAL x) {
  double r, low;
  if (x - x != 0) return x - x;
  const int quarters = npc_reduce(npc_bits_of_f8(x) & SIZE, npc_two_over_pi, &r, &low);
  return npc_turned_@$(quarters, r, low, x);
}
static inline REAL npc_near_@$(REAL x) {
  const double size = npc_number_of_f8(npc_bits_of_f8(x) & SIZE), k = FUSED(size, 0x1.45f306dc9c883p-1, SHIFT), n = k - SHIFT;
  double low;
  const double r = npc_rest_of$(size, n, &low);
  return npc_turned_@$(npc_bits_of_f8(k), r, low, x);
}
static inline REAL npc_inline_@$(REAL x) {
  return __builtin_expect(npc_is_far_KIND(x, NPC_NEAR$) != 0, 0) ? npc_far_@$(x) : npc_near_@$(x);
}
#define npc_seen_@$(x) (far |= npc_is_far_KIND(x, NPC_NEAR$), npc_near_@$(npc_unless_KIND(npc_is_far_KIND(x, NPC_NEAR$), x)))
#define @$ npc_inline_@$
"""


def angles_text(functions: set[str]) -> str:
    """Those of C's functions of these names that are here, before which those that they call have to come."""
    found = [pair for f, pair in FUNCTIONS.items() if f in functions]
    if not found:
        return ""
    text = QUARTER + "".join(series for suffix, series in SERIES.items() if suffix in {suffix for _, suffix in found})
    for name, suffix in found:
        value, sign = VALUES[name]
        made = FUNCTION.replace("VALUE", value).replace("SIGN", sign).replace("KIND", "f4" if suffix else "f8")
        text += made.replace("REAL", "float" if suffix else "double").replace("@", name).replace("$", suffix)
    return f"#ifdef NPC_HAS_FMA\n#define {IS_INLINE}\n{F8.text_of(text)}#endif\n"
