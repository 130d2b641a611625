"""The product of two vectors as C: one text for all loops, so that it has the same bits in all of them."""

from __future__ import annotations

from typing import Final

from npcompile.backends.cpu.c_templates import filled

BOUNDED = 256  # elements of vectors that are read from the boundary before them
REGISTER: Final = """#if defined(__AVX512F__)
#define NPC_REGISTER 64 /* bytes of the widest vectors: wider ones would be in memory */
#elif defined(__AVX__)
#define NPC_REGISTER 32
#else
#define NPC_REGISTER 16
#endif
"""
# It follows `REGISTER`. What has W in it ends with `END`.
DOT: Final = r"""
typedef TYPE npc_v_TAG __attribute__((vector_size(NPC_REGISTER), aligned(sizeof(TYPE)), may_alias));
#define W ((int64_t)(NPC_REGISTER / sizeof(TYPE)))
#if __has_builtin(__builtin_elementwise_fma)
#define npc_fused_TAG(a, b, c) __builtin_elementwise_fma(a, b, c)
#elif defined(__AVX512F__)
#define npc_fused_TAG(a, b, c) FUSED512(a, b, c, -1, 4)
#elif defined(__AVX__) && defined(__FMA__)
#define npc_fused_TAG(a, b, c) FUSED256(a, b, c)
#else
#define npc_fused_TAG(a, b, c) ((a) * (b) + (c))
#endif
static inline TYPE npc_added_TAG(npc_v_TAG v) {
  typedef TYPE half __attribute__((vector_size(32)));
  typedef TYPE quarter __attribute__((vector_size(16)));
  enum { Q = 16 / sizeof(TYPE) };
#if NPC_REGISTER == 64
  const union { npc_v_TAG whole; half halves[2]; } a = {v};
  const union { half whole; quarter quarters[2]; } b = {a.halves[0] + a.halves[1]};
  const quarter c = b.quarters[0] + b.quarters[1];
#elif NPC_REGISTER == 32
  const union { npc_v_TAG whole; quarter quarters[2]; } b = {v};
  const quarter c = b.quarters[0] + b.quarters[1];
#else
  const quarter c = v;
#endif
  return sizeof(TYPE) == 8 ? c[0] + c[1] : (c[0] + c[2 % Q]) + (c[1] + c[3 % Q]);
}
/* Is one of n x m elements, s and t bytes apart, infinite? Comparisons would note NaN. */
static __attribute__((noinline, cold)) int npc_has_infinity_TAG(const char* x, int64_t n, int64_t s, int64_t m, int64_t t) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++) {
      const union { TYPE x; BITS bits; } found = {*(const TYPE*)(x + i * s + j * t)}, infinity = {__builtin_inf()};
      if (found.bits << 1 == infinity.bits << 1) return 1;
    }
  return 0;
}
static inline int npc_not_finite_TAG(const TYPE* x, int64_t n) {
  BITS bits = 0;
  for (int64_t i = 0; i < n; i++) bits |= ((union { TYPE x; BITS bits; }){x[i] - x[i]}).bits;
  return bits != 0;
}
/* Lanes from `first` to below `last` of the vector at p. The others are 0, and are not read. */
static inline npc_v_TAG npc_lanes_TAG(const TYPE* p, int64_t first, int64_t last) {
  npc_v_TAG v = {0};
#if defined(__AVX512F__)
  if (last > first) v = MASKED512(p, v, (1u << last) - (1u << first));
#elif defined(__AVX2__) && !defined(__clang__)
  typedef WORD words __attribute__((vector_size(32)));
  const words lane = PLACES;
  v = MASKED256((const void*)p, (words)((lane >= (WORD)first) & (lane < (WORD)last)));
#else
  for (int64_t k = first; k < last; k++) v[k] = p[k];
#endif
  return v;
}
/* The sum of n products, at least 5 W. Lanes begin at the last boundary of a vector before `a`: reading across boundaries takes
   twice as long. A lane adds every 4 W-th product wherever the first one lies, and what adds up the lanes does not depend on
   which is the first, so a result does not depend on where the arrays lie. */
static TYPE npc_long_dot_TAG(const TYPE* a, const TYPE* b, int64_t n) {
  const int64_t shift = (uintptr_t)a % sizeof(TYPE) == 0 ? (int64_t)((uintptr_t)a / sizeof(TYPE) % W) : 0;
  npc_v_TAG v[4] = {{0}};
  a -= shift, b -= shift, n += shift;
  int64_t i = 0;
#define NPC_PARTS(first, last) \
  for (int64_t k = 0; k < 4; k++) \
    v[k] = npc_fused_TAG(npc_lanes_TAG(a + i + k * W, first, last), npc_lanes_TAG(b + i + k * W, first, last), v[k]);
  NPC_PARTS(npc_max(0, shift - k * W), W)
  for (i = 4 * W; i + 4 * W <= n; i += 4 * W)
    for (int64_t k = 0; k < 4; k++)
      v[k] = npc_fused_TAG(*(npc_v_TAG*)(a + i + k * W), *(npc_v_TAG*)(b + i + k * W), v[k]);
  NPC_PARTS(0, npc_max(0, npc_min(W, n - i - k * W)))
#undef NPC_PARTS
  return npc_added_TAG((v[0] + v[2]) + (v[1] + v[3]));
}
/* The sum of n products of elements that lie `s` and `t` bytes apart. */
static inline TYPE npc_dot_TAG(const char* x, int64_t s, const char* y, int64_t t, int64_t n) {
  int64_t i = 0;
  if (s == sizeof(TYPE) && t == sizeof(TYPE)) {
    const TYPE *a = (const TYPE*)x, *b = (const TYPE*)y;
    if (n >= BOUNDED) return npc_long_dot_TAG(a, b, n);
    npc_v_TAG v0 = {0}, v1 = {0}, v2 = {0}, v3 = {0};
    for (; i + 4 * W <= n; i += 4 * W) {
      v0 += *(npc_v_TAG*)(a + i) * *(npc_v_TAG*)(b + i);
      v1 += *(npc_v_TAG*)(a + i + W) * *(npc_v_TAG*)(b + i + W);
      v2 += *(npc_v_TAG*)(a + i + 2 * W) * *(npc_v_TAG*)(b + i + 2 * W);
      v3 += *(npc_v_TAG*)(a + i + 3 * W) * *(npc_v_TAG*)(b + i + 3 * W);
    }
    for (; i + W <= n; i += W) v0 += *(npc_v_TAG*)(a + i) * *(npc_v_TAG*)(b + i);
    TYPE rest = 0;
    for (; i < n; i++) rest += a[i] * b[i];
    return npc_added_TAG((v0 + v1) + (v2 + v3)) + rest;
  }
  TYPE lanes[8] = {0};
  for (; i + 8 <= n; i += 8)
    for (int64_t k = 0; k < 8; k++) lanes[k] += *(const TYPE*)(x + (i + k) * s) * *(const TYPE*)(y + (i + k) * t);
  for (; i < n; i++) lanes[i % 8] += *(const TYPE*)(x + i * s) * *(const TYPE*)(y + i * t);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}
"""
END: Final = "#undef W\n"
TAGS: Final = {"f4": "float", "f8": "double"}
INTRINSIC: Final = {  # of vectors: products that are added, and loads of the lanes in a mask
    "f4": {
        "FUSED512": "__builtin_ia32_vfmaddps512_mask",
        "MASKED512": "__builtin_ia32_loadups512_mask",
        "FUSED256": "__builtin_ia32_vfmaddps256",
        "MASKED256": "__builtin_ia32_maskloadps256",
        "WORD": "int",
        "PLACES": "{0, 1, 2, 3, 4, 5, 6, 7}",
    },
    "f8": {
        "FUSED512": "__builtin_ia32_vfmaddpd512_mask",
        "MASKED512": "__builtin_ia32_loadupd512_mask",
        "FUSED256": "__builtin_ia32_vfmaddpd256",
        "MASKED256": "__builtin_ia32_maskloadpd256",
        "WORD": "long long",
        "PLACES": "{0, 1, 2, 3}",
    },
}


def names_of(tag: str) -> dict[str, str]:
    """What stands for the names in the text, for numbers of a dtype."""
    return {"TYPE": TAGS[tag], "BITS": f"int{8 * int(tag[1:])}_t", "TAG": tag, **INTRINSIC[tag], "BOUNDED": str(BOUNDED)}


def dot_text(tag: str) -> str:
    """`npc_dot_<tag>(x, s, y, t, n)`: the sum of n products of elements that lie `s` and `t` bytes apart."""
    return REGISTER + filled(DOT + END, names_of(tag))
