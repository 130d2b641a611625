"""The greatest and the least of numbers, in C: of zeros 0.0 and -0.0, whatever order they come in.

Vectors know no order of zeros, which compare equal. Few results are zero: only then it is asked which zeros were there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npcompile.backends.cpu.primitives import c_type

RELATION = {"maximum": ">", "minimum": "<", "fmax": ">", "fmin": "<"}
FIRST_ZERO = r"""
static __attribute__((noinline, cold)) {T} npc_first_zero_{name}_{K}(const {T}* x, int64_t n) {{
  {integer} is_there = 0;
  for (int64_t i = 0; i < n; i++) is_there |= {is_first};
  return is_there ? {first} : -({first});
}}
static inline {T} npc_{name}_{K}(const {T}* x, int64_t n) {{
  const {T} r = npc_any_{name}_{K}(x, n);
  return SELDOM(r == 0) ? npc_first_zero_{name}_{K}(x, n) : r;
}}
"""


def has_zeros(name: str, dtype: np.dtype) -> bool:
    """May such a result be one of two zeros? `name`: "max" or "min" in native loops."""
    return name in ("max", "min") and dtype.kind == "f"


def preferred_text(reducer: str, x: str) -> str:
    """Does a number come before all that are equal to it?"""
    return f"{'!' if RELATION[reducer] == '>' else ''}__builtin_signbit({x})"


def first_zero(reducer: str) -> float:
    return 0.0 if RELATION[reducer] == ">" else -0.0


def is_first_zero(reducer: str, x: str, dtype: np.dtype) -> str:
    """Is it the zero that comes before the other one? Asked of its bits, which compilers do in vectors."""
    integer, bits = integer_type(dtype), 8 * dtype.itemsize
    first = f"({integer})(1ull << {bits - 1})" if RELATION[reducer] == "<" else "0"
    return f"(((union {{ {c_type(dtype)} x; {integer} bits; }}){{{x}}}).bits == {first})"


def integer_type(dtype: np.dtype) -> str:
    """As wide as numbers of the dtype, in C."""
    return f"int{8 * dtype.itemsize}_t"


def first_zero_text(name: str, dtype: np.dtype) -> str:
    """The C function that combines numbers in memory, from `npc_any_...`, which gives one of zeros."""
    reducer = f"{name}imum"
    words = {"T": c_type(dtype), "K": dtype.str[1:], "integer": integer_type(dtype), "first": first_zero(reducer)}
    return FIRST_ZERO.format(name=name, is_first=is_first_zero(reducer, "x[i]", dtype), **words)


def lowest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "-__builtin_inf()"
    return f"({c_type(dtype)}){int(np.iinfo(dtype).min) + 1} - 1" if dtype.kind == "i" else "0"


def highest(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return "__builtin_inf()"
    return "1" if dtype.kind == "b" else f"({c_type(dtype)}){np.iinfo(dtype).max}u"


def largest(sign: str) -> Callable[[np.dtype], str]:
    return lambda dtype: f"({{a}} {sign} {{x}}{' || {a} != {a}' if dtype.kind == 'f' else ''} ? {{a}} : {{x}})"


def in_order(name: str, text: str) -> str:
    """The same with the order of zeros."""
    return f"(SELDOM({{x}} == 0) && {{a}} == 0 && {preferred_text(f'{name}imum', '{a}')} ? {{a}} : {text})"
