"""Complex arithmetic and functions in C, for one of the dtypes: NumPy's formulas, and where they lose digits others.

Templates see {T} and {K} (the C type and the short name of its dtype), {P} and {R} (those of its parts), {W} (the C type of
integers as wide as these), {s} (suffix of libm's names) and {PLAIN} (what libm's functions of single numbers are called by
where vectorised ones are not near enough).
"""

COMPLEX_FUNCTIONS = """
static inline {T} npc_pair_{K}({P} re, {P} im) {{ {T} z = {{re, im}}; return z; }}
static inline {T} npc_of_c_{K}({P} _Complex z) {{ return npc_pair_{K}(__real__ z, __imag__ z); }}
static inline {P} _Complex npc_to_c_{K}({T} z) {{ {P} _Complex w; __real__ w = z.re; __imag__ w = z.im; return w; }}
/* -x. Its bit is changed, as GCC would join a negation with the fused operation before it, whose zeros then have another sign. */
static inline {P} npc_flipped_{K}({P} x) {{
  {W} bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  bits ^= ({W})1 << (8 * sizeof x - 1);
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}}
/* x, hidden from GCC, so that it joins no negation of it with the fused operation that gave x. */
static inline {P} npc_part_{K}({P} x) {{
#if defined(__FMA__) && !defined(__clang__)
  {W} bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  bits ^= ({W})((int64_t)rt & 3);
  __builtin_memcpy(&x, &bits, sizeof x);
#endif
  return x;
}}
static inline {T} npc_heard_{K}({T} z) {{ return npc_pair_{K}(npc_heard_{R}(z.re), npc_heard_{R}(z.im)); }}
/* The imaginary part, which is compared where the real ones are the same: of NaN there alone an error is noted. */
static inline {P} npc_im_where_{K}(int is_compared, {T} z) {{
#ifdef __clang__
  return npc_heard_{R}(npc_select_{R}(is_compared, z.im, 0));
#else
  return z.im;
#endif
}}
static inline {T} npc_add_{K}({T} a, {T} b) {{ {T} z = {{a.re + b.re, a.im + b.im}}; return z; }}
static inline {T} npc_subtract_{K}({T} a, {T} b) {{ {T} z = {{a.re - b.re, a.im - b.im}}; return z; }}
/* As the vector loops of numpy/_core/src/umath/loops_arithm_fp.dispatch.c.src: fused where the processor can. */
static inline {T} npc_multiply_{K}({T} a, {T} b) {{
  {T} z = {{NPC_FUSED{s}(a.re, b.re, -NPC_ROUNDED(a.im * b.im)), NPC_FUSED{s}(a.re, b.im, NPC_ROUNDED(a.im * b.re))}};
  return z;
}}
/* As the vector loops of numpy/_core/src/umath/loops_unary_complex.dispatch.c.src. Bits are compared, as comparisons of floats
   report NaN, whose bits are the largest. */
static inline {P} npc_modulus_{K}({T} a) {{
#ifdef __FMA__
  const {P} x = fabs{s}(a.re), y = fabs{s}(a.im), infinity = __builtin_inf{s}();
  {W} of_x, of_y, of_infinity;
  __builtin_memcpy(&of_x, &x, sizeof x);
  __builtin_memcpy(&of_y, &y, sizeof y);
  __builtin_memcpy(&of_infinity, &infinity, sizeof infinity);
  const int is_infinite = (of_x == of_infinity) | (of_y == of_infinity), is_plain = !(is_infinite | ((of_x | of_y) == 0));
  const {P} larger = npc_select_{R}(of_x > of_y, x, y), smaller = npc_select_{R}(of_x > of_y, y, x);
  const {P} ratio = npc_select_{R}(is_plain, smaller, 0) / npc_select_{R}(is_plain, larger, 1);
  return npc_select_{R}(is_infinite, infinity, larger * sqrt{s}(__builtin_fma{s}(ratio, ratio, 1)));
#else
  return hypot{s}(a.re, a.im);
#endif
}}
/* Smith's algorithm, as numpy/_core/src/umath/loops.c.src has it. Operands are chosen, not results: where the compiler computes
   both arms, that which is not taken must not divide by zero. Of one divisor for a whole loop it does so before the loop. */
static inline {T} npc_divide_{K}({T} a, {T} b) {{
  b = npc_heard_{K}(b);
  {P} x = fabs{s}(b.re), y = fabs{s}(b.im);
  const int is_zero = x == 0 && y == 0, is_real = x >= y;
  {P} larger = is_real ? b.re : b.im, smaller = is_real ? b.im : b.re;
  larger = larger == 0 ? 1 : larger;
  {P} u = is_real ? a.re : a.im, v = is_real ? a.im : a.re;
  {P} ratio = smaller / larger, scale = ({P})1 / (larger + smaller * ratio), part = NPC_ROUNDED(u * ratio);
  {P} re = (u + NPC_ROUNDED(v * ratio)) * scale, im = (is_real ? v - part : part - v) * scale, zero = is_zero ? x : 1;
  {T} z = {{(is_zero ? a.re : re) / zero, (is_zero ? a.im : im) / zero}}; /* clang would divide by a zero x in one arm for both */
  return z;
}}
static inline {T} npc_inverse_{K}({T} a) {{
  a = npc_heard_{K}(a);
  const int is_real = fabs{s}(a.im) <= fabs{s}(a.re);
  const {P} larger = is_real ? a.re : a.im, smaller = is_real ? a.im : a.re, ratio = smaller / larger;
  const {P} scale = larger + NPC_ROUNDED(smaller * ratio), near = 1 / scale, far = ratio / scale;
  {T} z = {{is_real ? near : far, is_real ? -far : -near}};
  return z;
}}
/* NumPy's, with its errors. A part that is finite and not zero is that of wider or scaled numbers, where nothing overflows. */
static inline {T} npc_reciprocal_{K}({T} a) {{
  const {T} numpys = npc_inverse_{K}(a);
  const double factor = sizeof({P}) == 8 ? npc_unit_of(fabs(a.re) > fabs(a.im) ? a.re : a.im) : 1;
  const npc_c16 exact = npc_inverse_c16(npc_pair_c16(a.re * factor, a.im * factor));
  const {P} re = ({P})(exact.re * factor), im = ({P})(exact.im * factor);
  const int takes_re = re - re == 0 && re != 0, takes_im = im - im == 0 && im != 0;
  return npc_pair_{K}(npc_select_{R}(takes_re, re, numpys.re), npc_select_{R}(takes_im, im, numpys.im));
}}
/* NumPy's log(hypot(1 + re, im)), which has no digits where |1 + z| is near 1: there by what its square has beyond 1. */
static inline {T} npc_log1p_{K}({T} z) {{
  const double x = z.re, y = z.im, size = hypot(1 + x, y);
  const int is_near = size > 0.5 && size < 1024;
  const double re = npc_log1p_near(npc_select_f8(is_near, x, 0), npc_select_f8(is_near, y, 0)), far = log(({P})size);
  return npc_pair_{K}(({P})npc_select_f8(is_near, re, far), ({P})atan2(y, 1 + x));
}}
/* NumPy's; of float32 in float64, with what overflows there. */
static inline double npc_within_{K}(double x) {{ return ({P})x == ({P})__builtin_inf() ? __builtin_inf() : x; }}
static inline {T} npc_expm1_{K}({T} z) {{
  const double y = z.im, a = {PLAIN}sin(y / 2), s = {PLAIN}sin(y), c = {PLAIN}cos(y);
  const double size = npc_within_{K}({PLAIN}exp(z.re)), more = npc_within_{K}({PLAIN}expm1(z.re));
  return npc_pair_{K}(({P})(NPC_ROUNDED(more * c) - NPC_ROUNDED(2 * a * a)), ({P})(size * s));
}}
static inline {T} npc_log2_{K}({T} z) {{
  const {P} _Complex w = npc_plain_clog{s}(npc_to_c_{K}(z));
  return npc_pair_{K}(__real__ w * ({P}){LOG2_E}L, __imag__ w * ({P}){LOG2_E}L);
}}
static inline {T} npc_log10_{K}({T} z) {{
  const {P} _Complex w = npc_plain_clog{s}(npc_to_c_{K}(z));
  return npc_pair_{K}(__real__ w * ({P}){LOG10_E}L, __imag__ w * ({P}){LOG10_E}L);
}}
/* The C library's of float64: that of float32 is four units off. */
static inline {T} npc_arctan_{K}({T} z) {{
  const double _Complex w = catan(npc_to_c_c16((npc_c16){{z.re, z.im}}));
  return npc_pair_{K}(({P})__real__ w, ({P})__imag__ w);
}}
static inline {T} npc_arctanh_{K}({T} z) {{
  const double _Complex w = catanh(npc_to_c_c16((npc_c16){{z.re, z.im}}));
  return npc_pair_{K}(({P})__real__ w, ({P})__imag__ w);
}}
static inline int npc_ordered_{K}({T} a, {T} b) {{ return a.im == a.im && b.im == b.im; }}
"""
