"""Blocks of columns that are reduced in vectors, in native loops, as C."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from npcompile.backends.cpu.array_expressions import Tree, may_fail
from npcompile.backends.cpu.loops.folds import FOLD_OPS
from npcompile.backends.cpu.loops.loop_nest import Nest
from npcompile.backends.cpu.primitives import c_type

ABREAST = 64  # columns that are combined in vectors, at most
EXTREMES = {"max": "(ALL | ~(now <= all)) & (NOW | ~(all <= now))", "min": "(ALL & ~(now < all)) | (NOW & ~(all < now))"}
WORDS = re.compile(r"\b(?:first|all|now|best|found|is_better|elements)\b")  # a block's own
INTEGERS = {4: "int32_t", 8: "int64_t"}  # by bytes


def has_blocks(tree: Tree) -> bool:
    """May columns be computed twice, by vectors?"""
    return tree.dtype.kind in "fiu" and tree.dtype.itemsize in (4, 8) and not may_fail(tree)


def in_blocks(dtype: np.dtype, size: str, rows: list[str], block: Sequence[Sequence[str]], others: Sequence[str]) -> list[str]:
    """A loop over rows for each block of columns from `first` on, where there are not many; else the others.

    `block`: what is before the loop, in it, and after it. Each row waits for the one before, so two blocks are done together.
    """
    lanes = f"NPC_REGISTER / {dtype.itemsize}"
    before, inside, after = ([*part, *(WORDS.sub(r"\g<0>_2", line) for line in part)] for part in block)
    return [
        *(f"if ({size} >= {lanes} && {size} <= {ABREAST}) {{", *typedefs(dtype, "NPC_REGISTER")),
        f"for (int64_t first = 0; first < {size}; first += 2 * {lanes}) {{ /* the last block begins in the one before */",
        f"const int64_t first_2 = npc_min(first + {lanes}, {size} - {lanes});",
        *(f"first = npc_min(first, {size} - {lanes});", *before, *rows, *inside, "}", *after, "}", "} else {", *others, "}"),
    ]


def of_a_block(nest: Nest, value: str, dtype: np.dtype) -> list[str]:
    """The elements of a row in a block: `now`. (Arrays stay in memory from row to row.)"""
    last, lanes = len(nest.sizes) - 1, f"NPC_REGISTER / {dtype.itemsize}"
    row, _, column = value.partition(" + ")
    if not nest.body and row.startswith(f"*({c_type(dtype)}*)(r") and column == f"i{last} * {dtype.itemsize})":
        return [f"const npc_vector now = *(npc_vector*){to_first(value, last)};"]
    lines = lanes_of(nest, nest.body, f"elements[lane] = {value};", lanes)
    return [f"{c_type(dtype)} elements[{lanes}];", *lines, "const npc_vector now = *(npc_vector*)elements;"]


def lanes_of(nest: Nest, body: Sequence[str], last: str, lanes: str) -> list[str]:
    """The innermost loop of a nest for a vector of elements from `first` on."""
    place = f"const int64_t i{len(nest.sizes) - 1} = first + lane;"
    return ["#pragma omp simd", f"for (int64_t lane = 0; lane < {lanes}; lane++) {{", place, *body, last, "}"]


def typedefs(dtype: np.dtype, size: int | str) -> list[str]:
    """Vectors of so many bytes: of a dtype, and of integers as long."""
    aligned = f"vector_size({size}), aligned({dtype.itemsize}), may_alias"
    return [
        f"typedef {c_type(dtype)} npc_vector __attribute__(({aligned}));",
        f"typedef {INTEGERS[dtype.itemsize]} npc_places __attribute__(({aligned}));",
    ]


def to_first(element: str, last: int) -> str:
    """The address of the element in the first column of a block."""
    return f"(&{element})".replace(f"i{last} ", "first ")


def any_vector_text(name: str) -> str:
    """The same where it is asked afterwards which of two zeros comes first."""
    kept = f"((all {'>' if name == 'max' else '<'} now) | (all != all))"
    joined = f"(npc_vector)(((npc_places)all & {kept}) | ((npc_places)now & ~{kept}))"
    return joined if name in EXTREMES else vector_text(name)


def vector_text(name: str) -> str:
    """C text that combines the vectors `all` and `now`, as `combine_text` does numbers. Of NaN all bits are set, or its own."""
    if name not in EXTREMES:
        return FOLD_OPS[name][1](np.dtype("i8")).format(a="all", x="now")
    return f"(npc_vector)({EXTREMES[name].replace('ALL', '(npc_places)all').replace('NOW', '(npc_places)now')})"
