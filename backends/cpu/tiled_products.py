"""Products of real matrices in tiles that stay in registers, made by the runtime's own threads.

A task makes some rows of a panel, which is as many columns as a tile has. It copies what it needs of the right matrix side by
side, so that caches see no strides, where that serves rows enough; elements of the left one are read where they are, unless they
lie across memory. The elements of a sum are added in their order, up to DEPTH at a time, as OpenBLAS adds them.
"""

from __future__ import annotations

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.cost_model import PIECES

DEPTH = {
    "f4": 448,
    "f8": 384,
}  # products that are added in registers: as many as OpenBLAS has for processors with 512-bit vectors
WIDEST = 3  # vectors in a row of a tile
TASK = 1 << 19  # products that are worth a task of their own
GRAIN = 1 << 17  # for each lane of a vector: that many are worth a thread
# Rows for which a panel is quicker read where it is than copied: so few in any case, and so many where the right matrix has its
# rows near each other. Those a page apart compete for the same lines of the cache.
DIRECT, DIRECT_NEAR, NEAR = 16, 64, 2048
LEAST_ROWS = 32  # of a task, so that copying the panel takes little of its time; twice as many where it has to be turned over
SHARES = 4  # tasks of a thread, where there are rows enough
MANY_ROWS, FEW_ROWS = 8, 4  # of a tile: where there are 32 vector registers, and 16

VECTORS = """
#if defined(__AVX512F__)
enum { NPC_VECTOR = 64 };
#elif defined(__AVX__)
enum { NPC_VECTOR = 32 };
#else
enum { NPC_VECTOR = 16 };
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define NPC_TILE_ROWS MANY_ROWS
#else
#define NPC_TILE_ROWS FEW_ROWS
#endif
#define NPC_SWAP(x, y) { const int64_t t = x; x = y, y = t; }
#if __has_builtin(__builtin_elementwise_fma)
#define npc_fused_f8(a, b, c) __builtin_elementwise_fma(a, b, c)
#define npc_fused_f4(a, b, c) __builtin_elementwise_fma(a, b, c)
#elif defined(__AVX512F__)
#define npc_fused_f8(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4)
#define npc_fused_f4(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)
#elif defined(__AVX__) && defined(__FMA__)
#define npc_fused_f8(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#define npc_fused_f4(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#else
#define npc_fused_f8(a, b, c) ((a) * (b) + (c))
#define npc_fused_f4(a, b, c) ((a) * (b) + (c))
#endif
"""

# A tile of c: at most NPC_TILE_ROWS rows, of WIDTH vectors. Rows of `b` are b_k bytes apart; its columns are side by side and
# fill the vectors. Is an element not finite?
TILE = """
static int npc_tile_TAG_WIDTH(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k, const char* b,
                              int64_t b_k, int64_t rows, int64_t columns, int64_t k, int add) {
  enum { W = NPC_VECTOR / sizeof(TYPE) };
  typedef TYPE vector __attribute__((vector_size(NPC_VECTOR)));
  typedef TYPE anywhere __attribute__((vector_size(NPC_VECTOR), aligned(1), may_alias));
  const char* const a0 = a; /* rows that are not there are the last one again */
POINTERS
  vector ZEROS;
  MORE_ZEROS
  for (int64_t l = 0, at = 0; l < k; l++, at += a_k, b += b_k) {
    const vector COLUMNS;
STEPS
  }
  vector made[NPC_TILE_ROWS][WIDTH] = {
ROWS_MADE
  };
  vector bad = {0};
  const int64_t whole = c_n == sizeof(TYPE) ? columns / W : 0;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < whole; j++) {
      anywhere* const target = (anywhere*)(c + i * c_m + j * NPC_VECTOR);
      const vector sum = add ? (vector)(*target + made[i][j]) : made[i][j];
      *target = sum;
      bad += sum - sum;
    }
    for (int64_t j = whole * W; j < columns; j++) {
      TYPE* const target = (TYPE*)(c + i * c_m + j * c_n);
      const TYPE value = ((const TYPE*)made[i])[j], sum = add ? *target + value : value;
      *target = sum;
      bad[0] += sum - sum;
    }
  }
  TYPE found = 0;
  for (int64_t j = 0; j < W; j++) found += bad[j];
  return found != 0;
}
"""

TASKS = """
/* How many of the `rest` of a sum are added next: what is left after the last full depth is halved, as OpenBLAS does. */
static int64_t npc_depth_TAG(int64_t rest, int64_t block) {
  const int64_t most = npc_min(block, DEPTH);
  return rest >= 2 * most ? most : rest > most ? npc_min(most, (rest / 2 + 15) / 16 * 16) : rest;
}
struct npc_panels_TAG {
  char* c;
  const char *a, *b;
  int64_t c_m, c_n, a_m, a_k, b_k, b_n, m, n, k, block, rows, down, panels;
  int is_symmetric, is_direct, is_bad, failed;
};
PLAIN void npc_panels_TAG(void* context, int64_t begin, int64_t end, int thread) {
  struct npc_panels_TAG* const p = context;
  enum { W = NPC_VECTOR / sizeof(TYPE), R = NPC_TILE_ROWS };
  typedef TYPE anywhere __attribute__((vector_size(NPC_VECTOR), aligned(1), may_alias));
  const int64_t deepest = npc_min(p->k, npc_min(p->block, DEPTH));
  TYPE* const right = rt->scratch(deepest * (WIDEST * W + R) * sizeof(TYPE));
  if (!right) {
    __atomic_store_n(&p->failed, 2, __ATOMIC_RELAXED);
    return;
  }
  TYPE* const left = right + deepest * WIDEST * W;
  const int64_t vectors = (p->n + W - 1) / W;
  const int is_across = p->a_k != sizeof(TYPE);
  int64_t held = -1;
  int is_bad = 0;
  for (int64_t task = begin; task < end; task++) {
    const int64_t panel = task / p->down, top = task % p->down * p->rows, bottom = npc_min(top + p->rows, p->m);
    const int64_t first = panel * vectors / p->panels * W, stop = npc_min((panel + 1) * vectors / p->panels * W, p->n);
    const int64_t columns = stop - first, width = (columns + W - 1) / W, padded = width * W;
    if (p->is_symmetric && first >= bottom) continue;
    for (int64_t from = 0, k; from < p->k; from += k) {
      k = npc_depth_TAG(p->k - from, p->block);
      const char* const b = p->b + from * p->b_k + first * p->b_n;
      const int is_direct = p->is_direct && columns == padded;
      if (!is_direct && (held != panel || k < p->k)) {
        if (p->b_n == sizeof(TYPE))
          for (int64_t l = 0; l < k; l++) {
            const TYPE* const row = (const TYPE*)(b + l * p->b_k);
            TYPE* const to = right + l * padded;
            int64_t j = 0;
            for (; j + W <= columns; j += W) *(anywhere*)(to + j) = *(const anywhere*)(row + j);
            for (; j < columns; j++) to[j] = row[j];
            for (; j < padded; j++) to[j] = 0;
          }
        else
          for (int64_t j = 0; j < padded; j += 4)
            for (int64_t l = 0; l < k; l += 8) {
              const char* const from = b + l * p->b_k + j * p->b_n;
              if (p->b_k == sizeof(TYPE) && j % 8 == 0 && j + 8 <= columns && l + 8 <= k) {
                npc_squareBITS_8((char*)(right + l * padded + j), padded * sizeof(TYPE), from, p->b_n);
                continue;
              }
              if (p->b_k == sizeof(TYPE) && j % 8 == 4 && j + 4 <= columns && l + 8 <= k) continue; /* in a square */
              for (int64_t u = 0; u < npc_min(8, k - l); u++)
                for (int64_t v = 0; v < npc_min(4, padded - j); v++)
                  right[(l + u) * padded + j + v] = j + v < columns ? *(const TYPE*)(from + u * p->b_k + v * p->b_n) : 0;
            }
        held = panel;
      }
      for (int64_t i = top; i < bottom; i += R) {
        const int64_t rows = npc_min(R, bottom - i);
        if (p->is_symmetric && first >= i + rows) continue; /* beyond the diagonal */
        const char* a = p->a + i * p->a_m + from * p->a_k;
        char* const c = p->c + i * p->c_m + first * p->c_n;
        int64_t a_m = p->a_m, a_k = p->a_k;
        if (is_across) {
          if (a_m == sizeof(TYPE) && rows == R)
            for (int64_t l = 0; l < k; l++) __builtin_memcpy(left + l * R, a + l * a_k, R * sizeof(TYPE));
          else
            for (int64_t l = 0; l < k; l++)
              for (int64_t r = 0; r < R; r++) left[l * R + r] = *(const TYPE*)(a + l * a_k + npc_min(r, rows - 1) * a_m);
          a = (const char*)left, a_m = sizeof(TYPE), a_k = sizeof(TYPE) * R;
        }
        int found;
CHOICE
        is_bad = from + k < p->k ? is_bad : is_bad | found;
      }
    }
  }
  rt->release(right);
  if (is_bad) __atomic_store_n(&p->is_bad, 1, __ATOMIC_RELAXED);
}
/* c = a @ b. 0, 1 where an element of c is not finite, 2 without memory, 3 when interrupted. Alone, each panel is one task. */
PLAIN int npc_in_panels_TAG(char* c, int64_t c_m, int64_t c_n, const char* a, int64_t a_m, int64_t a_k, const char* b,
                             int64_t b_k, int64_t b_n, int64_t m, int64_t n, int64_t k, int64_t block, int is_alone) {
  enum { W = NPC_VECTOR / sizeof(TYPE), R = NPC_TILE_ROWS };
  const int is_symmetric = a == b && a_m == b_n && a_k == b_k && m == n;
  int64_t upright = (m + R - 1) / R * R * ((n + W - 1) / W * W), turned = (n + R - 1) / R * R * ((m + W - 1) / W * W);
  if (c_n != sizeof(TYPE)) upright += upright / 4;
  if (c_m != sizeof(TYPE)) turned += turned / 4;
  if (turned < upright) { /* c' = b' a' */
    const char* x = a;
    a = b, b = x;
    NPC_SWAP(c_m, c_n) NPC_SWAP(a_m, b_n) NPC_SWAP(a_k, b_k) NPC_SWAP(m, n)
  }
  struct npc_panels_TAG p = {c, a, b, c_m, c_n, a_m, a_k, b_k, b_n, m, n, k};
  p.block = npc_max(1, block);
  p.panels = ((n + W - 1) / W + WIDEST - 1) / WIDEST;
  p.is_symmetric = is_symmetric;
  const int64_t least = b_n == sizeof(TYPE) ? LEAST_ROWS : 2 * LEAST_ROWS, each = npc_min(n, W * WIDEST) * k;
  const int64_t shares = (SHARES * rt->threads() + p.panels - 1) / p.panels;
  const int64_t most = is_alone ? m : npc_max(least, npc_min(TASK / each, m / shares)), slices = (m + most - 1) / most;
  p.rows = ((m + slices - 1) / slices + R - 1) / R * R;
  p.down = (m + p.rows - 1) / p.rows;
  const int64_t of_panel = is_alone ? m : npc_min(m, p.rows * (p.panels * p.down / rt->threads() + 1));
  const int is_near = b_k <= MOST_NEAR && b_k >= -MOST_NEAR;
  p.is_direct = b_n == sizeof(TYPE) && of_panel <= (is_near ? DIRECT_NEAR : DIRECT);
  const int64_t grain = npc_max(1, GRAIN * W / (p.rows * each));
  if (is_alone)
    npc_panels_TAG(&p, 0, p.panels, 0);
  else if (rt->parallel_in_pieces(npc_panels_TAG, &p, p.panels * p.down, grain, grain / PIECES)) return 3;
  if (p.failed) return p.failed;
  for (int64_t i = 0; is_symmetric && i < m; i += 32)
    for (int64_t j = i; j < n; j += 32)
      for (int64_t u = i; u < npc_min(i + 32, m); u++)
        for (int64_t v = npc_max(j, u + 1); v < npc_min(j + 32, n); v++)
          *(TYPE*)(c + u * c_m + v * c_n) = *(const TYPE*)(c + v * c_m + u * c_n);
  return p.is_bad;
}
"""


def panels_text(tag: str, element: str) -> str:
    """The functions for products of `element`s, a C type."""
    names = {
        "TYPE": element,
        "TAG": tag,
        "BITS": str(8 * int(tag[1:])),
        "DEPTH": str(DEPTH[tag]),
        "TASK": str(TASK),
        "LEAST_ROWS": str(LEAST_ROWS),
        "DIRECT_NEAR": str(DIRECT_NEAR),
        "DIRECT": str(DIRECT),
        "MOST_NEAR": str(NEAR),
    }
    names |= {"GRAIN": str(GRAIN), "SHARES": str(SHARES), "PIECES": str(PIECES)}
    tiles = [filled(tile_text(width), names) for width in range(1, WIDEST + 1)]
    right = "is_direct ? b : (char*)right, is_direct ? p->b_k : padded * (int64_t)sizeof(TYPE)"
    call = f"c, p->c_m, p->c_n, a, a_m, a_k, {right}, rows, columns, k, from > 0"
    choice = [f"        {'else ' if w < WIDEST else ''}{f'if (width == {w}) ' if w > 1 else ''}" for w in range(WIDEST, 0, -1)]
    choice = [f"{c}found = npc_tile_{tag}_{w}({call});" for c, w in zip(choice, range(WIDEST, 0, -1))]
    tasks = filled(TASKS.replace("CHOICE", "\n".join(choice)).replace("WIDEST", str(WIDEST)), names)
    return "\n".join([*tiles, tasks])


def vectors_text() -> str:
    """What the functions of all dtypes need."""
    return VECTORS.replace("MANY_ROWS", str(MANY_ROWS)).replace("FEW_ROWS", str(FEW_ROWS))


def tile_text(width: int) -> str:
    pointers = [f"  const char* const a{i} = a{i - 1} + (rows > {i} ? a_m : 0);" for i in range(1, MANY_ROWS)]
    zeros = [", ".join(f"v{i}{j} = {{0}}" for j in range(width)) for i in range(MANY_ROWS)]
    steps = [step_text(i, width) for i in range(MANY_ROWS)]
    made = [f"      {{{', '.join(f'v{i}{j}' for j in range(width))}}}," for i in range(MANY_ROWS)]
    text = TILE.replace("POINTERS", guarded(pointers, FEW_ROWS - 1)).replace("STEPS", guarded(steps, FEW_ROWS))
    text = text.replace("MORE_ZEROS", f"\n#if NPC_TILE_ROWS > {FEW_ROWS}\n  vector {', '.join(zeros[FEW_ROWS:])};\n#endif")
    text = text.replace("ZEROS", ", ".join(zeros[:FEW_ROWS])).replace("ROWS_MADE", guarded(made, FEW_ROWS))
    columns = ", ".join(f"b{j} = *(const anywhere*)(b + {j} * NPC_VECTOR)" for j in range(width))
    return text.replace("COLUMNS", columns).replace("WIDTH", str(width))


def step_text(i: int, width: int) -> str:
    """One element of row `i` times one row of `b`."""
    adds = " ".join(f"v{i}{j} = npc_fused_TAG(x, b{j}, v{i}{j});" for j in range(width))
    return f"    {{ const TYPE s = *(const TYPE*)(a{i} + at); const vector x = s - (vector){{0}}; {adds} }}"


def guarded(lines: list[str], few: int) -> str:
    """The lines, of which only so few are for the smaller tiles."""
    return "\n".join([*lines[:few], f"#if NPC_TILE_ROWS > {FEW_ROWS}", *lines[few:], "#endif"])
