"""What a target says about itself: its types, its text for each scalar op, and what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from npcompile.backends.loop_ir import libm
from npcompile.tensor_core.loop_ir.types import DTYPES, INTEGERS, NUMPYS, TRUTHS, Kind, Scalar, promoted


class Unsupported(Exception):
    """A target has no text for an op: why, and the user's line."""

    def __init__(self, reason: str, line: int):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


class Ability(Enum):
    ALLOCATE = "allocation"
    LISTS = "lists that grow"
    VECTORS = "vectors"
    THREADS = "threads"
    LINES = "lines for profilers"


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One language of C's family. The texts of primitives have a `{}` for each operand."""

    name: str
    helpers: str  # definitions that the statements use
    function: str  # the head of the program's function, with a `{}` for its name
    primitives: Mapping[str, str]  # by row, where it differs from C's
    checks_flags: bool
    abilities: frozenset[Ability]


C_TYPES = {
    Kind.BOOL: "signed char",
    Kind.B1: "signed char",
    Kind.INT: "npc_i64",
    Kind.I64: "npc_i64",
    Kind.I8: "signed char",
    Kind.I16: "short",
    Kind.I32: "int",
    Kind.U8: "unsigned char",
    Kind.U16: "unsigned short",
    Kind.U32: "unsigned",
    Kind.U64: "unsigned long long",
    Kind.FLOAT: "double",
    Kind.F64: "double",
    Kind.F32: "float",
}

# By a power of 2: Python's quotient and remainder, of negative numbers too.
DIVIDED = {"floor_divide": "{} >> {}", "remainder": "{} & ((1LL << {}) - 1)"}

# What vectors of GCC and clang take as numbers do. Others are a function for each lane.
VECTOR_OPERATORS = {"add", "subtract", "multiply", "divide", "negative"}

# What is the same in C and CUDA C++: by row, or by row and kind. `$` is the kind. Functions of doubles serve floats too.
PRIMITIVES: Mapping[str, str] = {
    "add": "{} + {}",
    "subtract": "{} - {}",
    "multiply": "{} * {}",
    "divide": "{} / {}",
    "zero_or_multiply": "npc_zero_or_multiply({}, {})",
    "zero_or_divide": "npc_zero_or_divide({}, {})",
    "negative": "-{}",
    "absolute": "fabs({})",
    "sign": "npc_sign({})",
    "sqrt": "sqrt({})",
    "exp": "exp({})",
    "sin": "sin({})",
    "cos": "cos({})",
    **libm.PRIMITIVES,
    "power": "pow({}, {})",
    "running_maximum": "npc_running_maximum({}, {}, {})",
    "running_minimum": "npc_running_minimum({}, {}, {})",
    "share_of_maximum": "npc_share_of_maximum({}, {})",
    "share_of_minimum": "npc_share_of_minimum({}, {})",
    "choose": "{} ? {} : {}",
    "is_finite": "npc_is_finite({})",
    "floor_divide": "npc_floor_divide({}, {})",
    "remainder": "npc_remainder({}, {})",
    **{f"{row}.{kind}": f"npc_{row}_{kind}({{}}, {{}})" for row in ("floor_divide", "remainder") for kind in ("f32", "f64")},
    "floor_divide.u64": "{} / {}",
    "remainder.u64": "{} % {}",
    "bitwise_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "bitwise_xor": "{} ^ {}",
    "invert": "~{}",
    "left_shift": "(npc_i64)((unsigned long long){} << {})",
    "right_shift": "{} >> {}",
    "left_shift_overflows": "npc_left_shift_overflows({}, {})",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "greater": "{} > {}",
    "greater_equal": "{} >= {}",
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "truth": "{} != 0",
    "logical_not": "!{}",
    "logical_and": "{} && {}",
    "to_float": "(double){}",
    "to_int": "(npc_i64){}",
    **{f"to_{kind.value}": f"({C_TYPES[kind]}){{}}" for kind in DTYPES if kind in C_TYPES and kind is not Kind.B1},
    "to_b1": "{} != 0",
    "wrap_index": "npc_wrap({}, {})",
    "is_index": "npc_is_index({}, {})",
    "clip_bound": "npc_clip({}, {})",
    "span": "npc_span({}, {})",
    "least": "npc_least({}, {})",
    "add_overflows": "npc_add_overflows_$({}, {})",
    "subtract_overflows": "npc_subtract_overflows_$({}, {})",
    "multiply_overflows": "npc_multiply_overflows_$({}, {})",
}
# The same everywhere. `NPC_INLINE` is the target's.
SHARED_HELPERS = """NPC_INLINE npc_i64 npc_floor_divide(npc_i64 a, npc_i64 b) { return a / b - (a % b < 0); } /* b > 0 */
NPC_INLINE npc_i64 npc_remainder(npc_i64 a, npc_i64 b) { const npc_i64 r = a % b; return r < 0 ? r + b : r; }
NPC_INLINE npc_i64 npc_wrap(npc_i64 i, npc_i64 n) { return i < 0 ? i + n : i; }
NPC_INLINE int npc_is_index(npc_i64 i, npc_i64 n) { return (unsigned long long)i < (unsigned long long)n; }
NPC_INLINE npc_i64 npc_clip(npc_i64 i, npc_i64 n) { i = npc_wrap(i, n); return i < 0 ? 0 : i > n ? n : i; }
NPC_INLINE double npc_share_of_maximum(double a, double b) { return a == b ? 0.5 : a > b || a != a ? 1.0 : 0.0; }
NPC_INLINE double npc_share_of_minimum(double a, double b) { return a == b ? 0.5 : b > a || a != a ? 1.0 : 0.0; }
NPC_INLINE double npc_running_maximum(double a, double count, double b) { return a >= b || a != a ? a : b; }
NPC_INLINE double npc_running_minimum(double a, double count, double b) { return a <= b || a != a ? a : b; }
NPC_INLINE int npc_is_finite(double x) { return fabs(x) < NPC_INFINITY; }
NPC_INLINE double npc_zero_or_multiply(double a, double b) { return a == 0 ? a : a * b; }
NPC_INLINE double npc_zero_or_divide(double a, double b) { return a == 0 ? a : a / b; }
NPC_INLINE double npc_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x; }
NPC_INLINE npc_i64 npc_least(npc_i64 a, npc_i64 b) { return a < b ? a : b; }
NPC_INLINE npc_i64 npc_span(npc_i64 a, npc_i64 b) { return a < b ? b - a : 0; }
struct npc_extent { char* first; char* end; };
NPC_INLINE struct npc_extent npc_extent(char* data, int rank, const npc_i64* n, const npc_i64* s, npc_i64 size) {
  struct npc_extent e = {data, data + size};
  for (int axis = 0; axis < rank; axis++) {
    if (n[axis] == 0) { e.end = e.first = data; return e; }
    if (s[axis] < 0) e.first += (n[axis] - 1) * s[axis]; else e.end += (n[axis] - 1) * s[axis];
  }
  return e;
}
NPC_INLINE int npc_apart(struct npc_extent a, struct npc_extent b) { return a.end <= b.first || b.end <= a.first; }
NPC_INLINE int npc_left_shift_overflows(npc_i64 a, npc_i64 n) { return (npc_i64)((unsigned long long)a << n) >> n != a; }
""" + "".join(  # NumPy's, and Python's: the quotient is a whole number also where the division rounds up to it
    f"""NPC_INLINE {real} npc_remainder_{kind}({real} a, {real} b) {{
  const {real} r = fmod{f}(a, b);
  return r == 0 ? copysign{f}(({real})0, b) : (r < 0) != (b < 0) ? r + b : r;
}}
NPC_INLINE {real} npc_floor_divide_{kind}({real} a, {real} b) {{
  const {real} r = fmod{f}(a, b);
  {real} q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copysign{f}(({real})0, a / b);
  {real} whole = floor{f}(q);
  if (q - whole > ({real})0.5) whole += 1;
  return whole;
}}
"""
    for kind, real, f in (("f64", "double", ""), ("f32", "float", "f"))
)


LANE_BY_LANE = ("absolute", "sqrt")
# Comparisons of vectors, and the predicates with which AVX-512 has them: these raise no flag for what is not a number.
COMPARED = {"less": 17, "less_equal": 18, "greater": 30, "greater_equal": 29, "equal": 0, "not_equal": 4}
BITS = {
    "bitwise_and": "{} & {}",
    "logical_and": "{} & {}",
    "bitwise_or": "{} | {}",
    "logical_not": "~{}",
    "truth": "{}",
    "to_b1": "{}",
}


def of_words(text: str, most_bytes: int = 8) -> str:
    """`text` for each kind of integers of so many bytes at most: `$` is the kind, `@` its type."""
    kinds = [kind for kind, dtype in DTYPES.items() if kind in INTEGERS and dtype.itemsize <= most_bytes]
    return "".join(text.replace("$", kind.value).replace("@", C_TYPES[kind]) for kind in kinds)


def vector_helpers(kind: Kind, lanes: int, has_truths: bool) -> str:
    """A type of vectors, in registers and in memory, and functions of them: also those that give or take truth values."""
    name, number, size = f"npc_{kind.value}x{lanes}", C_TYPES[kind], DTYPES[kind].itemsize
    if kind is Kind.B1:  # a bit for each lane, or all bits of one
        bits = f"typedef npc_i64 {name} __attribute__((vector_size({8 * lanes})));"
        return f"{HAS_MASKS}\ntypedef unsigned char {name};\n#else\n{bits}\n#endif\n" if lanes == 8 else f"{bits}\n"
    bits = f"__attribute__((vector_size({size * lanes})"
    functions = [
        f"NPC_INLINE {name} npc_{row}_{kind.value}x{lanes}({name} x) {{\n"
        f"  {name} r; for (int k = 0; k < {lanes}; k++) r[k] = {PRIMITIVES[row].format('x[k]')};\n  return r;\n}}\n"
        for row in LANE_BY_LANE
    ]
    body = f"return ({name}){{{', '.join(f'*(const {number}*)(p + {k} * by)' for k in range(lanes))}}};"
    functions.append(f"NPC_INLINE {name} npc_gather_{kind.value}x{lanes}(const char* p, npc_i64 by) {{ {body} }}\n")
    if has_truths:
        functions.append(of_truths(kind, lanes))
    return f"typedef {number} {name} {bits}));\ntypedef {number} {name}_at {bits}, aligned({size})));\n" + "".join(functions)


HAS_MASKS = "#if defined(__AVX512VL__) && !defined(__clang__)"


def of_truths(kind: Kind, lanes: int) -> str:
    """Functions of vectors of numbers that give or take truth values."""
    name, truths = f"npc_{kind.value}x{lanes}", f"npc_b1x{lanes}"
    words = f"npc_bits_{kind.value}x{lanes}"
    compare, blend = ("cmppd512", "blendmpd_512") if kind is Kind.F64 else ("cmpps256", "blendmps_256")
    rounding = ", 4" if kind is Kind.F64 else ""
    chosen = f"NPC_INLINE {name} npc_choose_{kind.value}x{lanes}({truths} c, {name} x, {name} y) {{ return {{}}; }}"
    masks = [chosen.replace("{}", f"__builtin_ia32_{blend}_mask(y, x, c)")]
    bits = f"__attribute__((vector_size({DTYPES[kind].itemsize * lanes})))"
    vectors = [
        f"typedef {'npc_i64' if kind is Kind.F64 else 'int'} {words} {bits};",
        chosen.replace("{}", f"({name})(__builtin_convertvector(c, {words}) & (({words})x ^ ({words})y) ^ ({words})y)"),
    ]
    for row, predicate in COMPARED.items():
        head = f"NPC_INLINE {truths} npc_{row}_{kind.value}x{lanes}({name} x, {name} y)"
        masks.append(f"{head} {{ return __builtin_ia32_{compare}_mask(x, y, {predicate}, -1{rounding}); }}")
        vectors.append(f"{head} {{ return __builtin_convertvector({PRIMITIVES[row].format('x', 'y')}, {truths}); }}")
    if lanes != 8:
        return "\n".join([*vectors, ""])
    return "\n".join([HAS_MASKS, *masks, "#else", *vectors, "#endif", ""])


def assignment(target: Target, row: str, kinds: list[Scalar], line: int) -> str:
    """The statement of a row, with a `{}` for its result and for each operand. Raises Unsupported."""
    lanes = max([kind.lanes for kind in kinds], default=1)
    found = assignment_of(target, row, lanes, *[kind.kind for kind in kinds])
    if found is None:
        raise Unsupported(f"{target.name} has no text for {row}", line)
    return found


@cache
def assignment_of(target: Target, row: str, lanes: int, *kinds: Kind) -> str | None:
    common = promoted(*kinds)
    own, suffix = (common.value, NUMPYS.get(common, common).value) if common is not None else ("", "")
    texts = (table.get(name) for table in (target.primitives, PRIMITIVES) for name in (f"{row}.{own}", f"{row}.{suffix}", row))
    template = next((text for text in texts if text is not None), None)
    if lanes != 1 and row not in VECTOR_OPERATORS:
        is_known = row in LANE_BY_LANE or row in COMPARED or row == "choose"
        template = f"npc_{row}_{suffix}x{lanes}({', '.join(['{}'] * len(kinds))})" if is_known else None
        template = BITS.get(row) if {*kinds} <= TRUTHS else template
    if template is None or any(kind not in C_TYPES for kind in kinds):
        return None
    return f"  {{}} = {template.replace('$', suffix)};"
