"""C99 alone: checked arithmetic by comparisons, no vectors, no threads, memory by malloc, no floating-point flags."""

from __future__ import annotations

from typing import Final

from npcompile.backends.loop_ir.libm import HELPERS as OF_NUMBERS
from npcompile.backends.loop_ir.target import SHARED_HELPERS, Ability, Target, of_words

OUT_OF_MEMORY: Final = -1  # what the function returns instead of the number of a way out
# Of words of 32 bits and less: 64 bits hold the exact result.
OVERFLOWS: Final = """NPC_INLINE int npc_add_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a + b; return r != (@)r; }
NPC_INLINE int npc_subtract_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a - b; return r != (@)r; }
NPC_INLINE int npc_multiply_overflows_$(@ a, @ b) { const npc_i64 r = (npc_i64)a * b; return r != (@)r; }
"""
LONG_OVERFLOWS: Final = """#define NPC_MOST 9223372036854775807LL
#define NPC_LEAST (-NPC_MOST - 1)
NPC_INLINE int npc_add_overflows_i64(npc_i64 a, npc_i64 b) { return b > 0 ? a > NPC_MOST - b : a < NPC_LEAST - b; }
NPC_INLINE int npc_subtract_overflows_i64(npc_i64 a, npc_i64 b) { return b < 0 ? a > NPC_MOST + b : a < NPC_LEAST + b; }
NPC_INLINE int npc_multiply_overflows_i64(npc_i64 a, npc_i64 b) {
  if (a == 0 || b == 0) return 0;
  if (a > 0) return b > 0 ? a > NPC_MOST / b : b < NPC_LEAST / a;
  return b > 0 ? a < NPC_LEAST / b : b < NPC_MOST / a;
}
NPC_INLINE int npc_add_overflows_u64(unsigned long long a, unsigned long long b) { return a + b < a; }
NPC_INLINE int npc_subtract_overflows_u64(unsigned long long a, unsigned long long b) { return a < b; }
NPC_INLINE int npc_multiply_overflows_u64(unsigned long long a, unsigned long long b) { return a != 0 && a * b / a != b; }
"""
MEMORY: Final = f"""/* The memory of a call: blocks that are freed when it ends, but for those of its results. */
struct npc_block {{ struct npc_block* next; void* data; }};
struct npc_frame {{ struct npc_block* blocks; }};
struct npc_site {{ char* data; npc_i64 room; }};
struct npc_list {{ npc_i64 length, capacity; char* data; }};
static NPC_UNUSED void* npc_memory(struct npc_frame* frame, npc_i64 bytes, int zeroed) {{
  struct npc_block* const block = malloc(sizeof *block);
  if (!block) return 0;
  if (bytes < 1) bytes = 1;
  block->data = (unsigned long long)bytes > (size_t)-1 ? 0 : zeroed ? calloc((size_t)bytes, 1) : malloc((size_t)bytes);
  if (!block->data) {{ free(block); return 0; }}
  block->next = frame->blocks;
  frame->blocks = block;
  return block->data;
}}
/* An array's bytes. -1: more than there are addresses. */
static NPC_UNUSED npc_i64 npc_bytes(int rank, const npc_i64* n, npc_i64 size) {{
  int axis;
  for (axis = 0; axis < rank; axis++) if (n[axis] == 0) return 0;
  for (axis = 0; axis < rank; axis++) {{
    if (n[axis] < 0 || npc_multiply_overflows_i64(size, n[axis])) return -1;
    size *= n[axis];
  }}
  return size;
}}
static NPC_UNUSED char* npc_allocate(struct npc_frame* frame, int rank, const npc_i64* n, npc_i64 size, int zeroed) {{
  const npc_i64 bytes = npc_bytes(rank, n, size);
  return bytes < 0 ? 0 : npc_memory(frame, bytes, zeroed);
}}
#define NPC_ALLOCATE(a, kind, rank, bytes, zeroed) {{ \\
  a.data = npc_allocate(frame, rank, a.n, NPC_SIZE_##kind, zeroed); \\
  if (!a.data) return {OUT_OF_MEMORY}; \\
  a.owner = (npc_i64)(intptr_t)a.data; a.is_view = 0; }}
/* An array of a site, whose memory the site's next one takes if that is enough. */
#define NPC_TAKE(a, site, rank, bytes, zeroed) {{ \\
  const npc_i64 wanted = npc_bytes(rank, a.n, a.s[rank - 1]); \\
  if (wanted < 0) return {OUT_OF_MEMORY}; \\
  if (!site.data || wanted > site.room) {{ \\
    site.data = npc_memory(frame, wanted, 0); \\
    if (!site.data) return {OUT_OF_MEMORY}; \\
    site.room = wanted; \\
  }} \\
  a.data = site.data; a.owner = (npc_i64)(intptr_t)a.data; a.is_view = 0; \\
  if (zeroed) memset(a.data, 0, (size_t)wanted); }}
static NPC_UNUSED int npc_grow(struct npc_frame* frame, struct npc_list* list) {{
  const npc_i64 capacity = list->capacity ? 2 * list->capacity : 16;
  char* const data = npc_memory(frame, 8 * capacity, 0);
  if (!data) return 0;
  if (list->length) memcpy(data, list->data, (size_t)(8 * list->length));
  list->data = data; list->capacity = capacity;
  return 1;
}}
#define NPC_NEW_LIST(v) {{ v = npc_memory(frame, sizeof(struct npc_list), 1); if (!v) return {OUT_OF_MEMORY}; }}
#define NPC_APPEND(type, v, x) {{ \\
  if (v->length == v->capacity && !npc_grow(frame, v)) return {OUT_OF_MEMORY}; \\
  ((type*)v->data)[v->length++] = x; }}
static NPC_UNUSED void npc_free(struct npc_frame* frame) {{
  while (frame->blocks) {{
    struct npc_block* const next = frame->blocks->next;
    free(frame->blocks->data);
    free(frame->blocks);
    frame->blocks = next;
  }}
}}
/* The memory that begins there, for the caller to free. 0: it is none of this call, or another result has it already. */
static NPC_UNUSED void* npc_keep(struct npc_frame* frame, npc_i64 owner) {{
  struct npc_block* block;
  for (block = frame->blocks; block; block = block->next) {{
    if (block->data && (npc_i64)(intptr_t)block->data == owner) {{
      void* const data = block->data;
      block->data = 0;
      return data;
    }}
  }}
  return 0;
}}
"""
ARGUMENTS: Final = """static NPC_UNUSED int npc_is_shape(int rank, const int64_t* n) {
  int axis;
  for (axis = 0; axis < rank; axis++) if (n[axis] < 0 || n[axis] > (int64_t)1 << 60) return 0;
  return 1;
}
/* Are elements in C order, without gaps? Where there are none, or one along an axis, strides say nothing. */
static NPC_UNUSED int npc_is_dense(int rank, const int64_t* n, const int64_t* s, int64_t size) {
  int axis;
  for (axis = 0; axis < rank; axis++) if (n[axis] == 0) return 1;
  for (axis = rank - 1; axis >= 0; axis--) {
    if (n[axis] != 1 && s[axis] != size) return 0;
    size *= n[axis];
  }
  return 1;
}
/* Do axes from the shortest stride on step over all elements of those before? */
static NPC_UNUSED int npc_overlaps_itself(int rank, const int64_t* n, const int64_t* s, int64_t size) {
  int axis, other;
  for (axis = 0; axis < rank; axis++) if (n[axis] == 0) return 0;
  for (axis = 0; axis < rank; axis++) {
    const int64_t step = s[axis] < 0 ? -s[axis] : s[axis];
    int64_t within = size;
    if (n[axis] == 1) continue;
    for (other = 0; other < rank; other++) {
      const int64_t its = s[other] < 0 ? -s[other] : s[other];
      if (other != axis && n[other] > 1 && (its < step || (its == step && other < axis))) within += its * (n[other] - 1);
    }
    if (step < within) return 1;
  }
  return 0;
}
/* Copies the elements from or to memory without gaps, of which the end is given. */
static NPC_UNUSED char* npc_copy(int rank, const int64_t* n, const int64_t* s, size_t size, char* at, char* packed, int is_back) {
  int64_t i;
  if (rank == 0) {
    if (is_back) memcpy(at, packed, size); else memcpy(packed, at, size);
    return packed + size;
  }
  for (i = 0; i < n[0]; i++) packed = npc_copy(rank - 1, n + 1, s + 1, size, at + i * s[0], packed, is_back);
  return packed;
}
"""
# NumPy's order of additions, so its bits.
ROUTINES: Final = """static NPC_UNUSED double npc_pairs(const char* x, npc_i64 n, npc_i64 s) {
  npc_i64 i, half;
  int k;
  if (n < 8) {
    double sum = -0.0;
    for (i = 0; i < n; i++) sum += *(const double*)(x + i * s);
    return sum;
  }
  if (n <= 128) {
    double r[8], sum;
    for (k = 0; k < 8; k++) r[k] = *(const double*)(x + k * s);
    for (i = 8; i < n - n % 8; i += 8)
      for (k = 0; k < 8; k++) r[k] += *(const double*)(x + (i + k) * s);
    sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++) sum += *(const double*)(x + i * s);
    return sum;
  }
  half = n / 2;
  half -= half % 8;
  return npc_pairs(x, half, s) + npc_pairs(x + half * s, n - half, s);
}
static NPC_UNUSED double npc_sum(const char* x, npc_i64 n, npc_i64 s) { return npc_pairs(x, n, s) + 0.0; }
static NPC_UNUSED double npc_dot(const char* x, npc_i64 n, npc_i64 s, const char* y, npc_i64 m, npc_i64 t) {
  double sum = 0;
  npc_i64 i;
  (void)m;
  for (i = 0; i < n; i++) sum += *(const double*)(x + i * s) * *(const double*)(y + i * t);
  return sum;
}
/* out[i, j] is the sum over k of a[i, k] * b[k, j], for sizes and strides of the axes. */
static NPC_UNUSED int npc_product(char* out, const char* a, npc_i64 m, npc_i64 a_m, npc_i64 k, npc_i64 a_k,
                                  const char* b, npc_i64 b_k, npc_i64 n, npc_i64 b_n) {
  double* const c = (double*)out;
  npc_i64 i, j, p;
  for (i = 0; i < m; i++) {
    for (j = 0; j < n; j++) c[i * n + j] = 0;
    for (p = 0; p < k; p++) {
      const double left = *(const double*)(a + i * a_m + p * a_k);
      for (j = 0; j < n; j++) c[i * n + j] += left * *(const double*)(b + p * b_k + j * b_n);
    }
  }
  return 0;
}
"""
MATRIX: Final = "const char* {0}, npc_i64 {0}0, npc_i64 {0}_0, npc_i64 {0}1, npc_i64 {0}_1"
VECTOR: Final = "const char* x, npc_i64 x0, npc_i64 x_0"
TURNED: Final = {"": "", "_of_turned": "a", "_by_turned": "b", "_of_both_turned": "ab"}


def products() -> str:
    """The routines of Routine ops: products of matrices, of which either may be turned over."""
    text = ""
    for name, turned in TURNED.items():
        (m, k), (q, n) = ("10" if "a" in turned else "01"), ("10" if "b" in turned else "01")
        if "b" not in turned:
            text += (
                f"static NPC_UNUSED int npc_by_matvec{name}(char* out, {MATRIX.format('a')}, {VECTOR}) {{\n"
                f"  (void)x0;\n  return npc_product(out, a, a{m}, a_{m}, a{k}, a_{k}, x, x_0, 1, 0);\n}}\n"
            )
        text += (
            f"static NPC_UNUSED int npc_by_matmul{name}(char* out, {MATRIX.format('a')}, {MATRIX.format('b')}) {{\n"
            f"  (void)b{q};\n  return npc_product(out, a, a{m}, a_{m}, a{k}, a_{k}, b, b_{q}, b{n}, b_{n});\n}}\n"
        )
    return text


SIZES: Final = (
    "enum { NPC_SIZE_B1 = 1, NPC_SIZE_I8 = 1, NPC_SIZE_U8 = 1, NPC_SIZE_I16 = 2, NPC_SIZE_U16 = 2, NPC_SIZE_I32 = 4,\n"
    + ("       NPC_SIZE_U32 = 4, NPC_SIZE_F32 = 4, NPC_SIZE_I64 = 8, NPC_SIZE_U64 = 8, NPC_SIZE_F64 = 8 };\n")
)
HELPERS: Final = f"""#if defined(__GNUC__)
#define NPC_UNUSED __attribute__((unused))
#else
#define NPC_UNUSED
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif
typedef int64_t npc_i64;
union npc_word {{ npc_i64 i; double d; float f; char* p; }};
#define NPC_INLINE static NPC_UNUSED inline
#define NPC_UNLIKELY(c) (c)
#define NPC_STRAIGHT
#define NPC_NAN ((double)NAN)
#define NPC_INFINITY ((double)INFINITY)
{SIZES}{SHARED_HELPERS}{OF_NUMBERS}{of_words(OVERFLOWS, 4)}{LONG_OVERFLOWS}{MEMORY}{ARGUMENTS}{ROUTINES}{products()}
#define NPC_LEAVE(number) return number
"""
FUNCTION: Final = "static npc_i64 npc_loop(NPC_UNUSED struct npc_frame* frame, const union npc_word* in, union npc_word* out) {"
ABILITIES: Final = frozenset({Ability.ALLOCATE, Ability.LISTS, Ability.THREADS})  # threads: of routines, which are functions here
C99: Final = Target("C99", HELPERS, FUNCTION, {}, False, ABILITIES)
