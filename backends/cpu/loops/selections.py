"""C for elements of arrays that a mask selects, in native loops: how many there are, to read them and to write them."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.elements import C_OF_KIND

# Of a row of elements `stride` bytes apart. Those of one byte are counted in bytes, as many at once as a vector has.
COUNT = """
static inline int64_t npc_nonzeros_TAG(const char* x, int64_t n, int64_t stride) {
  int64_t count = 0, k = 0;
  if (stride != sizeof(TYPE)) {
    for (; k < n; k++) count += *(const TYPE*)(x + k * stride) != 0;
    return count;
  }
  if (sizeof(TYPE) == 1) {
    typedef uint8_t bytes __attribute__((vector_size(NPC_REGISTER)));
    typedef bytes bytes_in_memory __attribute__((aligned(1), may_alias));
    while (n - k >= NPC_REGISTER) {
      bytes counts = {0};
      for (const int64_t end = k + npc_min((n - k) / NPC_REGISTER, 255) * NPC_REGISTER; k < end; k += NPC_REGISTER)
        counts -= (bytes)(*(const bytes_in_memory*)(x + k) != 0); /* -1 where it holds */
      for (int lane = 0; lane < NPC_REGISTER; lane++) count += counts[lane];
    }
  }
  for (; k < n; k++) count += ((const TYPE*)x)[k] != 0;
  return count;
}
"""
# A row of the mask, and one of the elements. What is written, or read, next is returned.
SELECT = """
static inline TYPE* npc_selected_TAG(const char* mask, int64_t n, int64_t step, const char* x, int64_t s, TYPE* to, TYPE* end) {
  int64_t k = 0;
  if (step == 1 && s == sizeof(TYPE)) {
SELECTED_TOGETHER  }
  for (; k < n && to < end; k++) { /* without a branch: what is not selected is overwritten */
    *to = *(const TYPE*)(x + k * s);
    to += mask[k * step] != 0;
  }
  return to;
}
"""
# What a vector holds is compressed. Elsewhere eight at a time, of which often none is selected.
COMPRESSED = """\
#if defined(__AVX512F__) && __has_builtin(__builtin_ia32_compressNAME512_mask)
    typedef INT whole __attribute__((vector_size(64), aligned(sizeof(INT)), may_alias));
    typedef INT vector __attribute__((vector_size(64)));
    typedef char chars __attribute__((vector_size(16)));
    typedef long long pair __attribute__((vector_size(16)));
    for (; k + LANES <= n && end - to >= LANES; k += LANES) {
      long long words[2] = {0}; /* in registers: not a store that a longer load would wait for */
      __builtin_memcpy(&words[0], mask + k, 8);
      if (LANES == 16) __builtin_memcpy(&words[1], mask + k + 8, 8);
      const unsigned bits = ~(unsigned)__builtin_ia32_pmovmskb128((chars)(pair){words[0], words[1]} == 0) & ((1u << LANES) - 1);
      *(whole*)to = __builtin_ia32_compressNAME512_mask((vector)*(const whole*)(x + k * s), (vector){0}, bits);
      to += __builtin_popcount(bits);
    }
#endif
"""
BY_EIGHT = """\
    for (uint64_t chosen; k + 8 <= n && end - to >= 8; k += 8) {
      __builtin_memcpy(&chosen, mask + k, 8);
      if (chosen) for (int lane = 0; lane < 8; lane++) {
        *to = *(const TYPE*)(x + (k + lane) * s);
        to += mask[k + lane] != 0;
      }
    }
"""
COMPRESSIONS = {8: {"NAME": "di", "INT": "long long", "LANES": "8"}, 4: {"NAME": "si", "INT": "int", "LANES": "16"}}
FILL = """
static inline void npc_fill_TAG(const char* mask, int64_t n, int64_t step, char* x, int64_t stride, TYPE value) {
  if (step == 1 && stride == sizeof(TYPE)) { for (int64_t k = 0; k < n; k++) if (mask[k]) ((TYPE*)x)[k] = value; }
  else { for (int64_t k = 0; k < n; k++) if (mask[k * step]) *(TYPE*)(x + k * stride) = value; }
}
"""
SPREAD = """
static inline const TYPE* npc_put_TAG(const char* mask, int64_t n, int64_t step, char* x, int64_t stride, const TYPE* from) {
  for (int64_t k = 0; k < n; k++) if (mask[k * step]) *(TYPE*)(x + k * stride) = *from++;
  return from;
}
"""


def text_of(form: str, dtype: np.dtype) -> str:
    """One of these functions for elements of a dtype."""
    compression = COMPRESSIONS.get(dtype.itemsize)
    together = (filled(COMPRESSED, compression) if compression else "") + BY_EIGHT
    return filled(form.replace("SELECTED_TOGETHER", together), {"TYPE": C_OF_KIND[dtype.str[1:]], "TAG": dtype.str[1:]})
