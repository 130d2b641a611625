"""Scalar primitives in Triton: a template for each name and kind of number, with NumPy's meaning.

Kinds: b bool, i signed, u unsigned, e float16 where it differs from f, f float16, float32 and float64, c complex64 and
complex128. Templates see {0}, {1},
... (the operands) and {T} (Triton's type of the first one). Those of kind c see {0r}, {0i}, ... (real and imaginary
parts); {T} is the type of a part. A float16 is widened to float32 before each operation and rounded after it, as in NumPy.
So is bfloat16, which has the type float32 in registers and is kind f; in memory it is uint16. It is rounded by operations on
its bits, as on the CPU: Triton's own type would do on a device, but its interpreter does not round.
"""

from __future__ import annotations

import math

import numpy as np

from npcompile.backends.cuda.programs import special_functions
from npcompile.backends.cuda.programs.complex_primitives import COMPLEX_FUNCTIONS, COMPLEX_PRIMITIVES
from npcompile.backends.kernels.operations import constant_value, short
from npcompile.tensor_core.dtypes import is_bfloat16, is_number, kind_of
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.ops.special import FORMS

TRITON_TYPES = {"b1": "tl.int1", "f2": "tl.float16", "bf16": "tl.float32", "f4": "tl.float32", "f8": "tl.float64"}
TRITON_TYPES |= {f"i{n}": f"tl.int{8 * n}" for n in (1, 2, 4, 8)} | {f"u{n}": f"tl.uint{8 * n}" for n in (1, 2, 4, 8)}


def part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the real and imaginary parts; any other dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def triton_type(dtype: np.dtype) -> str:
    """Of a value in a register; of one part where it is complex."""
    return TRITON_TYPES[short(part_of(dtype))]


def has_triton_type(dtype: np.dtype) -> bool:
    return is_number(dtype) and short(part_of(dtype)) in TRITON_TYPES


def kinds(which: str, template: str) -> dict[str, str]:
    return dict.fromkeys(which, template)


def comparison(relation: str) -> dict[str, str]:
    strict = relation[0]
    by_real = f"(({{0r}} {strict} {{1r}}) & ({{0i}} == {{0i}}) & ({{1i}} == {{1i}}))"
    lexicographic = f"({by_real} | (({{0r}} == {{1r}}) & ({{0i}} {relation} {{1i}})))"
    return kinds("iuf", f"({{0}} {relation} {{1}})") | {
        "b": f"({{0}}.to(tl.int8) {relation} {{1}}.to(tl.int8))",
        "c": lexicographic,
    }


def extreme(relation: str, *, keeps_nan: bool) -> dict[str, str]:
    """The larger or smaller number, NaN and zeros of either sign as NumPy's vector loops have them."""
    nan = "({0} != {0})" if keeps_nan else "({1} != {1})"
    return kinds("iu", f"tl.where({{0}} {relation} {{1}}, {{0}}, {{1}})") | {
        "b": "({0} | {1})" if relation == ">" else "({0} & {1})",
        "f": f"tl.where(({{0}} {relation} {{1}}) | {nan}, {{0}}, {{1}})",
        "e": f"tl.where(({{0}} {relation}= {{1}}) | {nan}, {{0}}, {{1}})",
    }


def truth(k: int) -> dict[str, str]:
    x = f"{{{k}}}"
    return {"b": x} | kinds("iuf", f"({x} != 0)") | {"c": f"(({{{k}r}} != 0) | ({{{k}i}} != 0))"}


def logic(join: str) -> dict[str, str]:
    return {k: f"({a} {join} {b})" for (k, a), b in zip(truth(0).items(), truth(1).values())}


def signless(template: str) -> dict[str, str]:
    """Of unsigned integers; of signed ones the absolute values, which fit the unsigned type."""
    absolute = template
    for k in range(2):
        absolute = absolute.replace(f"{{{k}}}", f"tl.where({{{k}}} < 0, -{{{k}}}, {{{k}}}).to(tl.uint{{bits}})")
    return {"u": template, "i": absolute}


def number(value: float) -> str:
    """A constant of exactly this value, in the operand's type."""
    return f"tl.full((), {value!r}, {{T}})"


UNARY = "sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p cbrt floor ceil trunc rint"
LIBDEVICE = {name: name for name in f"{UNARY} hypot copysign fmod nextafter".split()}  # NumPy's name -> libdevice's
LIBDEVICE |= {f"arc{name}": f"a{name}" for name in ["sin", "cos", "tan", "sinh", "cosh", "tanh"]}
LIBDEVICE |= {"arctan2": "atan2", "power": "pow", "float_power": "pow"}

PRIMITIVES: dict[str, dict[str, str]] = {
    "add": kinds("iuf", "({0} + {1})") | {"b": "({0} | {1})", "c": "{0r} + {1r}; {0i} + {1i}"},
    "subtract": kinds("iuf", "({0} - {1})") | {"c": "{0r} - {1r}; {0i} - {1i}"},
    "multiply": kinds("iuf", "({0} * {1})")
    # fused as in the vector loops of numpy/_core/src/umath/loops_arithm_fp.dispatch.c.src
    | {"b": "({0} & {1})", "c": "tl.fma({0r}, {1r}, {0i} * {1i} * -1.0); tl.fma({0r}, {1i}, {0i} * {1r})"},
    "divide": {"f": "npc_divide({0}, {1})", "c": "npc_complex_divide({0r}, {0i}, {1r}, {1i})"},
    "floor_divide": {"i": "npc_floor_divide_i({0}, {1})", "u": "npc_floor_divide_u({0}, {1})", "f": "npc_floor_divide({0}, {1})"},
    "remainder": {"i": "npc_remainder_i({0}, {1})", "u": "npc_remainder_u({0}, {1})", "f": "npc_remainder({0}, {1})"},
    "fmod": {"i": "npc_fmod_i({0}, {1})", "u": "npc_remainder_u({0}, {1})"},
    "power": kinds("iu", "npc_power({0}, {1}, {bits})"),
    # Triton's -x is 0 - x, which makes 0.0 of 0.0.
    "negative": kinds("iu", "(-{0})") | {"f": "({0} * -1.0)", "c": "{0r} * -1.0; {0i} * -1.0"},
    **dict.fromkeys(("positive", "laid_out"), kinds("iuf", "{0}") | {"c": "{0r}; {0i}"}),
    "absolute": {
        "b": "{0}",
        "u": "{0}",
        "i": "tl.where({0} < 0, -{0}, {0})",
        "f": "tl.abs({0})",
        "c": "libdevice.hypot({0r}, {0i})",
    },
    "fabs": {"f": "tl.abs({0})"},
    "sign": {"u": "({0} != 0)", "i": "(({0} > 0).to({T}) - ({0} < 0).to({T}))"}
    | {"f": "tl.where({0} != {0}, {0}, ({0} > 0).to({T}) - ({0} < 0).to({T}))"},
    "square": kinds("iuf", "({0} * {0})") | {"c": "tl.fma({0r}, {0r}, {0i} * {0i} * -1.0); tl.fma({0r}, {0i}, {0i} * {0r})"},
    "sqrt": {"f": "npc_sqrt({0})"},
    "gcd": signless("npc_gcd({0}, {1}, {bits})"),
    "lcm": signless("npc_lcm({0}, {1}, {bits})"),
    "bitwise_count": signless("npc_bit_count({0})"),
    "reciprocal": {"f": f"npc_divide({number(1.0)}, {{0}})"},
    "conjugate": kinds("iuf", "{0}") | {"c": "{0r}; {0i} * -1.0"},
    "heaviside": {"f": "tl.where({0} != {0}, {0}, tl.where({0} == 0, {1}, ({0} > 0).to({T})))"},
    "maximum": extreme(">", keeps_nan=True),
    "minimum": extreme("<", keeps_nan=True),
    "fmax": extreme(">", keeps_nan=False),
    "fmin": extreme("<", keeps_nan=False),
    "equal": kinds("biuf", "({0} == {1})") | {"c": "(({0r} == {1r}) & ({0i} == {1i}))"},
    "not_equal": kinds("biuf", "({0} != {1})") | {"c": "(({0r} != {1r}) | ({0i} != {1i}))"},
    "less": comparison("<"),
    "less_equal": comparison("<="),
    "greater": comparison(">"),
    "greater_equal": comparison(">="),
    "logical_and": logic("&"),
    "logical_or": logic("|"),
    "logical_xor": logic("^"),
    "logical_not": {k: f"({t} == 0)" for k, t in truth(0).items()},
    "bitwise_and": kinds("biu", "({0} & {1})"),
    "bitwise_or": kinds("biu", "({0} | {1})"),
    "bitwise_xor": kinds("biu", "({0} ^ {1})"),
    "invert": kinds("iu", "(~{0})") | {"b": "({0} == 0)"},
    # A shift by the width or more, negative counts among them, moves everything out.
    "left_shift": kinds("iu", "tl.where(({1} >= 0) & ({1} < {bits}), {0} << ({1} & ({bits} - 1)), 0)"),
    "right_shift": {
        "i": "tl.where(({1} >= 0) & ({1} < {bits}), {0} >> ({1} & ({bits} - 1)), {0} >> ({bits} - 1))",
        "u": "tl.where({1} < {bits}, {0} >> ({1} & ({bits} - 1)), 0)",
    },
    "logaddexp": {"f": "npc_logaddexp({0}, {1})"},
    "logaddexp2": {"f": "npc_logaddexp2({0}, {1})"},
    **{name: {"f": f"({{0}} * {number(180 / math.pi)})"} for name in ("degrees", "rad2deg")},
    **{name: {"f": f"({{0}} * {number(math.pi / 180)})"} for name in ("radians", "deg2rad")},
    **{name: kinds("biu", "{0}") for name in ("floor", "ceil", "trunc")},
    "isfinite": kinds("biu", "({0} == {0})") | {"f": '(tl.abs({0}) < float("inf"))'},
    "isinf": kinds("biu", "({0} != {0})") | {"f": '(tl.abs({0}) == float("inf"))'},
    "isnan": kinds("biuf", "({0} != {0})") | {"c": "(({0r} != {0r}) | ({0i} != {0i}))"},
    "signbit": {"f": "npc_signbit({0})"},
    "ldexp": {"f": "libdevice.ldexp({0}, tl.minimum(tl.maximum({1}, -2147483647), 2147483647).to(tl.int32))"},
    "where": kinds("b", "tl.where({0}, {1}, {2})"),
    "real": kinds("biuf", "{0}") | {"c": "{0r}"},
    "imag": kinds("biuf", "({0} ^ {0})") | {"f": "({0} * 0)", "c": "{0i}"},
    "complex": {"f": "{0}; {1}"},
    "philox_low": {"u": "npc_philox({0}, {1}, {2}, False)"},
    "philox_high": {"u": "npc_philox({0}, {1}, {2}, True)"},
}
PRIMITIVES["imag"]["f"] = number(0.0)
# Devices note no errors: what overflows wraps around.
PRIMITIVES |= {
    f"scalar_{name}": {kind: PRIMITIVES[name][kind] for kind in "iu"}
    for name in ("add", "subtract", "multiply", "negative", "absolute")
}
for numpy_name, device_name in LIBDEVICE.items():
    places = ", ".join(f"{{{k}}}" for k in range(getattr(np, numpy_name).nin))
    PRIMITIVES.setdefault(numpy_name, {}).update({"f": f"libdevice.{device_name}({places})"})
PRIMITIVES["rint"]["c"] = "libdevice.rint({0r}); libdevice.rint({0i})"
for name, template in COMPLEX_PRIMITIVES.items():
    PRIMITIVES[name]["c"] = template
PRIMITIVES |= special_functions.PRIMITIVES
PRIMITIVES["scalar_power"] = {kind: PRIMITIVES["power"][kind] for kind in "fc"}
for numpy_name in ("multiply", "absolute"):
    PRIMITIVES[f"scalar_{numpy_name}"]["c"] = PRIMITIVES[numpy_name]["c"]

# Of float32, and float16 in it, where the user has asked for speed: the hardware's approximations. exp(x) loses about |x| ULP.
FAST = {"divide": kinds("f", "({0} / {1})"), "reciprocal": kinds("f", f"({number(1.0)} / {{0}})")}
FAST |= {name: kinds("f", f"tl.{name}({{0}})") for name in ("sqrt", "exp", "exp2")}
MIXED_OPERANDS = ("where", "ldexp")  # operands of several dtypes
NOT_WIDENED = ("where", "positive", "laid_out", "negative", "maximum", "minimum", "fmax", "fmin", "absolute", "fabs", "signbit")
NOT_16_BITS = ("nextafter",)  # its neighbours are numbers of 16 bits
# What the loops of ml_dtypes do in another way than NumPy's.
BFLOAT16 = {
    "sign": "tl.where(({0} != {0}) | ({0} == 0), {0}, tl.where({0} > 0, 1.0, -1.0))",
    "logaddexp2": "npc_logaddexp2_bf16({0}, {1})",
}

# Functions that templates call; a generated unit has those that it uses. All work on blocks of any shape.
FUNCTIONS: dict[str, str] = {
    "npc_philox": """
def npc_philox(low, high, key, IS_HIGH: tl.constexpr):
    # Philox4x32-10: tensor_core/ops/random.py
    a = low.to(tl.uint32)
    b = (low >> 32).to(tl.uint32)
    c = high.to(tl.uint32) + a * 0
    d = (high >> 32).to(tl.uint32)
    first = key.to(tl.uint32)
    second = (key >> 32).to(tl.uint32)
    m = tl.full((), 0xD2511F53, tl.uint32)
    n = tl.full((), 0xCD9E8D57, tl.uint32)
    for _ in tl.static_range(10):
        e = tl.umulhi(n, c) ^ b ^ first
        f = n * c
        c = tl.umulhi(m, a) ^ d ^ second
        d = m * a
        a = e
        b = f
        first = first + tl.full((), 0x9E3779B9, tl.uint32)
        second = second + tl.full((), 0xBB67AE85, tl.uint32)
    if IS_HIGH:
        return c.to(tl.uint64) | (d.to(tl.uint64) << 32)
    else:
        return a.to(tl.uint64) | (b.to(tl.uint64) << 32)
""",
    "npc_divide": """
def npc_divide(a, b):
    # `/` of float32 is approximate
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b
""",
    "npc_sqrt": """
def npc_sqrt(a):
    # libdevice's of float32 is approximate
    if a.dtype == tl.float32:
        return tl.sqrt_rn(a)
    else:
        return libdevice.sqrt(a)
""",
    "npc_complex_divide": """
def npc_complex_divide(a, b, c, d):
    # Smith's algorithm, as numpy/_core/src/umath/loops.c.src has it
    is_real = tl.abs(c) >= tl.abs(d)
    is_zero = (c == 0) & (d == 0)
    large = tl.where(is_real, c, d)
    small = tl.where(is_real, d, c)
    ratio = npc_divide(small, large)
    scale = npc_divide(tl.full((), 1.0, a.dtype), large + small * ratio)
    real = tl.where(is_real, a + b * ratio, a * ratio + b) * scale
    imag = tl.where(is_real, b - a * ratio, b * ratio - a) * scale
    size = tl.abs(c)
    return tl.where(is_zero, npc_divide(a, size), real), tl.where(is_zero, npc_divide(b, size), imag)
""",
    "npc_gcd": """
def npc_gcd(a, b, BITS: tl.constexpr):
    # Euclid's algorithm, as many steps as numbers of this width can take
    x = a + b * 0
    y = b + a * 0
    for _ in range(BITS * 3 // 2):
        rest = npc_remainder_u(x, y)
        x = tl.where(y == 0, x, y)
        y = tl.where(y == 0, y, rest)
    return x
""",
    "npc_lcm": """
def npc_lcm(a, b, BITS: tl.constexpr):
    return npc_floor_divide_u(a, npc_gcd(a, b, BITS)) * b
""",
    "npc_bit_count": """
def npc_bit_count(a):
    x = a.to(tl.uint64)
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56
""",
    "npc_floor_divide_i": """
def npc_floor_divide_i(a, b):
    safe = tl.where((b == 0) | (b == -1), 1, b).to(a.dtype)
    q = a // safe
    r = a - q * safe
    q = q - ((r != 0) & ((r < 0) != (safe < 0))).to(a.dtype)
    return tl.where(b == 0, 0, tl.where(b == -1, -a, q)).to(a.dtype)
""",
    "npc_floor_divide_u": """
def npc_floor_divide_u(a, b):
    q = a // tl.where(b == 0, 1, b).to(a.dtype)
    return tl.where(b == 0, 0, q).to(a.dtype)
""",
    "npc_remainder_i": """
def npc_remainder_i(a, b):
    safe = tl.where((b == 0) | (b == -1), 1, b).to(a.dtype)
    r = a % safe
    r = r + tl.where((r != 0) & ((r < 0) != (safe < 0)), safe, 0).to(a.dtype)
    return tl.where((b == 0) | (b == -1), 0, r).to(a.dtype)
""",
    "npc_remainder_u": """
def npc_remainder_u(a, b):
    r = a % tl.where(b == 0, 1, b).to(a.dtype)
    return tl.where(b == 0, 0, r).to(a.dtype)
""",
    "npc_fmod_i": """
def npc_fmod_i(a, b):
    r = a % tl.where((b == 0) | (b == -1), 1, b).to(a.dtype)
    return tl.where((b == 0) | (b == -1), 0, r).to(a.dtype)
""",
    "npc_remainder": """
def npc_remainder(a, b):
    # npy_divmod of numpy/_core/src/npymath/npy_math_internal.h.src
    m = libdevice.fmod(a, b)
    moved = tl.where(m != 0, tl.where((b < 0) != (m < 0), m + b, m), libdevice.copysign(tl.full((), 0.0, a.dtype) * m, b))
    return tl.where(b == 0, m, moved)
""",
    "npc_floor_divide": """
def npc_floor_divide(a, b):
    q = npc_divide(a, b)
    m = libdevice.fmod(a, b)
    d = npc_divide(a - m, b)
    d = tl.where((m != 0) & ((b < 0) != (m < 0)), d - 1, d)
    whole = libdevice.floor(d)
    whole = tl.where(d - whole > 0.5, whole + 1, whole)
    return tl.where(b == 0, q, tl.where(d == 0, libdevice.copysign(d, q), whole))
""",
    "npc_power": """
def npc_power(base, exponent, BITS: tl.constexpr):
    result = base * 0 + exponent * 0 + 1
    square = base + exponent * 0
    for _ in range(BITS):
        result = tl.where((exponent & 1) != 0, result * square, result)
        square = square * square
        exponent = exponent >> 1
    return result
""",
    "npc_logaddexp": """
def npc_logaddexp(a, b):
    d = a - b
    high = tl.where(d > 0, a, b)
    low = tl.where(d > 0, b, a)
    total = high + libdevice.log1p(libdevice.exp(low - high))
    return tl.where(a == b, a + tl.full((), 0.6931471805599453, a.dtype), tl.where(d != d, d, total))
""",
    "npc_logaddexp2": """
def npc_logaddexp2(a, b):
    d = a - b
    high = tl.where(d > 0, a, b)
    low = tl.where(d > 0, b, a)
    total = high + tl.full((), 1.4426950408889634, a.dtype) * libdevice.log1p(libdevice.exp2(low - high))
    return tl.where(a == b, a + 1, tl.where(d != d, d, total))
""",
    "npc_load_bf16": """
def npc_load_bf16(x):
    return (x.to(tl.uint32) << 16).to(tl.float32, bitcast=True)
""",
    "npc_store_bf16": """
def npc_store_bf16(x):
    return (x.to(tl.uint32, bitcast=True) >> 16).to(tl.uint16)
""",
    "npc_round_bf16": """
def npc_round_bf16(x):
    # to the nearest, of two the even one
    bits = x.to(tl.uint32, bitcast=True)
    near = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    nan = (bits & 0x80000000) | 0x7FC00000
    return tl.where((bits & 0x7FFFFFFF) > 0x7F800000, nan, near).to(tl.float32, bitcast=True)
""",
    "npc_logaddexp2_bf16": """
def npc_logaddexp2_bf16(a, b):
    d = a - b
    high = tl.where(d > 0, a, b)
    low = tl.where(d > 0, b, a)
    more = npc_divide(libdevice.log1p(libdevice.exp2(low - high)), tl.full((), 0.6931471805599453, tl.float32))
    return tl.where(a == b, a + 1, tl.where(d != d, d, high + more))
""",
    "npc_signbit": """
def npc_signbit(a):
    if a.dtype == tl.float16:
        return a.to(tl.int16, bitcast=True) < 0
    elif a.dtype == tl.float32:
        return a.to(tl.int32, bitcast=True) < 0
    else:
        return a.to(tl.int64, bitcast=True) < 0
""",
    "npc_floordiv": """
def npc_floordiv(a, b):
    q = a // b
    r = a - q * b
    return q - ((r != 0) & ((r < 0) != (b < 0))).to(q.dtype)
""",
    "npc_mod": """
def npc_mod(a, b):
    r = a % b
    return r + tl.where((r != 0) & ((r < 0) != (b < 0)), b, 0)
""",
    "npc_max": """
def npc_max(a, b):
    return tl.maximum(a, b)
""",
    "npc_min": """
def npc_min(a, b):
    return tl.minimum(a, b)
""",
} | (COMPLEX_FUNCTIONS | special_functions.FUNCTIONS)


def functions_text(made: str) -> str:
    """The functions that a generated text calls, and what these call, each before its callers."""
    found: dict[str, None] = {}

    def visit(text: str) -> None:
        for name, body in FUNCTIONS.items():
            if f"{name}(" in text and name not in found:
                if f"def {name}(" not in text:
                    visit(body.replace(f"def {name}(", "def "))
                found[name] = None

    visit(made)
    return "".join(f"@triton.jit{FUNCTIONS[name]}\n\n" for name in found)


def cast_text(x: str, old: np.dtype, new: np.dtype) -> str:
    """Between real dtypes; where C's conversion is undefined, what NumPy's compiled loops give on x86-64."""
    target = TRITON_TYPES[short(new)]
    if new.kind == "b":
        return f"({x} != 0)" if old.kind != "b" else x
    if new == old:
        return x
    if is_bfloat16(old):
        return cast_text(x, np.dtype(np.float32), new)
    if is_bfloat16(new):
        return f"npc_round_bf16({x}.to(tl.float32))"
    if old.kind == "f" and new.kind in "iu":
        wide = f"{x}.to(tl.float32)" if old.itemsize == 2 else x
        if new.kind == "u" and new.itemsize == 8:
            high = f"tl.full((), {2.0**63!r}, {wide}.dtype)" if old.itemsize != 2 else f"tl.full((), {2.0**63!r}, tl.float32)"
            low = to_integer(wide, 64)
            above = f"({to_integer(f'({wide} - {high})', 64)} ^ tl.full((), {-(2**63)}, tl.int64))"
            return f"tl.where({wide} >= {high}, {above}, {low}).to(tl.uint64)"
        through = 64 if new.itemsize == 8 or (new.kind == "u" and new.itemsize == 4) else 32
        return f"{to_integer(wide, through)}.to({target})"
    if old.kind in "iu" and new.itemsize == 2 and new.kind == "f":
        return f"{x}.to(tl.float32).to(tl.float16)"
    return f"{x}.to({target})"


def loaded_text(x: str, dtype: np.dtype) -> str:
    """What is in memory as the value in a register."""
    return f"({x} != 0)" if dtype.kind == "b" else f"npc_load_bf16({x})" if is_bfloat16(dtype) else x


def stored_text(x: str, dtype: np.dtype) -> str:
    """A value in a register as it is in memory."""
    return f"{x}.to(tl.int8)" if dtype.kind == "b" else f"npc_store_bf16({x})" if is_bfloat16(dtype) else x


def memory_type(dtype: np.dtype) -> str:
    """Triton's, of a real number in memory."""
    return "tl.int8" if dtype.kind == "b" else "tl.uint16" if is_bfloat16(dtype) else triton_type(dtype)


def to_integer(x: str, bits: int) -> str:
    """Truncated; the lowest integer for what is out of range, and for NaN."""
    high = 2.0 ** (bits - 1)
    inside = f"(({x} >= {-high!r}) & ({x} < {high!r}))"
    return f"tl.where({inside}, tl.where({inside}, {x}, 0).to(tl.int{bits}), tl.full((), {-int(high)}, tl.int{bits}))"


def expressions(op: str, args: list[str], dtypes: list[np.dtype], out: np.dtype, *, is_fast: bool = False) -> list[str]:
    """The Triton text of a primitive: one expression, or one for each part of a complex result.

    A single text for a complex result gives the pair. Operands are names; of complex ones `name_r` and `name_i` exist.
    """
    first = dtypes[0]
    if op == "cast":
        return cast_expressions(args[0], first, out)
    if op == "bitcast":
        read = loaded_text("{}", out) if is_bfloat16(out) else "{}"
        return [read.format(f"{stored_text(args[0], first)}.to({memory_type(out)}, bitcast=True)")]
    if op == "where" and out.kind == "c":
        return [f"tl.where({args[0]}, {args[1]}_{p}, {args[2]}_{p})" for p in "ri"]
    table = FAST.get(op, PRIMITIVES[op]) if is_fast and first in (np.float16, np.float32) else PRIMITIVES[op]
    template = table["e" if first == np.float16 and "e" in table else kind_of(first)]
    if is_bfloat16(first):
        template = BFLOAT16.get(op, template)
    is_half = first == np.float16 and op not in NOT_WIDENED
    places = [f"{a}.to(tl.float32)" if is_half and d == np.float16 else a for a, d in zip(args, dtypes)]
    names = {f"{k}{p}": f"{a}_{p}" for k, a in enumerate(args) for p in "ri"}
    text = fill(template, places, names, "tl.float32" if is_half else triton_type(first), 8 * first.itemsize)
    parts = text.split("; ")
    if out.kind == "c":
        return parts
    (text,) = parts
    if is_bfloat16(out) and op not in NOT_WIDENED:
        return [f"npc_round_bf16({text})"]
    is_exact = out.kind == "b" or (op in ("add", "subtract", "multiply") and out == first and not is_half)
    return [text if is_exact else f"({text}).to({triton_type(out)})"]


def fill(template: str, places: list[str], names: dict[str, str], dtype: str, bits: int) -> str:
    text = template.replace("{T}", dtype).replace("{bits}", str(bits))
    for key, name in [*names.items(), *((str(k), place) for k, place in enumerate(places))]:
        text = text.replace(f"{{{key}}}", name)
    return text


def cast_expressions(x: str, old: np.dtype, new: np.dtype) -> list[str]:
    if old.kind == "c" and new.kind == "c":
        return [f"{x}_{p}.to({triton_type(new)})" for p in "ri"]
    if old.kind == "c" and new.kind == "b":
        return [f"(({x}_r != 0) | ({x}_i != 0))"]
    if old.kind == "c":
        return [cast_text(f"{x}_r", part_of(old), new)]
    if new.kind == "c":
        real = cast_text(x, old, part_of(new))
        return [real, f"tl.where({x} == {x}, 0, 0).to({triton_type(new)})"]
    return [cast_text(x, old, new)]


def is_native(node: Node) -> bool:
    """Can this elementwise node be a scalar instruction of a kernel?"""
    dtypes = [i.dtype for i in node.inputs]
    if not all(map(has_triton_type, (*dtypes, node.dtype))):
        return False
    if node.op == "cast":
        return True
    if node.op == "bitcast":
        return "b" not in (dtypes[0].kind, node.dtype.kind) and "c" not in (dtypes[0].kind, node.dtype.kind)
    if kind_of(dtypes[0]) not in PRIMITIVES.get(node.op, {}):
        return False
    if dtypes[0].itemsize == 2 and node.op in NOT_16_BITS:
        return False
    if node.op in FORMS and not special_functions.has_program(node.op, dtypes[0]):
        return False
    if node.op not in MIXED_OPERANDS and any(d != dtypes[0] for d in dtypes):
        return False
    if node.op == "power" and dtypes[0].kind == "i":  # a negative exponent raises
        exponent = constant_value(node.inputs[1])
        return exponent is not None and exponent >= 0
    return True


def constant_texts(value, dtype: np.dtype) -> list[str]:  # type: ignore[no-untyped-def]
    """Constants of exactly this value: one, or one for each part."""
    scalar = np.asarray(value, dtype)[()]
    if dtype.kind == "c":
        return [*constant_texts(scalar.real, part_of(dtype)), *constant_texts(scalar.imag, part_of(dtype))]
    if kind_of(dtype) == "f" and np.isnan(scalar) and np.signbit(scalar):  # no literal of Triton's has the sign
        bits = scalar.view(f"i{dtype.itemsize}")
        return [f"tl.full((), {bits}, tl.int{8 * dtype.itemsize}).to({triton_type(dtype)}, bitcast=True)"]
    return [full("()", literal(scalar, dtype), triton_type(dtype))]


def full(shape: str, number: str, dtype: str) -> str:
    """A block of one number. Triton's own makes 0.0 of -0.0."""
    return f"(tl.full({shape}, 0.0, {dtype}) * -1.0)" if number == "-0.0" else f"tl.full({shape}, {number}, {dtype})"


def literal(scalar, dtype: np.dtype) -> str:  # type: ignore[no-untyped-def]
    if kind_of(dtype) != "f":
        return repr(scalar.item())
    number = float(scalar)
    return repr(number) if math.isfinite(number) else f'float("{number}")'
