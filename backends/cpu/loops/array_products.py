"""Products of matrices and vectors in native loops as C.

Vectors are multiplied by code of our own: OpenBLAS's threads, once it has woken them, would take the processors from the
runtime's. Rows with elements side by side are dotted, four at a time; where columns have theirs side by side, many results are
added up at once. Matrices go to `product.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.array_trees import Part
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.nests import Function
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.cpu.texts import filled

LONG = 128  # products that are added without a partial sum: fewer roundings follow one another then
GRAIN, PIECE = 1 << 18, 1 << 13  # products that are worth waking a thread; that are worth one which is awake

VECTORS = r"""
typedef TYPE npc_v_TAG __attribute__((vector_size(64), aligned(sizeof(TYPE)), may_alias));
#define W ((int64_t)(64 / sizeof(TYPE)))
static inline TYPE npc_added_TAG(npc_v_TAG v) {
  typedef TYPE half __attribute__((vector_size(32)));
  typedef TYPE quarter __attribute__((vector_size(16)));
  union { npc_v_TAG whole; half halves[2]; } a = {v};
  union { half whole; quarter quarters[2]; } b = {a.halves[0] + a.halves[1]};
  enum { Q = 16 / sizeof(TYPE) };
  quarter c = b.quarters[0] + b.quarters[1];
  return sizeof(TYPE) == 8 ? c[0] + c[1] : (c[0] + c[2 % Q]) + (c[1] + c[3 % Q]);
}
/* The sum of n products of elements that lie `s` and `t` bytes apart. */
static inline TYPE npc_dot_TAG(const char* x, int64_t s, const char* y, int64_t t, int64_t n) {
  int64_t i = 0;
  if (s == sizeof(TYPE) && t == sizeof(TYPE)) {
    const TYPE *a = (const TYPE*)x, *b = (const TYPE*)y;
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
struct npc_matvec_TAG { const char* a; int64_t rows, inner; const char* x; int64_t step; char* out; int64_t n; };
/* out[i] = the sum over k of a[i, k] * x[k], with `out` in C order. */
static void npc_matvec_rows_TAG(void* context, int64_t begin, int64_t end, int thread) {
  const struct npc_matvec_TAG c = *(struct npc_matvec_TAG*)context;
  TYPE* out = (TYPE*)c.out;
  int64_t i = begin;
  if (c.inner == sizeof(TYPE) && c.step == sizeof(TYPE)) {
    const TYPE* x = (const TYPE*)c.x;
    for (; i + 4 <= end && c.n >= W; i += 4) {
      const char* a = c.a + i * c.rows;
      npc_v_TAG v0 = {0}, v1 = {0}, v2 = {0}, v3 = {0};
      int64_t k = 0;
      for (; k + W <= c.n; k += W) {
        const npc_v_TAG b = *(npc_v_TAG*)(x + k);
        v0 += *(npc_v_TAG*)((TYPE*)a + k) * b;
        v1 += *(npc_v_TAG*)((TYPE*)(a + c.rows) + k) * b;
        v2 += *(npc_v_TAG*)((TYPE*)(a + 2 * c.rows) + k) * b;
        v3 += *(npc_v_TAG*)((TYPE*)(a + 3 * c.rows) + k) * b;
      }
      TYPE rest[4] = {0};
      for (; k < c.n; k++)
        for (int64_t r = 0; r < 4; r++) rest[r] += *((TYPE*)(a + r * c.rows) + k) * x[k];
      out[i] = npc_added_TAG(v0) + rest[0];
      out[i + 1] = npc_added_TAG(v1) + rest[1];
      out[i + 2] = npc_added_TAG(v2) + rest[2];
      out[i + 3] = npc_added_TAG(v3) + rest[3];
    }
  } else if (c.rows == sizeof(TYPE)) {
    for (; i + W <= end; i += 4 * W) {
      const int64_t parts = npc_min(4, (end - i) / W);
      npc_v_TAG total[4] = {{0}};
      for (int64_t k = 0; k < c.n;) {
        const int64_t stop = npc_min(c.n, k + LONG);
        npc_v_TAG v[4] = {{0}};
        if (parts == 4) {
          for (; k < stop; k++) {
            const TYPE* a = (const TYPE*)(c.a + k * c.inner) + i;
            const TYPE b = *(const TYPE*)(c.x + k * c.step);
            for (int64_t p = 0; p < 4; p++) v[p] += *(npc_v_TAG*)(a + p * W) * b;
          }
        } else {
          for (; k < stop; k++) {
            const TYPE* a = (const TYPE*)(c.a + k * c.inner) + i;
            const TYPE b = *(const TYPE*)(c.x + k * c.step);
            for (int64_t p = 0; p < parts; p++) v[p] += *(npc_v_TAG*)(a + p * W) * b;
          }
        }
        for (int64_t p = 0; p < 4; p++) total[p] += v[p];
      }
      for (int64_t p = 0; p < parts; p++) *(npc_v_TAG*)(out + i + p * W) = total[p];
      if (parts < 4) { i += parts * W; break; }
    }
    const int64_t left = end - i;
    if (left > 0 && left < W) {
      TYPE total[W] = {0};
      for (int64_t k = 0; k < c.n;) {
        const int64_t stop = npc_min(c.n, k + LONG);
        TYPE v[W] = {0};
        for (; k < stop; k++)
          for (int64_t p = 0; p < left; p++) v[p] += ((const TYPE*)(c.a + k * c.inner))[i + p] * *(const TYPE*)(c.x + k * c.step);
        for (int64_t p = 0; p < left; p++) total[p] += v[p];
      }
      for (int64_t p = 0; p < left; p++) out[i + p] = total[p];
      i = end;
    }
  }
  for (; i < end; i++) out[i] = npc_dot_TAG(c.a + i * c.rows, c.inner, c.x, c.step, c.n);
}
static int npc_matvec_TAG(const char* a, int64_t rows, int64_t inner, const char* x, int64_t step, char* out, int64_t m,
                          int64_t n) {
  struct npc_matvec_TAG c = {a, rows, inner, x, step, out, n};
  if (m * n < 2 * PIECE) npc_matvec_rows_TAG(&c, 0, m, 0);
  else if (rt->parallel_in_pieces(npc_matvec_rows_TAG, &c, m, npc_max(16, GRAIN / n / 16 * 16), npc_max(16, PIECE / n / 16 * 16)))
    return -1;
  return 0;
}
#undef W
"""
TAGS = {"f4": "float", "f8": "double"}


def has_form(dtype: np.dtype) -> bool:
    return dtype.str[1:] in TAGS


def helpers(loops: ArrayLoops, dtype: np.dtype) -> str:
    """The functions for this dtype, once. Its short name."""
    tag = dtype.str[1:]
    names = {
        "TYPE": TAGS[tag],
        "BITS": f"int{8 * dtype.itemsize}_t",
        "TAG": tag,
        "LONG": str(LONG),
        "GRAIN": str(GRAIN),
        "PIECE": str(PIECE),
    }
    loops.folds.setdefault(f"vectors {tag}", filled(VECTORS, names))
    return tag


def vectors(loops: ArrayLoops, x: Part, y: Part, fail: Fail) -> str:
    """The product of two vectors of one size: a C variable."""
    f, tag = Function(loops.name()), helpers(loops, x.dtype)
    result = loops.code.room(tag)
    sides = [f"{f.take(p.data, 'char*')}, {f.take(p.strides[0])}" for p in (x, y)]
    n = f.take(x.sizes[0])
    infinite = " || ".join(f"npc_has_infinity_{tag}({p}, 1, 0)" for p in (side.replace(", ", f", {n}, ") for side in sides))
    lines = [f"*out = npc_dot_{tag}({', '.join(sides)}, {n});"]
    lines.append(f"if (SELDOM(npc_not_finite_{tag}(out, 1)) && ({infinite})) return 1;")
    finish(loops, f, lines, fail, x.sizes, f"{c_type(x.dtype)}* out", f"&{result}")
    return result


def matrix_vector(loops: ArrayLoops, a: Part, x: Part, fail: Fail) -> Part:
    """a @ x."""
    f, tag = Function(loops.name()), helpers(loops, x.dtype)
    target = loops.fresh(x.dtype, [a.sizes[0]])
    matrix, rows, inner = f.take(a.data, "char*"), *map(f.take, a.strides)
    vector, step, out, m, n = f.take(x.data, "char*"), f.take(x.strides[0]), f.take(target.data, "char*"), *map(f.take, a.sizes)
    infinite = (
        f"npc_has_infinity_{tag}({matrix}, {m}, {rows}, {n}, {inner}) || npc_has_infinity_{tag}({vector}, {n}, {step}, 1, 0)"
    )
    lines = [f"if (npc_matvec_{tag}({matrix}, {rows}, {inner}, {vector}, {step}, {out}, {m}, {n})) return -1;"]
    lines.append(f"if (SELDOM(npc_not_finite_{tag}((const {c_type(x.dtype)}*){out}, {m})) && ({infinite})) return 1;")
    finish(loops, f, lines, fail, a.sizes)
    return target


def matrices(loops: ArrayLoops, a: Part, b: Part, fail: Fail) -> Part:
    """a @ b."""
    f, tag = Function(loops.name()), a.dtype.str[1:]
    target = loops.fresh(a.dtype, [a.sizes[0], b.sizes[1]])
    given = [p for part in (target, a, b) for p in (f.take(part.data, "char*"), *map(f.take, part.strides))]
    given += [f.take(n) for n in (a.sizes[0], b.sizes[1], a.sizes[1])]
    finish(loops, f, [f"if (rt->product_{tag}({', '.join(given)}, (int64_t)1 << 62)) return -1;"], fail, (*a.sizes, b.sizes[1]))
    return target


def finish(
    loops: ArrayLoops, f: Function, lines: list[str], fail: Fail, work: Sequence[str], extra: str = "", passed: str = ""
) -> None:
    """The function and its call. It leaves where NumPy's product may report an error: BLAS notes infinities in its own way."""
    out = ['__asm__ volatile("" : "+m"(*out) : : "memory");'] * bool(extra)
    head = f"static int {f.name}({', '.join(filter(None, [f.signature, extra]))}) {{"
    loops.functions += [head, "npc_forget();", *lines, *out, "return npc_noted() != 0;", "}"]
    loops.call(f, passed, fail, True, work)
