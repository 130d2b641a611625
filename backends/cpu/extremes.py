"""The greatest and the least of floating-point numbers, in C, in whatever order they come: -0.0 is less than 0.0.

Two choices take different operands where these are equal or one is NaN. The bits of both together are -0.0 of two zeros of both
signs, NaN where one is NaN, and else the least number. Of the greatest, only bits that both of two equal operands have are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

RELATION = {"maximum": ">", "minimum": "<", "fmax": ">", "fmin": "<"}
MASKS = "defined(__AVX512F__) && !defined(__clang__)"  # is a choice one instruction?
EXTREMES = """
static inline {W} npc_word_{K}({T} x) {{ {W} bits; __builtin_memcpy(&bits, &x, sizeof x); return bits; }}
static inline {T} npc_number_{K}({W} bits) {{ {T} x; __builtin_memcpy(&x, &bits, sizeof x); return x; }}
static inline {T} npc_both_{K}({T} a, {T} b) {{ return npc_number_{K}(npc_word_{K}(a) | npc_word_{K}(b)); }}
static inline {T} npc_minimum_of_{K}({T} a, {T} b) {{
  const {T} r = a < b ? a : b; /* it is read once from memory */
  return npc_both_{K}(r, r < a ? r : a);
}}
/* Without masks the lesser number gives its place to all bits; of NaN both do. */
static inline {T} npc_maximum_of_{K}({T} a, {T} b) {{
#if {MASKS}
  const {T} most = a == b ? npc_number_{K}(npc_word_{K}(a) & npc_word_{K}(b)) : a, r = b > most ? b : most;
  return b == b ? r : b;
#else
  return npc_number_{K}((npc_word_{K}(a) | -({W})!(b <= a)) & (npc_word_{K}(b) | -({W})!(a <= b)));
#endif
}}
/* The negative, of which compilers do not know that they might compare a and b instead: these are no instructions of vectors. */
static inline {T} npc_opposite_{K}({T} a) {{
  return npc_number_{K}(npc_word_{K}(a) ^ (({W})1 << (8 * sizeof a - 1)));
}}
static inline {T} npc_fmin_of_{K}({T} a, {T} b) {{
  const {T} number = b == b ? b : a, r = a < number ? a : number;
  return a == r ? npc_both_{K}(a, r) : r;
}}
static inline {T} npc_fmax_of_{K}({T} a, {T} b) {{
  return npc_opposite_{K}(npc_fmin_of_{K}(npc_opposite_{K}(a), npc_opposite_{K}(b)));
}}
"""
PARTS = [("double", "f8", "int64_t"), ("float", "f4", "int32_t")]
EXTREMES_TEXT = "".join(EXTREMES.format(T=c, K=short, W=word, MASKS=MASKS) for c, short, word in PARTS)


def has_zeros(reducer: str, dtype: np.dtype) -> bool:
    """Is it an extreme, which may be one of two zeros?"""
    return reducer in RELATION and dtype.kind == "f" and dtype.itemsize in (4, 8)


def extreme_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    return f"npc_{reducer}_of_{dtype.str[1:]}({a}, {b})"


def declare_signs(name: str, reducer: str, dtype: np.dtype) -> str:
    """Bits that all numbers of a greatest one have, or one of those of a least one: their sign is that of a zero among them."""
    return f"int{8 * dtype.itemsize}_t {name}_signs = {-int(RELATION[reducer] == '>')};"


def signs_operator(reducer: str) -> str:
    return "&" if RELATION[reducer] == ">" else "|"


def note_sign(name: str, reducer: str, x: str, dtype: np.dtype) -> str:
    return f"{name}_signs {signs_operator(reducer)}= npc_word_{dtype.str[1:]}({x});"


def sign_of_zero(name: str, place: str) -> str:
    return f"if ({place} == 0) {place} = {name}_signs < 0 ? -0.0 : 0.0;"


# --- in native loops. Few results are zero, and only then it is asked which zeros were there.


FIRST_ZERO = r"""
static __attribute__((noinline, cold)) {T} npc_zero_{name}_{K}(const {T}* x, int64_t n) {{
  {T} r = x[0];
  for (int64_t i = 1; i < n; i++) r = {pair};
  return r;
}}
static inline {T} npc_{name}_{K}(const {T}* x, int64_t n) {{
  const {T} r = npc_any_{name}_{K}(x, n);
  return UNLIKELY(r == 0) ? npc_zero_{name}_{K}(x, n) : r;
}}
"""


def has_order(name: str, dtype: np.dtype) -> bool:
    """May the result be one of two zeros, of which one comes first?"""
    return has_zeros(f"{name}imum", dtype)


def zero_text(name: str, c: str, dtype: np.dtype) -> str:
    """The C function that combines numbers in memory, from `npc_any_...`, which gives any of the zeros. `name`: max or min."""
    pair = extreme_text(f"{name}imum", "r", "x[i]", dtype)
    return FIRST_ZERO.format(T=c, K=dtype.str[1:], name=name, pair=pair) if has_order(name, dtype) else ""


def one_by_one_text(name: str, a: str, x: str, text: str, dtype: np.dtype) -> str:
    """Two numbers combined, where `text` combines them and takes `x` of two zeros."""
    is_kept = f"{a} == 0 && {'!' * (name == 'max')}__builtin_signbit({a})"
    return f"(UNLIKELY({x} == 0) && {is_kept} ? {a} : {text})" if has_order(name, dtype) else text


def in_vectors(name: str, text: str, dtype: np.dtype) -> str:
    """C text that combines {a} and {x}, where compilers make vectors of it. `text`: the same for other functions."""
    return extreme_text(f"{name}imum", "{a}", "{x}", dtype) if has_order(name, dtype) else text


# --- the identities of extremes, and C text that combines {a} and {x}


def lowest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "-__builtin_inf()"
    return f"({dtype.name}_t){int(np.iinfo(dtype).min) + 1} - 1" if dtype.kind == "i" else "0"


def highest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "__builtin_inf()"
    return "1" if dtype.kind == "b" else f"({dtype.name}_t){np.iinfo(dtype).max}u"


def largest(sign: str) -> Callable[[np.dtype], str]:
    return lambda dtype: f"({{a}} {sign} {{x}}{' || {a} != {a}' if dtype.kind == 'f' else ''} ? {{a}} : {{x}})"
