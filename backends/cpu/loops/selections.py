"""C for elements of arrays that a mask selects, in native loops: how many there are, to read them and to write them."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.texts import filled

# Of a row of elements `stride` bytes apart.
COUNT = """
static inline int64_t npc_nonzeros_TAG(const char* x, int64_t n, int64_t stride) {
  int64_t count = 0;
  if (stride == sizeof(TYPE)) for (int64_t k = 0; k < n; k++) count += ((const TYPE*)x)[k] != 0;
  else for (int64_t k = 0; k < n; k++) count += *(const TYPE*)(x + k * stride) != 0;
  return count;
}
"""
# A row of the mask, and one of the elements. What is written, or read, next is returned.
SELECT = """
static inline TYPE* npc_selected_TAG(const char* mask, int64_t n, int64_t step, const char* x, int64_t s, TYPE* to, TYPE* end) {
  for (int64_t k = 0; k < n && to < end; k++) { /* without a branch: what is not selected is overwritten */
    *to = *(const TYPE*)(x + k * s);
    to += mask[k * step] != 0;
  }
  return to;
}
"""
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
    return filled(form, {"TYPE": c_type(dtype), "TAG": dtype.str[1:]})
