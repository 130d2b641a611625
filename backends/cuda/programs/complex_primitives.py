"""Scalar primitives of complex numbers in Triton: a template for each name, and the functions that the templates call.

Parts are computed in float64, those of complex64 too and rounded once, but where NumPy's own formula rounds between its
steps and the answer shows it. Infinities, NaN, signed zeros and branch cuts are those of C99's Annex G, as the C library
of NumPy's builds has them. Functions of both parts at once are chosen so that neither part cancels:

- W. Kahan, Branch Cuts for Complex Elementary Functions, or Much Ado About Nothing's Sign Bit (1987): roots, and inverse
  functions from roots of 1 + z and 1 - z
- T. J. Dekker, A Floating-Point Technique for Extending the Available Precision (1971): the rounding errors of squares
"""

from __future__ import annotations

LN2, LOG2E, LOG10E = 0.6931471805599453, 1.4426950408889634, 0.4342944819032518
PI_2 = 1.5707963267948966
HOW_OFTEN = 709  # exp(HOW_OFTEN) is finite
EXP_OF_IT = 8.218407461554972e307
EXP_OF_MINUS_600 = 2.6503965530043108e-261


def function_of(name: str) -> str:
    return f"npc_complex_{name}({{0r}}, {{0i}})"


def ordered(relation: str) -> str:
    """Lexicographic order; a number with NaN in it is in no order, but where the real parts differ."""
    by_real = f"(({{0r}} {relation} {{1r}}) & ({{0i}} == {{0i}}) & ({{1i}} == {{1i}}))"
    return f"({by_real} | (({{0r}} == {{1r}}) & ({{0i}} {relation}= {{1i}})))"


def extreme(relation: str, *, keeps_nan: bool) -> str:
    k = 0 if keeps_nan else 1
    first = f"({ordered(relation)} | ({{{k}r}} != {{{k}r}}) | ({{{k}i}} != {{{k}i}}))"
    return f"tl.where({first}, {{0r}}, {{1r}}); tl.where({first}, {{0i}}, {{1i}})"


BY_FUNCTION = "sqrt exp log sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh log1p expm1 reciprocal sign"

COMPLEX_PRIMITIVES: dict[str, str] = {
    **{name: function_of(name) for name in BY_FUNCTION.split()},
    "exp2": f"npc_complex_exp({{0r}} * {LN2!r}, {{0i}} * {LN2!r})",
    "log2": f"npc_complex_scaled_log({{0r}}, {{0i}}, {LOG2E!r})",
    "log10": f"npc_complex_scaled_log({{0r}}, {{0i}}, {LOG10E!r})",
    **dict.fromkeys(("power", "float_power"), "npc_complex_power({0r}, {0i}, {1r}, {1i})"),
    "maximum": extreme(">", keeps_nan=True),
    "minimum": extreme("<", keeps_nan=True),
    "fmax": extreme(">", keeps_nan=False),
    "fmin": extreme("<", keeps_nan=False),
    "isfinite": '((tl.abs({0r}) < float("inf")) & (tl.abs({0i}) < float("inf")))',
    "isinf": '((tl.abs({0r}) == float("inf")) | (tl.abs({0i}) == float("inf")))',
}

STEPS = {
    "npc_square_error": """
def npc_square_error(a, square):
    # a * a - square, where square is a * a rounded
    c = a * 134217729.0
    high = c - (c - a)
    low = a - high
    return ((high * high - square) + 2 * high * low) + low * low
""",
    "npc_two_sum_error": """
def npc_two_sum_error(a, b, total):
    part = total - a
    return (a - (total - part)) + (b - part)
""",
    "npc_larger_first": """
def npc_larger_first(x, y):
    p = tl.abs(x)
    q = tl.abs(y)
    return tl.where(p > q, p, q), tl.where(p > q, q, p)
""",
    "npc_is_infinite": """
def npc_is_infinite(x, y):
    return (tl.abs(x) == float("inf")) | (tl.abs(y) == float("inf"))
""",
    "npc_hypot": f"""
def npc_hypot(x, y):
    # as exact as the C library's: no more than the last bit, and that seldom
    a, b = npc_larger_first(x.to(tl.float64), y.to(tl.float64))
    scale = tl.where(a > 1e140, {2.0**-600!r}, tl.where(a < 1e-140, {2.0**600!r}, 1.0).to(tl.float64))
    a = a * scale
    b = b * scale
    aa = a * a
    bb = b * b
    total = aa + bb
    errors = npc_two_sum_error(aa, bb, total) + (npc_square_error(a, aa) + npc_square_error(b, bb))
    root = libdevice.sqrt(total)
    square = root * root
    rest = ((total - square) - npc_square_error(root, square)) + errors
    size = tl.where(root == 0, root, root + rest / (2 * root)) / scale
    return tl.where(npc_is_infinite(x, y), float("inf"), size).to(x.dtype)
""",
    "npc_log_of_size": f"""
def npc_log_of_size(x, y):
    # log(abs(z)) of float64: near 1 by the distance from 1, which cancels but for the errors of the squares
    a, b = npc_larger_first(x, y)
    large = a > 1e150
    small = a < 1e-100
    scale = tl.where(large, {2.0**-600!r}, tl.where(small, {2.0**600!r}, 1.0).to(tl.float64))
    shift = tl.full((), {600 * LN2!r}, tl.float64) * (large.to(tl.float64) - small.to(tl.float64))
    a = a * scale
    b = b * scale
    aa = a * a
    bb = b * b
    a_error = npc_square_error(a, aa)
    b_error = npc_square_error(b, bb)
    errors = a_error + b_error
    total = (aa + bb) + errors
    far = 0.5 * libdevice.log(total) + shift
    first = aa - 1
    second = first + bb
    lost = npc_two_sum_error(aa, tl.full((), -1.0, tl.float64), first) + npc_two_sum_error(first, bb, second)
    distance = second + (lost + (errors + npc_two_sum_error(a_error, b_error, errors)))
    near = 0.5 * libdevice.log1p(distance)
    is_near = (scale == 1) & (total > 0.25) & (total < 9)
    return tl.where(npc_is_infinite(x, y), float("inf"), tl.where(is_near, near, far))
""",
    "npc_exp_steps": f"""
def npc_exp_steps(a):
    # exp(a) as a product of three numbers, of which none is infinite; the first is no less than 1 where others are not 1
    bounded = tl.where(a > {3 * HOW_OFTEN}.0, {3 * HOW_OFTEN}.0, a)
    once = bounded > {HOW_OFTEN}
    twice = bounded > {2 * HOW_OFTEN}
    rest = bounded - tl.where(once, {HOW_OFTEN}.0, 0.0) - tl.where(twice, {HOW_OFTEN}.0, 0.0)
    full = tl.full((), {EXP_OF_IT!r}, tl.float64)
    return libdevice.exp(rest), tl.where(once, full, 1.0), tl.where(twice, full, 1.0)
""",
    "npc_sinh_cosh": """
def npc_sinh_cosh(a):
    # both without two factors that they share
    size = tl.abs(a)
    grown, one, two = npc_exp_steps(size)
    is_large = size > 40
    inside = tl.where(is_large, 0.0, a)
    sinh = tl.where(is_large, libdevice.copysign(0.5 * grown, a), libdevice.sinh(inside))
    return sinh, tl.where(is_large, 0.5 * grown, libdevice.cosh(inside)), one, two
""",
    "npc_root": f"""
def npc_root(a, b):
    # of a finite number of float64
    large, _ = npc_larger_first(a, b)
    scale = tl.where(large > 1e300, {2.0**-100!r}, tl.where(large < 1e-200, {2.0**600!r}, 1.0).to(tl.float64))
    back = tl.where(large > 1e300, {2.0**50!r}, tl.where(large < 1e-200, {2.0**-300!r}, 1.0).to(tl.float64))
    p = a * scale
    q = b * scale
    main = libdevice.sqrt(0.5 * (tl.abs(p) + libdevice.hypot(p, q)))
    other = tl.where(main == 0, 0.0, tl.abs(q) / (2 * main))
    real = tl.where(a >= 0, main, other)
    imag = tl.where(a >= 0, other, main)
    return real * back, libdevice.copysign(imag * back, b)
""",
}

ELEMENTARY = {
    "npc_complex_sqrt": """
def npc_complex_sqrt(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    real, imag = npc_root(a, b)
    is_up = tl.abs(a) == float("inf")
    zero = tl.where(b != b, b, 0.0)
    real = tl.where(is_up, tl.where(a > 0, a, zero), real)
    imag = tl.where(is_up, tl.where(a > 0, libdevice.copysign(zero, b), libdevice.copysign(tl.abs(a), b)), imag)
    is_side = tl.abs(b) == float("inf")
    real = tl.where(is_side, tl.abs(b), real)
    return real.to(x.dtype), tl.where(is_side, b, tl.where((b == 0) & (a >= 0), b, imag)).to(x.dtype)
""",
    "npc_complex_exp": """
def npc_complex_exp(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    grown, one, two = npc_exp_steps(a)
    real = libdevice.cos(b) * one * two * grown
    imag = tl.where(b == 0, b, libdevice.sin(b) * one * two * grown)
    has_angle = tl.abs(b) < float("inf")
    real = tl.where(has_angle | (tl.abs(a) < float("inf")) | (a != a), real, tl.where(a > 0, a, 0.0))
    imag = tl.where(has_angle | (a != -float("inf")), imag, libdevice.copysign(tl.zeros_like(b), b))
    return real.to(x.dtype), imag.to(x.dtype)
""",
    "npc_complex_log": """
def npc_complex_log(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    return npc_log_of_size(a, b).to(x.dtype), libdevice.atan2(b, a).to(x.dtype)
""",
    "npc_complex_scaled_log": """
def npc_complex_scaled_log(x, y, factor):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    return (npc_log_of_size(a, b) * factor).to(x.dtype), (libdevice.atan2(b, a) * factor).to(x.dtype)
""",
    # NumPy's formula: what it rounds away near 0 is lost there too
    "npc_complex_log1p": """
def npc_complex_log1p(x, y):
    a = x + 1
    size = npc_hypot(a, y).to(tl.float64)
    return libdevice.log(size).to(x.dtype), libdevice.atan2(y.to(tl.float64), a.to(tl.float64)).to(x.dtype)
""",
    "npc_complex_expm1": """
def npc_complex_expm1(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    half = libdevice.sin(0.5 * b).to(x.dtype)
    real = libdevice.expm1(a).to(x.dtype) * libdevice.cos(b).to(x.dtype) - 2 * half * half
    return real, libdevice.exp(a).to(x.dtype) * libdevice.sin(b).to(x.dtype)
""",
    "npc_complex_sinh": """
def npc_complex_sinh(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    sinh, cosh, one, two = npc_sinh_cosh(a)
    real = libdevice.cos(b) * one * two * sinh
    imag = tl.where(b == 0, b, libdevice.sin(b) * one * two * cosh)
    has_angle = tl.abs(b) < float("inf")
    real = tl.where(has_angle, real, tl.where(a == 0, a, tl.where(tl.abs(a) == float("inf"), tl.abs(a), real)))
    return real.to(x.dtype), imag.to(x.dtype)
""",
    "npc_complex_cosh": """
def npc_complex_cosh(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    sinh, cosh, one, two = npc_sinh_cosh(a)
    real = libdevice.cos(b) * one * two * cosh
    imag = tl.where((b == 0) & (a != a), b, libdevice.sin(b) * one * two * sinh)
    has_angle = tl.abs(b) < float("inf")
    real = tl.where(has_angle | (tl.abs(a) != float("inf")), real, tl.abs(a))
    return real.to(x.dtype), tl.where(has_angle | (a != 0), imag, 0.0).to(x.dtype)
""",
    "npc_complex_sin": """
def npc_complex_sin(x, y):
    imag, real = npc_complex_sinh(y, x)
    return real, imag
""",
    "npc_complex_cos": """
def npc_complex_cos(x, y):
    return npc_complex_cosh(y * -1.0, x)
""",
    "npc_complex_tanh": f"""
def npc_complex_tanh(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    sin = libdevice.sin(b)
    cos = libdevice.cos(b)
    size = tl.abs(a)
    is_small = size < 1
    sinh = libdevice.sinh(tl.where(is_small, size, 0.0))
    cosh = libdevice.cosh(tl.where(is_small, size, 0.0))
    square = sinh * sinh + cos * cos
    # Multiplied by exp(-2 abs(x)), in two steps where that is subnormal, the errors of the larger terms go.
    is_large = size > 300
    less = libdevice.exp(tl.where(is_large, 600.0, 0.0) - 2 * size)
    back = tl.where(is_large, tl.full((), {EXP_OF_MINUS_600!r}, tl.float64), 1.0)
    far = less * back
    far_square = (1 - far) * (1 - far) + 4 * far * (cos * cos)
    real = libdevice.copysign(tl.where(is_small, sinh * cosh / square, (1 - far * far) / far_square), a)
    imag = tl.where(is_small, sin * cos / square, 4 * (sin * cos / far_square) * less * back)
    has_angle = tl.abs(b) < float("inf")
    is_endless = size == float("inf")
    real = tl.where(a == 0, a, tl.where(is_endless, libdevice.copysign(tl.zeros_like(a) + 1, a), real))
    imag = tl.where(has_angle | (is_endless == 0), imag, libdevice.copysign(tl.zeros_like(b), b))
    return real.to(x.dtype), tl.where((a != a) & (b == 0), b, imag).to(x.dtype)
""",
    "npc_complex_tan": """
def npc_complex_tan(x, y):
    imag, real = npc_complex_tanh(y, x)
    return real, imag
""",
}

# The roots of 1 + z and 1 - z, whose products do not cancel. Beyond 2**30 the numbers added to them are lost.
INVERSE = {
    "npc_roots_around": """
def npc_roots_around(a, b):
    # of 1 + z and 1 - z, of z that is not large
    large, _ = npc_larger_first(a, b)
    is_large = (large > 1073741824) | npc_is_infinite(a, b)
    p = tl.where(is_large, 0.0, a)
    q = tl.where(is_large, 0.0, b)
    p_real, p_imag = npc_root(1 + p, q)
    n_real, n_imag = npc_root(1 - p, q * -1.0)
    return is_large, p_real, p_imag, n_real, n_imag
""",
    "npc_complex_arcsin": f"""
def npc_complex_arcsin(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    is_large, p_real, p_imag, n_real, n_imag = npc_roots_around(a, b)
    far = libdevice.copysign(npc_log_of_size(a, b) + {LN2!r}, b)
    real = libdevice.atan2(a, tl.where(is_large, tl.abs(b), p_real * n_real - p_imag * n_imag))
    imag = tl.where(is_large, far, libdevice.asinh(n_real * p_imag - n_imag * p_real))
    return tl.where(a == 0, a, real).to(x.dtype), tl.where(b == 0, libdevice.copysign(imag, b), imag).to(x.dtype)
""",
    "npc_complex_arccos": f"""
def npc_complex_arccos(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    is_large, p_real, p_imag, n_real, n_imag = npc_roots_around(a, b)
    far = libdevice.copysign(npc_log_of_size(a, b) + {LN2!r}, b) * -1.0
    real = tl.where(is_large, libdevice.atan2(tl.abs(b), a), 2 * libdevice.atan2(n_real, p_real))
    imag = tl.where(is_large, far, libdevice.asinh(p_real * n_imag - p_imag * n_real))
    return tl.where((a == 0) & (b != b), {PI_2!r}, real).to(x.dtype), imag.to(x.dtype)
""",
    "npc_complex_arcsinh": """
def npc_complex_arcsinh(x, y):
    imag, real = npc_complex_arcsin(y, x)
    return real, imag
""",
    "npc_complex_arccosh": """
def npc_complex_arccosh(x, y):
    angle, size = npc_complex_arccos(x, y)
    return tl.abs(size), libdevice.copysign(angle, y)
""",
    "npc_complex_arctanh": f"""
def npc_complex_arctanh(x, y):
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    size = tl.abs(a)
    large, _ = npc_larger_first(a, b)
    is_large = (large > {2.0**58!r}) | npc_is_infinite(a, b)
    p = tl.where(is_large, 0.0, size)
    q = tl.where(is_large, 0.0, b)
    # near 1 the square of the distance may vanish
    is_pole = (p == 1) & (tl.abs(q) < 1e-150)
    near = 0.25 * libdevice.log1p(4 * p / ((1 - p) * (1 - p) + q * q))
    half = libdevice.hypot(0.5 * size, 0.5 * b)
    far = tl.where(npc_is_infinite(a, b), 0.0, size / half / half * 0.25)
    real = tl.where(is_large, far, tl.where(is_pole, 0.5 * ({LN2!r} - libdevice.log(tl.abs(q))), near))
    angle = 0.5 * libdevice.atan2(2 * q, (1 - p) * (1 + p) - q * q)
    right = libdevice.copysign(tl.zeros_like(b) + {PI_2!r}, b)
    has_none = (b != b) & (size != 0) & (size != float("inf"))
    real = tl.where(size == 0, size, tl.where(has_none, b, real))
    has_no_angle = (b != b) | ((a != a) & (tl.abs(b) != float("inf")))
    imag = tl.where(is_large, tl.where(has_no_angle, a + b, right), angle)
    return libdevice.copysign(real, a).to(x.dtype), imag.to(x.dtype)
""",
    "npc_complex_arctan": """
def npc_complex_arctan(x, y):
    imag, real = npc_complex_arctanh(y, x)
    return real, imag
""",
}

ALGEBRAIC = {
    "npc_complex_reciprocal": """
def npc_complex_reciprocal(x, y):
    # Smith's algorithm, as numpy/_core/src/umath/loops.c.src has it
    is_real = tl.abs(y) <= tl.abs(x)
    large = tl.where(is_real, x, y)
    small = tl.where(is_real, y, x)
    ratio = npc_divide(small, large)
    scale = large + small * ratio
    one = tl.full((), 1.0, x.dtype)
    direct = npc_divide(one, scale)
    turned = npc_divide(ratio, scale)
    return tl.where(is_real, direct, turned), tl.where(is_real, turned, direct) * -1.0
""",
    "npc_complex_sign": """
def npc_complex_sign(x, y):
    # where the absolute value overflows, the part that is infinite counts, and the imaginary part where none is
    size = npc_hypot(x, y)
    zero = tl.zeros_like(x)
    real = tl.where(size == 0, zero, npc_divide(x, size))
    imag = tl.where(size == 0, zero, npc_divide(y, size))
    is_up = tl.abs(x) == float("inf")
    none = zero + float("nan")
    both = tl.where(is_up & (tl.abs(y) == float("inf")), none, zero)
    is_large = size == float("inf")
    real = tl.where(is_large, tl.where(is_up, libdevice.copysign(zero + 1, x), zero) + both, real)
    imag = tl.where(is_large, tl.where(is_up, zero, libdevice.copysign(zero + 1, y)) + both, imag)
    return tl.where(size != size, none, real), tl.where(size != size, none, imag)
""",
    "npc_complex_product": """
def npc_complex_product(a, b, c, d):
    return a * c - b * d, a * d + b * c
""",
    "npc_complex_whole_power": """
def npc_complex_whole_power(x, y, exponent):
    # products that are rounded one by one
    count = tl.abs(exponent).to(tl.int32)
    two_real, two_imag = npc_complex_product(x, y, x, y)
    three_real, three_imag = npc_complex_product(x, y, two_real, two_imag)
    square_real = tl.where(exponent == exponent, x, x)  # one of them may be a scalar
    square_imag = tl.where(exponent == exponent, y, y)
    real = tl.zeros_like(square_real) + 1
    imag = tl.zeros_like(square_real)
    for _ in range(7):
        next_real, next_imag = npc_complex_product(real, imag, square_real, square_imag)
        real = tl.where((count & 1) != 0, next_real, real)
        imag = tl.where((count & 1) != 0, next_imag, imag)
        square_real, square_imag = npc_complex_product(square_real, square_imag, square_real, square_imag)
        count = count >> 1
    one = tl.full((), 1.0, x.dtype)
    below_real, below_imag = npc_complex_divide(one, one * 0, real, imag)
    real = tl.where(exponent < 0, below_real, real)
    imag = tl.where(exponent < 0, below_imag, imag)
    real = tl.where(exponent == 1, x, tl.where(exponent == 2, two_real, tl.where(exponent == 3, three_real, real)))
    imag = tl.where(exponent == 1, y, tl.where(exponent == 2, two_imag, tl.where(exponent == 3, three_imag, imag)))
    return real, imag
""",
    "npc_boxed": """
def npc_boxed(x, is_boxed, is_found):
    box = libdevice.copysign(tl.where(tl.abs(x) == float("inf"), 1.0, 0.0).to(x.dtype), x)
    return tl.where(is_boxed | (is_found & (x != x)), box, x)
""",
    "npc_complex_infinite_product": """
def npc_complex_infinite_product(a, b, c, d):
    # as C99's Annex G has it: infinities of which the sums of the products make NaN are found again
    real, imag = npc_complex_product(a, b, c, d)
    is_first = npc_is_infinite(a, b)
    is_second = npc_is_infinite(c, d)
    is_found = is_first | is_second | npc_is_infinite(a * c, b * d) | npc_is_infinite(a * d, b * c)
    a = npc_boxed(a, is_first, is_found)
    b = npc_boxed(b, is_first, is_found)
    c = npc_boxed(c, is_second, is_found)
    d = npc_boxed(d, is_second, is_found)
    found_real, found_imag = npc_complex_product(a, b, c, d)
    is_lost = (real != real) & (imag != imag) & is_found
    return tl.where(is_lost, float("inf") * found_real, real), tl.where(is_lost, float("inf") * found_imag, imag)
""",
    # npy_cpow of numpy/_core/src/npymath/npy_math_complex.c.src, with the steps of the C library's cpow, each rounded as there.
    # Where the exponent is a constant, the compiler keeps what it needs of them.
    "npc_complex_power": """
def npc_complex_power(x, y, c, d):
    is_small = (d == 0) & (tl.abs(c) < 100)
    small = tl.where(is_small, c, 0.0).to(x.dtype)
    is_whole = is_small & (small.to(tl.int32).to(x.dtype) == small)
    whole_real, whole_imag = npc_complex_whole_power(x, y, small)
    size, angle = npc_complex_log(x, y)
    size, angle = npc_complex_infinite_product(c, d, size, angle)
    real, imag = npc_complex_exp(size, angle)
    real = tl.where(is_whole, whole_real, real)
    imag = tl.where(is_whole, whole_imag, imag)
    is_zero = (x == 0) & (y == 0)
    at_zero = tl.where(c > 0, 0.0, float("nan"))
    is_one = (c == 0) & (d == 0)
    real = tl.where(is_one, 1.0, tl.where(is_zero, at_zero, real))
    return real.to(x.dtype), tl.where(is_one, 0.0, tl.where(is_zero, at_zero, imag)).to(x.dtype)
""",
}

COMPLEX_FUNCTIONS = STEPS | ELEMENTARY | INVERSE | ALGEBRAIC
