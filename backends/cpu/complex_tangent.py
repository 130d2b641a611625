"""Complex tangents: those of the C library, which NumPy calls, are up to six units off.

With q = exp(-2x) and m = q - 1, for x >= 0, tanh(x + iy) is (-m (2 + m) + 4i q sin(y) cos(y)) / (m^2 + 4 q cos(y)^2): nothing
cancels, and what is rounded are the functions and the quotient, as products and sums are those of double_double.py.
"""

TANGENT_TEXT = r"""
static inline npc_c16 npc_tangent(double x, double y) {
  const double s = npc_plain_sin(y), c = npc_plain_cos(y), size = fabs(x);
  if (size > 22) { /* q is far below a unit of 1 */
    const double half = npc_plain_exp(-size), im = 4 * (half * (s * c)) * half;
    return (npc_c16){copysign(1, x), im};
  }
  const double near = npc_plain_expm1(-2 * size), far = npc_plain_exp(-2 * size), slope = 4 * c;
  const npc_two near_pair = {near, 0}, far_pair = {far, 0};
  const npc_two m = size < 0.25 ? near_pair : npc_exact_sum(-1, far), q = size < 0.25 ? npc_exact_sum(1, near) : far_pair;
  const npc_two two = {2, 0}, bottom = npc_sum(npc_product(m, m), npc_product(q, npc_exact_product(slope, c)));
  const npc_two re = npc_quotient(npc_product(npc_negated(m), npc_sum(two, m)), bottom);
  const npc_two im = npc_quotient(npc_product(q, npc_exact_product(slope, s)), bottom);
  return (npc_c16){copysign(re.high, x), s == 0 ? s : im.high};
}
"""

# Of one dtype. What is infinite or not a number is the C library's.
LOOP_TEXT = """
static inline {T} npc_tanh_{K}({T} a) {{
  if (a.re - a.re != 0 || a.im - a.im != 0) return npc_of_c_{K}(ctanh{s}(npc_to_c_{K}(a)));
  const npc_c16 z = npc_tangent(a.re, a.im);
  return npc_pair_{K}(({P})z.re, ({P})z.im);
}}
static inline {T} npc_tan_{K}({T} a) {{
  if (a.re - a.re != 0 || a.im - a.im != 0) return npc_of_c_{K}(ctan{s}(npc_to_c_{K}(a)));
  const npc_c16 z = npc_tangent(a.im, a.re);
  return npc_pair_{K}(({P})z.im, ({P})z.re);
}}
"""
