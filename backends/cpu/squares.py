"""Loops that read along two axes of memory, `x.T + y`: in squares of both, as wide as a cache line.

What lies side by side along the outer loop is turned over in registers, a square at a time, and then read side by side along
the inner one. So lines are read once, and no more of them are in use than one set of a cache holds, whatever the strides. What is
only copied is written from the registers; so much that no cache keeps it goes to memory a whole line at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.texts import filled
from npcompile.backends.kernels.index import split_linear
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Loop, Statement, Store, walk
from npcompile.backends.kernels.operations import EXPENSIVE
from npcompile.backends.kernels.schedule import estimate
from npcompile.tensor_core.dim import Size, same

LINE = 64  # bytes of the caches'
SIDES = {1: 16, 2: 8, 4: 8, 8: 8}  # bytes of an element -> elements along each side of a square in registers
COPIED = SIDES | {8: 4}  # the same where rows are written at any place: vectors of 64 bytes would mostly lie in two lines

# Stage d exchanges the parts of d elements that are on the wrong side of the diagonal in squares of 2 d.
SQUARE = """
typedef uintBITS_t npc_elementBITS __attribute__((aligned(1), may_alias));
typedef uintBITS_t npc_rowBITS_SIDE __attribute__((vector_size(BYTES), aligned(1), may_alias));
static inline void npc_squareBITS_SIDE(char* to, int64_t to_step, const char* from, int64_t from_step) {
#if __has_builtin(__builtin_shufflevector)
  npc_rowBITS_SIDE LOADS;
STAGES
  STORES
#else
  for (int64_t k = 0; k < SIDE; k++)
    for (int64_t l = 0; l < SIDE; l++)
      *(npc_elementBITS*)(to + l * to_step + k * SIZE) = *(const npc_elementBITS*)(from + k * from_step + l * SIZE);
#endif
}
"""
TURN = """
static inline void npc_turnBITS(char* to, const char* from, int64_t step, int64_t width) {
  for (int64_t i = 0; i < width; i += SIDE)
    for (int64_t j = 0; j < width; j += SIDE)
      npc_squareBITS_SIDE(to + (j * width + i) * SIZE, width * SIZE, from + i * step + j * SIZE, step);
}
"""
WRITTEN = """
static inline void npc_lines_are_written(void) { /* other threads see them */
#if defined(__x86_64__) && defined(__AVX__) && !defined(__clang__)
  __builtin_ia32_sfence();
#endif
}
"""
COPY = """
static inline void npc_copy_turnedBITS(char* to, int64_t to_step, const char* from, int64_t step, int64_t width, int is_far) {
#if defined(__x86_64__) && defined(__AVX__) && !defined(__clang__)
  if (is_far) { /* lines that nothing has to read first */
    char lines[width * 64] __attribute__((aligned(64)));
    npc_turnBITS(lines, from, step, width);
    typedef long long half __attribute__((vector_size(32)));
    for (int64_t k = 0; k < width; k++)
      for (int64_t l = 0; l < 64; l += 32) __builtin_ia32_movntdq256((half*)(to + k * to_step + l), *(half*)(lines + k * 64 + l));
    return;
  }
#endif
  for (int64_t i = 0; i < width; i += SIDE)
    for (int64_t j = 0; j < width; j += SIDE)
      npc_squareBITS_SIDE(to + j * to_step + i * SIZE, to_step, from + i * step + j * SIZE, step);
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


def print_square(p: Printer, square: Square, inner: str, count: Size, body: Sequence[Statement]) -> None:
    """The body for a block of the inner loop of `count` and one of the outer; whole squares are loops of known length."""
    outer, width = square.axis, square.width
    p.line(f"const int64_t first_{outer} = outer_block * c->slice_size;")
    p.line(f"const int64_t end_{outer} = npc_min(first_{outer} + c->slice_size, {size_text(square.size)});")
    turned = turned_loads(square, inner, body)
    copied = copied_square(square, inner, body, turned)
    if copied:
        print_overlapping(p, square, inner, count, copied)
        p.open("else {")
    p.line(f"int64_t top = first_{outer}, left = first_{inner};")
    if not copied:
        p.open(f"for (; top + {width} <= end_{outer}; top += {width}) {{")
        p.open(f"for (left = first_{inner}; left + {width} <= end_{inner}; left += {width}) {{")
        print_turned(p, square, inner, body, turned)
        p.close()
        print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < top + {width}", f"{outer}++"), f"end_{inner}")
        p.close()
        p.line(f"left = first_{inner};")
    print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < end_{outer}", f"{outer}++"), f"end_{inner}")
    if copied:
        p.close()


def print_overlapping(p: Printer, square: Square, inner: str, count: Size, copied: str) -> None:
    """Whole squares only: the last ones begin so far before the end that what is there before them is copied twice.

    Along what is written, which waits for lines of memory that nobody has asked for; where whole lines are written, along what is
    read.
    """
    outer, width = square.axis, square.width
    down = ("top", f"first_{outer}", f"end_{outer}", size_text(square.size))
    across = ("left", f"first_{inner}", f"end_{inner}", size_text(count))
    p.open(f"if ({across[3]} >= {width} && {down[3]} >= {width}) {{")
    for begin, loops in (("if (c->is_far) {", (across, down)), ("else {", (down, across))):
        p.open(begin)
        for name, first, end, size in loops:
            p.open(f"for (int64_t next_{name} = {first}; next_{name} < {end}; next_{name} += {width}) {{")
            p.line(f"const int64_t {name} = npc_min(next_{name}, {size} - {width});")
        p.line(copied)
        p.close()
        p.close()
        if loops[0] is across:
            p.line("npc_lines_are_written();")
        p.close()
    p.close()


def print_turned(p: Printer, square: Square, inner: str, body: Sequence[Statement], turned: Sequence[tuple[Load, Size]]) -> None:
    """The body for a whole square, of which these loads are turned over first."""
    outer, width = square.axis, square.width
    for load, step in turned:
        tile, size = f"{load.target.name}_turned", load.target.dtype.itemsize
        p.line(f"char {tile}[{size * width * width}] __attribute__((aligned(64)));")
        at = f"const int64_t {outer} = top, {inner} = left;"
        p.line(f"{{ {at} npc_turn{8 * size}({tile}, {load.buffer} + {size_text(load.offset)}, {size_text(step)}, {width}); }}")
        p.replaced[load.target.name] = f"{tile} + {size} * (({outer} - top) * {width} + {inner} - left)"
    p.is_few = any(isinstance(s, Let) for s in walk(list(body)))  # plain copies would become calls of memcpy
    print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < top + {width}", f"{outer}++"), f"left + {width}")
    p.is_few = False
    p.replaced.clear()


def copied_square(square: Square, inner: str, body: Sequence[Statement], turned: Sequence[tuple[Load, Size]]) -> str | None:
    """The statement that copies a whole square to where its rows are side by side, where the body does no more."""
    inside = [s for s in walk(list(body)) if not isinstance(s, Loop)]
    if len(turned) != 1 or len(inside) != 2 or not isinstance(inside[1], Store):
        return None
    (load, step), store = turned[0], inside[1]
    along, across = split_linear(store.offset, inner), split_linear(store.offset, square.axis)
    size = load.target.dtype.itemsize
    if store.value is not load.target or store.buffer == load.buffer or not (along and across and same(along[0], size)):
        return None
    is_far = "0"
    if size * square.width == LINE:
        is_far = f"c->is_far && !((uintptr_t)to % {LINE}) && !({size_text(across[0])} % {LINE})"
    at = f"const int64_t {square.axis} = top, {inner} = left; char* const to = {store.buffer} + {size_text(store.offset)};"
    given = [
        f"to, {size_text(across[0])}",
        f"{load.buffer} + {size_text(load.offset)}, {size_text(step)}",
        str(square.width),
        is_far,
    ]
    return f"{{ {at} npc_copy_turned{8 * size}({', '.join(given)}); }}"


def print_rows(p: Printer, body: Sequence[Statement], inner: str, rows: tuple[str, str, str], end: str) -> None:
    p.open(f"for ({'; '.join(rows)}) {{")
    p.limits[inner] = ("left", end)
    p.statements(body)
    p.close()


def turned_loads(square: Square, inner: str, body: Sequence[Statement]) -> list[tuple[Load, Size]]:
    """The loads of elements that are side by side along the outer loop alone, and their steps along the inner one."""
    found = []
    for s in walk(list(body)):
        if isinstance(s, Load) and s.mask is None and square.width % SIDES.get(s.target.dtype.itemsize, 64) == 0:
            along, across = split_linear(s.offset, inner), split_linear(s.offset, square.axis)
            if along and across and same(across[0], s.target.dtype.itemsize) and abs(estimate(along[0])) > LINE:
                found.append((s, along[0]))
    return found


def turns_text(kernels: str) -> str:
    """The functions that these kernels call to turn squares over."""
    made = WRITTEN if "npc_lines_are_written(" in kernels else ""
    for bits in (8 * size for size in SIDES):
        is_copied = f"npc_copy_turned{bits}(" in kernels
        sides = SIDES[bits // 8], COPIED[bits // 8]
        if is_copied or f"npc_turn{bits}(" in kernels:
            made += square_text(bits, sides[0]) + filled(TURN, values_of(bits, sides[0]))
        if is_copied:
            made += square_text(bits, sides[1]) * (sides[1] != sides[0]) + filled(COPY, values_of(bits, sides[1]))
    return made


def square_text(bits: int, side: int) -> str:
    """The function that turns over one square of elements of so many bits, `side` by `side`."""
    lanes = range(side)
    loads = ", ".join(f"r{k} = *(const npc_row{bits}_{side}*)(from + {k} * from_step)" for k in lanes)
    stores = " ".join(f"*(npc_row{bits}_{side}*)(to + {k} * to_step) = r{k};" for k in lanes)
    stages = []
    for d in (d for d in (1, 2, 4, 8) if d < len(lanes)):
        upper = ", ".join(str(k if not k & d else len(lanes) + k - d) for k in lanes)
        lower = ", ".join(str(k + d if not k & d else len(lanes) + k) for k in lanes)
        for k in (k for k in lanes if not k & d):
            pair = f"r{k}, r{k + d}"
            stages.append(
                f"  {{ const npc_row{bits}_{side} a = __builtin_shufflevector({pair}, {upper}), "
                f"b = __builtin_shufflevector({pair}, {lower}); r{k} = a; r{k + d} = b; }}"
            )
    text = SQUARE.replace("LOADS", loads).replace("STORES", stores).replace("STAGES", "\n".join(stages))
    return filled(text, values_of(bits, side))


def values_of(bits: int, side: int) -> dict[str, str]:
    """What stands for the names in the texts."""
    size = bits // 8
    return {"BITS": str(bits), "BYTES": str(side * size), "SIDE": str(side), "SIZE": str(size)}
