"""sum, min, max, any and all of Python's, of vectors in native programs: they go over the elements, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.loops.scalar_loops import C_OF_KIND, LIMITS, Fail, NoForm, ScalarLoops
from npcompile.tracer.native.arrays import memory, statements
from npcompile.tracer.native.types import Scalar

# 1 where Python has to do it: there is nothing to begin with, or something is reported.
TEXT = r"""
static int npc_over_NAME_KIND(const char* data, int64_t stride, int64_t n, RESULT* out) {
  BEGIN
  for (int64_t i = 0; i < n; i++) {
    const TYPE x = *(const TYPE*)(data + i * stride);
    STEP
  }
  *out = r;
  return FAILED;
}
"""
FIRST = "if (n == 0) return 1; RESULT r = *(const TYPE*)data;"
ZERO = "if (n == 0) return 1; RESULT r = 0;"  # the integer with which a sum begins
PARTS = {  # how it begins, what is done with each element, whether that has failed
    "min": (FIRST, "r = x < r ? x : r;", "0"),
    "max": (FIRST, "r = x > r ? x : r;", "0"),
    "any": ("RESULT r = 0;", "if (x) { r = 1; break; }", "0"),
    "all": ("RESULT r = 1;", "if (!x) { r = 0; break; }", "0"),
    "sum of floats": (ZERO, "r += x;", "!__builtin_isfinite(r)"),
    "sum of integers": (ZERO, "if (__builtin_add_overflow(r, x, &r)) return 1;", "0"),
}


def over(name: str) -> Callable[..., Scalar]:
    def meaning(code: ScalarLoops, arguments: Sequence[Any], keywords: dict[str, Any], fail: Fail) -> Scalar:
        if keywords or len(arguments) != 1:
            raise NoForm(f"{name}() with other arguments")
        part = memory(code, arguments[0], fail)
        if part.ndim != 1:
            raise NoForm(f"{name}() of {part.ndim} axes")
        if code.accesses is not None:
            code.accesses.memory(part.data)
        return folded(code, name, part.dtype.str[1:], (part.data, part.strides[0], part.sizes[0]), fail)

    return meaning


def folded(code: ScalarLoops, name: str, kind: str, where: tuple[str, str, str], fail: Fail) -> Scalar:
    """Of numbers in memory. Where: the first, how far the next one is, and how many there are."""
    if kind not in ("f8", "f4", "b1", *LIMITS):
        raise NoForm(f"{name}() of {kind}")
    result = "bool" if name in ("any", "all") else "i8" if name == "sum" and kind == "b1" else kind
    of = " of floats" if kind[0] == "f" else " of integers"
    begin, step, failed = PARTS[name + of if name == "sum" else name]
    names = {"BEGIN": begin, "STEP": step, "FAILED": failed, "RESULT": C_OF_KIND[result], "TYPE": C_OF_KIND[kind]}
    statements(code).folds.setdefault(f"{name}() of {kind}", filled(TEXT, {**names, "NAME": name, "KIND": kind}))
    made = code.room(result)
    code.line(f"fuel -= {where[2]};")
    code.leave_if(f"npc_over_{name}_{kind}({', '.join([*where, f'&{made}'])})", fail)
    return Scalar(result, made)


GOING_OVER: dict[Any, Callable[..., Scalar]] = {f: over(f.__name__) for f in (sum, min, max, any, all)}
