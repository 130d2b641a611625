"""Sums that NumPy may report an invalid operation of, and nothing here does, as it adds in another order.

An infinity meets NaN, or the other infinity, or what is beyond the end of a row that BLAS multiplies: that depends on the order.
Of such sums the result is not finite. Kernels note where that is so, and at the end of the program it is asked whether there
can have been an infinity at all: in what the program is given, of its own constants, or of an overflow. Then NumPy is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.kernel import Accumulator, Kernel, Let, walk
from npcompile.tensor_core.graph import Graph

HELPERS = """
static inline int64_t npc_bits_f8(double x) { union { double x; int64_t bits; } u = {x}; return u.bits; }
static inline int32_t npc_bits_f4(float x) { union { float x; int32_t bits; } u = {x}; return u.bits; }
typedef double npc_four_f8 __attribute__((vector_size(32)));
typedef float npc_four_f4 __attribute__((vector_size(16)));
typedef int64_t npc_bits_four_f8 __attribute__((vector_size(32)));
typedef int32_t npc_bits_four_f4 __attribute__((vector_size(16)));
"""
INTEGERS = {"double": ("int64_t", "f8"), "float": ("int32_t", "f4")}  # as wide, and the short name
FOUR = "in_doubt_four"  # the C variable of four rows


def part_type(a: Accumulator) -> str:
    """The C type of the result, or of each half of a complex one."""
    return {"npc_c8": "float", "npc_c16": "double"}.get(c_type(a.result.dtype)) or c_type(a.result.dtype)


def noting_doubts(sums: Sequence[Accumulator], lines: Sequence[str], *, in_fours: bool = False) -> list[str]:
    """The body of one of the functions of a kernel with these doubted sums, which any of its threads runs.

    `in_fours`: are those of four rows noted at once?
    """
    if not sums:
        return list(lines)
    integer, short = INTEGERS["float" if all(part_type(a) == "float" for a in sums) else "double"]
    declared = [f"  {integer} in_doubt = 0;"]
    note = ["  if (in_doubt) __atomic_store_n(&c->in_doubt, 1, __ATOMIC_RELAXED);"]
    if in_fours:
        declared.append(f"  npc_bits_four_{short} {FOUR} = {{0}};")
        note.insert(0, f"  in_doubt |= ({FOUR}[0] | {FOUR}[1]) | ({FOUR}[2] | {FOUR}[3]);")
    return [*declared, *lines, *note]


def doubt_text(a: Accumulator, x: str) -> str:
    """Not 0 where the result is doubted: few instructions, and few bits for a vector of results."""
    if a.doubted == "NaN":
        return f"({x} != {x})"
    return f"npc_bits_{INTEGERS[part_type(a)][1]}({x} - {x})" if part_type(a) in INTEGERS else f"({x} - {x} != 0)"


def doubt_lines(a: Accumulator) -> Iterator[str]:
    """The statement that notes a doubted result; none where nothing can be doubted."""
    if a.doubted:
        parts = [f"{a.result.name}{part}" for part in ((".re", ".im") if a.result.dtype.kind == "c" else ("",))]
        yield f"in_doubt |= {' | '.join(doubt_text(a, x) for x in parts)};"


def doubt_rows(sums: Sequence[Accumulator], every: Sequence[Accumulator]) -> Iterator[str]:
    """The same of a sum of each of four rows, in one vector. `every`: all that are doubted in the kernel."""
    if not are_fours(sums[0], every):
        for a in sums:
            yield from doubt_lines(a)
        return
    _, short = INTEGERS[part_type(sums[0])]
    four = f"{sums[0].result.name}_four"
    yield f"const npc_four_{short} {four} = {{{', '.join(a.result.name for a in sums)}}};"
    found = f"{four} != {four}" if sums[0].doubted == "NaN" else f"(npc_bits_four_{short})({four} - {four})"
    yield f"{FOUR} |= {found};"


def are_fours(a: Accumulator, every: Sequence[Accumulator]) -> bool:
    """Are four results one vector, of as many bits as all others?"""
    is_real = a.result.dtype.kind != "c" and part_type(a) in INTEGERS
    return bool(a.doubted) and is_real and len({part_type(x) for x in every}) == 1


def may_be_infinite(graph: Graph, kernels: Sequence[Kernel]) -> str:
    """Can a number of the program be infinite, in C? Asked at its end, when arguments may have been overwritten."""
    constants = [x.params[0][1] for k in kernels for x in walk(k.body) if isinstance(x, Let) and x.op == "constant"]
    has_infinity = any(np.any(np.isinf(x)) for x in constants if np.asarray(x).dtype.kind in "fc")
    reads_bits = any(n.op == "bitcast" and n.dtype.kind in "fc" for n in graph.nodes)
    if has_infinity or reads_bits or graph.writes or any(k.literals for k in kernels):
        return "1"
    return f"rt->may_be_infinite(args, {len(graph.inputs)})"
