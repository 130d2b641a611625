"""The C unit of a program with native loops: what it asks of its inputs, what it calls, and the ways out to Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from npcompile.backends.cpu.c_functions import functions_text
from npcompile.backends.cpu.dots import REGISTER
from npcompile.backends.cpu.elements import C_OF_KIND, COMPLEX_TYPES
from npcompile.backends.cpu.loader import loader
from npcompile.backends.cpu.loops import column_packing, number_lists
from npcompile.backends.cpu.loops.fp_status import FORGET, IN_PROGRAM, LOOK, with_fewer_looks
from npcompile.backends.cpu.loops.parallel_loops import SPREAD_HELPERS, WORD
from npcompile.backends.cpu.loops.scalar_functions import helpers
from npcompile.backends.cpu.loops.scalar_loops import ScalarLoops
from npcompile.backends.cpu.loops.side_exits import ways_out
from npcompile.backends.cpu.loops.strip_functions import STRIP_HELPERS
from npcompile.backends.loop_ir.exits import GIVEN, OTHERS, UNFIT, UNUSUAL
from npcompile.backends.native_profiling import with_directives

POLL = 1 << 22  # iterations between two looks for signals
# Iterations and elements are units of fuel. Python takes as long for two iterations as NumPy for a statement.
COUNTED = """#define NPC_COMPUTED(n) (fuel -= (n), elements += (n) - 2)
#define NPC_ITERATIONS (POLL - fuel - elements + elements / 256)"""
MANY_EXITS = 30  # of programs whose compile time counts: the loops that take the time are functions of their own
FLAGS = {"contiguous": 0x1, "aligned": 0x100, "writeable": 0x400}  # of NumPy's arrays
WRAP = f'  if (result) {{ PyObject* const inner = result; result = rt->leave({GIVEN}, "o", inner); rt->decref(inner); }}'

HELPERS = (
    REGISTER
    + r"""
double sqrt(double), exp(double), log(double), sin(double), cos(double), tan(double), tanh(double), atan(double);
double fabs(double), floor(double), ceil(double), fmod(double, double), pow(double, double), atan2(double, double);
double copysign(double, double), trunc(double);
float sqrtf(float), expf(float), logf(float), sinf(float), cosf(float), tanf(float), tanhf(float), atanf(float);
float fabsf(float), floorf(float), ceilf(float), fmodf(float, float), powf(float, float), copysignf(float, float);
#define UNLIKELY(c) __builtin_expect(!!(c), 0)
#define NO_CHOICE __asm__ volatile("") /* compilers come here by a jump */
/* Compilers guess how often statements run, and write the loops of such as they think seldom to be short: behind a few others
   that may leave, the rest seems to be that. */
#define FAST __attribute__((hot))
/* A floating-point error that NumPy reports gave r: it is not finite, and the operands are not why. */
#define IS_BAD1(r, a) (!__builtin_isfinite(r) && __builtin_isfinite(a))
#define IS_BAD2(r, a, b) (!__builtin_isfinite(r) && !__builtin_isnan(a) && !__builtin_isnan(b) && \
  (__builtin_isnan(r) || (__builtin_isfinite(a) && __builtin_isfinite(b))))
static inline int npc_power(int64_t a, int64_t b, int64_t* out) {
  int64_t r = 1;
  if (b < 0) return 1;
  for (;;) {
    if ((b & 1) && __builtin_mul_overflow(r, a, &r)) return 1;
    if (!(b >>= 1)) break;
    if (__builtin_mul_overflow(a, a, &a)) return 1;
  }
  *out = r;
  return 0;
}
/* Where a slice with a step begins and how many items it has, as Python's slice.indices has it. */
static inline int64_t npc_bound(int64_t at, int64_t n, int64_t low, int64_t high) {
  if (at < 0) at += n;
  return at < low ? low : at > high ? high : at;
}
static inline int64_t npc_count(int64_t start, int64_t stop, int64_t step) {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return stop < start ? (start - stop - 1) / -step + 1 : 0;
}
/* Behind the last item of a range, by its step. */
static inline int64_t npc_range_end(int64_t start, int64_t stop, int64_t step) {
  const uint64_t distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  const uint64_t by = step > 0 ? (uint64_t)step : -(uint64_t)step;
  if (step > 0 ? start >= stop : start <= stop) return start;
  return (int64_t)((uint64_t)start + ((distance - 1) / by + 1) * (uint64_t)step);
}
#define FLOOR_DIVISION(T, s)                                                       \
  static inline T npc_mod_##T(T a, T b) {                                          \
    T m = fmod##s(a, b);                                                           \
    if (m) return (b < 0) != (m < 0) ? m + b : m;                                  \
    return copysign##s(0, b);                                                      \
  }                                                                                \
  static inline T npc_floordiv_##T(T a, T b) {                                     \
    T m = fmod##s(a, b), d = (a - m) / b;                                          \
    if (m && (b < 0) != (m < 0)) d -= 1;                                           \
    if (!d) return copysign##s(0, a / b);                                          \
    T f = floor##s(d);                                                             \
    return d - f > (T)0.5 ? f + 1 : f;                                             \
  }
FLOOR_DIVISION(double, )
FLOOR_DIVISION(float, f)
#define NPC_LOW(n, s) ((s) < 0 ? ((n) - 1) * (s) : 0)
#define NPC_HIGH(n, s) ((s) > 0 ? ((n) - 1) * (s) : 0)
static int npc_are_far(PyObject* one, PyObject* other) {
  char *low[2], *high[2];
  npc_array* arrays[] = {(npc_array*)one, (npc_array*)other};
  for (int i = 0; i < 2; i++) {
    npc_array* a = arrays[i];
    low[i] = a->data;
    high[i] = a->data + ((npc_descr*)a->descr)->elsize;
    for (int k = 0; k < a->nd; k++) {
      if (!a->dimensions[k]) return 1;
      low[i] += NPC_LOW(a->dimensions[k], a->strides[k]);
      high[i] += NPC_HIGH(a->dimensions[k], a->strides[k]);
    }
  }
  return high[0] <= low[1] || high[1] <= low[0];
}
"""
)


ROOM = re.compile(r"\bmade\d+\b")
MADE_ROOM = re.compile(r"\bnpc_room\(&(made\d+),")
# Where the array's variable is named and its shape makes no difference.
AS_MEMORY = re.compile(
    r"\bnpc_room\(&(made\d+),|\(npc_array\*\)(made\d+)\)->data|\bnpc_shaped\((made\d+),|PyObject\* (made\d+) = 0;"
    r"|\brt->(?:decref|discard)\((made\d+)\);|\bnpc_keep_room\((made\d+),|\b(made\d+) = made\d+_kept,"
)


def speed_of(code: ScalarLoops) -> str:
    """How the program's own function is compiled."""
    if (code.functions or code.by_blocks) and len(code.exits) > MANY_EXITS:
        return "BRIEF"
    # Of two numbers side by side GCC 12 forgets that they were rounded to float32, where it makes a vector of them.
    if any("npc_z" in line for line in code.lines):
        return "FAST BY_NUMBER"
    # What one iteration has read and tested the next need not; of choices in statements over arrays there are no vectors then.
    chooses = code.statements is not None and any(" ? " in text for text in code.statements.functions)
    code.passes.note("reads kept between iterations", "the program", "vectors of choices" if chooses or code.by_blocks else None)
    return "FAST" if chooses or code.by_blocks else "FAST BLOCKS"


def source(code: ScalarLoops) -> str:
    """The C unit: `npc_run(arrays ..., numbers ..., objects ...)` gives a list: the number of the exit, what it hands over,
    and about how many iterations it has done, statements over arrays included.

    OTHERS is the exit where names, types, or what else guards ask of what is given, are not as expected; UNFIT where memory
    is; UNUSUAL where NumPy's state of errors is not among those given. Facts about names and these states come first.
    """
    lines = [
        "#define INT64_C(x) x##L",
        f"#define POLL {POLL}",
        COUNTED,
        COMPLEX_TYPES,
        HELPERS,
        helpers(),  # before names of libm's functions mean those that NumPy's have in kernels
        STRIP_HELPERS,
    ]
    lines += [number_lists.LIST_HELPERS] * bool(code.lists)
    lines += [SPREAD_HELPERS] * any("npc_spread(" in text for text in code.functions)
    program = program_lines(code)
    lines += [functions_text("\n".join(program), loader().compiler), *program]
    text = "\n".join(lines) + "\n"
    return with_places(text) if code.statements is not None and code.statements.rooms else text


def program_lines(code: ScalarLoops) -> list[str]:
    """The functions of statements, of strips, and the program itself."""
    lines = [] if code.statements is None else [code.statements.text()]
    lines += code.functions
    known = code.statements.rooms if code.statements is not None else {}
    rooms = rooms_of(code, known)
    if rooms:
        lines += kept_rooms(rooms)
        code.passes.note("small arrays kept for the next call", "the program", None, len(rooms))
    lines.append(f"{speed_of(code)} PyObject* npc_run(PyObject* self, PyObject* const* args, int64_t nargs) {{")
    lines += [f"  {line}" for line in inputs(code)]
    lines += [f"  {c} {name} = 0;" for name, c in code.variables.items()]
    lines += [f"  {line}" for line in take_rooms(rooms)]
    lines += [f"  {line}" for a in code.arrays if a.made for line in a.declarations()]
    lines += [f"  const char* const {column_packing.name_of(name)} = 0;" for name in sorted(code.copied)]
    far = [f"npc_are_far((PyObject*){a}_array, (PyObject*){b}_array)" for a, b in sorted(code.apart)]
    lines += [f"  const int apart = {' && '.join(far)};"] * bool(far)
    lines += [f"  {line}" for line in number_lists.declarations(code.lists)]
    lines += [f"  {line}" for line in code.declarations]
    lines.append("  PyObject *result = 0, *raised = 0;")
    lines.append("  int64_t fuel = POLL, elements = 0, where = 0, due = 0;")
    body = with_fewer_looks(code.lines, code.floats(), IN_PROGRAM)
    looks = sum(line == FORGET or LOOK.fullmatch(line) is not None for line in body)
    code.passes.note("looks at floating-point errors", "the program", None, looks)
    lines += [*(f"  {line}" for line in with_directives(body)), *ways_out(code.exits, body, code.handed("int", "NPC_ITERATIONS"))]
    lines += ["given:", *[WRAP] * code.wraps_results, "failed:", "done:"]
    objects = [name for name, c in code.variables.items() if c == "PyObject*" and name not in known]
    lines += [f"  rt->decref({name});" for name in objects if not name.startswith("made")]
    lines += [f"  rt->discard({name});" for name in objects if name.startswith("made")]
    lines += [f"  {line}" for line in leave_rooms(rooms)]
    lines += [f"  {line}" for line in number_lists.releases(code.lists)]
    return lines + ["  rt->decref(raised);"] * any(way.throws for way in code.exits) + ["  return result;", "}"]


def with_places(text: str) -> str:
    """The unit with arrays that have the shape of an iteration only where they are handed over, if that is all they are for."""
    seen = Counter(ROOM.findall(text))
    seen.subtract(slot for found in AS_MEMORY.findall(text) for slot in found if slot)
    return MADE_ROOM.sub(lambda found: found[0] if seen[found[1]] else f"npc_place(&{found[1]},", text)


def rooms_of(code: ScalarLoops, known: Mapping[str, int]) -> dict[str, int]:
    """The variables of arrays that the program itself makes, to bytes of an element. Functions of its loops have their own."""
    named = {word for line in code.lines for word in WORD.findall(line)} if known else set()
    return {slot: size for slot, size in known.items() if slot in named}


def kept_rooms(rooms: Mapping[str, int]) -> list[str]:
    """Where they wait, and what drops them when the unit is unloaded."""
    drops = " ".join(f"rt->decref({s}_kept); {s}_kept = 0;" for s in rooms)
    kept = [f"static PyObject* {s}_kept; static int64_t {s}_kept_most;" for s in rooms]
    return [*kept, f"void npc_drop(void) {{ {drops} }}"]


def take_rooms(rooms: Mapping[str, int]) -> list[str]:
    """Arrays that wait since the last call. Whoever calls at the same time makes others."""
    return [f"{s} = {s}_kept, {s}_most = {s}_kept_most, {s}_kept = 0;" for s in rooms]


def leave_rooms(rooms: Mapping[str, int]) -> list[str]:
    """At the end of a call."""
    return [f"npc_keep_room({s}, {s}_most, {size}, &{s}_kept, &{s}_kept_most);" for s, size in rooms.items()]


def inputs(code: ScalarLoops) -> list[str]:
    left = 'return rt->leave({}, "");'.format
    lines, others = [], left(OTHERS)
    for test, way_out in (("are_names_known", others), ("is_state_known", left(UNUSUAL))):
        lines.append(f"switch (rt->{test}(*args++)) {{ case 1: break; case 0: {way_out} default: return 0; }}")
    for k, a in enumerate(code.given_arrays):
        asked = FLAGS["contiguous"] if a.is_contiguous else 0
        number = code.dtype(np.dtype(a.kind))
        lines.append(f"if (rt->take_array(args[{k}], npc_dtypes[{number}], {a.ndim}, {asked})) {others}")
        wanted = FLAGS["aligned"] | (FLAGS["writeable"] if a.is_written else 0)
        lines.append(f"npc_array* const {a.name}_array = (npc_array*)args[{k}];")
        lines.append(f"char* const {a.name} = {a.name}_array->data;")
        for axis in range(a.ndim):
            lines.append(f"const int64_t {a.name}_n{axis} = {a.name}_array->dimensions[{axis}];")
            lines.append(f"const int64_t {a.name}_s{axis} = {a.name}_array->strides[{axis}];")
        alone = f" && !rt->overlaps_itself({a.name}_array)" if a.is_written and not a.is_contiguous else ""
        lines.append(f"const int {a.name}_fits = ({a.name}_array->flags & {wanted}) == {wanted}{alone};")
    lines += [f"if ({size} > {most}) {others}" for size, most in code.bounds.items()]
    n = len(code.given_arrays)
    far = [f"npc_are_far({a}, {b})" for a, b in sorted(code.statements.far)] if code.statements is not None else []
    fits = " && ".join([*(f"{a.name}_fits" for a in code.given_arrays), *far]) or "1"
    for k, (kind, name) in enumerate(code.numbers, n):
        if kind == "state":
            lines += [f"const int64_t {name} = rt->is_true_of_state(args[{k}]);", f"if (UNLIKELY({name} < 0)) return 0;"]
            continue
        is_python = kind in ("int", "float", "bool", "complex")
        dtype = "" if is_python else f"npc_dtypes[{code.dtype(np.dtype(kind))}], "
        lines.append(f"{C_OF_KIND[kind]} {name}_read;")
        lines.append(f"if (rt->take_{kind if is_python else 'scalar'}(args[{k}], {dtype}&{name}_read)) {others}")
        lines.append(f"const {C_OF_KIND[kind]} {name} = {name}_read;")
    lines += [f"PyObject* const given{k} = args[{k + n + len(code.numbers)}];" for k in range(code.objects)]
    # What follows has read no element yet, and anything may be asked again.
    lines.append(f"if (!({fits})) {left(UNFIT)}")
    return lines
