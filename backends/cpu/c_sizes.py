"""Sizes and indices in C, and which of them a kernel is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from npcompile.backends.cpu.primitives import c_type
from npcompile.backends.kernels.kernel import Kernel
from npcompile.tensor_core.dim import Dim, Size, c_call, text_of

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
    used = symbols_used(kernel)
    given = [("char*", b) for b in kernel.buffers]
    given += [(c_type(d), n) for n, d in kernel.scalars.items()]
    return given + [("int64_t", symbol_text(s)) for s in symbols if s in used]


def symbols_used(kernel: Kernel) -> set[str]:
    """The symbols of every size in it, whatever field of its statements holds the size."""
    used: set[str] = set()
    parts: list[Any] = [kernel]
    while parts:
        match parts.pop():
            case Dim() as size:
                used.update(size.symbols())
            case list() | tuple() as several:
                parts += several
            case dict() as several:
                parts += several.values()
            case part:
                parts += [getattr(part, name) for name in field_names(part.__class__)]
    return used


@cache
def field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()
