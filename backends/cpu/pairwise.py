"""NumPy's pairwise summation, in C: what its order of additions is made of.

A sum of at most 128 numbers is made in 8 lanes: lane k adds the numbers k, k + 8, k + 16, ... one after another, the lanes are
added in pairs, ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)), and then the last numbers, those beyond a multiple of 8. Fewer than 8
numbers are added one after another to -0.0. Of more than 128, the sum is that of the sums of two halves, the left one rounded
down to a multiple of 8. Complex numbers count as two, so that their blocks are of 64 with 4 lanes each for real and imaginary
parts. The whole is added to the identity, 0.0. Source: numpy/_core/src/umath/loops_utils.h.src, `@TYPE@_pairwise_sum`.

What is summed at once is what NumPy's iterator gives to one inner loop: axes that lie one after another; of others as many whole
rows as its buffer holds, from NumPy 2.3 on, where these are short. Source: numpy/_core/src/multiarray/nditer_constr.c,
`npyiter_find_buffering_setup`.
"""

from __future__ import annotations

import numpy as np

from npcompile.backends.kernels.kernel import BUFFER

LANES, BLOCK = 8, 128  # numbers, of which a complex one is two
BUFFERS_ROWS = np.lib.NumpyVersion(np.__version__) >= "2.3.0"

PAIRWISE_HELPERS = f"""
/* How many of n numbers, more than {BLOCK}, NumPy's pairwise summation adds up first. */
static inline int64_t npc_left_half(int64_t n) {{
  const int64_t half = n / 2;
  return half - half % {LANES};
}}
/* How many elements are summed at once. The last such run of each `period` elements may have fewer. */
static inline int64_t npc_one_run(int count, const int64_t (*axes)[3], int is_cast, int64_t* period) {{
  int64_t joined[count], step = 0;
  int n = 0;
  for (int k = 0; k < count; k++) {{
    if (axes[k][0] == 1) continue;
    if (!axes[k][2]) break;
    if (n && joined[n - 1] * step == axes[k][1]) joined[n - 1] *= axes[k][0];
    else joined[n++] = axes[k][0], step = axes[k][1];
  }}
  int64_t size = n ? npc_max(1, joined[0]) : 1, best = size, rows = is_cast, cost = 1 + is_cast;
  for (int k = 1; k < ({int(BUFFERS_ROWS)} ? n : 1) && ((k == 1 && !is_cast) || size < {BUFFER}); k++) {{
    const int64_t row = size; /* to copy rows to the buffer costs as much as to sum them */
    size *= npc_max(1, joined[k]);
    if (2 * best <= cost * npc_min(size, {BUFFER})) best = size, rows = row, cost = 2;
  }}
  *period = best;
  return rows && best > {BUFFER} ? rows * ({BUFFER} / rows) : best;
}}
"""
