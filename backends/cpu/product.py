"""Matrix products: a library for each dtype, which units reach through the runtime's table.

A product is an einsum of two operands in canonical form: axes of a stack, then (m, k) times (k, n) gives (m, n).
`npc_product_<dtype>` takes any strides. An operand with elements side by side along one axis is read where it is;
others are copied. BLAS stores columns side by side, so a result with rows side by side is computed transposed.

OpenBLAS has threads of its own, which spin for some 25 ms after a product: then they and the runtime's threads take the
processors from each other, and a product waits for a thread that is not running. Products of at most MOST_ALONE it
makes on the calling thread, as fast as large ones. So complex products are made in tiles of that size by the runtime's threads,
and real ones without BLAS (`tiled_products.py`). Where BLAS is another library, products are its own.
"""

from __future__ import annotations

from npcompile.backends.cpu.blas import is_openblas
from npcompile.backends.cpu.c_squares import square_text
from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.tiled_products import panels_text, vectors_text

ROUTINES = {"f4": "sgemm", "f8": "dgemm", "c8": "cgemm", "c16": "zgemm"}
SYMMETRIC = {"f4": "ssyrk", "f8": "dsyrk"}
FEW = 128  # products of real numbers: so few are added by plain loops
TILE = (64, 128)  # of a result that is made in blocks of the summed axis
MOST_ALONE = 1 << 18  # products of one matrix product: BLAS takes more threads for more
DEPTH = 400  # of a tile: OpenBLAS itself takes about as many at a time, so the rounding is the same
MOST_TILED = 1 << 24  # bytes of all three matrices: larger ones may want the blocking for caches that OpenBLAS does
# A small result of many products for each element: the summed axis is cut in slices, which run side by side. How many there
# are depends on sizes alone. It is LONG times as long as the other axes, of SLICE products at least, for MOST_SUMMED elements;
# BLAS adds PART products at most one after another.
SLICED = {"MOST_SLICES": 16, "MOST_SUMMED": 1 << 14, "SLICE": 1 << 20, "LONG": 16, "PART": 192}
SLIM = 64  # rows or columns: then tiles read the other matrix once

# Vectors are written where they matter: GCC takes half of its time to look for them elsewhere.
PLAIN = """
#if defined(__GNUC__) && !defined(__clang__)
#define PLAIN static __attribute__((optimize("no-tree-vectorize")))
#else
#define PLAIN static
#endif
#define NULL ((void*)0)
"""
CHOICE = """
/* How ?gemm reads a matrix: transposed or not, and the step from one column (row) to the next; 0 where it cannot. */
static int64_t npc_leading(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t size, char* trans) {
  if (rows == 1) row = size;
  else if (columns == 1) column = size;
  if (row == size && (columns == 1 || (column % size == 0 && column >= rows * size))) {
    *trans = 'N';
    return columns == 1 ? rows : column / size;
  }
  if (column == size && (rows == 1 || (row % size == 0 && row >= columns * size))) {
    *trans = 'T';
    return rows == 1 ? columns : row / size;
  }
  return 0;
}
/* The size of tiles of at most MOST_ALONE products, and how many are added at a time. */
static inline void npc_tile(int64_t k, int64_t* rows, int64_t* columns, int64_t* block) {
  const int64_t parts = (k + DEPTH - 1) / DEPTH;
  *block = npc_min(k, ((k + parts - 1) / parts + 15) / 16 * 16);
  *rows = *block > 128 ? 32 : 64;
  *columns = npc_min(256, MOST_ALONE / (*rows * *block) / 4 * 4);
}
"""

# c[m, n] = a[m, k] @ b[k, n], strides in bytes. `block`: of so many products sums are made, which are added then.
PRODUCT = """
/* Is an element infinite or NaN? For infinite ones the processor then has noted an invalid operation.
   Inlined where it is called, it would take a fifth of the time to compile. */
static __attribute__((noinline)) int npc_not_finite_TAG(const char* x, int64_t rows, int64_t columns, int64_t row,
                                                        int64_t column) {
  int found = 0;
  if (column != sizeof(TYPE)) {
    int64_t t = rows;
    rows = columns, columns = t;
    t = row, row = column, column = t;
  }
  for (int64_t i = 0; i < rows; i++)
    if (column == sizeof(TYPE))
      for (int64_t j = 0; j < columns; j++) {
        const TYPE value = ((const TYPE*)(x + i * row))[j];
        found |= value - value != 0;
      }
    else
      for (int64_t j = 0; j < columns; j++) {
        const TYPE value = *(const TYPE*)(x + i * row + j * column);
        found |= value - value != 0;
      }
  return found;
}
PLAIN void npc_few_TAG(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k,
                        const char* b, int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      TYPE total = 0;
      for (int64_t l = 0; l < k; l++)
        total += *(const TYPE*)(a + i * a_m + l * a_k) * *(const TYPE*)(b + l * b_k + j * b_n);
      *(TYPE*)(c + i * c_m + j * c_n) = total;
    }
}
PLAIN char* npc_dense_TAG(const char* x, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  TYPE* made = rt->scratch(rows * columns * (int64_t)sizeof(TYPE) + 1);
  for (int64_t i = 0; made && i < rows; i++)
    for (int64_t j = 0; j < columns; j++) made[i * columns + j] = *(const TYPE*)(x + i * row + j * column);
  return (char*)made;
}
struct npc_tiles_TAG {
  char* c;
  const char *a, *b, *trans_a, *trans_b;
  int64_t m, n, k, a_m, a_k, b_k, b_n, lead_a, lead_b, lead_c, rows, columns, block, down;
};
static void npc_tiles_TAG(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_tiles_TAG* p = context;
  const TYPE one = 1;
  for (int64_t tile = begin; tile < end; tile++) {
    const int64_t i = tile % p->down * p->rows, j = tile / p->down * p->columns;
    const int64_t m = npc_min(p->rows, p->m - i), n = npc_min(p->columns, p->n - j);
    char* c = p->c + (i + j * p->lead_c) * (int64_t)sizeof(TYPE);
    for (int64_t l = 0; l < p->k; l += p->block) {
      const TYPE add = l ? 1 : 0;
      const int64_t part = npc_min(p->block, p->k - l);
      rt->GEMM(p->trans_a, p->trans_b, &m, &n, &part, &one, p->a + i * p->a_m + l * p->a_k, &p->lead_a,
               p->b + l * p->b_k + j * p->b_n, &p->lead_b, &add, c, &p->lead_c);
    }
  }
}
PLAIN int npc_product_once_TAG(char*, int64_t, int64_t, const char*, int64_t, int64_t, const char*, int64_t, int64_t, int64_t,
                                int64_t, int64_t, int64_t);
struct npc_slices_TAG {
  char* partial;
  const char *a, *b;
  int64_t a_m, a_k, b_k, b_n, m, n, k, slice, part;
  int failed;
};
static void npc_slices_TAG(void* context, int64_t begin, int64_t end, int thread) {
  struct npc_slices_TAG* const p = context;
  const int64_t size = sizeof(TYPE);
  for (int64_t slice = begin; slice < end; slice++) {
    const int64_t first = slice * p->slice, k = npc_min(p->slice, p->k - first);
    char* const c = p->partial + slice * p->m * p->n * size;
    const char *a = p->a + first * p->a_k, *b = p->b + first * p->b_k;
    if (npc_product_once_TAG(c, p->n * size, size, a, p->a_m, p->a_k, b, p->b_k, p->b_n, p->m, p->n, k, p->part) > 1)
      __atomic_store_n(&p->failed, 2, __ATOMIC_RELAXED);
  }
}
/* The sum of the products of so many slices of the summed axis. */
PLAIN int npc_sliced_TAG(char* c, int64_t c_m, int64_t c_n, struct npc_slices_TAG* p, int64_t slices) {
  const int64_t m = p->m, n = p->n;
  p->slice = (p->k + slices - 1) / slices;
  p->part = BY_TILES ? PART : npc_max(16, npc_min(PART, MOST_ALONE / (m * n) / 16 * 16));
  const int64_t count = (p->k + p->slice - 1) / p->slice;
  const TYPE* const sums = (TYPE*)(p->partial = rt->scratch(slices * m * n * sizeof(TYPE) + 1));
  if (!sums) return 2;
  if (rt->parallel(npc_slices_TAG, p, count, 1)) p->failed = 3;
  for (int64_t i = 0; !p->failed && i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      TYPE total = sums[i * n + j];
      for (int64_t k = 1; k < count; k++) total += sums[(k * m + i) * n + j];
      *(TYPE*)(c + i * c_m + j * c_n) = total;
    }
  rt->release(p->partial);
  return p->failed ? p->failed : npc_not_finite_TAG(c, m, n, c_m, c_n);
}
/* 0, 1 where an element of c is not finite, 2 without memory, 3 when interrupted. */
PLAIN int npc_product_once_TAG(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k,
                                const char* b, int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block) {
  const int64_t size = sizeof(TYPE), limit = rt->blas_limit;
  if (m * n * k <= FEW || m > limit || n > limit || k > limit) {
    npc_few_TAG(c, c_m, c_n, a, a_m, a_k, b, b_k, b_n, m, n, k);
    return npc_not_finite_TAG(c, m, n, c_m, c_n);
  }
  const int64_t slices = npc_min(MOST_SLICES, m * n * k / SLICE);
  if (TILED && block >= k && slices > 1 && m * n <= MOST_SUMMED && k >= LONG * npc_max(m, n)) {
    struct npc_slices_TAG parts = {NULL, a, b, a_m, a_k, b_k, b_n, m, n, k};
    return npc_sliced_TAG(c, c_m, c_n, &parts, slices);
  }
  PANELS
  char trans_a, trans_b, trans_c;
  char *made_a = NULL, *made_b = NULL, *made_c = NULL;
  char* const result = c;
  const int64_t result_m = c_m, result_n = c_n, result_rows = m, result_columns = n;
  int failed = 2;
  int64_t lead_c = npc_leading(m, n, c_m, c_n, size, &trans_c);
  if (!lead_c) {
    if (!(c = made_c = rt->scratch(m * n * size + 1))) goto done;
    c_m = n * size, c_n = size, lead_c = n, trans_c = 'T';
  }
  if (trans_c == 'T') { /* columns of the transposed result are side by side: c' = b' a' */
    int64_t t;
    const char* x = a;
    a = b, b = x;
    t = a_m, a_m = b_n, b_n = t;
    t = a_k, a_k = b_k, b_k = t;
    t = m, m = n, n = t;
  }
  const int is_symmetric = SYMMETRIC && block >= k && a == b && a_m == b_n && a_k == b_k && m == n;
  int64_t lead_a = npc_leading(m, k, a_m, a_k, size, &trans_a);
  if (!lead_a || lead_a > limit) {
    if (!(a = made_a = npc_dense_TAG(a, m, k, a_m, a_k))) goto done;
    a_m = k * size, a_k = size, lead_a = k, trans_a = 'T';
  }
  int64_t lead_b = npc_leading(k, n, b_k, b_n, size, &trans_b);
  if (is_symmetric) {
    b = a, lead_b = lead_a;
  } else if (!lead_b || lead_b > limit) {
    if (!(b = made_b = npc_dense_TAG(b, k, n, b_k, b_n))) goto done;
    b_k = n * size, b_n = size, lead_b = n, trans_b = 'T';
  }
  const TYPE one = 1, zero = 0;
  int64_t rows = ROWS, columns = COLUMNS;
  int is_tiled = TILED && !is_symmetric && m * n * k > MOST_ALONE;
  if (is_tiled) { /* large matrices are for BLAS, unless tiles read them once */
    int64_t tile_rows, tile_columns, tile_block;
    npc_tile(k, &tile_rows, &tile_columns, &tile_block);
    is_tiled = (m * n + m * k + k * n) * size <= MOST_TILED || m <= tile_rows || n <= tile_columns;
    if (is_tiled && block >= k) rows = tile_rows, columns = tile_columns, block = tile_block;
  }
  if (is_tiled || block < k) { /* small products, each on one thread */
    struct npc_tiles_TAG tiles = {c, a, b, &trans_a, &trans_b, m, n, k, a_m, a_k, b_k, b_n, lead_a, lead_b, lead_c};
    tiles.rows = rows, tiles.columns = columns, tiles.block = block, tiles.down = (m + rows - 1) / rows;
    const int64_t across = (n + columns - 1) / columns, grain = npc_max(1, (1 << 20) / (rows * columns * k));
    if (rt->parallel(npc_tiles_TAG, &tiles, tiles.down * across, grain)) {
      failed = 3;
      goto done;
    }
  } else if (!is_symmetric) {
    rt->GEMM(&trans_a, &trans_b, &m, &n, &k, &one, a, &lead_a, b, &lead_b, &zero, c, &lead_c);
  } else {
    SYRK;
    TYPE* whole = (TYPE*)c;
    for (int64_t i = 0; i < m; i += 32)
      for (int64_t j = 0; j <= i; j += 32)
        for (int64_t u = i; u < npc_min(i + 32, m); u++)
          for (int64_t v = j; v < npc_min(j + 32, u); v++) whole[v + u * lead_c] = whole[u + v * lead_c];
  }
  if (made_c) { /* its rows are side by side; m and n have changed places */
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < m; j++) *(TYPE*)(result + i * result_m + j * result_n) = ((TYPE*)c)[i * m + j];
  }
  failed = npc_not_finite_TAG(result, result_rows, result_columns, result_m, result_n);
done:
  rt->release(made_a);
  rt->release(made_b);
  rt->release(made_c);
  return failed;
}
/* With infinities NumPy's way through BLAS decides which NaN there are, and whether invalid operations are noted, beyond the ends
   of rows too: so they are noted here, and NumPy is asked. */
static int npc_asked_TAG(int status, const char* a, int64_t a_m, int64_t a_k, const char* b, int64_t b_k, int64_t b_n, int64_t m,
                         int64_t n, int64_t k) {
  if (status == 1) {
    volatile int asked = npc_not_finite_TAG(a, m, k, a_m, a_k);
    asked |= npc_not_finite_TAG(b, k, n, b_k, b_n);
  }
  return status == 1 ? 0 : status;
}
static int npc_product_TAG(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k,
                           const char* b, int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block) {
  return npc_asked_TAG(npc_product_once_TAG(c, c_m, c_n, a, a_m, a_k, b, b_k, b_n, m, n, k, block),
                       a, a_m, a_k, b, b_k, b_n, m, n, k);
}
FOR_ROWS
void npc_offer(struct npc_runtime* runtime) {
  rt = runtime;
  runtime->product_TAG = npc_product_TAG;
  OFFER_ROWS
}
"""
SYRK = "rt->ROUTINE(&(char){'L'}, &trans_a, &m, &k, &one, a, &lead_a, &zero, c, &lead_c)"
# Small products, and large matrices, are for BLAS: it is fast on the calling thread, and blocks for all caches.
PANELS = """if (block < k || (m * n * k > MOST_ALONE && ((m * n + m * k + k * n) * size <= MOST_TILED || npc_min(m, n) <= SLIM)))
    return npc_in_panels_TAG(c, c_m, c_n, a, a_m, a_k, b, b_k, b_n, m, n, k, block, 0);"""
ROWS_PRODUCT = """
static int npc_rows_product_TAG(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k, const char* b,
                                int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block, int is_alone) {
  if (m * n * k == 0) {
    npc_few_TAG(c, c_m, c_n, a, a_m, a_k, b, b_k, b_n, m, n, k);
    return 0;
  }
  return npc_asked_TAG(npc_in_panels_TAG(c, c_m, c_n, a, a_m, a_k, b, b_k, b_n, m, n, k, block, is_alone),
                       a, a_m, a_k, b, b_k, b_n, m, n, k);
}
"""
ELEMENTS = {"f4": "float", "f8": "double", "c8": "float _Complex", "c16": "double _Complex"}


def product_library(tag: str) -> str:
    """The functions for products of this dtype, and `npc_offer`, which puts the first of them into the runtime's table."""
    is_real, in_panels = tag in SYMMETRIC, tag in SYMMETRIC and is_openblas()
    names = {"PANELS": PANELS if in_panels else "", "SYRK": SYRK.replace("ROUTINE", SYMMETRIC[tag]) if is_real else "(void)0"}
    offer = "runtime->rows_product_TAG = npc_rows_product_TAG;"
    names |= {"FOR_ROWS": ROWS_PRODUCT, "OFFER_ROWS": offer} if in_panels else {"FOR_ROWS": "", "OFFER_ROWS": ""}
    names |= {
        "BY_TILES": str(int(in_panels)),
        "SYMMETRIC": str(int(is_real)),
        "GEMM": ROUTINES[tag],
        "FEW": str(FEW if is_real else 0),
    }
    names |= {"TYPE": ELEMENTS[tag], "TAG": tag, "ROWS": str(TILE[0]), "COLUMNS": str(TILE[1])}
    names |= {"MOST_ALONE": str(MOST_ALONE), "MOST_TILED": str(MOST_TILED), "SLIM": str(SLIM), "DEPTH": str(DEPTH)}
    names |= {"TILED": str(int(is_openblas()))} | {k: str(v) for k, v in SLICED.items()}
    panels = [vectors_text(), square_text(8 * int(tag[1:]), 8), panels_text(tag, ELEMENTS[tag])] if in_panels else []
    return "\n".join([PLAIN, *panels, filled(CHOICE + PRODUCT, names)])
