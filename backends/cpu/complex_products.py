"""Complex powers by a small whole exponent that the kernel knows: products without a branch, so that there are vectors of them.

NumPy multiplies too, and loses a bit with each of the exponent. Its own result is kept where that is infinite or zero.
"""

from __future__ import annotations

FEW_STEP = "if (m & {bit}) z = npc_times_c16(z, power); if (m >= 2 * {bit}) power = npc_times_c16(power, power);"
NUMPYS_STEP = "if (m & {bit}) z = npc_cmul_{{K}}(z, power); if (m >= 2 * {bit}) power = npc_cmul_{{K}}(power, power);"
EXACT_STEP = """
    const npc_two next_re = npc_sum(npc_product(re, power_re), npc_negated(npc_product(im, power_im)));
    const npc_two next_im = npc_sum(npc_product(re, power_im), npc_product(im, power_re)), half = npc_product(power_re, power_im);
    if (m & {bit}) re = next_re, im = next_im;
    power_re = npc_sum(npc_product(power_re, power_re), npc_negated(npc_product(power_im, power_im)));
    power_im = (npc_two){{2 * half.high, 2 * half.low}};
"""


def unrolled(step: str) -> str:
    """The step for each bit of an exponent of at most 16, in its absolute value `m`, which the compiler knows."""
    return "\n".join(f"  if (m >= {bit}) {{ {step.format(bit=bit)} }}" for bit in (1, 2, 4, 8, 16))


# In float64 for float32, and for float64 in pairs, of numbers near 1.
PRODUCTS_TEXT = """
static inline npc_c16 npc_times_c16(npc_c16 a, npc_c16 b) {
  return (npc_c16){NPC_ROUNDED(a.re * b.re) - NPC_ROUNDED(a.im * b.im), NPC_ROUNDED(a.re * b.im) + NPC_ROUNDED(a.im * b.re)};
}
static inline npc_c16 npc_few_products(double x, double y, int n) {
  const int m = n < 0 ? -n : n;
  npc_c16 power = {x, y}, z = {1, 0};
FEW_STEPS
  const double square = z.re * z.re + z.im * z.im;
  return n < 0 ? (npc_c16){z.re / square, -z.im / square} : z;
}
static inline npc_c16 npc_exact_products(double x, double y, int n) {
  const int m = n < 0 ? -n : n;
  const double unit = npc_unit_of(fabs(x) > fabs(y) ? x : y);
  npc_two re = {1, 0}, im = {0, 0}, power_re = {x * unit, 0}, power_im = {y * unit, 0};
EXACT_STEPS
  if (n < 0) {
    const npc_two square = npc_sum(npc_product(re, re), npc_product(im, im));
    re = npc_quotient(re, square), im = npc_negated(npc_quotient(im, square));
  }
  int64_t bits;
  __builtin_memcpy(&bits, &unit, sizeof bits);
  int64_t exponent = (1023 - (bits >> 52)) * n;
  exponent = exponent > 2040 ? 2040 : exponent < -2040 ? -2040 : exponent;
  const int64_t few_bits = (1023 + (exponent >> 1)) << 52, more_bits = (1023 + exponent - (exponent >> 1)) << 52;
  double few, more;
  __builtin_memcpy(&few, &few_bits, sizeof few);
  __builtin_memcpy(&more, &more_bits, sizeof more);
  return (npc_c16){re.high * few * more, im.high * few * more};
}
""".replace("FEW_STEPS", unrolled(FEW_STEP)).replace("EXACT_STEPS", unrolled(EXACT_STEP))

# Of one dtype.
LOOP_TEXT = """
/* As NumPy's powers multiply, and its scalars (numpy/_core/src/umath/scalarmath.c.src). */
static inline {T} npc_cmul_{K}({T} a, {T} b) {{
  {T} z = {{NPC_ROUNDED(a.re * b.re) - NPC_ROUNDED(a.im * b.im), NPC_ROUNDED(a.re * b.im) + NPC_ROUNDED(a.im * b.re)}};
  return z;
}}
/* npy_cpow of numpy/_core/src/npymath/npy_math_complex.c.src. What NumPy reports comes out as NaN. */
static inline {T} npc_scalar_power_{K}({T} a, {T} b) {{
  const int n = b.im == 0 && b.re > -100 && b.re < 100 && b.re == trunc{s}(b.re) ? (int)b.re : 100;
  {T} z = npc_pair_{K}(1, 0), power = a;
  if (n == 0) return z;
  if (a.re == 0 && a.im == 0) return b.re > 0 ? npc_pair_{K}(0, 0) : npc_divide_{K}(a, a);
  if (n == 1) return a;
  if (n == 2 || n == 3) return n == 2 ? npc_cmul_{K}(a, a) : npc_cmul_{K}(a, npc_cmul_{K}(a, a));
  if (n == 100) return npc_of_c_{K}(cpow{s}(npc_to_c_{K}(a), npc_to_c_{K}(b)));
  for (int rest = n < 0 ? -n : n;; power = npc_cmul_{K}(power, power)) {{
    if (rest & 1) z = npc_cmul_{K}(z, power);
    if (!(rest >>= 1)) return n < 0 ? npc_divide_{K}(npc_pair_{K}(1, 0), z) : z;
  }}
}}
static inline {T} npc_known_power_{K}({T} a, int n) {{
  const int m = n < 0 ? -n : n;
  {T} z = {{1, 0}}, power = a;
NUMPYS_STEPS
  if (n == 2) z = npc_cmul_{K}(a, a);
  if (n == 3) z = npc_cmul_{K}(a, npc_cmul_{K}(a, a));
  const int is_nothing = (a.re == 0) & (a.im == 0);
  const {P} infinity = npc_select_{R}(is_nothing, __builtin_inf(), 0), of_nothing = n < 0 ? infinity - infinity : 0;
  if (n < 0) z = npc_divide_{K}(npc_pair_{K}(1, 0), npc_pair_{K}(npc_select_{R}(is_nothing, 1, z.re), z.im));
  z = npc_pair_{K}(npc_select_{R}(is_nothing, of_nothing, z.re), npc_select_{R}(is_nothing, of_nothing, z.im));
  if (n == 2 || n == 3) return z;
  const npc_c16 exact = {PRODUCTS}(a.re, a.im, n);
  const {P} re = ({P})exact.re, im = ({P})exact.im;
  const int is_finite = (re - re == 0) & (im - im == 0), is_zero = (re == 0) & (im == 0);
  const int is_infinite = !((z.re - z.re == 0) & (z.im - z.im == 0));
  const int is_numpys = (!is_finite | is_zero) & (is_infinite | (is_zero & (z.re == 0) & (z.im == 0)));
  const int takes_re = is_numpys | ((re == 0) & (z.re == 0)), takes_im = is_numpys | ((im == 0) & (z.im == 0));
  return npc_pair_{K}(npc_select_{R}(takes_re, z.re, re), npc_select_{R}(takes_im, z.im, im));
}}
""".replace("NUMPYS_STEPS", unrolled(NUMPYS_STEP).replace("{ ", "{{ ").replace(" }", " }}"))
