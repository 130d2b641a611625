"""Sorted copies of short vectors in native loops.

Their order is the only one there is: where elements are equal but not the same, zeros of both signs, and where there is NaN,
the program leaves to NumPy, as it does for long vectors, which NumPy sorts in vector registers.
"""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.primitives import c_type

MOST = 1024  # elements
FEW = 24  # that are put in their places one by one

TEXT = r"""
static inline void npc_insert_TAG(TYPE* x, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    const TYPE key = x[i];
    int64_t j = i;
    for (; j > 0 && key < x[j - 1]; j--) x[j] = x[j - 1];
    x[j] = key;
  }
}
static void npc_sort_TAG(TYPE* x, int64_t n) {
  while (n > FEW) {
    TYPE a = x[0], b = x[n / 2], c = x[n - 1];
    const TYPE pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    int64_t i = 0, j = n - 1;
    while (i <= j) {
      while (x[i] < pivot) i++;
      while (pivot < x[j]) j--;
      if (i <= j) { const TYPE t = x[i]; x[i++] = x[j]; x[j--] = t; }
    }
    if (j + 1 < n - i) { npc_sort_TAG(x, j + 1); x += i; n -= i; } /* the shorter part first: the stack stays low */
    else { npc_sort_TAG(x + i, n - i); n = j + 1; }
  }
  npc_insert_TAG(x, n);
}
/* The elements, `stride` bytes apart, sorted into `out`; 1 where NumPy may order them in another way. */
static int npc_sorted_TAG(const char* from, int64_t stride, TYPE* out, int64_t n) {
  if (n > MOST) return 1;
  int zeros = 0;
  for (int64_t i = 0; i < n; i++) {
    const TYPE x = out[i] = *(const TYPE*)(from + i * stride);
    DOUBTS
  }
  if (zeros >= 3) return 1;
  npc_sort_TAG(out, n);
  return 0;
}
"""
OF_FLOATS = "zeros |= x != x ? 4 : x != 0 ? 0 : __builtin_signbit(x) ? 2 : 1;"


def text_of(dtype: np.dtype) -> str:
    """The functions for vectors of this dtype."""
    names = {"TYPE": c_type(dtype), "TAG": dtype.str[1:], "FEW": str(FEW), "MOST": str(MOST)}
    return filled(TEXT, names | {"DOUBTS": OF_FLOATS if dtype.kind == "f" else ""})
