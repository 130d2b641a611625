"""Scalar primitives in C: a template for each name and kind of number, with NumPy's exact meaning.

Kinds: b bool, i signed, u unsigned, e float16, f float32 and float64, g longdouble, c complex64 and complex128.
Templates see {0}, {1}, ... (the operands), {T} and {K} (C type and short name of the first operand), {R} (C type of the
result), {B} (its bits) and {s} (suffix of libm's names). A float16 is a C float that is rounded after each operation.
"""

from __future__ import annotations

import math
import re

import numpy as np

from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.op import OPS

# Short name of a dtype -> its C type in a register. In memory float16 is _Float16.
C_TYPES = {
    "b1": "uint8_t",
    "f2": "float",
    "f4": "float",
    "f8": "double",
    "f16": "long double",
    "c8": "npc_c8",
    "c16": "npc_c16",
    **{f"i{n}": f"int{8 * n}_t" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}_t" for n in (1, 2, 4, 8)},
}


def short(dtype: np.dtype) -> str:
    return dtype.str[1:]


def kind(dtype: np.dtype) -> str:
    if dtype.kind == "f":
        return {2: "e", 4: "f", 8: "f"}.get(dtype.itemsize, "g")
    return dtype.kind


def c_type(dtype: np.dtype) -> str:
    return C_TYPES[short(dtype)]


def has_c_type(dtype: np.dtype) -> bool:
    return dtype.isnative and dtype.kind in "biufc" and short(dtype) in C_TYPES


TYPE_TEXT = """
typedef struct { float re, im; } npc_c8;
typedef struct { double re, im; } npc_c16;
""" + "".join(
    f"typedef {'_Float16' if name == 'f2' else c} npc_{name}_in_memory __attribute__((aligned(1), may_alias));\n"
    for name, c in C_TYPES.items()
)

# --- libm. In what is listed as VECTORISED libmvec has vector forms that keep NumPy's accuracy and special values.

UNARY_LIBM = "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
UNARY_LIBM += "exp exp2 expm1 log log2 log10 log1p cbrt sqrt floor ceil trunc rint fabs"
BINARY_LIBM = "atan2 hypot pow fmod copysign nextafter"
VECTORISED = {
    "f8": "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p cbrt atan2 hypot pow",
    "f4": "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p cbrt atan2 hypot pow",
}
SUFFIX = {"f2": "f", "f4": "f", "f8": "", "f16": "l"}


# libmvec's forms for vectors of different width, and libm's for single numbers, round differently. Of one number a
# function has to give one result wherever in an array it is, so the ends of loops, which run in narrower vectors and
# singly, go through the widest form too. The compiler knows the function as npc_f, and its vector forms are these.
WIDE_CONDITION = {64: "__AVX512F__", 32: "__AVX2__"}  # width of the widest vectors in bytes -> the processor has them
FORMS = {64: "e", 32: "d", 16: "b"}  # letter of the vector function ABI


def wide_text(function: str, name: str, operands: int, width: int) -> str:
    """The forms of npc_<function>, all by libmvec's for vectors of `width` bytes."""
    size = int(name[1:])

    def vector(w: int) -> str:
        return f"npc_{name}x{w // size}"

    def symbol(w: int, of: str) -> str:
        return f"_ZGV{FORMS[w]}N{w // size}{'v' * operands}_{of}"

    def define(result: str, head: str, argument: str, low: str) -> str:
        named = ", ".join(f"{result} x{k}" for k in range(operands))
        passed = ", ".join(argument.format(f"x{k}") for k in range(operands))
        return (
            f"NPC_HIDDEN {result} {head}({named}) {{ const {widest} r = {symbol(width, function)}({passed}); return {low}; }}\n"
        )

    scalar, widest, lanes = C_TYPES[name], vector(width), width // size
    text = f"{widest} {symbol(width, function)}({', '.join([widest] * operands)});\n"
    text += (
        f'NPC_VECTOR __attribute__((const, visibility("hidden"))) {scalar} npc_{function}({", ".join([scalar] * operands)});\n'
    )
    for w in (w for w in FORMS if w <= width):
        places = ", ".join(str(k) for k in range(w // size))
        repeated = ", ".join(str(k % (w // size)) for k in range(lanes))
        argument = f"__builtin_shufflevector({{0}}, {{0}}, {repeated})" if w < width else "{0}"
        shrunk = f"__builtin_shufflevector(r, r, {places})" if w < width else "r"
        text += define(vector(w), symbol(w, f"npc_{function}"), argument, shrunk)
    alone = ", ".join([scalar] * operands)
    text += f'NPC_HIDDEN {scalar} npc_{function}_alone({alone}) __asm__("npc_{function}");\n'
    return text + define(scalar, f"npc_{function}_alone", f"{{0}} - ({widest}){{{{0}}}}", "r[0]")


def vectorised_text(called: set[str]) -> str:
    """Declarations of the vectorised functions among `called`, and their forms where the compiler can make them."""
    found = [(f + SUFFIX[n], n, 2 if f in BINARY_LIBM.split() else 1) for n, fs in VECTORISED.items() for f in fs.split()]
    used = [(f, n, operands) for f, n, operands in found if f in called]
    if not used:
        return ""
    plain = "".join(f"NPC_VECTOR {C_TYPES[n]} {f}({', '.join([C_TYPES[n]] * operands)});\n" for f, n, operands in used)
    text = '#define NPC_HIDDEN __attribute__((visibility("hidden"), used))\n'
    for name, width in ((n, w) for n in VECTORISED for w in (16, 32, 64)):
        lanes = width // int(name[1:])
        text += f"typedef {C_TYPES[name]} npc_{name}x{lanes} __attribute__((vector_size({width})));\n"
    text += "#if !defined(__x86_64__) || !__has_builtin(__builtin_shufflevector)\n" + plain
    for width, condition in WIDE_CONDITION.items():
        text += f"#elif defined({condition})\n" + "".join(wide_text(f, n, operands, width) for f, n, operands in used)
        text += "".join(f"#define {f} npc_{f}\n" for f, _, _ in used)
    return text + "#else\n" + plain + "#endif\n"


def libm_declarations() -> dict[str, str]:
    """Function -> its declaration."""
    found: dict[str, str] = {}
    for c, suffix in (("float", "f"), ("double", ""), ("long double", "l")):
        for functions, arguments in ((UNARY_LIBM, c), (BINARY_LIBM, f"{c}, {c}"), ("ldexp", f"{c}, int")):
            found |= {f"{f}{suffix}": f"{c} {f}{suffix}({arguments});\n" for f in functions.split()}
    for c, suffix in (("float", "f"), ("double", "")):
        found |= {f"c{f}{suffix}": f"{c} _Complex c{f}{suffix}({c} _Complex);\n" for f in COMPLEX_LIBM.values()}
    return found


# GCC 12 makes a fused operation of products added in one lane and subtracted in the next, even with -ffp-contract=off.
ROUNDED_TEXT = """
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_assoc_barrier)
#define NPC_ROUNDED(x) __builtin_assoc_barrier(x)
#else
#define NPC_ROUNDED(x) (x)
#endif
#ifdef __FMA__
#define NPC_FUSED(a, b, c) __builtin_fma(a, b, c)
#define NPC_FUSEDf(a, b, c) __builtin_fmaf(a, b, c)
#define NPC_FUSEDl(a, b, c) __builtin_fmal(a, b, c)
#else
#define NPC_FUSED(a, b, c) ((a) * (b) + (c))
#define NPC_FUSEDf NPC_FUSED
#endif
"""
COMPLEX_LIBM = {f: f for f in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")}
COMPLEX_LIBM |= {f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}

NUMPY_LIBM = {
    f: f
    for f in [
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "cbrt",
        "sqrt",
        "hypot",
        "copysign",
    ]
}
NUMPY_LIBM |= {f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
NUMPY_LIBM |= {"arctan2": "atan2", "power": "pow", "float_power": "pow", "fmod": "fmod"}

FUNCTIONS = """
static inline int64_t npc_ipow(int64_t a, int64_t n) {
  uint64_t power = 1, base = (uint64_t)a;
  for (; n > 0; n >>= 1, base *= base) if (n & 1) power *= base;
  return (int64_t)power;
}
static inline uint64_t npc_upow(uint64_t base, uint64_t n) {
  uint64_t power = 1;
  for (; n > 0; n >>= 1, base *= base) if (n & 1) power *= base;
  return power;
}
static inline uint64_t npc_ugcd(uint64_t a, uint64_t b) { while (b) { uint64_t r = a % b; a = b; b = r; } return a; }
static inline uint64_t npc_magnitude(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
static inline int64_t npc_gcd(int64_t a, int64_t b) { return (int64_t)npc_ugcd(npc_magnitude(a), npc_magnitude(b)); }
static inline uint64_t npc_ulcm(uint64_t a, uint64_t b) { uint64_t g = npc_ugcd(a, b); return g ? a / g * b : 0; }
static inline int64_t npc_lcm(int64_t a, int64_t b) { return (int64_t)npc_ulcm(npc_magnitude(a), npc_magnitude(b)); }
static inline double npc_log_f8(double x) { return log(x); }
/* libmvec's exp reports -inf as invalid; the exponential of -30000 is 0 too. Bits are compared, as floats report NaN. */
static inline double npc_exp_f8(double x) {
  int64_t bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  return exp(bits == (int64_t)0xfff0000000000000 ? -30000.0 : x);
}
static inline float npc_exp_f4(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  return expf(bits == (int32_t)0xff800000 ? -30000.0f : x);
}
static inline long double npc_exp_f16(long double x) { return expl(x); }
/* libmvec's logf is 3.7 units off */
static inline float npc_log_f4(float x) { return (float)log((double)x); }
static inline long double npc_log_f16(long double x) { return logl(x); }
static inline int64_t npc_fmod_i(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
"""

FLOAT_FUNCTIONS = """
/* C's fmod, by the processor's division where the quotient is small: a - q b is then exact, also
   for a q rounded up by one; q is never too small. */
static inline {T} npc_fmod_{K}({T} a, {T} b) {{
#ifdef __FMA__
  if (a == a && b == b && b != 0 && fabs{s}(b) != __builtin_inf() && sizeof({T}) <= 8) {{
    {T} q = trunc{s}(a / b);
    if (fabs{s}(q) < {LARGE}) {{
      {T} r = NPC_FUSED{s}(-q, b, a);
      if (r != 0 && (r < 0) != (a < 0)) r += a < 0 ? -fabs{s}(b) : fabs{s}(b);
      return copysign{s}(r, a);
    }}
  }}
#endif
  return fmod{s}(a, b);
}}
/* npy_divmod of numpy/_core/src/npymath/npy_math_internal.h.src */
static inline {T} npc_remainder_{K}({T} a, {T} b) {{
  {T} m = npc_fmod_{K}(a, b);
  if (b == 0) return m;
  if (m != 0) return (b < 0) != (m < 0) ? m + b : m;
  return copysign{s}(0, b);
}}
static inline {T} npc_floor_divide_{K}({T} a, {T} b) {{
  if (b == 0) return a / b;
  {T} m = npc_fmod_{K}(a, b), d = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) d -= 1;
  if (d == 0) return copysign{s}(0, a / b);
  {T} whole = floor{s}(d);
  return d - whole > ({T})0.5 ? whole + 1 : whole;
}}
static inline {T} npc_logaddexp_{K}({T} a, {T} b) {{
  {T} d = a - b, low = d > 0 ? b : a, high = d > 0 ? a : b, e = log1p{s}(exp{s}(low - high));
  return a == b ? a + ({T})0.693147180559945309417232121458176568L : d != d ? d : high + e;
}}
static inline {T} npc_logaddexp2_{K}({T} a, {T} b) {{
  {T} d = a - b, low = d > 0 ? b : a, high = d > 0 ? a : b;
  {T} e = ({T})1.442695040888963407359924681001892137L * log1p{s}(exp2{s}(low - high));
  return a == b ? a + 1 : d != d ? d : high + e;
}}
"""

COMPLEX_FUNCTIONS = """
static inline {T} npc_pair_{K}({P} re, {P} im) {{ {T} z = {{re, im}}; return z; }}
static inline {T} npc_add_{K}({T} a, {T} b) {{ {T} z = {{a.re + b.re, a.im + b.im}}; return z; }}
static inline {T} npc_subtract_{K}({T} a, {T} b) {{ {T} z = {{a.re - b.re, a.im - b.im}}; return z; }}
/* As the vector loops of numpy/_core/src/umath/loops_arithm_fp.dispatch.c.src: fused where the processor can. */
static inline {T} npc_multiply_{K}({T} a, {T} b) {{
  {T} z = {{NPC_FUSED{s}(a.re, b.re, -NPC_ROUNDED(a.im * b.im)), NPC_FUSED{s}(a.re, b.im, NPC_ROUNDED(a.im * b.re))}};
  return z;
}}
/* Smith's algorithm, as numpy/_core/src/umath/loops.c.src has it */
static inline {T} npc_divide_{K}({T} a, {T} b) {{
  {P} x = fabs{s}(b.re), y = fabs{s}(b.im);
  {T} z;
  if (x >= y) {{
    if (x == 0 && y == 0) {{ z.re = a.re / x; z.im = a.im / x; return z; }}
    {P} ratio = b.im / b.re, scale = ({P})1 / (b.re + b.im * ratio);
    z.re = (a.re + NPC_ROUNDED(a.im * ratio)) * scale;
    z.im = (a.im - NPC_ROUNDED(a.re * ratio)) * scale;
  }} else {{
    {P} ratio = b.re / b.im, scale = ({P})1 / (b.im + b.re * ratio);
    z.re = (NPC_ROUNDED(a.re * ratio) + a.im) * scale;
    z.im = (NPC_ROUNDED(a.im * ratio) - a.re) * scale;
  }}
  return z;
}}
static inline int npc_ordered_{K}({T} a, {T} b) {{ return a.im == a.im && b.im == b.im; }}
static inline {T} npc_of_c_{K}({P} _Complex z) {{ return npc_pair_{K}(__real__ z, __imag__ z); }}
static inline {P} _Complex npc_to_c_{K}({T} z) {{ {P} _Complex w; __real__ w = z.re; __imag__ w = z.im; return w; }}
"""


CALLED = re.compile(r"\w+(?=\()")


def definitions() -> dict[str, str]:
    """Function of ours -> its text with the comment before it. What a function calls comes before it."""
    text = FUNCTIONS
    for name, suffix in (("f4", "f"), ("f8", ""), ("f16", "l")):
        text += FLOAT_FUNCTIONS.format(T=C_TYPES[name], K=name, s=suffix, LARGE="0x1p22" if name == "f4" else "0x1p51")
    for name, part, suffix in (("c8", "float", "f"), ("c16", "double", "")):
        text += COMPLEX_FUNCTIONS.format(T=C_TYPES[name], K=name, P=part, s=suffix)
    found: dict[str, str] = {}
    lines: list[str] = []
    name = ""
    for line in text.strip().splitlines():
        lines.append(line)
        is_head = line.startswith("static inline")
        if is_head:
            name = CALLED.findall(line)[0]
        if line == "}" or (is_head and line.endswith("}")):
            found[name] = "\n".join(lines) + "\n"
            lines = []
    return found


def functions_text(kernels: str, has_vector_math: bool) -> str:
    """What the text of the kernels calls, in C. `has_vector_math`: units are linked with glibc's libmvec."""
    called = set(CALLED.findall(kernels))
    ours: list[str] = []
    for name, text in reversed(definitions().items()):
        if name in called:
            called |= set(CALLED.findall(text))
            ours.insert(0, text)
    libm = "".join(text for name, text in libm_declarations().items() if name in called)
    if has_vector_math:
        libm += '#define NPC_VECTOR __attribute__((simd("notinbranch")))\n' + vectorised_text(called)
    return f"#define NULL ((void*)0)\n{TYPE_TEXT}{ROUNDED_TEXT}{libm}{''.join(ours)}"


def kinds(which: str, template: str) -> dict[str, str]:
    return dict.fromkeys(which, template)


def comparison(relation: str) -> dict[str, str]:
    strict = relation[0]
    by_real = f"({{0}}.re {strict} {{1}}.re && npc_ordered_{{K}}({{0}}, {{1}}))"
    lexicographic = f"({by_real} || ({{0}}.re == {{1}}.re && {{0}}.im {relation} {{1}}.im))"
    # NaN raises the processor's invalid flag here, which NumPy's comparisons clear: the program then runs natively once
    # more. Comparisons that leave the flag alone are not vectorised, and cost every program ten times as much.
    return kinds("biuefg", f"({{0}} {relation} {{1}})") | {"c": lexicographic}


def extreme(relation: str, *, keeps_nan: bool) -> dict[str, str]:
    """The larger or smaller number. Of equal floats, 0.0 and -0.0, the one that NumPy's vector loops keep."""
    nan = "{0} != {0}" if keeps_nan else "{1} != {1}"
    strict = f"({{0}} {relation} {{1}} ? {{0}} : {{1}})"
    loose = f"({{0}} {relation}= {{1}} || {nan} ? {{0}} : {{1}})"
    return kinds("biu", strict) | {
        "f": f"({{0}} {relation} {{1}} || {nan} ? {{0}} : {{1}})",
        "e": loose,
        "g": loose,
    }


def truth(operand: str) -> dict[str, str]:
    return kinds("biuefg", f"({operand} != 0)") | {"c": f"({operand}.re != 0 || {operand}.im != 0)"}


def logic(join: str) -> dict[str, str]:
    return {k: f"({a} {join} {b})" for (k, a), b in zip(truth("{0}").items(), truth("{1}").values())}


PRIMITIVES: dict[str, dict[str, str]] = {
    "add": kinds("iuefg", "{0} + {1}") | {"b": "{0} | {1}", "c": "npc_add_{K}({0}, {1})"},
    "subtract": kinds("iuefg", "{0} - {1}") | {"c": "npc_subtract_{K}({0}, {1})"},
    "multiply": kinds("iuefg", "{0} * {1}") | {"b": "{0} & {1}", "c": "npc_multiply_{K}({0}, {1})"},
    "divide": kinds("efg", "{0} / {1}") | {"c": "npc_divide_{K}({0}, {1})"},
    "floor_divide": {
        "i": "npc_floordiv({0}, {1})",
        "u": "({1} == 0 ? 0 : {0} / {1})",
        "e": "npc_floor_divide_f4({0}, {1})",
        **kinds("fg", "npc_floor_divide_{K}({0}, {1})"),
    },
    "remainder": {
        "i": "npc_mod({0}, {1})",
        "u": "({1} == 0 ? 0 : {0} % {1})",
        "e": "npc_remainder_f4({0}, {1})",
        **kinds("fg", "npc_remainder_{K}({0}, {1})"),
    },
    "fmod": {"i": "npc_fmod_i({0}, {1})", "u": "({1} == 0 ? 0 : {0} % {1})"},
    "power": {"i": "npc_ipow({0}, {1})", "u": "npc_upow({0}, {1})"},
    "negative": kinds("iuefg", "-{0}") | {"c": "npc_pair_{K}(-{0}.re, -{0}.im)"},
    "positive": kinds("iuefgc", "{0}"),
    "absolute": {"b": "{0}", "u": "{0}", "i": "({0} < 0 ? -{0} : {0})"}
    | kinds("efg", "fabs{s}({0})")
    | {"c": "hypot{s}({0}.re, {0}.im)"},
    "fabs": kinds("efg", "fabs{s}({0})"),
    "sign": {"u": "({0} != 0)"}
    | kinds("i", "(({0} > 0) - ({0} < 0))")
    | kinds("efg", "({0} != {0} ? {0} : {0} > 0 ? 1 : {0} < 0 ? -1 : 0)"),
    "square": kinds("iuefg", "{0} * {0}") | {"c": "npc_multiply_{K}({0}, {0})"},
    "reciprocal": kinds("efg", "1 / {0}"),
    "conjugate": kinds("iuefg", "{0}") | {"c": "npc_pair_{K}({0}.re, -{0}.im)"},
    "heaviside": kinds("efg", "({0} != {0} ? {0} : {0} == 0 ? {1} : {0} < 0 ? 0 : 1)"),
    "gcd": {"i": "npc_gcd({0}, {1})", "u": "npc_ugcd({0}, {1})"},
    "lcm": {"i": "npc_lcm({0}, {1})", "u": "npc_ulcm({0}, {1})"},
    "maximum": extreme(">", keeps_nan=True),
    "minimum": extreme("<", keeps_nan=True),
    "fmax": extreme(">", keeps_nan=False),
    "fmin": extreme("<", keeps_nan=False),
    "equal": kinds("biuefg", "({0} == {1})") | {"c": "({0}.re == {1}.re && {0}.im == {1}.im)"},
    "not_equal": kinds("biuefg", "({0} != {1})") | {"c": "({0}.re != {1}.re || {0}.im != {1}.im)"},
    "less": comparison("<"),
    "less_equal": comparison("<="),
    "greater": comparison(">"),
    "greater_equal": comparison(">="),
    "logical_and": logic("&"),
    "logical_or": logic("|"),
    "logical_xor": logic("^"),
    "logical_not": {k: f"!{t}" for k, t in truth("{0}").items()},
    "bitwise_and": kinds("biu", "{0} & {1}"),
    "bitwise_or": kinds("biu", "{0} | {1}"),
    "bitwise_xor": kinds("biu", "{0} ^ {1}"),
    "invert": kinds("iu", "~{0}") | {"b": "!{0}"},
    "bitwise_count": {"u": "__builtin_popcountll({0})", "i": "__builtin_popcountll(npc_magnitude({0}))"},
    "left_shift": kinds("iu", "((uint64_t){1} < {B} ? (uint64_t){0} << ({1} & 63) : 0)"),
    "right_shift": {
        "i": "((uint64_t){1} < {B} ? {0} >> ({1} & ({B} - 1)) : {0} < 0 ? -1 : 0)",
        "u": "((uint64_t){1} < {B} ? {0} >> ({1} & ({B} - 1)) : 0)",
    },
    "logaddexp": kinds("fg", "npc_logaddexp_{K}({0}, {1})") | {"e": "npc_logaddexp_f4({0}, {1})"},
    "logaddexp2": kinds("fg", "npc_logaddexp2_{K}({0}, {1})") | {"e": "npc_logaddexp2_f4({0}, {1})"},
    **{name: kinds("efg", f"{{0}} * ({{T}}){180 / math.pi!r}") for name in ("degrees", "rad2deg")},
    **{name: kinds("efg", f"{{0}} * ({{T}}){math.pi / 180!r}") for name in ("radians", "deg2rad")},
    **{name: kinds("biu", "{0}") | kinds("efg", name + "{s}({0})") for name in ("floor", "ceil", "trunc")},
    "rint": kinds("efg", "rint{s}({0})") | {"c": "npc_pair_{K}(rint{s}({0}.re), rint{s}({0}.im))"},
    "isfinite": kinds("biu", "1") | kinds("efg", "(({0} == {0}) & (fabs{s}({0}) != __builtin_inf()))"),
    "isinf": kinds("biu", "0") | kinds("efg", "(fabs{s}({0}) == __builtin_inf())"),
    "isnan": kinds("biu", "0") | kinds("efg", "({0} != {0})") | {"c": "({0}.re != {0}.re || {0}.im != {0}.im)"},
    "signbit": kinds("efg", "(__builtin_signbit({0}) != 0)"),
    "nextafter": kinds("fg", "nextafter{s}({0}, {1})"),
    "ldexp": kinds("efg", "ldexp{s}({0}, (int)npc_max(npc_min({1}, 2147483647), -2147483647))"),
    "where": kinds("b", "({0} ? {1} : {2})"),
    "real": kinds("biuefg", "{0}") | {"c": "{0}.re"},
    "imag": kinds("biuefg", "0") | {"c": "{0}.im"},
    "complex": {"f": "({R}){{{0}, {1}}}"},
}
for numpy_name, libm_name in NUMPY_LIBM.items():
    operands = ", ".join(f"{{{k}}}" for k in range(getattr(np, numpy_name).nin))
    PRIMITIVES.setdefault(numpy_name, {}).update(kinds("efg", f"{libm_name}{{s}}({operands})"))
PRIMITIVES["fmod"] |= kinds("fg", "npc_fmod_{K}({0}, {1})") | {"e": "npc_fmod_f4({0}, {1})"}
PRIMITIVES["exp"] |= kinds("fg", "npc_exp_{K}({0})") | {"e": "npc_exp_f4({0})"}
PRIMITIVES["log"] |= kinds("fg", "npc_log_{K}({0})") | {"e": "npc_log_f4({0})"}
for numpy_name, libm_name in COMPLEX_LIBM.items():
    PRIMITIVES[numpy_name]["c"] = f"npc_of_c_{{K}}(c{libm_name}{{s}}(npc_to_c_{{K}}({{0}})))"

EXPENSIVE = {
    "sin",
    "cos",
    "tan",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "cbrt",
    "hypot",
    "power",
    "float_power",
}
EXPENSIVE |= {"sinh", "cosh", "tanh", "logaddexp", "logaddexp2", "arctan2", "fmod", "remainder", "floor_divide", "gcd", "lcm"}
EXPENSIVE |= {name for name in NUMPY_LIBM if name.startswith("arc")}
MIXED_OPERANDS = ("where", "ldexp")  # operands of several dtypes


def truth_text(x: str, dtype: np.dtype) -> str:
    return truth("{0}")[kind(dtype)].format(x)


def cast_text(x: str, old: np.dtype, new: np.dtype) -> str:
    """C's conversions, where they are undefined what NumPy's compiled loops give on x86-64."""
    if new.kind == "b":
        return truth_text(x, old)
    if old.kind == "c":
        if new.kind == "c":
            part = "float" if new.itemsize == 8 else "double"
            return f"npc_pair_{short(new)}(({part}){x}.re, ({part}){x}.im)"
        return cast_text(f"{x}.re", np.dtype(f"f{old.itemsize // 2}"), new)
    if new.kind == "c":
        return f"npc_pair_{short(new)}({x}, 0)"
    if kind(new) == "e":
        return f"(float)(_Float16){x if old.kind == 'f' else f'(float){x}'}"
    if old.kind == "f" and new.kind in "iu":
        if new.kind == "u" and new.itemsize == 8:
            high = "9223372036854775808.0" + ("f" if old.itemsize <= 4 else "")
            return f"({x} >= {high} ? (uint64_t)(int64_t)({x} - {high}) ^ 0x8000000000000000u : (uint64_t)(int64_t){x})"
        through = {8: "int64_t", 4: "int64_t" if new.kind == "u" else "int32_t"}.get(new.itemsize, "int32_t")
        return f"({c_type(new)})({through}){x}"
    return f"({c_type(new)}){x}"


def bitcast_text(x: str, old: np.dtype, new: np.dtype) -> str:
    memory = {True: "_Float16"}
    source = memory.get(kind(old) == "e", c_type(old))
    target = memory.get(kind(new) == "e", c_type(new))
    return f"({{ {source} npc_from = {x}; {target} npc_to; __builtin_memcpy(&npc_to, &npc_from, sizeof npc_to); npc_to; }})"


def primitive_text(op: str, args: list[str], dtypes: list[np.dtype], out: np.dtype) -> str:
    """The C expression of a primitive; its value has the type c_type(out)."""
    if op == "cast":
        return cast_text(args[0], dtypes[0], out)
    if op == "bitcast":
        return bitcast_text(args[0], dtypes[0], out)
    first = dtypes[0]
    template = PRIMITIVES[op][kind(first)]
    base = np.dtype(f"f{first.itemsize // 2}") if first.kind == "c" else first
    text = template.format(
        *args, T=c_type(first), K=short(first), R=c_type(out), B=8 * first.itemsize, s=SUFFIX.get(short(base), "")
    )
    rounds = kind(out) == "e" and op not in ("where", "maximum", "minimum", "fmax", "fmin", "positive", "negative", "absolute")
    return f"(float)(_Float16)({text})" if rounds else text


def is_native(node: Node) -> bool:
    """Can this elementwise node be a scalar instruction of a kernel?"""
    dtypes = [i.dtype for i in node.inputs]
    if not all(map(has_c_type, (*dtypes, node.dtype))):
        return False
    if node.op in ("cast", "bitcast"):
        return True
    if not isinstance(OPS[node.op].scalar, str) or kind(dtypes[0]) not in PRIMITIVES.get(node.op, {}):
        return False
    if node.op not in MIXED_OPERANDS and any(d != dtypes[0] for d in dtypes):
        return False
    if node.op == "power" and dtypes[0].kind == "i":  # a negative exponent raises
        exponent = constant_value(node.inputs[1])
        return exponent is not None and exponent >= 0
    return True


def constant_value(node: Node):  # type: ignore[no-untyped-def]
    """The number that a node is everywhere, if it is a broadcast constant."""
    while node.op in ("broadcast_to", "cast", "reshape"):
        (node,) = node.inputs
    return node.params["value"] if node.op == "constant" else None


def constant_text(value, dtype: np.dtype) -> str:  # type: ignore[no-untyped-def]
    """A literal of exactly this value."""
    scalar = np.asarray(value, dtype)[()]
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return f"npc_pair_{short(dtype)}({constant_text(scalar.real, part)}, {constant_text(scalar.imag, part)})"
    if dtype.kind == "b":
        return str(int(scalar))
    if dtype.kind in "iu":
        number = int(scalar)
        if number == -(2**63):
            return "(-9223372036854775807 - 1)"
        return f"{number}u" if dtype.kind == "u" else f"{number}"
    return float_text(scalar, dtype)


def float_text(scalar, dtype: np.dtype) -> str:  # type: ignore[no-untyped-def]
    suffix = {"e": "f", "g": "L"}.get(kind(dtype), "f" if dtype.itemsize == 4 else "")
    sign = "-" if np.signbit(scalar) else ""
    if np.isnan(scalar):
        return f'({sign}__builtin_nan{suffix.lower()}(""))'
    if np.isinf(scalar):
        return f"({sign}__builtin_inf{suffix.lower()}())"
    if kind(dtype) == "g":
        return f"{sign}{np.format_float_scientific(abs(scalar), precision=25, unique=False)}L"
    text = float(abs(scalar)).hex()
    return f"({sign}{text}{suffix})" if sign else f"{text}{suffix}"
