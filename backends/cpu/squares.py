"""Loops that read along two axes of memory, `x.T + y`: in squares of both, as wide as a cache line.

What lies side by side along the outer loop is turned over in registers, a square at a time, and then read side by side along
the inner one. So lines are read once, and no more of them are in use than one set of a cache holds, whatever the strides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Statement, Store, walk
from npcompile.backends.kernels.operations import EXPENSIVE
from npcompile.backends.kernels.schedule import estimate
from npcompile.tensor_core.dim import Size, same

LINE = 64  # bytes of the caches'
TURNED = 8  # elements along each side of a square in registers

# Stage d exchanges the parts of d elements that are on the wrong side of the diagonal in squares of 2 d.
SQUARE = """
typedef uintBITS_t npc_elementBITS __attribute__((aligned(1), may_alias));
typedef uintBITS_t npc_rowBITS __attribute__((vector_size(BYTES), aligned(1), may_alias));
static inline void npc_squareBITS(char* to, int64_t to_step, const char* from, int64_t from_step) {
#if __has_builtin(__builtin_shufflevector)
  npc_rowBITS LOADS;
STAGES
  STORES
#else
  for (int64_t k = 0; k < 8; k++)
    for (int64_t l = 0; l < 8; l++)
      *(npc_elementBITS*)(to + l * to_step + k * SIZE) = *(const npc_elementBITS*)(from + k * from_step + l * SIZE);
#endif
}
"""
TURN = """
static inline void npc_turnBITS(char* to, const char* from, int64_t step, int64_t width) {
  for (int64_t i = 0; i < width; i += 8)
    for (int64_t j = 0; j < width; j += 8)
      npc_squareBITS(to + (j * width + i) * SIZE, width * SIZE, from + i * step + j * SIZE, step);
}
"""


@dataclass(frozen=True, slots=True)
class Square:
    """The outer loop that tasks take a part of, as they do of the inner one, and how many of both are taken at a time."""

    axis: str
    size: Size
    width: int


def square_of(axes: Sequence[tuple[str, Size]], inner: str, body: Sequence[Statement]) -> Square | None:
    """The loop among `axes` along which something lies side by side that does not along the innermost loop, in the body."""
    if any(isinstance(s, CheckIndex) or (isinstance(s, Let) and s.op in EXPENSIVE) for s in body):
        return None  # the first error counts; and what is known outside of the inner loop is computed again in each square
    steps: dict[str, int] = {}
    for s in walk(list(body)):
        if isinstance(s, (Load, Store)) and (along := split_linear(s.offset, inner)) and abs(estimate(along[0])) > LINE:
            for axis, _ in axes:
                across = split_linear(s.offset, axis)
                if across and 0 < (step := abs(estimate(across[0]))) < LINE:
                    steps[axis] = min(step, steps.get(axis, step))
    if not steps:
        return None
    chosen = min(steps, key=lambda axis: steps[axis])
    width = max(4, min(16, LINE // steps[chosen]))
    return next(Square(axis, size, width) for axis, size in axes if axis == chosen)


def print_square(p: Printer, square: Square, inner: str, body: Sequence[Statement]) -> None:
    """The body for a block of the inner loop and one of the outer; whole squares are loops of known length."""
    outer, width = square.axis, square.width
    p.line(f"const int64_t first_{outer} = outer_block * c->slice_size;")
    p.line(f"const int64_t end_{outer} = npc_min(first_{outer} + c->slice_size, {size_text(square.size)});")
    p.open(f"for (int64_t left = first_{inner}; left < end_{inner}; left += {width}) {{")
    p.line(f"const int64_t right = npc_min(left + {width}, end_{inner});")
    p.line(f"int64_t top = first_{outer};")
    p.open(f"for (; right - left == {width} && top + {width} <= end_{outer}; top += {width}) {{")
    for load, step in turned_loads(square, inner, body):
        tile, size = f"{load.target.name}_turned", load.target.dtype.itemsize
        p.line(f"char {tile}[{size * width * width}] __attribute__((aligned(64)));")
        at = f"const int64_t {outer} = top, {inner} = left;"
        p.line(f"{{ {at} npc_turn{8 * size}({tile}, {load.buffer} + {size_text(load.offset)}, {size_text(step)}, {width}); }}")
        p.replaced[load.target.name] = f"{tile} + {size} * (({outer} - top) * {width} + {inner} - left)"
    p.is_few = any(isinstance(s, Let) for s in walk(list(body)))  # plain copies would become calls of memcpy
    print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < top + {width}", f"{outer}++"), f"left + {width}")
    p.is_few = False
    p.replaced.clear()
    p.close()
    print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < end_{outer}", f"{outer}++"), "right")
    p.close()


def print_rows(p: Printer, body: Sequence[Statement], inner: str, rows: tuple[str, str, str], end: str) -> None:
    p.open(f"for ({'; '.join(rows)}) {{")
    p.limits[inner] = ("left", end)
    p.statements(body)
    p.close()


def turned_loads(square: Square, inner: str, body: Sequence[Statement]) -> list[tuple[Load, Size]]:
    """The loads of elements that are side by side along the outer loop alone, and their steps along the inner one."""
    found = []
    for s in walk(list(body)):
        if isinstance(s, Load) and s.mask is None and s.target.dtype.itemsize in (4, 8) and square.width % TURNED == 0:
            along, across = split_linear(s.offset, inner), split_linear(s.offset, square.axis)
            if along and across and same(across[0], s.target.dtype.itemsize) and abs(estimate(along[0])) > LINE:
                found.append((s, along[0]))
    return found


def turns_text(kernels: str) -> str:
    """The functions that these kernels call to turn squares over."""
    return "".join(turn_text(int(bits)) for bits in sorted(set(re.findall(r"npc_turn(\d+)\(", kernels))))


def turn_text(bits: int) -> str:
    return square_text(bits) + TURN.replace("BITS", str(bits)).replace("SIZE", str(bits // 8))


def square_text(bits: int) -> str:
    """The function that turns over one square of elements of so many bits."""
    size = bits // 8
    loads = ", ".join(f"r{k} = *(const npc_row{bits}*)(from + {k} * from_step)" for k in range(TURNED))
    stores = " ".join(f"*(npc_row{bits}*)(to + {k} * to_step) = r{k};" for k in range(TURNED))
    stages = []
    for d in (1, 2, 4):
        lanes = range(TURNED)
        upper = ", ".join(str(k if not k & d else TURNED + k - d) for k in lanes)
        lower = ", ".join(str(k + d if not k & d else TURNED + k) for k in lanes)
        for k in (k for k in lanes if not k & d):
            pair = f"r{k}, r{k + d}"
            stages.append(
                f"  {{ const npc_row{bits} a = __builtin_shufflevector({pair}, {upper}), "
                f"b = __builtin_shufflevector({pair}, {lower}); r{k} = a; r{k + d} = b; }}"
            )
    text = SQUARE.replace("LOADS", loads).replace("STORES", stores).replace("STAGES", "\n".join(stages))
    return text.replace("BITS", str(bits)).replace("BYTES", str(TURNED * size)).replace("SIZE", str(size))
