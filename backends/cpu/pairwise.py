"""NumPy's pairwise summation, in C: what its order of additions is made of.

A sum of at most 128 numbers is made in 8 lanes: lane k adds the numbers k, k + 8, k + 16, ... one after another, the lanes are
added in pairs, ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), and then the last numbers, those beyond a multiple of 8. Fewer than 8
numbers are added one after another to -0.0. Of more than 128, the sum is that of the sums of two halves, the left one rounded
down to a multiple of 8. Complex numbers count as two, so that their blocks are of 64 with 4 lanes each for real and imaginary
parts. The whole is added to the identity, 0.0. Source: numpy/_core/src/umath/loops_utils.h.src, `@TYPE@_pairwise_sum`.
"""

from __future__ import annotations

LANES, BLOCK = 8, 128  # numbers, of which a complex one is two

PAIRWISE_HELPERS = f"""
/* How many of n numbers NumPy's pairwise summation adds up first, where n > {BLOCK}. */
static inline int64_t npc_left_half(int64_t n) {{
  const int64_t half = n / 2;
  return half - half % {LANES};
}}
"""
