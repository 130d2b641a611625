"""What reductions combine with, in C: identities, lanes, and the sums that keep what they round off."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.extremes import RELATION, extreme_text, has_zeros
from npcompile.backends.cpu.primitives import c_type, constant_text, kind, primitive_text, rounded_text
from npcompile.backends.kernels.kernel import Accumulator

REDUCE_HELPERS = """
/* NumPy's own sums of products begin with 0.0; BLAS makes -0.0 of complex numbers too. */
#define NPC_FROM_ZERO(part, c, row, column, m, n) \\
  for (int64_t i = 0; i < (m); i++) \\
    for (int64_t j = 0; j < (n); j++) { \\
      part* const parts = (part*)((c) + i * (row) + j * (column)); \\
      parts[0] += (part)0, parts[1] += (part)0; \\
    }
"""


def is_pairwise(acc: Accumulator) -> bool:
    """Is it a sum that rounds, of numbers added up in pairs?"""
    return acc.reducer == "add" and kind(acc.dtype) in "fgc" and not acc.keeps_order


def tree_text(a: Accumulator, terms: Sequence[str]) -> str:
    """All of these combined, in pairs."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return f"({combine_text(a.reducer, tree_text(a, terms[:half]), tree_text(a, terms[half:]), a.dtype)})"


def is_position(acc: Accumulator) -> bool:
    """Is the result where the value was, not the value?"""
    return acc.reducer in ("arg_max", "arg_min")


def better_text(acc: Accumulator, value: str, best: str) -> str:
    """Does `value` replace the best so far, in C? NaN is better than any number."""
    op = "greater" if acc.reducer == "arg_max" else "less"
    text = primitive_text(op, [value, best], [acc.dtype, acc.dtype], np.dtype(np.bool_))
    return f"{text} | (({value} != {value}) & ({best} == {best}))" if acc.dtype.kind == "f" else text


def notes_nan(acc: Accumulator) -> bool:
    """May it be kept beside lanes whether NaN was seen, or a number, and which signs? They then need one instruction a vector."""
    return has_zeros(acc.reducer, acc.dtype)


def ignores_nan(acc: Accumulator) -> bool:
    """Is the result NaN only where nothing but NaN was?"""
    return acc.reducer in ("fmax", "fmin")


def identity_text(acc: Accumulator) -> str:
    return identity_of(acc.reducer, acc.dtype)


def lane_identity(reducer: str, dtype: np.dtype) -> str:
    """Of lanes, beside which it is noted what was seen: to begin with NaN would note an error in their first comparison."""
    return identity_of({"fmax": "maximum", "fmin": "minimum"}.get(reducer, reducer), dtype)


def identity_of(reducer: str, dtype: np.dtype) -> str:
    """What changes no value that it is combined with."""
    if reducer == "add":
        return constant_text(-0.0 if dtype.kind == "f" else complex(-0.0, -0.0) if dtype.kind == "c" else 0, dtype)
    if reducer in ("multiply", "logical_and"):
        return constant_text(1, dtype)
    if reducer == "bitwise_and":
        return (
            constant_text(True if dtype.kind == "b" else dtype.type(0) if dtype.kind == "u" else -1, dtype)
            if dtype.kind != "u"
            else str(np.iinfo(dtype).max) + "u"
        )
    if reducer in ("fmax", "fmin") and dtype.kind == "f":
        return constant_text(np.nan, dtype)
    if reducer in ("maximum", "fmax", "arg_max"):
        return constant_text(lowest(dtype), dtype)
    if reducer in ("minimum", "fmin", "arg_min"):
        return constant_text(highest(dtype), dtype)
    return constant_text(0, dtype)


FOLD = re.compile(r"npc_fold_(\w+)_([a-z]\d+)_(\d+)\(")


def folds_text(kernels: str) -> str:
    """The functions that these kernels call to combine the lanes of an accumulator into the first one, in pairs."""
    lines = []
    for reducer, name, lanes in sorted(set(FOLD.findall(kernels))):
        dtype = np.dtype(name)
        text = combine_text(reducer, "a[lane]", "a[lane + width]", dtype)
        lines.append(f"static __attribute__((noinline)) void npc_fold_{reducer}_{name}_{lanes}({c_type(dtype)}* a) {{")
        lines.append(f"  for (int width = {int(lanes) // 2}; width; width /= 2)")
        lines.append(f"    for (int lane = 0; lane < width; lane++) a[lane] = {text};")
        lines.append("}")
    return "\n".join(lines)


def from_zero(a: Accumulator, total: str) -> str:
    """NumPy's sums begin with 0.0, so that of -0.0 alone is 0.0."""
    if a.reducer != "add" or a.dtype.kind not in "fc":
        return total
    return combine_text("add", total, constant_text(0, a.dtype), a.dtype)


LOGICAL = {"logical_or": "|", "logical_and": "&"}  # of truth values that are 0 or 1, in lanes of so many bytes:
WIDTHS = {1: "uint8_t", 2: "int16_t", 4: "int32_t", 8: "int64_t"}
SIMD = re.compile(r"npc_simd_(\w+)_([a-z]\d+)\b")


def simd_reductions_text(kernels: str) -> str:
    """OpenMP's declarations of the reductions in these kernels. Its own sum starts at 0.0 and would lose -0.0."""
    lines = []
    for reducer, name in sorted(set(SIMD.findall(kernels))):
        dtype = np.dtype(name)
        combined = simd_text(reducer, "omp_out", "omp_in", dtype)
        lines.append(f"#pragma omp declare reduction(npc_simd_{reducer}_{name}: {c_type(dtype)}: omp_out = {combined}) \\")
        lines.append(f"  initializer(omp_priv = {lane_identity(reducer, dtype)})")
    return "\n".join(lines)


def simd_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    """Combines results in which NaN is noted apart."""
    if has_zeros(reducer, dtype):
        return f"{b} {RELATION[reducer]} {a} ? {b} : {a}"
    return combine_text(reducer, a, b, dtype)


def lowest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": False, "f": -np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).min


def highest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": True, "f": np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).max


def combine_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    """In whatever order they come: of zeros the least is -0.0 and the greatest 0.0."""
    return extreme_text(reducer, a, b, dtype) if has_zeros(reducer, dtype) else in_order_text(reducer, a, b, dtype)


def in_order_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    """What NumPy does with one after another: of two zeros it takes `b`."""
    return primitive_text(reducer, [a, b], [dtype, dtype], dtype)


# --- partial results that are one number each


def added_text(a: Accumulator, total: str, x: str) -> str:
    """What is added to a result, or to a partial one: NumPy rounds float16 each time."""
    text = combine_text(a.reducer, total, x, a.dtype)
    return rounded_text(f"({text})", a.result.dtype) if a.is_numpys and a.result.dtype != a.dtype else text


def ending(a: Accumulator) -> str:
    """Of the C name of what it comes to, outside of loops over lanes."""
    return "_total" if is_pairwise(a) else "[0]"


def partial_fields(a: Accumulator) -> str:
    return f"{c_type(a.dtype)} {a.name};"


def store_partial(a: Accumulator) -> str:
    return f"partial->{a.name} = {a.name}{ending(a)};"


def declare_total(a: Accumulator) -> str:
    if is_pairwise(a):
        return f"{c_type(a.dtype)} {a.name}_total = {identity_text(a)};"
    return f"{c_type(a.dtype)} {a.name}[1] = {{{identity_text(a)}}};"


def combine_partial(a: Accumulator, total: str = "", partial: str = "partial") -> str:
    total = total or f"{a.name}{ending(a)}"
    return f"{total} = {added_text(a, total, f'{partial}->{a.name}')};"
