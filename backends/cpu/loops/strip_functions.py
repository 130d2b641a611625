"""The C function of a strip of iterations, and what calls it where the loop is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npcompile.backends.cpu.elements import C_OF_KIND
from npcompile.backends.cpu.loops.speculation import ROOM, WORD, Strip, Way, size_of
from npcompile.backends.native_profiling import like, with_directives

FEWEST = 4  # that are worth a call
FEWEST_OF_ROWS = 2  # that have loops inside, or where the call goes on in the rows that follow
MOST_ROWS = 256  # of the loop around
MANY_TURNS = 128  # of loops inside, for each iteration
FEW_TURNS = 64  # beside these
MOST_TURNS = 1 << 16
NAME = re.compile(r"typedef struct \{.*\} (\w+)_result;")
TEMPORARY = re.compile(r"\bt\d+\b")
LONGEST_PAUSE = 1 << 16  # iterations between attempts, after strips that were in vain

STRIP_HELPERS = r"""
#if defined(__x86_64__)
/* Invalid operations, divisions by zero and overflows: what NumPy reports unless it is told not to. */
static inline int npc_noted(void) {
  unsigned state;
  __asm__ volatile("stmxcsr %0" : "=m"(state) : : "memory");
  return state & 13;
}
#elif defined(__aarch64__)
static inline int npc_noted(void) {
  uint64_t state;
  __asm__ volatile("mrs %0, fpsr" : "=r"(state) : : "memory");
  return state & 7;
}
#else
#include <fenv.h>
static inline int npc_noted(void) { return fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW); }
#endif
static inline void npc_forget(void) { if (UNLIKELY(npc_noted())) rt->watch(); }
/* A result that nobody may read is computed all the same, before flags are looked at behind it. */
#if defined(__x86_64__)
#define COMPUTED(x) __asm__ volatile("" : : "x"(x))
#elif defined(__aarch64__)
#define COMPUTED(x) __asm__ volatile("" : : "w"(x))
#else
#define COMPUTED(x) ({ const __typeof__(x) npc_computed = (x); __asm__ volatile("" : : "m"(npc_computed)); })
#endif
/* A function of its own, for its registers. Of straight code vectors make chains longer. Where BLOCKS keep what they have read,
   what both arms of a branch compute stays in these: else the branch is a jump, also where nobody can tell which arm is next. */
#if defined(__GNUC__) && !defined(__clang__)
#define STRIP static __attribute__((noinline, optimize("no-tree-slp-vectorize")))
#define CHAIN static __attribute__((noinline, optimize("no-tree-vectorize", "no-tree-reassoc", "unroll-loops")))
#define BAND static __attribute__((noinline, optimize("no-tree-vectorize", "no-tree-reassoc")))
#define NEST CHAIN
#define BRIEF __attribute__((optimize("O1")))
#define BY_NUMBER __attribute__((optimize("no-tree-slp-vectorize")))
#define BLOCKS __attribute__((optimize("tree-pre", "no-code-hoisting")))
#else
#define STRIP static __attribute__((noinline))
#define CHAIN STRIP
#define BAND STRIP
#define NEST STRIP
#define BRIEF
#define BY_NUMBER
#define BLOCKS
#endif
#ifdef __clang__ /* it has no forms that only ask */
#define NPC_ASKED(operation, a, b, c) ({ __typeof__(c) npc_made; __builtin_##operation##_overflow(a, b, &npc_made); })
#define __builtin_add_overflow_p(a, b, c) NPC_ASKED(add, a, b, c)
#define __builtin_sub_overflow_p(a, b, c) NPC_ASKED(sub, a, b, c)
#define __builtin_mul_overflow_p(a, b, c) NPC_ASKED(mul, a, b, c)
#endif
enum { VAIN = 1, UNDONE, FIRST_WAY_OUT };
/* The bits of a number that is finite are less than these when its sign is shifted out. Beside chains of floating-point
   operations integers have units of their own. */
#define FINITE(c, bits_of, limit)       \
  static inline bits_of npc_bits_##c(c x) {   \
    bits_of bits;                             \
    __builtin_memcpy(&bits, &x, sizeof bits); \
    return bits;                              \
  }                                           \
  static inline int npc_is_finite_##c(c x) { return (bits_of)(npc_bits_##c(x) << 1) < limit; }
FINITE(double, uint64_t, 0xffe0000000000000u)
FINITE(float, uint32_t, 0xff000000u)
"""


def function(strip: Strip, body: list[str], by_lanes: Sequence[str] = ()) -> tuple[str, dict[str, str]]:
    """(the C function of the strip, its parameters and their types)

    It returns 0 at the end, VAIN, UNDONE, or FIRST_WAY_OUT and more where the loop is left. `body` ends each iteration at the
    label `next`. The result holds the variables that were set, how many iterations were begun, and of which row. `by_lanes`
    return themselves where there are enough iterations for them.
    """
    noted = strip.noted
    kept = [f"out->{v} = {v};" for v in strip.assigned]
    lines = [*own_variables(strip), "out->rows = 0;", f"count = {strip.longest};"]
    lines += [f"if ({way.count} < count) count = {way.count};" for way in strip.ways]
    lines += sorted({with_same(strip, f"if ({test}) return VAIN;") for test in strip.tests()}) + bounds(strip)
    if strip.is_counted:
        lines += [f"turns = {strip.turns()};", "if (turns >= POLL) return VAIN;", *by_lanes]
        lines.append(f"if (turns >= {MANY_TURNS}) count = 1;")
    lines += [*first_row(strip), *keeping(strip), "body:;", *keeping_of_nest(strip), *body, "next:;", *following(strip)]
    lines += [f"if (UNLIKELY({noted})) {{ --k; goto undo; }}", *next_row(strip, body), *kept, "out->count = count;", "return 0;"]
    for j in range(strip.ways_out):
        lines += [f"out{j}:;", f"if (UNLIKELY({noted})) goto undo;", *kept, "out->count = k + 1;"]
        lines.append(f"return FIRST_WAY_OUT + {j};")
    if strip.stops:
        lines += [
            "undo:;",
            f"if (!k{' && !out->rows' if strip.outer else ''}) return VAIN;",
            *kept,
            "out->count = k;",
            "return 0;",
        ]
    else:
        lines += ["undo:;", "out->count = count;", *["rt->watch();"] * strip.is_nest, *undo(strip), "return UNDONE;"]
    lines = [with_same(strip, line) for line in lines]
    fields = "".join(f" {strip.code.variables[v]} {v};" for v in strip.assigned)
    given = strip.parameters(lines)
    parameters = ", ".join([*["int64_t rows"] * (strip.outer is not None), *(f"{c} {name}" for name, c in given.items())])
    form = "NEST" if strip.is_nest else "CHAIN" if strip.is_chain else "STRIP"
    head = f"{form} int {strip.name}({strip.name}_result* restrict out, {parameters}) {{"
    return "\n".join(
        [f"typedef struct {{ int64_t count, rows, turns;{fields} }} {strip.name}_result;", head, *with_directives(lines), "}"]
    ), given


def where(condition: str, lines: list[str]) -> list[str]:
    """Lines for processors of which C compilers define that."""
    return [f"#if {condition}", *lines, "#endif"] if condition else lines


def with_same(strip: Strip, line: str) -> str:
    """The line with one name for each variable, as the strip of the same loop outside of chunks has it."""
    return like(line, WORD.sub(lambda word: strip.same.get(word[0], word[0]), line)) if strip.same else line


def written_once(functions: list[str], strip: Strip, function: str) -> str:
    """The function, or what gives it another name if one of these is the same but for names: C compilers take long for each."""
    plain = without_names(function, strip.name)
    for other in functions:
        if (found := NAME.match(other)) and without_names(other, found[1]) == plain:
            return f"typedef {found[1]}_result {strip.name}_result;\n#define {strip.name} {found[1]}"
    return function


def without_names(function: str, name: str) -> str:
    """The text of a function, in which temporaries have the numbers in which they come."""
    numbers: dict[str, str] = {}
    text = re.sub(rf"\b{name}(?=\b|_result\b|_block\d+_\d+\b)", "", function)
    return TEMPORARY.sub(lambda found: numbers.setdefault(found[0], f"t{len(numbers)}"), text)


def following(strip: Strip) -> list[str]:
    """Lines that go on with the next iteration, if there is one."""
    if not strip.is_nest:
        return ["if (++k < count) goto body;"]
    if strip.is_counted:
        return ["if (++k < count) goto body;", "out->turns = turns * count;"]
    most = f"turns < {MOST_TURNS}" if strip.has_while else f"turns < {MANY_TURNS} * k + {FEW_TURNS}"
    room = f" && stored < {ROOM // 2}" if strip.kept and not strip.is_regular else ""
    return [f"if (++k < count && {most}{room}) goto body;", "count = k;", "out->turns = turns;"]


def own_variables(strip: Strip) -> list[str]:
    counts = ["count", "k", "bad", "signs", *["stored"] * (not strip.is_regular), *["turns"] * strip.is_nest]
    counts += [f"{g.name}_{what}" for g in strip.groups.values() for what in ("at", "from")]
    lines = [f"int64_t fit = -1, {', '.join(f'{c} = 0' for c in counts)};"]
    lines += [f"uint{64 if c == 'double' else 32}_t bits_{c} = 0;" for c in sorted(strip.has_bits)]
    lines += [f"{C_OF_KIND[s.kind]} before{j};" for j, s in enumerate(strip.stores) if strip.stored_before(s)]
    lines += [f"{C_OF_KIND[x.kind]} read{j};" for j, (x, _) in enumerate(strip.read_before())]
    if strip.is_regular:
        stores = enumerate(strip.kept)
        return lines + [f"{C_OF_KIND[s.kind]} old{j}{'' if s.stays else f'[{strip.longest}]'};" for j, s in stores]
    length = ROOM if strip.is_nest else max(strip.longest * len(strip.kept), 1)
    return [*lines, f"char* at[{length}];", f"uint64_t old[{length * strip.words}];", f"uint8_t size[{length}];"]


def bounds(strip: Strip) -> list[str]:
    """Lines that shorten the strip to the iterations whose indices are known to be within bounds."""
    lines = []
    for g in strip.groups.values():
        lines.append(f"{g.name}_at = {strip.beginning(g)};")
        low, high = g.lowest, g.highest
        if g.may_count_from_the_end:
            lines.append(f"{g.name}_from = {high} < 0 ? {g.size} : 0;")
            low, high = f"{low} + {g.name}_from", f"{high} + {g.name}_from"
        lines.append(f"if ({low} < 0 || {high} >= {g.size}) return VAIN;")
        if g.moves:
            rest = f"{g.size} - 1 - ({high})" if g.moves > 0 else low
            by = "" if abs(g.moves) == 1 else f" / {abs(g.moves)}"
            lines.append(f"if (({rest}){by} < count) count = ({rest}){by} + 1;")
    return lines


def undo(strip: Strip) -> list[str]:
    """Lines that put back what was stored, the last first."""
    if not strip.is_regular:
        sizes = {size_of(s.kind) for s in strip.kept}
        copy = f"if (size[stored] == {{0}}) __builtin_memcpy(at[stored], {strip.old}, {{0}});"
        return ["while (stored) {", "--stored;", *(copy.format(size) for size in sorted(sizes)), "}"]
    moving = [(j, s) for j, s in reversed(list(enumerate(strip.kept))) if not s.stays]
    lines = [f"{s.iteration('k')} = old{j}[k];" for j, s in moving]
    lines = ["for (; k >= 0; --k) {", *lines, "}"] if lines else []
    return lines + [f"{s.iteration('0')} = old{j};" for j, s in enumerate(strip.kept) if s.stays]


def keeping(strip: Strip) -> list[str]:
    """Lines that keep what stands where the strip will store, and what it reads of it."""
    lines = [f"old{j} = {s.iteration('0')};" for j, s in enumerate(strip.kept) if strip.is_regular and s.stays]
    for j, s in enumerate(strip.stores):
        if strip.is_kept_before and not s.stays:
            lines.append(f"for (int64_t k = 0; k < count; ++k) old{j}[k] = {s.iteration('k')};")
        for x in strip.stored_before(s)[:1]:
            lines.append(f"before{j} = {x.first};")
    return lines + [f"read{j} = {old.first};" for j, (old, _) in enumerate(strip.read_before())]


def keeping_of_nest(strip: Strip) -> list[str]:
    """The same at the beginning of an iteration that may be undone from anywhere."""
    stores = enumerate(strip.kept) if strip.is_nest and strip.is_regular else []
    return [f"old{j}[k] = {s.iteration('k')};" for j, s in stores if not s.stays]


def fewest(strip: Strip) -> int:
    """Iterations that are enough for a strip."""
    return FEWEST if strip.outer is None and not strip.is_nest else FEWEST_OF_ROWS


def call(strip: Strip, parameters: dict[str, str], header: str, are_apart: Sequence[str]) -> list[str]:
    """Lines that run a strip and go on, from the label of the loop's header to {name}_slow: the loop without strips."""
    n = strip.name
    lines = [f"if (UNLIKELY({n}_pause)) {{ --{n}_pause; goto {n}_slow; }}"]
    lines += [f"if ({way.has_fewer(fewest(strip))}) goto {n}_slow;" for way in strip.ways]
    lines += [f"if (UNLIKELY(!({condition}))) goto {n}_slow;" for condition in are_apart]
    rows = [rows_left(strip)] if strip.outer is not None else []
    lines += ["npc_forget();"] * strip.is_nest
    lines.append(f"{n}_status = {n}({', '.join([f'&{n}_found', *rows, *parameters])});")
    lines += rows_done(strip)
    lines += [f"if (UNLIKELY({n}_status == VAIN || {n}_status == UNDONE)) {{"]
    lines += [f"{n}_pause = {n}_waits + ({n}_status == UNDONE ? {n}_found.count : 0);"]
    lines += [f"if ({n}_waits < {LONGEST_PAUSE}) {n}_waits += {n}_pause + 1;", f"goto {n}_slow;", "}"]
    if strip.is_nest:
        lines.append(f"fuel -= {n}_found.turns;")
        if not strip.has_while:  # long loops inside are better off with strips of their own
            are_one_by_one = f" && {n}_found.count == 1" * strip.is_counted  # and not in lanes
            are_many = f"{n}_found.turns >= {MANY_TURNS} * {n}_found.count{are_one_by_one}"
            lines.append(f"if ({are_many}) {n}_pause = {LONGEST_PAUSE};")
    lines += [f"{n}_waits = 0;", f"fuel -= {n}_found.count;", *(f"{v} = {n}_found.{v};" for v in strip.assigned)]
    lines += [f"{way.first} += {n}_found.count * {way.step};" for way in strip.ways]
    lines += [f"if ({n}_status == FIRST_WAY_OUT + {j}) goto {n}_out{j};" for j in range(strip.ways_out)]
    return [*lines, f"goto {header};"]


# --- the loop around it


def first_row(strip: Strip) -> list[str]:
    """Lines that say how many rows there are: one, if others are not whole or not within bounds."""
    if strip.outer is None:
        return []
    outside = [f"count < {way.count}" for way in strip.ways]
    for g in strip.groups.values():
        if by := strip.outer.moves(g):
            last = f" + {by} * (rows - 1)"
            low, high = f"{g.name}_at + INT64_C({g.low})", f"{g.name}_at + INT64_C({g.high})"
            outside.append(f"{low}{last * (by < 0)} < 0 || {high}{last * (by > 0)} >= {g.size}")
    return [f"if ({' || '.join(outside)}) rows = 1;", "row:;"]


def next_row(strip: Strip, body: list[str]) -> list[str]:
    """Lines that go on in the next row, if there is one."""
    if strip.outer is None:
        return []
    begins = [f"{g.name}_at = {strip.beginning(g)};" for g in strip.groups.values() if strip.outer.moves(g)]
    is_named = any(strip.outer.variable in WORD.findall(line) for line in [*begins, *body])
    advance = [f"{strip.outer.variable} += {strip.outer.step};"] if is_named else []
    return ["if (out->rows + 1 < rows) {", "++out->rows;", "k = 0;", *advance, *begins, "goto row;", "}"]


def rows_left(strip: Strip) -> str:
    """How many rows may run from here: others begin where the loop does."""
    assert strip.outer is not None
    left = Way(strip.outer.next, strip.outer.stop, strip.outer.step).count
    return f"{strip.ways[0].first} == {strip.outer.start} ? npc_min({left} + 1, {MOST_ROWS}) : 1"


def rows_done(strip: Strip) -> list[str]:
    """Lines that follow a strip to the row where it has ended."""
    if strip.outer is None:
        return []
    n, outer = strip.name, strip.outer
    lines = [f"if ({n}_found.rows) {{", f"{outer.next} += {n}_found.rows * {outer.step};"]
    if outer.variable:
        lines.append(f"{outer.variable} = {outer.next} - {outer.step};")
    return [*lines, f"{strip.ways[0].first} = {outer.start};", f"fuel -= {n}_found.rows * {n}_found.count;", "}"]


def declarations(strip: Strip) -> list[str]:
    n = strip.name
    return [f"int64_t {n}_pause = 0, {n}_waits = 0;", f"int {n}_status = 0;", f"{n}_result {n}_found;"]
