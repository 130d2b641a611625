"""The greatest and the least of many numbers, in C, whatever order they come in: of zeros 0.0 and -0.0, as IEEE 754 has them.

The result is what both choices have of their bits. NaN where one is NaN, which the bits of both together are then.
"""

from __future__ import annotations

EXTREMES = """
static inline {T} npc_maximum_of_{K}({T} a, {T} b) {{
  const {T} one = b > a ? b : a, other = a > b ? a : b;
  {W} x, y;
  __builtin_memcpy(&x, &one, sizeof x);
  __builtin_memcpy(&y, &other, sizeof y);
  x = a != a || b != b ? x | y : x & y;
  __builtin_memcpy(&a, &x, sizeof x);
  return a;
}}
static inline {T} npc_minimum_of_{K}({T} a, {T} b) {{
  const {T} one = b < a ? b : a, other = a < b ? a : b;
  {W} x, y;
  __builtin_memcpy(&x, &one, sizeof x);
  __builtin_memcpy(&y, &other, sizeof y);
  x |= y;
  __builtin_memcpy(&a, &x, sizeof x);
  return a;
}}
/* The same of what is not NaN: no comparison meets one, which would note an error. */
static inline {T} npc_fmax_of_{K}({T} a, {T} b) {{
  const {T} x = a != a ? b : a, y = b != b ? a : b, r = npc_maximum_of_{K}(x != x ? 0 : x, y != y ? 0 : y);
  return x != x ? x : r;
}}
static inline {T} npc_fmin_of_{K}({T} a, {T} b) {{
  const {T} x = a != a ? b : a, y = b != b ? a : b, r = npc_minimum_of_{K}(x != x ? 0 : x, y != y ? 0 : y);
  return x != x ? x : r;
}}
/* Is it the zero that such an extreme would be? */
static inline int npc_is_most_zero_{K}({T} x) {{ {W} bits; __builtin_memcpy(&bits, &x, sizeof x); return bits == 0; }}
static inline int npc_is_least_zero_{K}({T} x) {{ {W} bits; __builtin_memcpy(&bits, &x, sizeof x); return bits == {LEAST}; }}
"""
PARTS = [("double", "f8", "int64_t", "(int64_t)0x8000000000000000"), ("float", "f4", "int32_t", "(int32_t)0x80000000")]
EXTREMES_TEXT = "".join(EXTREMES.format(T=c, K=short, W=word, LEAST=least) for c, short, word, least in PARTS)
