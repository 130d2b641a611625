"""C for `np.nonzero` of vectors: which elements are not 0 is noted in bits, these are counted, and then written as places.

So each element is read once, and all threads write where nobody else does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loader import NoCompiler, load
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.op import OPS

HELPERS = """
enum { NPC_WORDS = 64, NPC_MARKED = 64 * NPC_WORDS }; /* of a chunk: words of bits, elements */
struct npc_marks {
  const char* x;
  int64_t n, stride;
  uint64_t* bits;
  int64_t *counts, *to; /* of each chunk, and of those before it when all are known */
};
static void npc_put_places(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_marks* const p = context;
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const uint64_t* const bits = p->bits + chunk * NPC_WORDS;
    int64_t* to = p->to + p->counts[chunk];
    for (int k = 0; k < NPC_WORDS; k++) {
      const int64_t first = chunk * NPC_MARKED + 64 * k;
      for (uint64_t rest = bits[k]; rest; rest &= rest - 1) *to++ = first + __builtin_ctzll(rest);
    }
  }
}
"""
# Bytes that are 0 or 1 become bits by a product, in which none meets another.
TEXT = """
static inline uint64_t npc_mark_word_KIND(const char* x, int64_t stride, int count) {
  uint8_t flags[64] __attribute__((aligned(64))) = {0};
  uint64_t word = 0, eight;
  for (int k = 0; k < count; k++) flags[k] = *(const TYPE*)(x + k * stride) != 0;
  for (int k = 0; k < 8; k++) {
    __builtin_memcpy(&eight, flags + 8 * k, 8);
    word |= eight * 0x0102040810204080u >> 56 << 8 * k;
  }
  return word;
}
static void npc_mark_KIND(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_marks* const p = context;
  for (int64_t chunk = begin; chunk < end; chunk++) {
    int64_t count = 0;
    for (int k = 0; k < NPC_WORDS; k++) {
      const int64_t first = chunk * NPC_MARKED + 64 * k, left = p->n - first;
      const char* const x = p->x + first * p->stride;
      uint64_t word = 0;
      if (left >= 64 && p->stride == sizeof(TYPE)) word = npc_mark_word_KIND(x, sizeof(TYPE), 64);
      else if (left > 0) word = npc_mark_word_KIND(x, p->stride, (int)npc_min(left, 64));
      p->bits[chunk * NPC_WORDS + k] = word;
      count += __builtin_popcountll(word);
    }
    p->counts[chunk] = count;
  }
}
/* A column of the places of elements that are not 0, in `made`. */
static int npc_places_KIND(PyObject** made, PyObject* dtype, const char* x, int64_t n, int64_t stride) {
  const int64_t chunks = (n + NPC_MARKED - 1) / NPC_MARKED;
  uint64_t few[NPC_WORDS + 1];
  uint64_t* const bits = chunks <= 1 ? few : rt->scratch(chunks * (NPC_WORDS + 1) * 8);
  if (!bits) return -1;
  struct npc_marks p = {x, n, stride, bits, (int64_t*)(bits + chunks * NPC_WORDS), 0};
  int64_t total = 0;
  int failed = rt->parallel(npc_mark_KIND, &p, chunks, 16);
  for (int64_t k = 0; k < chunks; k++) {
    const int64_t count = p.counts[k];
    p.counts[k] = total;
    total += count;
  }
  rt->decref(*made);
  *made = failed ? (PyObject*)0 : rt->empty(dtype, 2, (const int64_t[]){total, 1}, 0);
  if (*made) {
    p.to = (int64_t*)((npc_array*)*made)->data;
    failed = rt->parallel(npc_put_places, &p, chunks, 16);
  }
  if (bits != few) rt->release(bits);
  return *made && !failed ? 0 : -1;
}
"""
RUN = """
PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {
  const npc_array* const x = (const npc_array*)args[0];
  PyObject *made = 0, *result = 0;
  if (npc_places_KIND(&made, npc_dtypes[0], x->data, x->dimensions[0], x->strides[0])) return (PyObject*)0;
  if ((result = rt->tuple(1))) rt->tuple_set(result, 0, made);
  else rt->decref(made);
  return result;
}
"""


def text_of(kind: str) -> str:
    """The function npc_places_{kind}, for elements of a kind. `HELPERS` come before."""
    return TEXT.replace("KIND", kind).replace("TYPE", C_OF_KIND[kind])


def form_of(node: Node) -> Callable[..., Any] | None:
    """What computes the node, called like its op's meaning in NumPy: places in a vector."""
    if node.op != "argwhere" or node.inputs[0].meta.ndim != 1:
        return None
    dtype = node.inputs[0].dtype
    kind = dtype.str[1:]
    if kind not in C_OF_KIND or not dtype.isnative:
        return None
    try:
        unit = load(HELPERS + text_of(kind) + RUN.replace("KIND", kind), [np.dtype(np.intp)])
    except NoCompiler:
        return None
    find = unit.call
    meaning = OPS["argwhere"].eager

    def call(x: Any, **params: Any) -> Any:
        return find(x)[0] if type(x) is np.ndarray and x.flags.aligned else meaning(x, **params)

    return call
