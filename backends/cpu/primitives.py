"""Scalar primitives in C: a template for each name and kind of number, with NumPy's exact meaning.

Kinds: b bool, i signed, u unsigned, e float16 and bfloat16, f float32 and float64, g longdouble, c complex64 and complex128.
Templates see {0}, {1}, ... (the operands), {T} and {K} (C type and short name of the first operand), {R} (C type of the
result), {B} (its bits) and {s} (suffix of libm's names). Both of kind e are C floats that are rounded after each operation.
"""

from __future__ import annotations

import numpy as np

from npcompile.backends.cpu.c_functions import C_TYPES, COMPLEX_LIBM, MEMORY_TYPES, SUFFIX
from npcompile.backends.cpu.small_powers import POWERS, PRODUCTS
from npcompile.backends.kernels.operations import constant_value, short
from npcompile.tensor_core.dtypes import is_bfloat16, is_number, kind_of
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.ops.special import FORMS, OF_TWO


def kind(dtype: np.dtype) -> str:
    if kind_of(dtype) == "f":
        return {2: "e", 4: "f", 8: "f"}.get(dtype.itemsize, "g")
    return dtype.kind


def c_type(dtype: np.dtype) -> str:
    return C_TYPES[short(dtype)]


def has_c_type(dtype: np.dtype) -> bool:
    return is_number(dtype) and short(dtype) in C_TYPES


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


PI = "3.14159265358979323846264338327950288L"


def kinds(which: str, template: str) -> dict[str, str]:
    return dict.fromkeys(which, template)


def comparison(relation: str) -> dict[str, str]:
    strict = relation[0]
    by_real = f"(npc_heard_{{K}}({{0}}).re {strict} npc_heard_{{K}}({{1}}).re && npc_ordered_{{K}}({{0}}, {{1}}))"
    same = "{0}.re == {1}.re"
    by_imaginary = f"npc_im_where_{{K}}({same}, {{0}}) {relation} npc_im_where_{{K}}({same}, {{1}})"
    lexicographic = f"({by_real} || ({same} && {by_imaginary}))"
    # NaN raises the processor's invalid flag here, which NumPy's comparisons clear: the program then runs natively once
    # more. Comparisons that leave the flag alone are not vectorised, which would slow every other program.
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


def reporting(operation: str, left: str, right: str) -> str:
    """Arithmetic of integers that notes an overflow."""
    noted = f"if (__builtin_{operation}_overflow(({{T}}){left}, ({{T}}){right}, &npc_result)) npc_overflown(0);"
    return f"({{{{ {{T}} npc_result; {noted} npc_result; }}}})"


PRIMITIVES: dict[str, dict[str, str]] = {
    "add": kinds("iuefg", "{0} + {1}") | {"b": "{0} | {1}", "c": "npc_add_{K}({0}, {1})"},
    "subtract": kinds("iuefg", "{0} - {1}") | {"c": "npc_subtract_{K}({0}, {1})"},
    "multiply": kinds("iuefg", "{0} * {1}") | {"b": "{0} & {1}", "c": "npc_multiply_{K}({0}, {1})"},
    "divide": kinds("efg", "{0} / {1}") | {"c": "npc_divide_{K}({0}, {1})"},
    "floor_divide": {
        "i": "npc_floor_divide_i({0}, {1}, {B})",
        "u": "({1} == 0 ? npc_divided_by_zero() : {0} / {1})",
        "e": "npc_floor_divide_f4({0}, {1})",
        **kinds("fg", "npc_floor_divide_{K}({0}, {1})"),
    },
    "remainder": {
        "i": "npc_remainder_i({0}, {1})",
        "u": "({1} == 0 ? npc_divided_by_zero() : {0} % {1})",
        "e": "npc_remainder_f4({0}, {1})",
        **kinds("fg", "npc_remainder_{K}({0}, {1})"),
    },
    "fmod": {"i": "npc_fmod_i({0}, {1})", "u": "({1} == 0 ? npc_divided_by_zero() : {0} % {1})"},
    "power": {"i": "npc_ipow({0}, {1})", "u": "npc_upow({0}, {1})"},
    "negative": kinds("iuefg", "-{0}") | {"c": "npc_pair_{K}(npc_flipped_{K}({0}.re), npc_flipped_{K}({0}.im))"},
    "positive": kinds("iuefgc", "{0}"),
    "absolute": {"b": "{0}", "u": "{0}", "i": "({0} < 0 ? -{0} : {0})"}
    | kinds("efg", "fabs{s}({0})")
    | {"c": "npc_modulus_{K}({0})"},
    "fabs": kinds("efg", "fabs{s}({0})"),
    "sign": {"u": "({0} != 0)"}
    | kinds("i", "(({0} > 0) - ({0} < 0))")
    | kinds("efg", "({0} != {0} ? {0} : {0} > 0 ? 1 : {0} < 0 ? -1 : 0)"),
    "square": kinds("iuefg", "{0} * {0}") | {"c": "npc_multiply_{K}({0}, {0})"},
    "reciprocal": kinds("efg", "1 / {0}") | {"c": "npc_reciprocal_{K}({0})"},
    "conjugate": kinds("iuefg", "{0}") | {"c": "npc_pair_{K}({0}.re, npc_flipped_{K}({0}.im))"},
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
    **{name: kinds("efg", f"{{0}} * (180 / ({{T}}){PI})") for name in ("degrees", "rad2deg")},
    **{name: kinds("efg", f"{{0}} * (({{T}}){PI} / 180)") for name in ("radians", "deg2rad")},
    **{name: kinds("biu", "{0}") | kinds("efg", name + "{s}({0})") for name in ("floor", "ceil", "trunc")},
    "rint": kinds("efg", "rint{s}({0})") | {"c": "npc_pair_{K}(rint{s}({0}.re), rint{s}({0}.im))"},
    "isfinite": kinds("biu", "1") | kinds("efg", "(({0} == {0}) & (fabs{s}({0}) != __builtin_inf()))"),
    "isinf": kinds("biu", "0") | kinds("efg", "(fabs{s}({0}) == __builtin_inf())"),
    "isnan": kinds("biu", "0") | kinds("efg", "({0} != {0})") | {"c": "({0}.re != {0}.re || {0}.im != {0}.im)"},
    "signbit": kinds("fg", "npc_signbit_{K}({0})") | {"e": "npc_signbit_f4({0})"},
    "nextafter": kinds("fg", "nextafter{s}({0}, {1})"),
    "ldexp": kinds("efg", "ldexp{s}({0}, (int)npc_max(npc_min({1}, 2147483647), -2147483647))"),
    "where": kinds("b", "({0} ? {1} : {2})"),
    "zero_or_multiply": kinds("efg", "({0} == 0 ? {0} : {0} * {1})"),
    "zero_or_divide": kinds("efg", "({0} == 0 ? {0} : {0} / {1})"),
    "real": kinds("biuefg", "{0}") | {"c": "npc_part_{K}({0}.re)"},
    "imag": kinds("biuefg", "0") | {"c": "npc_part_{K}({0}.im)"},
    "complex": {"f": "({R}){{{0}, {1}}}"},
    "scalar_add": kinds("iu", reporting("add", "{0}", "{1}")),
    "scalar_subtract": kinds("iu", reporting("sub", "{0}", "{1}")),
    "scalar_multiply": kinds("iu", reporting("mul", "{0}", "{1}")) | {"c": "npc_cmul_{K}({0}, {1})"},
    "scalar_negative": kinds("iu", reporting("sub", "0", "{0}")),
    "scalar_absolute": {"u": "{0}", "i": f"({{0}} < 0 ? {reporting('sub', '0', '{0}')} : {{0}})"}
    | {"c": "npc_plain_hypot{s}({0}.re, {0}.im)"},
    "scalar_power": kinds("f", "npc_plain_pow{s}({0}, {1})") | {"c": "npc_scalar_power_{K}({0}, {1})"},
    "philox_low": {"u": "npc_philox_low({0}, {1}, {2})"},
    "philox_high": {"u": "npc_philox_high({0}, {1}, {2})"},
}
PRIMITIVES |= {name: {"f": f"npc_{name}_{{K}}({{0}}{', {1}' if name in OF_TWO else ''})"} for name in FORMS}
PRIMITIVES["laid_out"] = PRIMITIVES["positive"]
for numpy_name, libm_name in NUMPY_LIBM.items():
    operands = ", ".join(f"{{{k}}}" for k in range(getattr(np, numpy_name).nin))
    PRIMITIVES.setdefault(numpy_name, {}).update(kinds("efg", f"{libm_name}{{s}}({operands})"))
PRIMITIVES["fmod"] |= kinds("fg", "npc_fmod_{K}({0}, {1})") | {"e": "npc_fmod_f4({0}, {1})"}
PRIMITIVES["exp"] |= kinds("fg", "npc_exp_{K}({0})") | {"e": "npc_exp_f4({0})"}
PRIMITIVES["power"] |= {"f": "npc_small_power_{K}({0}, {1}, pow{s}({0}, {1}))"}
PRIMITIVES["cbrt"] |= kinds("fg", "npc_cbrt_{K}({0})")
PRIMITIVES["log"] |= kinds("fg", "npc_log_{K}({0})") | {"e": "npc_log_f4({0})"}
for numpy_name, libm_name in COMPLEX_LIBM.items():
    PRIMITIVES[numpy_name]["c"] = f"npc_of_c_{{K}}(npc_plain_c{libm_name}{{s}}(npc_to_c_{{K}}({{0}})))"

PRIMITIVES["log1p"]["c"] = "npc_log1p_{K}({0})"
PRIMITIVES["exp2"]["c"] = "npc_exp2_{K}({0})"
for numpy_name in ("arctan", "arctanh", "expm1", "log2", "log10"):
    PRIMITIVES[numpy_name]["c"] = f"npc_{numpy_name}_{{K}}({{0}})"
PRIMITIVES["tan"]["c"], PRIMITIVES["tanh"]["c"] = "npc_tan_{K}({0})", "npc_tanh_{K}({0})"
PRIMITIVES["power"]["c"] = PRIMITIVES["float_power"]["c"] = "npc_power_{K}({0}, {1})"

# What the loops of ml_dtypes do in another way than NumPy's of float16. They call the functions of libm for single numbers: the
# vectorised ones differ in the last bit of a float32, which now and then is one of bfloat16.
BFLOAT16 = {
    "sign": "({0} != {0} || {0} == 0 ? {0} : {0} > 0 ? 1.0f : -1.0f)",
    "maximum": "({0} > {1} || {0} != {0} ? {0} : {1})",
    "minimum": "({0} < {1} || {0} != {0} ? {0} : {1})",
    "fmax": "({0} > {1} || {1} != {1} ? {0} : {1})",
    "fmin": "({0} < {1} || {1} != {1} ? {0} : {1})",
    "logaddexp": "npc_logaddexp_bf16({0}, {1})",
    "logaddexp2": "npc_logaddexp2_bf16({0}, {1})",
    "nextafter": "npc_nextafter_bf16({0}, {1})",
    "spacing": "(npc_nextafter_bf16({0}, copysignf(__builtin_inff(), {0})) - {0})",
}
for numpy_name, libm_name in NUMPY_LIBM.items():
    if libm_name not in ("sqrt", "copysign", "fmod"):
        operands = ", ".join(f"{{{k}}}" for k in range(getattr(np, numpy_name).nin))
        BFLOAT16[numpy_name] = f"npc_single_{libm_name}f({operands})"
# Those of libm are so near the exact result that the vectorised functions of float64 give the same after both roundings.
BFLOAT16 |= {name: f"(float){name}((double){{0}})" for name in ("sin", "cos", "exp2", "log2")}
BFLOAT16 |= {name: f"(float)npc_{name}_f8((double){{0}})" for name in ("exp", "log")}

# libmvec notes an invalid operation for infinite exponents, and not NumPy's division by zero or overflow.
HIDE_OTHER_ERRORS = {("power", "f4"), ("power", "f8")}
# NumPy's vector loops underflow on the way to a result that does not, or is subnormal and exact here.
NUMPY_UNDERFLOWS = {("sin", "f4"), ("cos", "f4"), ("exp", "f4"), ("exp2", "f4"), ("log1p", "c8"), ("exp2", "c8"), ("exp2", "c16")}
OTHER_THAN_NUMPYS = ("power", "float_power", "tan", "tanh", "arctan", "arctanh", "expm1")  # of complex numbers
NUMPY_UNDERFLOWS |= {(function, dtype) for function in OTHER_THAN_NUMPYS for dtype in ("c8", "c16")}

MIXED_OPERANDS = ("where", "ldexp")  # operands of several dtypes
EXACT = (
    "where",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "positive",
    "laid_out",
    "negative",
    "absolute",
    "conjugate",
)  # nothing to round


def numpy_underflows(op: str, dtype: np.dtype) -> bool:
    """May NumPy note an underflow where nothing here does? Its conversion to float16 notes one for every inexact number below the
    smallest normal one, the processor's only if it is below when rounded."""
    return (op, short(dtype)) in NUMPY_UNDERFLOWS or (dtype == np.float16 and op not in EXACT)


def has_text(node: Node) -> bool:
    """Is there a template for the op of operands of these dtypes, also where it could be made of others?"""
    return all(kind(x.dtype) in PRIMITIVES.get(node.op, ()) for x in node.inputs)


def truth_text(x: str, dtype: np.dtype) -> str:
    return truth("{0}")[kind(dtype)].format(x)


def cast_text(x: str, old: np.dtype, new: np.dtype) -> str:
    """C's conversions, where they are undefined what NumPy's compiled loops give on x86-64."""
    if new.kind == "b":
        return truth_text(x, old)
    if old.kind == "c":
        if new.kind == "c":
            if new.itemsize == 8 and old.itemsize > 8:
                return f"npc_pair_c8({narrowed_text(f'{x}.re')}, {narrowed_text(f'{x}.im')})"
            part = "float" if new.itemsize == 8 else "double"
            return f"npc_pair_{short(new)}(({part}){x}.re, ({part}){x}.im)"
        return cast_text(f"{x}.re", np.dtype(f"f{old.itemsize // 2}"), new)
    if new.kind == "c":
        return f"npc_pair_{short(new)}({x}, 0)"
    if kind(new) == "e":
        if kind_of(old) == "f" and old.itemsize > 4 and not is_bfloat16(new):
            return f"npc_round_f2_f8({x})"
        return rounded_text(f"(float){x}", new)
    if kind_of(old) == "f" and new.kind in "iu":
        if old.itemsize <= 8:  # what clang knows to be infinite it would take for no integer at all
            x = f"npc_same_{'f8' if old.itemsize == 8 else 'f4'}({x})"
        if new.kind == "u" and new.itemsize == 8:
            high = "9223372036854775808.0" + ("f" if old.itemsize <= 4 else "")
            above = f"(uint64_t)(int64_t)({x} - {high}) ^ 0x8000000000000000u"
            return truncated_text(f"({x} >= {high} ? {above} : (uint64_t)(int64_t){x})", "uint64_t")
        through = {8: "int64_t", 4: "int64_t" if new.kind == "u" else "int32_t"}.get(new.itemsize, "int32_t")
        return f"({c_type(new)}){truncated_text(f'({through}){x}', through)}"
    if old.kind == "b" and new.kind == "f":  # of one byte GCC makes no vector of larger elements
        return f"({x} ? ({c_type(new)})1 : ({c_type(new)})0)"
    return f"({c_type(new)}){x}"


def truncated_text(x: str, c_type: str) -> str:
    """An integer made of a floating-point number, which GCC would take for the number without its fraction where it is one
    again: that has -0.0, and what is no integer of this type. (A pointer is even, as GCC cannot know.)"""
    return f"({x} ^ ({c_type})((uint64_t)rt & 1))"


def narrowed_text(x: str) -> str:
    """A part as float32. Where both parts become float64 again GCC would take them as they were before."""
    bits = "union { float x; uint32_t n; }"
    return f"({{ {bits} npc_narrow = {{(float){x}}}; npc_narrow.n ^= (uint32_t)((uint64_t)rt & 1); npc_narrow.x; }})"


def rounded_text(x: str, dtype: np.dtype) -> str:
    """A C float as the nearest number of kind e."""
    return f"npc_round_bf16({x})" if is_bfloat16(dtype) else f"npc_round_f2_f4({x})"


def loaded_text(x: str, dtype: np.dtype) -> str:
    """What is in memory as the value in a register."""
    return f"npc_load_bf16({x})" if is_bfloat16(dtype) else x


def stored_text(x: str, dtype: np.dtype) -> str:
    """A value in a register as it is in memory."""
    return f"npc_store_bf16({x})" if is_bfloat16(dtype) else f"(_Float16){x}" if kind(dtype) == "e" else x


def memory_type(dtype: np.dtype) -> str:
    return MEMORY_TYPES.get(short(dtype), c_type(dtype))


def bitcast_text(x: str, old: np.dtype, new: np.dtype) -> str:
    source, target = f"{memory_type(old)} npc_from = {stored_text(x, old)}", f"{memory_type(new)} npc_to"
    copied = "__builtin_memcpy(&npc_to, &npc_from, sizeof npc_to)"
    return f"({{ {source}; {target}; {copied}; {loaded_text('npc_to', new)}; }})"


def primitive_text(op: str, args: list[str], dtypes: list[np.dtype], out: np.dtype) -> str:
    """The C expression of a primitive; its value has the type c_type(out)."""
    if op == "cast":
        return cast_text(args[0], dtypes[0], out)
    if op == "bitcast":
        return bitcast_text(args[0], dtypes[0], out)
    first = dtypes[0]
    template = (is_bfloat16(first) and BFLOAT16.get(op)) or PRIMITIVES[op][kind(first)]
    base = np.dtype(f"f{first.itemsize // 2}") if first.kind == "c" else first
    text = template.format(
        *args, T=c_type(first), K=short(first), R=c_type(out), B=8 * first.itemsize, s=SUFFIX.get(short(base), "")
    )
    return rounded_text(f"({text})", out) if kind(out) == "e" and op not in EXACT else text


# Of complex numbers, of 8 and 16 bytes. In float64 no such power of a float32 leaves the range.
KNOWN_EXPONENTS = {8: {*range(-7, 0), *range(2, 8)}, 16: {*range(-16, 0), *range(2, 17)}}


def power_text(x: str, dtype: np.dtype, exponent: object, ending: str = "") -> str | None:
    """x to a power that is known and small, by multiplication. `ending`: of functions' names, where not of numbers."""
    if dtype.kind == "c" and exponent in KNOWN_EXPONENTS[dtype.itemsize]:
        return f"npc_known_power_{short(dtype)}({x}, {int(exponent.real)})"  # type: ignore[attr-defined]
    text = {"f": POWERS, "i": PRODUCTS, "u": PRODUCTS}.get(kind(dtype), {}).get(exponent)  # type: ignore[call-overload]
    return text and text.format(x, K=ending or f"_{short(dtype)}")


def is_native(node: Node) -> bool:
    """Can this elementwise node be a scalar instruction of a kernel?"""
    dtypes = [i.dtype for i in node.inputs]
    if not all(map(has_c_type, (*dtypes, node.dtype))):
        return False
    if node.op in ("cast", "bitcast", "by_numpy"):
        return True
    has_form = kind(dtypes[0]) in PRIMITIVES.get(node.op, {}) or (is_bfloat16(dtypes[0]) and node.op in BFLOAT16)
    if not has_form:
        return False
    if node.op not in MIXED_OPERANDS and any(d != dtypes[0] for d in dtypes):
        return False
    if node.op == "power" and dtypes[0].kind == "i":  # a negative exponent raises
        exponent = constant_value(node.inputs[1])
        return exponent is not None and exponent >= 0
    return True


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
