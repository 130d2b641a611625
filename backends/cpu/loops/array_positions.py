"""Where the largest or smallest element is, in native loops, as C."""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.array_expressions import Part, Tree, may_note
from npcompile.backends.cpu.loops.array_loops import ArrayLoops
from npcompile.backends.cpu.loops.array_reductions import ALONE
from npcompile.backends.cpu.loops.loop_nest import Function, Nest, known_product
from npcompile.backends.cpu.loops.reduction_vectors import ABREAST, has_blocks, in_blocks, of_a_block, to_first
from npcompile.backends.cpu.loops.scalar_loops import Fail
from npcompile.backends.cpu.primitives import c_type


def position(loops: ArrayLoops, name: str, tree: Tree, sizes: tuple[str, ...], axis: int | None, fail: Fail) -> str | Part:
    """Where the largest or smallest element is, the first of them, or NaN: of all, or along an axis."""
    dtype = tree.dtype
    c, sign = c_type(dtype), ">" if name == "argmax" else "<"
    loops.reads_alone(tree)
    f = Function(loops.name())
    nest = Nest(f, sizes)
    value = nest.stored(tree)
    notes = may_note(tree)
    better = f"(x {sign} best)" + (" | ((x != x) & (best == best))" if dtype.kind == "f" else "")
    index = np.dtype(np.int64)
    inner = range(len(sizes)) if axis is None else [axis]
    order = [k for k in range(len(sizes)) if k not in inner]
    target = loops.fresh(index, [sizes[k] for k in order]) if order else None
    result = "" if target else loops.code.room("int")
    begin = [f"if (!({known_product([f.take(sizes[k]) for k in inner])})) return 1;", *nest.begins]

    def loop(k: int) -> str:
        return f.loop(k, sizes[k])

    if target is None:
        lines = one_position(c, better, [loop(k) for k in inner], [*nest.rows, *nest.body, f"const {c} x = {value};"])
        lines.append("*out = found;")
    else:
        to = f.take(target.data, "char*")
        element = f"*(int64_t*)({to}{''.join(f' + i{k} * {f.take(s)}' for k, s in zip(order, target.strides))})"
        if order[-1] > inner[0]:
            *outer, last = order
            lines, axes = [loop(k) for k in outer], (inner[0], last, f.take(sizes[last]))
            given = f"const {c} x = {value};"
            wide = [
                *positions_of_columns(nest, loop(inner[0]), axes, c, given, better),
                f"{element} = found[i{last} - first];",
                "}",
                "}",
            ]
            if has_blocks(tree) and dtype.itemsize == index.itemsize:
                store = f"*(npc_places*){to_first(element, last)} = found;"
                block = [POSITIONS_BEFORE, [*of_a_block(nest, value, dtype), *positions_of_block(inner[0], sign)], [store]]
                wide = in_blocks(dtype, axes[2], [loop(inner[0]), *nest.rows], block, wide)
            lines += [*wide, *("}" for _ in outer)]
        else:
            lines = [loop(k) for k in order]
            lines += one_position(c, better, [loop(k) for k in inner], [*nest.rows, *nest.body, f"const {c} x = {value};"])
            lines += [f"{element} = found;", *("}" for _ in order)]
    signature = f.signature if target else ", ".join(filter(None, [f.signature, "int64_t* out"]))
    loops.functions += [f"{ALONE} int {f.name}({signature}) {{", "int bad = 0;", *begin, *lines, "return bad;", "}"]
    loops.call(f, "" if target else f"&{result}", fail, True, sizes, notes=notes, is_new=True)
    return target or result


def one_position(c: str, better: str, loops: list[str], element: list[str]) -> list[str]:
    """`found`, of the elements `x` of these loops."""
    lines = [f"int64_t found = 0, here = 0; {c} best = 0;", *loops, *element]
    return [*lines, f"if (!here || {better}) {{ best = x; found = here; }}", "here++;", *("}" for _ in loops)]


def positions_of_columns(nest: Nest, rows: str, axes: tuple[int, int, str], c: str, element: str, better: str) -> list[str]:
    """`found` of each column of a block, where `rows` begins their loop, and the beginning of a loop over the columns."""
    axis, last, size = axes
    columns = f"for (int64_t i{last} = first; i{last} < stop; i{last}++) {{"
    lines = [f"for (int64_t first = 0; first < {size}; first += {ABREAST}) {{"]
    lines.append(f"const int64_t stop = npc_min(first + {ABREAST}, {size});")
    lines += [f"{c} all_best[{ABREAST}] = {{0}};", f"int64_t found[{ABREAST}] = {{0}};"]
    lines += [rows, *nest.rows, "#pragma GCC ivdep", columns, *nest.body, element, f"const int64_t k = i{last} - first;"]
    lines += [f"const {c} best = all_best[k];", f"const int is_better = !i{axis} | {better};"]
    lines += ["all_best[k] = is_better ? x : best;", f"found[k] = is_better ? i{axis} : found[k];"]
    return [*lines, "}", "}", columns]


POSITIONS_BEFORE = ["npc_vector best = {0}; npc_places found = {0};"]


def positions_of_block(axis: int, sign: str) -> list[str]:
    """`found` of each lane of a block of columns, after one more row."""
    better = f"(npc_places)((now {sign} best) | ((now != now) & (best == best)))"
    return [
        f"const npc_places is_better = i{axis} ? {better} : ~(npc_places){{0}};",
        "best = (npc_vector)(((npc_places)best & ~is_better) | ((npc_places)now & is_better));",
        f"found = (found & ~is_better) | (i{axis} & is_better);",
    ]
