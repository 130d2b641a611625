"""Sizes and indices in C, and which of them a kernel is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import (
    Accumulate,
    Blocks,
    CheckIndex,
    Columns,
    Kernel,
    Load,
    Loop,
    Position,
    Product,
    Reduce,
    ScratchRow,
    Statement,
    Store,
    Tiles,
    walk,
)
from npcompile.tensor_core.dim import Size, c_call, text_of

INTERNAL = re.compile(r"[vtk]\d+")  # names that lowering gives to axes and values
NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def size_text(size: Size) -> str:
    """A size or index in C. The graph's symbols get a prefix: they may have any name."""
    return NAME.sub(lambda m: m[0] if is_internal(m[0]) else symbol_text(m[0]), text_of(size, c_call))


def is_internal(name: str) -> bool:
    return bool(INTERNAL.fullmatch(name)) or name.startswith("npc_")


def symbol_text(name: str) -> str:
    return f"size_{name}"


def context_fields(kernel: Kernel, symbols: Sequence[str]) -> list[tuple[str, str]]:
    used = {name for s in walk(kernel.body) for size in sizes_in(s) for name in symbols_in(size)}
    fields = [("char*", b) for b in kernel.buffers]
    fields += [(c_type(d), n) for n, d in kernel.scalars.items()]
    return fields + [("int64_t", symbol_text(s)) for s in symbols if s in used]


def sizes_in(s: Statement) -> Iterator[Size]:
    match s:
        case Load() | Store():
            yield s.offset
        case Product():
            yield from s.sizes
            for x in s.matrices:
                yield from (x.offset, x.row, x.column)
        case Position():
            yield s.index
        case CheckIndex():
            yield s.size
        case Accumulate():
            yield s.position
        case Loop():
            yield s.size
        case Reduce():
            yield s.count
        case ScratchRow():
            yield s.bytes
        case Columns():
            yield s.size
            yield from (n for _, n in s.loops)
        case Tiles():
            yield from (s.size, s.elements, s.bytes)
        case Blocks():
            yield from (s.size, s.bytes, *s.own.values(), *(n for _, n in s.stack))
