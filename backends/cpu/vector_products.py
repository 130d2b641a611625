"""Products of matrices and vectors in loops, as C.

Vectors are multiplied by code of our own: OpenBLAS's threads, once it has woken them, would take the processors from the
runtime's. Rows with elements side by side are dotted, four at a time; where columns have theirs side by side, many results are
added up at once.
"""

from __future__ import annotations

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.dots import DOT, END, names_of

LONG = 128  # products that are added without a partial sum: fewer roundings follow one another then
SHORT = 64  # elements of rows that are read where they lie
GRAIN, PIECE = 1 << 18, 1 << 13  # products that are worth waking a thread; that are worth one which is awake

VECTORS = r"""struct npc_matvec_TAG { const char* a; int64_t rows, inner; const char* x; int64_t step; char* out; int64_t n; };
/* The sums of four rows of products, whose lanes begin at the last boundary of a vector before the row: reading across boundaries
   takes twice as long. A lane adds every W-th element of a row wherever this begins, and npc_added does not depend on which lane
   is the first, so a result does not depend on where the matrix lies. */
static inline __attribute__((always_inline)) void npc_four_rows_TAG(const TYPE* const* a, const int64_t* shifts, const TYPE* x,
                                                                    int64_t n, int are_alike, TYPE* out) {
  npc_v_TAG v0 = {0}, v1 = {0}, v2 = {0}, v3 = {0};
  const TYPE *a0 = a[0] - shifts[0], *a1 = a[1] - shifts[1], *a2 = a[2] - shifts[2], *a3 = a[3] - shifts[3];
  const TYPE *x0 = x - shifts[0], *x1 = x - shifts[1], *x2 = x - shifts[2], *x3 = x - shifts[3];
  const int64_t least = npc_min(npc_min(shifts[0], shifts[1]), npc_min(shifts[2], shifts[3])), whole = (n + least) / W * W;
  const int64_t most = npc_max(npc_max(shifts[0], shifts[1]), npc_max(shifts[2], shifts[3]));
  int64_t k = 0;
#define NPC_PART(r) \
  v##r = npc_fused_TAG(npc_lanes_TAG(a##r + k, npc_max(0, shifts[r] - k), npc_max(0, npc_min(W, n + shifts[r] - k))), \
                       npc_lanes_TAG(x##r + k, npc_max(0, shifts[r] - k), npc_max(0, npc_min(W, n + shifts[r] - k))), v##r);
#define NPC_PARTS NPC_PART(0) NPC_PART(1) NPC_PART(2) NPC_PART(3) k += W;
  if (most) { NPC_PARTS }
  if (are_alike)
    for (; k < whole; k += W) {
      const npc_v_TAG b = *(npc_v_TAG*)(x0 + k);
      v0 = npc_fused_TAG(*(npc_v_TAG*)(a0 + k), b, v0);
      v1 = npc_fused_TAG(*(npc_v_TAG*)(a1 + k), b, v1);
      v2 = npc_fused_TAG(*(npc_v_TAG*)(a2 + k), b, v2);
      v3 = npc_fused_TAG(*(npc_v_TAG*)(a3 + k), b, v3);
    }
  else
    for (; k < whole; k += W) {
      v0 = npc_fused_TAG(*(npc_v_TAG*)(a0 + k), *(npc_v_TAG*)(x0 + k), v0);
      v1 = npc_fused_TAG(*(npc_v_TAG*)(a1 + k), *(npc_v_TAG*)(x1 + k), v1);
      v2 = npc_fused_TAG(*(npc_v_TAG*)(a2 + k), *(npc_v_TAG*)(x2 + k), v2);
      v3 = npc_fused_TAG(*(npc_v_TAG*)(a3 + k), *(npc_v_TAG*)(x3 + k), v3);
    }
  while (k < n + most) { NPC_PARTS }
#undef NPC_PARTS
#undef NPC_PART
  out[0] = npc_added_TAG(v0), out[1] = npc_added_TAG(v1), out[2] = npc_added_TAG(v2), out[3] = npc_added_TAG(v3);
}
static void npc_matvec_along_TAG(const struct npc_matvec_TAG* c, int64_t begin, int64_t end) {
  const TYPE* const x = (const TYPE*)c->x;
  const int64_t n = c->n;
  for (int64_t i = begin; i < end; i += 4) {
    const TYPE* a[4];
    TYPE sums[4];
    for (int64_t r = 0; r < 4; r++) /* rows that are not there are the last one again */
      a[r] = (const TYPE*)(c->a + npc_min(i + r, end - 1) * c->rows);
    if (n < SHORT) {
      npc_four_rows_TAG(a, (const int64_t[4]){0}, x, n, 1, sums);
    } else {
      int64_t shifts[4];
      for (int64_t r = 0; r < 4; r++)
        shifts[r] = (uintptr_t)a[r] % sizeof(TYPE) == 0 ? (int64_t)((uintptr_t)a[r] / sizeof(TYPE) % W) : 0;
      const int64_t s = shifts[0];
      if (s == shifts[1] && s == shifts[2] && s == shifts[3]) npc_four_rows_TAG(a, (const int64_t[4]){s, s, s, s}, x, n, 1, sums);
      else npc_four_rows_TAG(a, shifts, x, n, 0, sums);
    }
    TYPE* const out = (TYPE*)c->out + i;
    for (int64_t r = 0; r < npc_min(4, end - i); r++) out[r] = sums[r];
  }
}
/* Many results at once, where columns have their elements side by side. Two chains of additions for each vector of results. */
static inline __attribute__((always_inline)) void npc_four_columns_TAG(const struct npc_matvec_TAG* c, int64_t i,
                                                                       const int64_t* first, const int64_t* last, int parts) {
  npc_v_TAG total[4] = {{0}};
  const char *a = c->a + i * (int64_t)sizeof(TYPE), *x = c->x;
  for (int64_t k = 0; k < c->n;) {
    const int64_t stop = npc_min(c->n, k + LONG);
    npc_v_TAG v[4] = {{0}}, w[4] = {{0}};
#define NPC_COLUMN(sum, p) npc_fused_TAG(parts ? npc_lanes_TAG((const TYPE*)a + p * W, first[p], last[p]) : \
                                         *(const npc_v_TAG*)((const TYPE*)a + p * W), b, sum[p])
#define NPC_STEP(sum) { \
      const TYPE factor = *(const TYPE*)x; \
      const npc_v_TAG b = factor - (npc_v_TAG){0}; \
      for (int64_t p = 0; p < (parts ? parts : 4); p++) sum[p] = NPC_COLUMN(sum, p); \
      k++, a += c->inner, x += c->step; \
    }
    while (k + 2 <= stop) { NPC_STEP(v) NPC_STEP(w) }
    if (k < stop) NPC_STEP(v)
#undef NPC_STEP
#undef NPC_COLUMN
    for (int64_t p = 0; p < 4; p++) total[p] += v[p] + w[p];
  }
  TYPE* const out = (TYPE*)c->out + i;
  for (int64_t p = 0; p < (parts ? parts : 4); p++)
    if (parts) for (int64_t lane = first[p]; lane < last[p]; lane++) out[p * W + lane] = total[p][lane];
    else *(npc_v_TAG*)(out + p * W) = total[p];
}
static void npc_matvec_across_TAG(const struct npc_matvec_TAG* c, int64_t begin, int64_t end) {
  const int64_t address = (int64_t)(uintptr_t)c->a + begin * (int64_t)sizeof(TYPE);
  const int is_along = address % (int64_t)sizeof(TYPE) == 0 && c->inner % 64 == 0; /* boundaries of vectors are in one row */
  for (int64_t i = begin - (is_along ? address / (int64_t)sizeof(TYPE) % W : 0); i < end; i += 4 * W) {
    int64_t first[4], last[4];
    for (int64_t p = 0; p < 4; p++) {
      first[p] = npc_min(W, npc_max(0, begin - i - p * W));
      last[p] = npc_max(0, npc_min(W, end - i - p * W));
    }
    const int64_t parts = npc_min(4, (end - i + W - 1) / W);
    if (i >= begin && i + 4 * W <= end) npc_four_columns_TAG(c, i, first, last, 0);
    else if (parts == 1) npc_four_columns_TAG(c, i, first, last, 1);
    else if (parts == 2) npc_four_columns_TAG(c, i, first, last, 2);
    else if (parts == 3) npc_four_columns_TAG(c, i, first, last, 3);
    else npc_four_columns_TAG(c, i, first, last, 4);
  }
}
/* out[i] = the sum over k of a[i, k] * x[k], with `out` in C order. */
static void npc_matvec_rows_TAG(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_matvec_TAG* const c = context;
  if (c->inner == sizeof(TYPE) && c->step == sizeof(TYPE)) npc_matvec_along_TAG(c, begin, end);
  else if (c->rows == sizeof(TYPE)) npc_matvec_across_TAG(c, begin, end);
  else
    for (int64_t i = begin; i < end; i++) ((TYPE*)c->out)[i] = npc_dot_TAG(c->a + i * c->rows, c->inner, c->x, c->step, c->n);
}
static int npc_matvec_TAG(const char* a, int64_t rows, int64_t inner, const char* x, int64_t step, char* out, int64_t m,
                          int64_t n) {
  struct npc_matvec_TAG c = {a, rows, inner, x, step, out, n};
  if (m * n < 2 * PIECE) npc_matvec_rows_TAG(&c, 0, m, 0);
  else if (rt->parallel_in_pieces(npc_matvec_rows_TAG, &c, m, npc_max(16, GRAIN / n / 16 * 16), npc_max(16, PIECE / n / 16 * 16)))
    return -1;
  return 0;
}
"""


def vector_products_text(tag: str) -> str:
    """`npc_dot_<tag>`, and `npc_matvec_<tag>(a, rows, inner, x, step, out, m, n)`, which is not 0 where it was interrupted."""
    names = {**names_of(tag), "LONG": str(LONG), "SHORT": str(SHORT), "GRAIN": str(GRAIN), "PIECE": str(PIECE)}
    return filled(DOT + VECTORS + END, names)
