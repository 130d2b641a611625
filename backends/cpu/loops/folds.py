"""What combines numbers that lie side by side, as C, and in which order: NumPy's (`pairwise.py`), so that sums have its bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npcompile.backends.cpu.extremes import has_order, highest, largest, lowest, one_by_one_text, zero_text
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.pairwise import BLOCK, LANES, PAIRWISE_HELPERS
from npcompile.backends.cpu.primitives import c_type

SUMS = {"sum": LANES, "sum_of_parts": LANES // 2}  # to their lanes; parts are the real or the imaginary ones of complex numbers
FOLD = r"""
static inline {T} {key}(const {T}* x, int64_t n) {{
  {T} a[16], r = {identity};
  if (n < 8) {{ for (int64_t i = 0; i < n; i++) r = {last}; return r; }}
  for (int k = 0; k < 16; k++) a[k] = {identity};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) a[k] = {step};
  for (int k = 0; i < n; i++, k++) a[k] = {step1};
  for (int k = 0; k < 8; k++) a[k] = {pair8};
  for (int k = 0; k < 4; k++) a[k] = {pair4};
  for (int k = 0; k < 2; k++) a[k] = {pair2};
  return {pair1};
}}
"""
# Sums of floating-point numbers: of at most two blocks, which do not wait for each other.
SUM = r"""
enum {{ npc_bytes_{name}_{K} = NPC_REGISTER < 32 ? NPC_REGISTER : {L} * sizeof({T}) < 32 ? {L} * sizeof({T}) : 32 }};
typedef {T} npc_some_{name}_{K} __attribute__((vector_size(npc_bytes_{name}_{K}), aligned(sizeof({T})), may_alias));
typedef {T} npc_half_{name}_{K} __attribute__((vector_size({L} / 2 * sizeof({T}))));
typedef union {{
  npc_some_{name}_{K} v[{L} * sizeof({T}) / npc_bytes_{name}_{K}];
  npc_half_{name}_{K} halves[2];
}} npc_lanes_{name}_{K};
static inline {T} npc_added_{name}_{K}(npc_lanes_{name}_{K} a) {{
  const npc_half_{name}_{K} x = a.halves[0], y = a.halves[1];
  const npc_half_{name}_{K} pairs = (npc_half_{name}_{K}){{{even}}} + (npc_half_{name}_{K}){{{odd}}};
  return {pairs};
}}
static inline {T} npc_{name}_{K}(const {T}* x, int64_t n) {{
  typedef npc_some_{name}_{K} some;
  enum {{ L = {L}, P = L * sizeof({T}) / sizeof(some), W = L / P }};
  {T} r = -0.0;
  int64_t i = L;
  if (n < L) {{ for (i = 0; i < n; i++) r += x[i]; return r; }}
  npc_lanes_{name}_{K} a, b;
  for (int p = 0; p < P; p++) a.v[p] = *(const some*)(x + p * W);
  if (n <= {block}) {{
    for (; i + L <= n; i += L)
      for (int p = 0; p < P; p++) a.v[p] += *(const some*)(x + i + p * W);
    r = npc_added_{name}_{K}(a);
    for (; i < n; i++) r += x[i];
    return r;
  }}
  const int64_t half = npc_left_half({M} * n) / {M};
  const {T}* const y = x + half;
  n -= half;
  for (int p = 0; p < P; p++) b.v[p] = *(const some*)(y + p * W);
  for (; i < half; i += L)
    for (int p = 0; p < P; p++) {{
      a.v[p] += *(const some*)(x + i + p * W);
      b.v[p] += *(const some*)(y + i + p * W);
    }}
  for (; i + L <= n; i += L)
    for (int p = 0; p < P; p++) b.v[p] += *(const some*)(y + i + p * W);
  r = npc_added_{name}_{K}(b);
  for (; i < n; i++) r += y[i];
  return npc_added_{name}_{K}(a) + r;
}}
"""
# Few numbers that were just stored, one by one: a vector could not be read before all of them are in the cache.
STORED = r"""
static inline {T} npc_stored_{name}_{K}(const {T}* x, int64_t n) {{
  {T} r;
  int64_t i = n / {L};
  switch (i) {{
{cases}
    default: return npc_{name}_{K}(x, n);
  }}
  for (i *= {L}; i < n; i++) r += x[i];
  return r;
}}
"""
# More numbers than that: halves of halves. NumPy may add up a `chunk` at once, of which the last in each `span` is shorter.
WALK = r"""
typedef struct {{
  int64_t next, left, chunk, span, rest, most; /* `next`: how many numbers to combine */
  int depth;
  {T} total;
}} npc_walk_{name}_{K};
typedef struct {{ int64_t right[48]; {T} sums[48]; }} npc_halves_{name}_{K}; /* right ones to come, sums of left ones */
static inline void npc_down_{name}_{K}(npc_walk_{name}_{K}* w, npc_halves_{name}_{K}* h, int64_t n) {{
  /* a little less than two blocks are three */
  for (int64_t half; n > w->most || (n > 2 * {block} - {L} && n < 2 * {block}); n = half) {{
    half = npc_left_half({M} * n) / {M};
    h->right[w->depth++] = n - half;
  }}
  w->next = n;
}}
static inline npc_walk_{name}_{K} npc_walk_{name}_{K}_from(npc_halves_{name}_{K}* h, int64_t n, int64_t chunk, int64_t span,
                                                            int64_t most) {{
  npc_walk_{name}_{K} w = {{0, n, chunk, span, span, most, 0, {start}}};
  npc_down_{name}_{K}(&w, h, npc_min(n, chunk));
  return w;
}}
static inline __attribute__((always_inline)) void npc_join_{name}_{K}(npc_walk_{name}_{K}* w, npc_halves_{name}_{K}* h,
                                                                   {T} part) {{
  while (w->depth && !h->right[w->depth - 1]) w->depth--, part = {join};
  if (w->depth) {{
    const int64_t n = h->right[w->depth - 1];
    h->sums[w->depth - 1] = part, h->right[w->depth - 1] = 0;
    npc_down_{name}_{K}(w, h, n);
    return;
  }}
  const int64_t done = npc_min(w->left, npc_min(w->chunk, w->rest));
  w->total = {add}, w->left -= done, w->rest -= done;
  if (!w->rest) w->rest = w->span;
  npc_down_{name}_{K}(w, h, npc_min(w->left, npc_min(w->chunk, w->rest)));
}}
"""
# How NumPy's iterator goes over n axes of memory (numpy/_core/src/multiarray/nditer_constr.c).
ITERATOR = r"""
#define NPC_BUFFER 8192 /* elements */
/* Axes sorted by their strides, the last of which is the smallest; `perm` says which was where. */
static void npc_sort_axes(int n, const int64_t* sizes, const int64_t* strides, int* perm) {
  for (int k = 0; k < n; k++) perm[k] = k;
  for (int k = n - 2; k >= 0; k--) {
    const int axis = perm[k];
    const int64_t stride = sizes[axis] == 1 ? 0 : __builtin_llabs(strides[axis]);
    int to = k;
    for (int j = k + 1; j < n; j++) {
      const int64_t other = sizes[perm[j]] == 1 ? 0 : __builtin_llabs(strides[perm[j]]);
      if (!stride || !other) continue;
      if (other <= stride) break;
      to = j;
    }
    for (int j = k; j < to; j++) perm[j] = perm[j + 1];
    perm[to] = axis;
  }
}
/* Have axes no other order in memory? */
static int npc_has_order(int n, const int64_t* sizes, const int64_t* strides, const int* perm) {
  for (int64_t k = n, before = 0; k--;) {
    const int64_t stride = sizes[perm[k]] == 1 ? 0 : __builtin_llabs(strides[perm[k]]);
    if (stride && stride < before) return 0;
    if (stride) before = stride;
  }
  return 1;
}
/* How many elements it gives the addition at once, and after how many this begins anew, for axes in its order. */
static __attribute__((noinline)) void npc_find_chunks(int n, const int64_t* sizes, const int64_t* strides, int is_cast,
                                                      int is_buffered, int64_t* chunk, int64_t* span) {
  int64_t joined[8], last = 0, core = 1, size, best;
  int axes = 0;
  for (int k = n; k--;) {
    if (sizes[k] == 1) continue;
    if (axes && strides[k] == last * joined[axes - 1]) joined[axes - 1] *= sizes[k];
    else joined[axes++] = sizes[k], last = strides[k];
  }
  size = best = axes ? joined[0] : 1;
  if (!is_buffered) { /* before NumPy 2.3 */
    *span = is_cast ? INT64_C(1) << 62 : best;
    *chunk = is_cast ? NPC_BUFFER : best;
    return;
  }
  int buffers = is_cast;
  for (int k = 1; k < axes && !(size >= NPC_BUFFER && (k > 1 || is_cast)); k++) {
    const int64_t inner = size, cost = k == 1 && !is_cast ? 2 : 1; /* than before */
    size *= joined[k];
    if (cost * best > npc_min(size, NPC_BUFFER)) break;
    core = inner, best = size, buffers = 1;
  }
  *span = best;
  *chunk = buffers && best > NPC_BUFFER ? NPC_BUFFER / core * core : best;
}
"""


def fold(loops: ArrayLoops, name: str, dtype: np.dtype) -> str:
    """The C function that combines numbers in memory, at most NPC_FOLDED."""
    c, short = c_type(dtype), dtype.str[1:]
    key = f"npc_{name}_{short}"
    if key in loops.folds:
        return key
    identity, pair = FOLD_OPS[name]
    start = identity if isinstance(identity, str) else identity(dtype)

    def text(a: str, x: str) -> str:
        return pair(dtype).format(a=a, x=x)

    lanes = SUMS.get(name, LANES)
    names = {"T": c, "K": short, "name": name, "L": lanes, "M": LANES // lanes, "block": BLOCK * lanes // LANES}
    loops.folds.setdefault("halves", PAIRWISE_HELPERS + ITERATOR)
    if is_ordered(name, dtype):
        halves = lanes // 2
        pairs = "pairs[0] + pairs[1]" if halves == 2 else "(pairs[0] + pairs[2]) + (pairs[1] + pairs[3])"
        # Of eight: x[0] + x[1], y[0] + y[1], x[2] + x[3], y[2] + y[3]
        even, odd = (", ".join(f"{side}[{k + o}]" for k in range(0, halves, 2) for side in "xy") for o in (0, 1))
        made = SUM.format(**names, even=even, odd=odd, pairs=pairs)
        loops.folds[key] = made + STORED.format(**names, cases=stored_cases(lanes))
    else:
        steps = {f"pair{w}": text("a[k]" if w > 1 else "a[0]", f"a[k + {w}]" if w > 1 else "a[1]") for w in (1, 2, 4, 8)}
        last, step, step1 = text("r", "x[i]"), text("a[k]", "x[i + k]"), text("a[k]", "x[i]")
        lanes_key = f"npc_any_{name}_{short}" if has_order(name, dtype) else key
        loops.folds[key] = FOLD.format(**names, key=lanes_key, identity=start, last=last, step=step, step1=step1, **steps)
        loops.folds[key] += zero_text(name, c, dtype)
    join, add = (one_by_one_text(name, a, "part", text(a, "part"), dtype) for a in ("h->sums[w->depth]", "w->total"))
    loops.folds[key] += WALK.format(**names, join=join, add=add, start="0" if name in SUMS else start)
    return key


def stored_cases(lanes: int) -> str:
    """Sums of one to three numbers in each lane."""
    lines = []
    for rounds in (1, 2, 3):
        terms = [" + ".join(f"x[{lane + k * lanes}]" for k in range(rounds)) for lane in range(lanes)]
        while len(terms) > 1:
            terms = [f"({a}) + ({b})" for a, b in zip(terms[::2], terms[1::2])]
        lines.append(f"    case {rounds}: r = {terms[0]}; break;")
    return "\n".join(lines)


def is_ordered(name: str, dtype: np.dtype) -> bool:
    """Does the order of the elements decide the last bits of a sum?"""
    return name in SUMS and dtype.kind == "f"


def is_sequential(name: str, dtype: np.dtype) -> bool:
    """Are numbers combined one after another, as NumPy multiplies them?"""
    return name == "prod" and dtype.kind == "f"


# --- what combines numbers: (the identity, C text that combines {a} and {x})


FOLD_OPS: dict[str, tuple[str | Callable[[np.dtype], str], Callable[[np.dtype], str]]] = {
    **{name: (lambda dtype: "-0.0" if dtype.kind == "f" else "0", lambda dtype: "({a} + {x})") for name in SUMS},
    "prod": ("1", lambda dtype: "({a} * {x})"),
    "max": (lowest, largest(">")),
    "min": (highest, largest("<")),
    "any": ("0", lambda dtype: "({a} | {x})"),
    "all": ("1", lambda dtype: "({a} & {x})"),
}
NEEDS_SOME = ("max", "min")
