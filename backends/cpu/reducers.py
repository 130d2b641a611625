"""What reductions combine with, in C: identities, lanes, and the sums that keep what they round off."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.primitives import c_type, constant_text, kind, primitive_text
from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Accumulator,
    CheckIndex,
    Columns,
    Let,
    Load,
    Loop,
    Product,
    Reduce,
    Scan,
    walk,
)
from npcompile.backends.kernels.operations import short
from npcompile.tensor_core.dim import Dim

# Of a sum, and of the numbers that these add up without keeping what is rounded off: NumPy has 8 and 128.
SUM_LANES, SUM_BLOCK = 16, 256
SHORT_COLUMN = 32  # items: of so few, with many results, each vector holds one of each of several rows


REDUCE_HELPERS = """
#define NPC_TWO_SUM(high, low, x) do { \\
    __typeof__(high) npc_s = (high) + (x), npc_b = npc_s - (high); \\
    (low) += ((high) - (npc_s - npc_b)) + ((x) - npc_b); \\
    (high) = npc_s; } while (0)
#define NPC_TOTAL(high, low) ((high) - (high) == 0 ? (high) + (low) : (high))
/* NumPy's own sums of products begin with 0.0; BLAS makes -0.0 of complex numbers too. */
#define NPC_FROM_ZERO(part, c, row, column, m, n) \\
  for (int64_t i = 0; i < (m); i++) \\
    for (int64_t j = 0; j < (n); j++) { \\
      part* const parts = (part*)((c) + i * (row) + j * (column)); \\
      parts[0] += (part)0, parts[1] += (part)0; \\
    }
/* Blocks of one size, as near as may be: in an unlike pair the error of the larger is nearly that of the sum. */
static inline int64_t npc_sum_block(int64_t n) {
  while (n > NPC_BLOCK) n = (n + 1) / 2;
  return (n + NPC_LANES - 1) / NPC_LANES * NPC_LANES;
}
"""
REDUCE_HELPERS = f"#define NPC_BLOCK {SUM_BLOCK}\n#define NPC_LANES {SUM_LANES}\n{REDUCE_HELPERS}"


def compensated(acc: Accumulator) -> bool:
    """Is what its sums round off kept?"""
    return acc.reducer == "add" and kind(acc.dtype) in "fgc" and not acc.keeps_order


def parts_of(a: Accumulator) -> tuple[str, ...]:
    return (".re", ".im") if a.dtype.kind == "c" else ("",)


def add_exactly(a: Accumulator, x: str) -> str:
    """Adds a number to the accumulator's high and low part."""
    return " ".join(f"NPC_TWO_SUM({a.name}_high{part}, {a.name}_low{part}, {x}{part});" for part in parts_of(a))


def zero_text(dtype: np.dtype) -> str:
    return "{0}" if dtype.kind == "c" else "0"


def total_text(a: Accumulator) -> str:
    parts = [f"NPC_TOTAL({a.name}_high{part}, {a.name}_low{part})" for part in parts_of(a)]
    return parts[0] if len(parts) == 1 else f"npc_pair_{short(a.dtype)}({', '.join(parts)})"


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


FOLD, TOTAL = (re.compile(rf"npc_{name}_([a-z]\d+)_(\d+)\(") for name in (r"fold_(\w+)", "total"))


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
    for name, lanes in sorted(set(TOTAL.findall(kernels))):
        lines.append(sum_of_lanes(c_type(np.dtype(name)), name, int(lanes)))
    return "\n".join(lines)


def total_of_lanes(a: Accumulator, lanes: int) -> str:
    """The sum of all lanes, in pairs: those of vectors in halves, for which compilers need no single lane."""
    if lanes > 1 and short(a.dtype) in ("f4", "f8"):
        return f"npc_total_{short(a.dtype)}_{lanes}({a.name})"
    return tree_text(a, [f"{a.name}[{lane}]" for lane in range(lanes)])


def sum_of_lanes(c: str, name: str, lanes: int) -> str:
    lines, before, width = [f"static inline {c} npc_total_{name}_{lanes}(const {c}* a{lanes}) {{"], lanes, lanes // 2
    while width > 2:
        halves = f"a{width}[lane] = a{before}[lane] + a{before}[lane + {width}]"
        lines += [f"  {c} a{width}[{width}];", "  #pragma omp simd", f"  for (int lane = 0; lane < {width}; lane++) {halves};"]
        before, width = width, width // 2
    total = f"a{before}[0] + a{before}[1]" if before == 2 else f"(a{before}[0] + a{before}[1]) + (a{before}[2] + a{before}[3])"
    return "\n".join([*lines, f"  return {total};", "}"])


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


def is_along_memory(s: Columns) -> bool:
    """Are few elements that lie beside each other summed up, as NumPy does in pairs, and not one row of many after another?"""
    count = 1
    for _, size in s.loops:
        if not isinstance(size, int):
            return False
        count *= size
    if count > SHORT_COLUMN or not s.loops:
        return False
    found = [
        (split_linear(x.offset, s.axis), split_linear(x.offset, s.loops[-1][0])) for x in walk(s.body) if isinstance(x, Load)
    ]
    steps = [(column[0], row[0]) for column, row in found if column and row]
    return any(isinstance(row, int) and row and (isinstance(column, Dim) or abs(row) < abs(column)) for column, row in steps)


def is_blocked(s: Reduce) -> bool:
    """Is nothing in the loop that would keep the compiler from making vectors of it, and so lanes in registers?"""
    if isinstance(s.count, int) and s.count < 2:
        return False
    plain = all(kind(a.dtype) in "fiubc" and not is_position(a) and not a.is_ordered for a in s.accumulators)
    return plain and not any(isinstance(x, (CheckIndex, Product, Reduce, Columns, Scan)) for x in walk(s.body))


def is_harmless(s: Loop) -> bool:
    """Are its elements beside each other, and numbers made of them that zeros note nothing in?"""
    for x in s.body:
        match x:
            case Load(target, _, offset, None) if target.dtype.kind == "f":
                found = split_linear(offset, s.axis)
                step = found[0] if found else None
                if not isinstance(step, int) or step not in (0, target.dtype.itemsize):
                    return False
            case Let(_, op) if op in ("multiply", "add", "subtract", "negative", "square", "absolute"):
                pass
            case Accumulate():
                pass
            case _:
                return False
    return True


def fits_simd(s: Reduce) -> bool:
    """May the order of combination be the compiler's? Then OpenMP's simd makes the lanes."""
    return is_blocked(s) and not any(a.reducer in ("add", "multiply") and a.dtype.kind in "fc" for a in s.accumulators)


# --- partial results that are one number each: a high and a low part where sums are compensated


def partial_fields(a: Accumulator) -> str:
    return f"{c_type(a.dtype)} {a.name}{f', {a.name}_low' if compensated(a) else ''};"


def store_partial(a: Accumulator) -> str:
    if compensated(a):
        return f"partial->{a.name} = {a.name}_high; partial->{a.name}_low = {a.name}_low;"
    return f"partial->{a.name} = {a.name}[0];"


def declare_total(a: Accumulator) -> str:
    if compensated(a):
        return f"{c_type(a.dtype)} {a.name}_high = {identity_text(a)}, {a.name}_low = {zero_text(a.dtype)};"
    return f"{c_type(a.dtype)} {a.name}[1] = {{{identity_text(a)}}};"


def combine_partial(a: Accumulator) -> str:
    if compensated(a):
        low = combine_text("add", f"{a.name}_low", f"partial->{a.name}_low", a.dtype)
        return f"{add_exactly(a, f'partial->{a.name}')} {a.name}_low = {low};"
    return f"{a.name}[0] = {combine_text(a.reducer, f'{a.name}[0]', f'partial->{a.name}', a.dtype)};"
