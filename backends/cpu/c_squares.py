"""Squares printed as C: a task takes a block of both loops, and goes through it a square at a time.

What lies side by side along the outer loop is turned over in registers, a square at a time, and then read side by side along
the inner one. So lines are read once, and no more of them are in use than one set of a cache holds, whatever the strides. What is
only copied is written from the registers; so much that no cache keeps it goes to memory a whole line at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cpu.c_printer import Printer
from npcompile.backends.cpu.c_sizes import size_text
from npcompile.backends.cpu.c_templates import filled
from npcompile.backends.cpu.kernel_plan import CopiedSquare, Squares
from npcompile.backends.cpu.transpose_tiling import LINE, SIDES
from npcompile.backends.kernels.kernel import Statement

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


def print_square(p: Printer, way: Squares) -> None:
    """The body for a block of the inner loop and one of the outer; whole squares are loops of known length."""
    (outer, size), (inner, _), width, body = way.outer, way.inner, way.width, way.body
    p.line(f"const int64_t first_{outer} = outer_block * c->slice_size;")
    p.line(f"const int64_t end_{outer} = npc_min(first_{outer} + c->slice_size, {size_text(size)});")
    if way.copied:
        print_overlapping(p, way, copied_text(way, way.copied))
        p.open("else {")
    p.line(f"int64_t top = first_{outer}, left = first_{inner};")
    if not way.copied:
        p.open(f"for (; top + {width} <= end_{outer}; top += {width}) {{")
        p.open(f"for (left = first_{inner}; left + {width} <= end_{inner}; left += {width}) {{")
        print_turned(p, way)
        p.close()
        print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < top + {width}", f"{outer}++"), f"end_{inner}")
        p.close()
        p.line(f"left = first_{inner};")
    print_rows(p, body, inner, (f"int64_t {outer} = top", f"{outer} < end_{outer}", f"{outer}++"), f"end_{inner}")
    if way.copied:
        p.close()


def print_overlapping(p: Printer, way: Squares, copied: str) -> None:
    """Whole squares only: the last ones begin so far before the end that what is there before them is copied twice.

    Along what is written, which waits for lines of memory that nobody has asked for; where whole lines are written, along what is
    read.
    """
    (outer, size), (inner, count), width = way.outer, way.inner, way.width
    down = ("top", f"first_{outer}", f"end_{outer}", size_text(size))
    across = ("left", f"first_{inner}", f"end_{inner}", size_text(count))
    p.open(f"if ({across[3]} >= {width} && {down[3]} >= {width}) {{")
    for begin, loops in (("if (c->is_far) {", (across, down)), ("else {", (down, across))):
        p.open(begin)
        for name, first, end, whole in loops:
            p.open(f"for (int64_t next_{name} = {first}; next_{name} < {end}; next_{name} += {width}) {{")
            p.line(f"const int64_t {name} = npc_min(next_{name}, {whole} - {width});")
        p.line(copied)
        p.close()
        p.close()
        if loops[0] is across:
            p.line("npc_lines_are_written();")
        p.close()
    p.close()


def print_turned(p: Printer, way: Squares) -> None:
    """The body for a whole square, of which some loads are turned over first."""
    outer, inner, width = way.outer[0], way.inner[0], way.width
    for load, step in way.turned:
        tile, size = f"{load.target.name}_turned", load.target.dtype.itemsize
        p.line(f"char {tile}[{size * width * width}] __attribute__((aligned(64)));")
        at = f"const int64_t {outer} = top, {inner} = left;"
        p.line(f"{{ {at} npc_turn{8 * size}({tile}, {load.buffer} + {size_text(load.offset)}, {size_text(step)}, {width}); }}")
        p.replaced[load.target.name] = f"{tile} + {size} * (({outer} - top) * {width} + {inner} - left)"
    p.is_few = way.computes  # plain copies would become calls of memcpy
    print_rows(p, way.body, inner, (f"int64_t {outer} = top", f"{outer} < top + {width}", f"{outer}++"), f"left + {width}")
    p.is_few = False
    p.replaced.clear()


def copied_text(way: Squares, copied: CopiedSquare) -> str:
    """The statement that copies a whole square."""
    load, store, row = copied.load, copied.store, size_text(copied.row)
    is_far = f"c->is_far && !((uintptr_t)to % {LINE}) && !({row} % {LINE})" if copied.is_line else "0"
    at = f"const int64_t {way.outer[0]} = top, {way.inner[0]} = left;"
    to = f"char* const to = {store.buffer} + {size_text(store.offset)};"
    given = f"to, {row}, {load.buffer} + {size_text(load.offset)}, {size_text(copied.step)}, {way.width}, {is_far}"
    return f"{{ {at} {to} npc_copy_turned{8 * load.target.dtype.itemsize}({given}); }}"


def print_rows(p: Printer, body: Sequence[Statement], inner: str, rows: tuple[str, str, str], end: str) -> None:
    p.open(f"for ({'; '.join(rows)}) {{")
    p.limits[inner] = ("left", end)
    p.statements(body)
    p.close()


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
