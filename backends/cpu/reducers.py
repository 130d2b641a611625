"""What reductions combine with, in C: identities, lanes, and the sums that keep what they round off."""

from __future__ import annotations

import re

import numpy as np

from npcompile.backends.cpu.primitives import c_type, constant_text, kind, primitive_text
from npcompile.backends.kernels.kernel import Accumulator, CheckIndex, Columns, Product, Reduce, Scan, walk

SHORT_ROW = 512  # items: for fewer the lanes of a reduction are the compiler's, which keeps them in registers


REDUCE_HELPERS = """
#define NPC_TWO_SUM(high, low, x) do { \\
    __typeof__(high) npc_s = (high) + (x), npc_b = npc_s - (high); \\
    (low) += ((high) - (npc_s - npc_b)) + ((x) - npc_b); \\
    (high) = npc_s; } while (0)
#define NPC_TOTAL(high, low) ((high) - (high) == 0 ? (high) + (low) : (high))
"""


def compensated(acc: Accumulator) -> bool:
    return acc.reducer == "add" and kind(acc.dtype) in "fg"


def is_position(acc: Accumulator) -> bool:
    """Is the result where the value was, not the value?"""
    return acc.reducer in ("arg_max", "arg_min")


def better_text(acc: Accumulator, value: str, best: str) -> str:
    """Does `value` replace the best so far, in C? NaN is better than any number."""
    op = "greater" if acc.reducer == "arg_max" else "less"
    text = primitive_text(op, [value, best], [acc.dtype, acc.dtype], np.dtype(np.bool_))
    return f"{text} | (({value} != {value}) & ({best} == {best}))" if acc.dtype.kind == "f" else text


RELATION = {"maximum": ">", "minimum": "<"}


def notes_nan(acc: Accumulator) -> bool:
    """Is NaN kept beside the lanes? Then these need one instruction for each vector."""
    return acc.reducer in RELATION and kind(acc.dtype) == "f"


def identity_text(acc: Accumulator) -> str:
    return identity_of(acc.reducer, acc.dtype)


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


SIMD = re.compile(r"npc_simd_(\w+)_([a-z]\d+)\b")


def simd_reductions_text(kernels: str) -> str:
    """OpenMP's declarations of the reductions in these kernels. Its own sum starts at 0.0 and would lose -0.0."""
    lines = []
    for reducer, name in sorted(set(SIMD.findall(kernels))):
        dtype = np.dtype(name)
        combined = simd_text(reducer, "omp_out", "omp_in", dtype)
        lines.append(f"#pragma omp declare reduction(npc_simd_{reducer}_{name}: {c_type(dtype)}: omp_out = {combined}) \\")
        lines.append(f"  initializer(omp_priv = {identity_of(reducer, dtype)})")
    return "\n".join(lines)


def simd_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    """Combines results in which NaN is noted apart."""
    if dtype.kind == "f" and reducer in RELATION:
        return f"{b} {RELATION[reducer]} {a} ? {b} : {a}"
    return combine_text(reducer, a, b, dtype)


def lowest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": False, "f": -np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).min


def highest(dtype: np.dtype):  # type: ignore[no-untyped-def]
    return {"b": True, "f": np.inf}[dtype.kind] if dtype.kind in "bf" else np.iinfo(dtype).max


def combine_text(reducer: str, a: str, b: str, dtype: np.dtype) -> str:
    return primitive_text(reducer, [a, b], [dtype, dtype], dtype)


def fits_simd(s: Reduce) -> bool:
    """Are rows short, or may they be, and is nothing in the loop that OpenMP's simd cannot have?"""
    if isinstance(s.count, int) and (s.count > SHORT_ROW or s.count < 2):
        return False
    plain = all(kind(a.dtype) in "fiub" and not is_position(a) for a in s.accumulators)
    return plain and not any(isinstance(x, (CheckIndex, Product, Reduce, Columns, Scan)) for x in walk(s.body))


# --- partial results that are one number each: a high and a low part where sums are compensated


def partial_fields(a: Accumulator) -> str:
    return f"{c_type(a.dtype)} {a.name}{f', {a.name}_low' if compensated(a) else ''};"


def store_partial(a: Accumulator) -> str:
    if compensated(a):
        return f"partial->{a.name} = {a.name}_high; partial->{a.name}_low = {a.name}_low;"
    return f"partial->{a.name} = {a.name}[0];"


def declare_total(a: Accumulator) -> str:
    if compensated(a):
        return f"{c_type(a.dtype)} {a.name}_high = {identity_text(a)}, {a.name}_low = 0;"
    return f"{c_type(a.dtype)} {a.name}[1] = {{{identity_text(a)}}};"


def combine_partial(a: Accumulator) -> str:
    if compensated(a):
        return f"NPC_TWO_SUM({a.name}_high, {a.name}_low, partial->{a.name}); {a.name}_low += partial->{a.name}_low;"
    return f"{a.name}[0] = {combine_text(a.reducer, f'{a.name}[0]', f'partial->{a.name}', a.dtype)};"
