"""Statements about a column of an array, as statements about all of its elements that leave the other columns as they are.

`v[:, 1] -= 0.01` between statements about whole arrays then needs no loop nest of its own, and elements stay in registers. What
an element's column is, is one more array of lanes. In the other columns the statement is done to ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npcompile.backends.cpu.array_expressions import Apply, Number, Part, Read, Tree, parts_of
from npcompile.backends.cpu.loops.nest_statements import Chosen, Loop, Statement, Write, held_in, key_of
from npcompile.backends.cpu.primitives import c_type

NAME = "column_numbers"


@dataclass(frozen=True, slots=True)
class ColumnNumbers(Part):
    """For each element of an array of two axes the number of its column; it is no memory."""

    columns: str = ""  # how many there are


def widened(loop: Loop) -> Loop:
    """The same, with statements about a column as statements about the whole array, where they read and write the same one."""
    parts = [p for s in loop.statements for p in parts_of(s.tree)] + [s.target for s in loop.statements if isinstance(s, Write)]
    whole = [p for p in parts if p.ndim == 2]
    return replace(loop, statements=[wide(s, whole) for s in loop.statements])


def wide(s: Statement, whole: Sequence[Part]) -> Statement:
    if not isinstance(s, Write) or held_in(s.tree) or any(key_of(p) != key_of(s.target) for p in parts_of(s.tree)):
        return s
    base = next((p for p in whole if has_column(p, s.target)), None)
    if base is None:
        return s
    mask = in_column(s.target, base)
    return Write(base, Chosen("where", (mask, of_column(s.tree, mask, base), Read(base)), base.dtype))


def has_column(base: Part, part: Part) -> bool:
    """Is the part a column of this array? It is known to have the array's rows."""
    is_of = part.root == base.root and part.dtype == base.dtype and base.is_dense and part.dtype.itemsize >= 4
    return is_of and part.ndim == 1 and (part.sizes[0], part.strides[0]) == (base.sizes[0], base.strides[0])


def in_column(part: Part, base: Part) -> Tree:
    numbers = np.dtype(f"u{part.dtype.itemsize}")
    held = ColumnNumbers(numbers, NAME, base.sizes, base.strides, NAME, is_dense=True, columns=base.sizes[1])
    number = Number(f"(((const char*)({part.data}) - (const char*)({base.data})) / {part.dtype.itemsize})", numbers)
    return Apply("equal", (Read(held), number), np.dtype(np.bool_))


def of_column(tree: Tree, mask: Tree, base: Part) -> Tree:
    """What is computed of this column, or else of ones."""
    match tree:
        case Read():
            return Apply("where", (mask, Read(base), Number("1", base.dtype)), base.dtype)
        case Apply(_, args):
            return replace(tree, args=tuple(of_column(a, mask, base) for a in args))
    return tree


def numbered(name: str, part: ColumnNumbers, width: int) -> list[str]:
    """The lanes' columns. Those after the last element hold the first one of the others."""
    n, first = part.columns, f"first_{name}"
    return [
        f"{c_type(part.dtype)} {name}[{width}];",
        f"const int64_t {first} = at % ({n});",
        f"if ({n} < {width}) {{",
        f"const float inverse_{name} = 1.0f / {n};",  # near enough for the quotient of so small numbers
        "#pragma omp simd",
        f"for (int32_t k = 0; k < {width}; k++) {{",
        f"const int32_t place = (int32_t){first} + (k < lanes ? k : 0);",
        f"{name}[k] = place - (int32_t)((place + 0.5f) * inverse_{name}) * (int32_t){n};",
        "}",
        "} else {",
        "#pragma omp simd",
        f"for (int64_t k = 0; k < {width}; k++) {{",
        f"const int64_t place = {first} + (k < lanes ? k : 0);",
        f"{name}[k] = place - (place < {n} ? 0 : {n});",
        "}",
        "}",
    ]
