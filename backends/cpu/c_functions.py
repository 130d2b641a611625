"""The C functions that scalar primitives call: libm's, vectorised ones of one accuracy everywhere, and NumPy's own."""

from __future__ import annotations

import functools
import re

from npcompile.backends.cpu import (
    complex_power,
    complex_products,
    complex_tangent,
    special_functions,
    vector_functions,
    vector_math,
)
from npcompile.backends.cpu.c_definitions import called_in, definitions_of, needed_by
from npcompile.backends.cpu.c_library import BINARY
from npcompile.backends.cpu.compiler import Compiler
from npcompile.backends.cpu.complex_functions import COMPLEX_FUNCTIONS
from npcompile.backends.cpu.double_double import PAIRS_TEXT
from npcompile.backends.cpu.extremes import EXTREMES_TEXT
from npcompile.backends.cpu.far_angles import BITS_TEXT, EXP2_TEXT, FAR_TEXT, QUARTERS, REDUCTION, near_and_far
from npcompile.backends.cpu.inline_angles import angles_text
from npcompile.backends.cpu.lanes import BYTES, IS_HERE
from npcompile.backends.cpu.numpy_loops import loops_text
from npcompile.backends.cpu.small_floats import TEXT as SMALL_FLOATS_TEXT
from npcompile.backends.cpu.small_powers import TEXT as SMALL_POWERS_TEXT

# Short name of a dtype -> its C type in a register.
C_TYPES = {
    "b1": "uint8_t",
    "f2": "float",
    "bf16": "float",
    "f4": "float",
    "f8": "double",
    "f16": "long double",
    "c8": "npc_c8",
    "c16": "npc_c16",
    **{f"i{n}": f"int{8 * n}_t" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"uint{8 * n}_t" for n in (1, 2, 4, 8)},
}

MEMORY_TYPES = {"f2": "_Float16", "bf16": "uint16_t"}  # where it is another one in memory

COMPLEX_LIBM = {f: f for f in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")}
COMPLEX_LIBM |= {f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}

TYPE_TEXT = """
typedef struct { float re, im; } npc_c8;
typedef struct { double re, im; } npc_c16;
""" + "".join(
    f"typedef {MEMORY_TYPES.get(name, c)} npc_{name}_in_memory __attribute__((aligned(1)));\n" for name, c in C_TYPES.items()
)

# --- libm. In what is listed as VECTORISED libmvec has vector forms that keep NumPy's accuracy and special values.

VECTORISED = {
    "f8": "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p cbrt atan2 hypot pow",
    "f4": "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p cbrt atan2 hypot pow",
}
SUFFIX = {"f2": "f", "bf16": "f", "f4": "f", "f8": "", "f16": "l"}


# libmvec's forms for vectors of different width, and libm's for single numbers, round differently. Of one number a
# function has to give one result wherever in an array it is, so the ends of loops, which run in narrower vectors and
# singly, go through the widest form too. The compiler knows the function as npc_f, and its vector forms are these.
# (condition, width of vectors in bytes, letter of the vector function ABI), the best first
LEVELS = (("__AVX512F__", 64, "e"), ("__AVX2__", 32, "d"), ("__AVX__", 32, "c"), ("__SSE2__", 16, "b"))
WHOLE = "npc_vector_"  # before a function's name: of a whole vector, in loops that are written in such
CALLED_WHOLE = "npc_called_"  # the same, not written into the loop
WRITTEN = re.compile(rf"^ *{IS_HERE}\n(.*?)^ *#else\n.*?^ *#endif\n", re.M | re.S)


def wide_text(function: str, name: str, operands: int, level: int, *, is_whole: bool, has_forms: bool) -> str:
    """npc_<function>, by libmvec's of this level: for vectors as wide, and in the forms that the compiler calls."""
    size, (_, width, widest_letter) = int(name[1:]), LEVELS[level]

    def vector(w: int) -> str:
        return f"npc_{name}x{w // size}"

    def symbol(w: int, letter: str, of: str) -> str:
        return f"_ZGV{letter}N{w // size}{'v' * operands}_{of}"

    def define(result: str, head: str, argument: str, low: str) -> str:
        named = ", ".join(f"{result} x{k}" for k in range(operands))
        passed = ", ".join(argument.format(f"x{k}") for k in range(operands))
        return f"NPC_HIDDEN {result} {head}({named}) {{ const {widest} r = {widest_form}({passed}); return {low}; }}\n"

    scalar, widest, lanes = C_TYPES[name], vector(width), width // size
    widest_form = symbol(width, widest_letter, function)
    text = f"{widest} {widest_form}({', '.join([widest] * operands)});\n"
    text += (
        f'NPC_VECTOR __attribute__((const, visibility("hidden"))) {scalar} npc_{function}({", ".join([scalar] * operands)});\n'
    )
    if name == "f8" and width == BYTES and function in vector_functions.FUNCTIONS:
        widest_form = f"npc_own_{function}"
    if name == "f8" and function in QUARTERS:
        text += near_and_far(function, widest_form, width)
        widest_form = f"npc_wide_{function}"
    if is_whole:
        named = ", ".join(f"x{k}" for k in range(operands))
        text += f"#define {WHOLE}{function}({named}) {widest_form}({named})\n"
        if widest_form.startswith("npc_"):
            given = ", ".join(f"{widest} x{k}" for k in range(operands))
            head = f"static __attribute__((noinline)) {widest} {CALLED_WHOLE}{function}({given})"
            text += f"{head} {{ return {widest_form}({named}); }}\n"
        else:
            text += f"#define {CALLED_WHOLE}{function} {widest_form}\n"
    if not has_forms:
        return text
    for w, letter in {w: letter for _, w, letter in reversed(LEVELS[level:])}.items():
        places = ", ".join(str(k) for k in range(w // size))
        repeated = ", ".join(str(k % (w // size)) for k in range(lanes))
        argument = f"__builtin_shufflevector({{0}}, {{0}}, {repeated})" if w < width else "{0}"
        shrunk = f"__builtin_shufflevector(r, r, {places})" if w < width else "r"
        text += define(vector(w), symbol(w, letter, f"npc_{function}"), argument, shrunk)
    alone = ", ".join([scalar] * operands)
    text += f'NPC_HIDDEN {scalar} npc_{function}_alone({alone}) __asm__("npc_{function}");\n'
    return text + define(scalar, f"npc_{function}_alone", f"{{0}} - ({widest}){{{{0}}}}", "r[0]")


def vectorised_text(called: set[str], elsewhere: set[str], loops: str = "", are_forms_called: bool = True) -> str:
    """Declarations of the vectorised functions among `called`, and their forms where the compiler can make them.

    `elsewhere`: what is called outside of `loops`, the text where some are written in vectors. Where the compiler calls no vector
    forms, those of `vector_math` are inline instead.
    """
    found = [(f + SUFFIX[n], n, 2 if f in BINARY.split() else 1) for n, fs in VECTORISED.items() for f in fs.split()]
    inline = set() if are_forms_called else called & set(vector_math.NAMES)
    used = [(f, n, operands) for f, n, operands in found if f in called - inline]
    if not used and not loops:
        return vector_math.inline_text(inline)
    plain = "".join(f"NPC_VECTOR {C_TYPES[n]} {f}({', '.join([C_TYPES[n]] * operands)});\n" for f, n, operands in used)
    text = '#define NPC_HIDDEN __attribute__((visibility("hidden"), used))\n' + BITS_TEXT
    for name, width in ((n, w) for n in VECTORISED for w in (16, 32, 64)):
        lanes = width // int(name[1:])
        text += f"typedef {C_TYPES[name]} npc_{name}x{lanes} __attribute__((vector_size({width})));\n"
    text += "#if !defined(__x86_64__) || !__has_builtin(__builtin_shufflevector)\n" + plain
    for level, (condition, width, _) in enumerate(LEVELS):
        text += f"#elif defined({condition})\n" + (FAR_TEXT if any(f in QUARTERS for f, _, _ in used) else "")
        if width == BYTES:
            whole = vector_math.vectors_text(inline, WHOLE, CALLED_WHOLE) if loops else ""
            text += vector_functions.own_text([f for f, n, _ in used if n == "f8"], loops + whole) + whole
        is_whole = bool(loops) and width == BYTES
        for f, n, operands in used:
            text += wide_text(f, n, operands, level, is_whole=is_whole, has_forms=width < BYTES or f in elsewhere)
        text += vector_functions.singles_text(loops) if is_whole else ""
        text += "".join(f"#define {f} npc_{f}\n" for f, _, _ in used)
    return text + "#else\n" + plain + "#endif\n" + vector_math.inline_text(inline)


VECTOR_TEXT = """
#if __has_attribute(simd)
#define NPC_VECTOR __attribute__((simd("notinbranch")))
#else
#define NPC_VECTOR
#endif
"""

# Of several threads that find an error each says so, in one place.
TELL_TEXT = "#define NPC_TELL(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)\n"

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
# Philox4x32-10: tensor_core/ops/random.py. Written out, as GCC makes no vectors of a loop around a loop.
PHILOX_ROUND = """\
  p = (uint32_t)a * (uint64_t)0xd2511f53u; q = (uint32_t)c * (uint64_t)0xcd9e8d57u;
  a = q >> 32 ^ b ^ ({first} & 0xffffffffu); b = (uint32_t)q; c = p >> 32 ^ d ^ ({second} & 0xffffffffu); d = (uint32_t)p;"""
PHILOX_ROUNDS = "  uint64_t a = (uint32_t)low, b = low >> 32, c = (uint32_t)high, d = high >> 32, p, q;\n" + "\n".join(
    PHILOX_ROUND.format(first=f"(key + {k * 0x9E3779B9}u)", second=f"((key >> 32) + {k * 0xBB67AE85}u)") for k in range(10)
)
LOG1P_STEP = """\
  {{ const double term = {}, next = sum + term, b = next - sum, lost = (sum - (next - b)) + (term - b);
    const double more = low + lost, c = more - low; lowest += (low - (more - c)) + (lost - c); sum = next; low = more; }}"""
LOG1P_TERMS = ("x * x", "y * y", "__builtin_fma(x, x, -(x * x))", "__builtin_fma(y, y, -(y * y))")
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
static inline uint64_t npc_philox_low(uint64_t low, uint64_t high, uint64_t key) {
PHILOX_ROUNDS
  return a | b << 32;
}
static inline uint64_t npc_philox_high(uint64_t low, uint64_t high, uint64_t key) {
PHILOX_ROUNDS
  return c | d << 32;
}
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
/* Without a branch. GCC takes one apart, follows each side into what reads the result, and then makes no vectors of it. */
static inline double npc_select_f8(int c, double a, double b) {
  int64_t x, y, mask = -(int64_t)c;
  __builtin_memcpy(&x, &a, sizeof x);
  __builtin_memcpy(&y, &b, sizeof y);
  x = (x & mask) | (y & ~mask);
  __builtin_memcpy(&a, &x, sizeof x);
  return a;
}
static inline float npc_select_f4(int c, float a, float b) {
  int32_t x, y, mask = -(int32_t)c;
  __builtin_memcpy(&x, &a, sizeof x);
  __builtin_memcpy(&y, &b, sizeof y);
  x = (x & mask) | (y & ~mask);
  __builtin_memcpy(&a, &x, sizeof x);
  return a;
}
static inline long double npc_select_f16(int c, long double a, long double b) { return c ? a : b; }
/* The same number. Of NaN it notes an invalid operation, as GCC's comparisons do and clang's do not: of one that signals. */
static inline double npc_heard_f8(double x) {
#ifdef __clang__
  int64_t bits, one = 0x3ff0000000000000 | ((int64_t)rt & 3);
  double factor;
  __builtin_memcpy(&bits, &x, sizeof x);
  const int64_t is_nan = (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
  bits = (bits & ~(is_nan << 51)) | is_nan;
  __builtin_memcpy(&x, &bits, sizeof x);
  __builtin_memcpy(&factor, &one, sizeof x);
  x *= factor;
#endif
  return x;
}
static inline float npc_heard_f4(float x) {
#ifdef __clang__
  int32_t bits, one = 0x3f800000 | ((int32_t)(int64_t)rt & 3);
  float factor;
  __builtin_memcpy(&bits, &x, sizeof x);
  const int32_t is_nan = (bits & 0x7fffffff) > 0x7f800000;
  bits = (bits & ~(is_nan << 22)) | is_nan;
  __builtin_memcpy(&x, &bits, sizeof x);
  __builtin_memcpy(&factor, &one, sizeof x);
  x *= factor;
#endif
  return x;
}
static inline long double npc_heard_f16(long double x) { return x; }
/* The power of two with which x is 1 to 4, or as near to 1 as can be */
static inline double npc_unit_of(double x) {
  int64_t bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  const int64_t exponent = (bits >> 52) & 2047;
  bits = (2046 - (exponent < 2045 ? exponent : 2045)) << 52;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
/* NumPy's is exact for cubes: one step of Newton's method more, where nothing in it over- or underflows. */
static inline double npc_cbrt_f8(double x) {
  double y = cbrt(x);
#ifdef __FMA__
  int64_t bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  bits &= 0x7fffffffffffffff;
  const int is_ordinary = bits > 0x1000000000000000 && bits < 0x7e00000000000000;
  double root = npc_select_f8(is_ordinary, y, 1), cube = npc_select_f8(is_ordinary, x, 1), square = root * root;
  double excess = NPC_FUSED(square, root, -cube) + NPC_FUSED(root, root, -square) * root;
  y -= excess / (3 * square);
#endif
  return y;
}
/* The logarithm of |1 + z|, from 2 x + x^2 + y^2 summed up with what that rounds off, and with what rounding that loses. */
static inline double npc_log1p_near(double x, double y) {
  double sum = 2 * x, low = 0, lowest = 0;
LOG1P_STEPS
  const double all = sum + low, part = all - sum;
  return log1p(all + (((sum - (all - part)) + (low - part)) + lowest)) / 2;
}
static inline float npc_cbrt_f4(float x) { return cbrtf(x); }
static inline long double npc_cbrt_f16(long double x) { return cbrtl(x); }
/* By a comparison of numbers as wide as x: only then are there vectors of it and of what it chooses. */
static inline int npc_signbit_f8(double x) { int64_t bits; __builtin_memcpy(&bits, &x, sizeof x); return bits < 0; }
static inline int npc_signbit_f4(float x) { int32_t bits; __builtin_memcpy(&bits, &x, sizeof x); return bits < 0; }
static inline int npc_signbit_f16(long double x) { return __builtin_signbit(x) != 0; }
/* What NumPy reports of integers is noted as the processor notes it of floats. */
static inline uint8_t npc_divided_by_zero(void) {
  volatile double zero = 0, one = 1;
  one = one / zero;
  return 0;
}
static inline int64_t npc_overflown(int64_t x) {
  volatile double large = 1e300;
  large = large * large;
  return x;
}
static inline int64_t npc_floor_divide_i(int64_t a, int64_t b, int bits) {
  if (b == 0) return npc_divided_by_zero();
  return b == -1 && (uint64_t)a == ~(uint64_t)0 << (bits - 1) ? npc_overflown(a) : npc_floordiv(a, b);
}
static inline int64_t npc_remainder_i(int64_t a, int64_t b) { return b == 0 ? npc_divided_by_zero() : npc_mod(a, b); }
static inline int64_t npc_fmod_i(int64_t a, int64_t b) {
  return b == 0 ? npc_divided_by_zero() : b == -1 ? 0 : a % b;
}
"""

LOG2_E = "1.442695040888963407359924681001892137"
LOG10_E = "0.434294481903251827651128918916605082"
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
/* exp(low - high), or exp2 where log2_e is 1, for low <= high: with what the difference and its product with log2(e) lose to
   rounding. The vector form of exp2 is three times as near as that of exp, and notes no error: FAR stands for -inf. */
static inline {T} npc_power_of_{K}({T} low, {T} high, {T} log2_e, {T} rest) {{
  const int is_far = low - high < {FAR};
  {T} a = npc_select_{K}(is_far, {FAR}, low), b = npc_select_{K}(is_far, 0, high), d = a - b;
#ifdef __FMA__
  if (sizeof d <= 8) {{
    {T} taken = d - a, lost = (a - (d - taken)) - (b + taken), exponent = d * log2_e, power = exp2{s}(exponent);
    {T} more = NPC_FUSED{s}(d, log2_e, -exponent) + (d * rest + lost * log2_e);
    return NPC_FUSED{s}(power, more * ({T})0.693147180559945309417232121458176568L, power);
  }}
#endif
  return log2_e == 1 ? exp2{s}(d) : exp{s}(d);
}}
static inline {T} npc_logaddexp_{K}({T} a, {T} b) {{
  {T} d = npc_heard_{K}(a - b), low = d > 0 ? b : a, high = d > 0 ? a : b;
  {T} e = log1p{s}(npc_power_of_{K}(low, high, ({T}){LOG2_E}L, ({T})({LOG2_E}L - ({T}){LOG2_E}L)));
  return npc_select_{K}(a == b, a + ({T})0.693147180559945309417232121458176568L, npc_select_{K}(d != d, d, high + e));
}}
static inline {T} npc_logaddexp2_{K}({T} a, {T} b) {{
  {T} d = npc_heard_{K}(a - b), low = d > 0 ? b : a, high = d > 0 ? a : b;
  {T} power = npc_power_of_{K}(low, high, 1, 0), sum = 1 + power;
  {T} e = log2{s}(sum) + (power - (sum - 1)) / sum * ({T}){LOG2_E}L;
  return npc_select_{K}(a == b, a + 1, npc_select_{K}(d != d, d, high + e));
}}
"""


@functools.cache
def definitions() -> dict[str, str]:
    """Function of ours -> its text."""
    text = FUNCTIONS.replace("PHILOX_ROUNDS", PHILOX_ROUNDS)
    text = text.replace("LOG1P_STEPS", "\n".join(map(LOG1P_STEP.format, LOG1P_TERMS)))
    text += SMALL_FLOATS_TEXT + SMALL_POWERS_TEXT
    for name, suffix in (("f4", "f"), ("f8", ""), ("f16", "l")):
        large, far = ("0x1p22", "-300") if name == "f4" else ("0x1p51", "-30000")
        text += FLOAT_FUNCTIONS.format(T=C_TYPES[name], K=name, s=suffix, LARGE=large, FAR=far, LOG2_E=LOG2_E)
    text += complex_tangent.TANGENT_TEXT + complex_products.PRODUCTS_TEXT
    for name, part, real, suffix, large in (("c16", "double", "f8", "", "0x1.fcp1023"), ("c8", "float", "f4", "f", "0x1.fcp127")):
        constants = {"LARGE": large, "LOG2_E": LOG2_E, "LOG10_E": LOG10_E, "W": "int64_t" if name == "c16" else "int32_t"}
        constants["PRODUCTS"] = "npc_exact_products" if name == "c16" else "npc_few_products"
        plain = "npc_plain_" if name == "c16" else ""  # the vectorised ones are near enough for float32
        loops = COMPLEX_FUNCTIONS + complex_products.LOOP_TEXT + complex_power.LOOP_TEXT + complex_tangent.LOOP_TEXT
        text += loops.format(T=C_TYPES[name], K=name, P=part, R=real, s=suffix, **constants, PLAIN=plain)
    text += EXP2_TEXT + special_functions.TEXT + EXTREMES_TEXT
    return definitions_of(text)


def without(word: str, text: str) -> str:
    """The text without the lines that have this word, which not every compiler knows."""
    return "".join(line for line in text.splitlines(keepends=True) if word not in line)


def functions_text(kernels: str, compiler: Compiler) -> str:
    """What the text of the kernels calls, in C, for this compiler."""
    called, ours = needed_by(kernels, definitions())
    shared = complex_power.power_text() if called & {"npc_power_c8", "npc_power_c16"} else ""
    called |= called_in(shared)
    if not compiler.has_vector_math:
        vectors = vector_math.inline_text(called, angles_text(called))
    elif IS_HERE in kernels:
        elsewhere, _ = needed_by(WRITTEN.sub(r"\1", kernels) + shared, definitions())
        vectors = VECTOR_TEXT + vectorised_text(called, elsewhere, kernels, compiler.calls_vector_forms)
    else:
        vectors = VECTOR_TEXT + vectorised_text(called, called, are_forms_called=compiler.calls_vector_forms)
    text = f"{vectors}{shared}{ours}"
    pairs = PAIRS_TEXT if "npc_two" in text else ""
    reduction = REDUCTION if shared or "npc_reduce" in text else ""
    types = TYPE_TEXT if "_Float16" in kernels or "npc_f2" in kernels else without(MEMORY_TYPES["f2"], TYPE_TEXT)
    return f"#define NULL ((void*)0)\n{types}{TELL_TEXT}{ROUNDED_TEXT}{pairs}{reduction}{loops_text(called)}{text}"
