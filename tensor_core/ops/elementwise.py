"""One number to one number: NumPy's ufuncs, casts and `where`.

Every operand of an elementwise node already has the result's shape and the dtype of the ufunc's inner loop: the maker
inserts `broadcast_to` and `cast`. The loop is found by `ufunc.resolve_dtypes`, so NEP 50 is NumPy's own.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.meta import TensorMeta, keep_order_strides
from npcompile.tensor_core.op import OPS, Cost, Op, Parts, Reads, Silent, Value, row
from npcompile.tensor_core.squares import is_sum_of_squares

Interval = tuple[float, float]
LOG_2, LOG_10 = math.log(2), math.log(10)


def elementwise(
    function: Callable,
    vjp: Callable | None = None,
    domain: Interval = (-9, 9),
    *,
    loops: np.ufunc | None = None,
    decomposition: Callable | None = None,
    inexact: str = "",
    cost: Cost | None = None,
    silent: Silent = Silent.NEVER,
    singular: bool = False,
    chooses: bool = False,
) -> Op:
    """A row for a ufunc with one output, or for a function that is written with such: that is the whole of adding it.

    `loops` is the ufunc whose dtypes a function takes and gives, and `decomposition` the function of Values. `domain` is where
    sample operands lie.

    >>> elementwise(lambda x: np.log(np.cosh(x)), loops=np.exp, decomposition=lambda x: x.cosh().log())
    """
    ufunc = loops if loops is not None else function
    assert isinstance(ufunc, np.ufunc), function

    def meta(*xs: TensorMeta) -> TensorMeta:
        *loop, out = ufunc.resolve_dtypes((*(x.dtype for x in xs), None))
        assert all(x.dtype == dtype for x, dtype in zip(xs, loop)), f"{function.__name__} of {[x.dtype.name for x in xs]}"
        return TensorMeta(xs[0].shape, out, keep_order_strides(xs[0].shape, out.itemsize, xs))

    def eager(*xs: np.ndarray) -> np.ndarray:
        return np.asarray(powers(*xs) if function is np.power else function(*xs))  # without it 0-D arrays would become scalars

    def samples(dtype: np.dtype, rng: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
        return [tuple(sample(dtype, rng, domain) for _ in range(ufunc.nin))]

    name = function.__name__
    cost = cost or (Cost.MODERATE if decomposition is None else Cost.FUNCTION)
    known = {"loops": ufunc, "decomposition": decomposition, "inexact": inexact, "cost": cost, "silent": silent}
    known |= {"singular": singular, "chooses": chooses}
    return OPS.add(Op(name, "elementwise", meta, eager, vjp, function, samples=samples, **known))


def powers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """np.power, and no root where its loops see one exponent, 0.5, and would take that: makers of nodes ask for "sqrt"."""
    out = np.power(x, y)
    if y.dtype.kind == "f" and (np.ndim(y) == 0 or 0 in y.strides):
        out, is_half = np.asarray(out), np.equal(y, 0.5)
        out[is_half & (x == 0)] = 0.0
        out[is_half & (x == -np.inf)] = np.inf
    return out


def sample(dtype: np.dtype, rng: np.random.Generator, domain: Interval, size: int = 17) -> np.ndarray:
    """Numbers of `dtype` spread over `domain`."""
    low, high = domain
    if dtype.kind == "c":
        return (rng.uniform(low, high, size) + 1j * rng.uniform(low, high, size)).astype(dtype)
    if dtype.kind == "u":
        low = max(low, 0)
    return rng.uniform(low, high, size).astype(dtype)


# --- derivatives: (g, out, *operands) -> what each operand gets of g; docs/gradients.md has the conventions


def flat(g: Value, out: Value, *xs: Value) -> Parts:
    """Steps: the derivative is zero wherever there is one."""
    return (None,) * len(xs)


def of_divide(g: Value, out: Value, x: Value, y: Value) -> Parts:
    part = g / y
    return part, lambda: -part * out


def of_remainder(g: Value, out: Value, x: Value, y: Value) -> Parts:
    """out = x - n * y with n constant between jumps, whichever way the quotient is rounded."""
    return g, lambda: g * ((out - x) / y).op("rint")


def of_power(g: Value, out: Value, x: Value, y: Value) -> Parts:
    def of_base():
        n = constant_of(y)
        if n is None:
            # 0 * x ** -1 is zero too where x is.
            exponent = (x.equals(0) & y.equals(0)).where(1, y) - 1
            return unless_flat(x, x, g * (y * x**exponent))
        if n in (0, 1):
            return g if n == 1 else None
        part = g * (raised(x, n - 1) * n)
        return unless_flat(x, x, part) if n.real < 1 else part

    # Masked before the logarithm: compilers do not vectorize calls that only one branch needs.
    return of_base, lambda: g * (out * x.equals(0).where(1, x).log())


def unless_flat(x: Value, at: Value, part: Value) -> Value:
    """The gradient of a root of x. Of one of a sum of squares, such as a norm, it is 0 where that is 0, as `at` is."""
    return at.equals(0).where(0, part) if is_sum_of_squares(x.node) else part


def raised(x: Value, n: Any) -> Value:
    """x**n, by products where n is a small whole number."""
    if n not in range(1, 9):
        return x**n
    n = int(n.real)
    half = raised(x, n // 2) if n > 1 else None
    return x if half is None else half * half * x if n % 2 else half * half


def constant_of(x: Value) -> Any:
    """The number that all elements of `x` are known to be, or None."""
    node = x.node
    while node.op == "broadcast_to":
        (node,) = node.inputs
    return node.params["value"] if node.op == "constant" else None


def of_absolute(g: Value, out: Value, x: Value) -> Parts:
    if x.dtype.kind != "c":
        return g * x.sign()
    size = out.equals(0).where(1, out)
    return (g * (x.real() / size)).op("complex", -g * (x.imag() / size))


def of_sign(g: Value, out: Value, x: Value) -> Parts:
    """For complex x, where out is x / |x|, what moves x around the circle: not holomorphic."""
    if x.dtype.kind != "c":
        return None
    size = x.absolute().cast(x.dtype)
    is_zero = size.equals(0)
    around = (g - (g * out * out).conjugate()) / (is_zero.where(1, size) * 2)
    return is_zero.where(0, around)


def of_extreme(skips_nan: bool) -> Callable:
    """g to the operand that was taken, half to each of two equal ones. NaN is taken as any number is."""

    def rule(g: Value, out: Value, x: Value, y: Value) -> Parts:
        def part(v, other):
            # Chosen one after the other: compilers do not vectorize the equivalent logic.
            nan, other_nan = ((out if skips_nan else each).isnan() for each in (v, other))
            if_nan = nan.where(other_nan.where(g * 0.5, g), 0)
            return v.equals(out).where(other.equals(out).where(g * 0.5, g), if_nan)

        return lambda: part(x, y), lambda: part(y, x)

    return rule


def of_log_of_sum(exponential: str, log_of_half: float) -> Callable:
    """The share of each operand in the sum, in logarithms: no exponential overflows."""

    def rule(g: Value, out: Value, x: Value, y: Value) -> Parts:
        def share(v: Value) -> Value:
            # Infinity less itself is NaN: an infinite operand that is the result is all of it, or half.
            infinite = x.equals(y).where(log_of_half, v.zeros())
            return (out.isfinite() | ~v.equals(out)).where(v - out, infinite).op(exponential)

        return lambda: g * share(x), lambda: g * share(y)

    return rule


def of_arctan2(g: Value, out: Value, y: Value, x: Value) -> Parts:
    radius = x.op("hypot", y)  # the sum of squares would overflow
    return lambda: g / radius * (x / radius), lambda: -g / radius * (y / radius)


def of_hypot(g: Value, out: Value, x: Value, y: Value) -> Parts:
    size = out.equals(0).where(1, out)
    return lambda: g * (x / size), lambda: g * (y / size)


def of_arcsinh(g: Value, out: Value, x: Value) -> Parts:
    return g / ((x * x + 1).sqrt() if x.dtype.kind == "c" else x.op("hypot", 1))


def of_copysign(g: Value, out: Value, x: Value, y: Value) -> Parts:
    return x.op("signbit").equals(y.op("signbit")).where(g, -g), None


# One row for every ufunc of numbers with one output. Those with two (divmod, modf, frexp) are written with these.

SMOOTH: dict[np.ufunc, Callable] = {
    np.add: lambda g, out, x, y: (g, g),
    np.subtract: lambda g, out, x, y: (g, lambda: -g),
    np.multiply: lambda g, out, x, y: (lambda: g * y, lambda: g * x),
    np.divide: of_divide,
    np.remainder: of_remainder,
    np.fmod: of_remainder,
    np.negative: lambda g, out, x: -g,
    np.positive: lambda g, out, x: g,
    np.absolute: of_absolute,
    np.fabs: of_absolute,
    np.sign: of_sign,
    np.square: lambda g, out, x: g * (x + x),
    np.reciprocal: lambda g, out, x: -g * out * out,
    np.conjugate: lambda g, out, x: g.conjugate(),
    np.heaviside: lambda g, out, x, y: (None, lambda: x.equals(0).where(g, 0)),
    np.maximum: of_extreme(skips_nan=False),
    np.minimum: of_extreme(skips_nan=False),
    np.fmax: of_extreme(skips_nan=True),
    np.fmin: of_extreme(skips_nan=True),
    np.exp: lambda g, out, x: g * out,
    np.exp2: lambda g, out, x: g * (out * LOG_2),
    np.expm1: lambda g, out, x: g * x.exp(),
    np.log: lambda g, out, x: g / x,
    np.log2: lambda g, out, x: g / (x * LOG_2),
    np.log10: lambda g, out, x: g / (x * LOG_10),
    np.log1p: lambda g, out, x: g / (x + 1),
    np.logaddexp: of_log_of_sum("exp", -LOG_2),
    np.logaddexp2: of_log_of_sum("exp2", -1),
    np.power: of_power,
    np.float_power: of_power,
    np.sqrt: lambda g, out, x: unless_flat(x, out, g / (out + out)),
    np.cbrt: lambda g, out, x: g / (out * out * 3),
    np.hypot: of_hypot,
    np.sin: lambda g, out, x: g * x.cos(),
    np.cos: lambda g, out, x: -g * x.sin(),
    np.tan: lambda g, out, x: g * (out * out + 1),
    np.arcsin: lambda g, out, x: g / ((1 - x) * (1 + x)).sqrt(),
    np.arccos: lambda g, out, x: -g / ((1 - x) * (1 + x)).sqrt(),
    np.arctan: lambda g, out, x: g / (x * x + 1),
    np.arctan2: of_arctan2,
    np.sinh: lambda g, out, x: g * x.cosh(),
    np.cosh: lambda g, out, x: g * x.sinh(),
    np.tanh: lambda g, out, x: (g + g * out) * (1 - out),
    np.arcsinh: of_arcsinh,
    np.arccosh: lambda g, out, x: g / ((x - 1).sqrt() * (x + 1).sqrt()),
    np.arctanh: lambda g, out, x: g / ((1 - x) * (1 + x)),
    np.degrees: lambda g, out, x: g.op("degrees"),
    np.radians: lambda g, out, x: g.op("radians"),
    np.rad2deg: lambda g, out, x: g.op("rad2deg"),
    np.deg2rad: lambda g, out, x: g.op("deg2rad"),
    np.copysign: of_copysign,
    np.nextafter: lambda g, out, x, y: (g, None),
    np.ldexp: lambda g, out, x, exponent: (g.op("ldexp", exponent), None),
}
PIECEWISE_CONSTANT = (np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.spacing)
# These give, or take, booleans and integers only: there is nothing to differentiate.
COMPARISON = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
LOGIC = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.isfinite, np.isinf, np.isnan, np.signbit)
BITS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.bitwise_count, np.left_shift, np.right_shift)
DIVISORS = (np.gcd, np.lcm)

# Defined, or real, on a part of the numbers only.
RESTRICTED: dict[np.ufunc, Interval] = {
    np.sqrt: (0, 9),
    np.log: (0.1, 9),
    np.log2: (0.1, 9),
    np.log10: (0.1, 9),
    np.log1p: (-0.9, 9),
    np.power: (0, 5),
    np.float_power: (0, 5),
    np.arcsin: (-1, 1),
    np.arccos: (-1, 1),
    np.arctanh: (-0.9, 0.9),
    np.arccosh: (1, 9),
    np.left_shift: (0, 7),
    np.right_shift: (0, 7),
}

EXPONENTIAL = (np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.power, np.float_power, np.cbrt, np.hypot)
CIRCULAR = (np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2)
HYPERBOLIC = (np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh)
# The letters of the dtypes of which the last bits may not be NumPy's.
INEXACT: dict[np.ufunc, str] = {
    **dict.fromkeys((*EXPONENTIAL, *CIRCULAR, *HYPERBOLIC), "efdFD"),
    **dict.fromkeys((np.logaddexp, np.logaddexp2), "efdg"),
    **dict.fromkeys((np.degrees, np.radians, np.rad2deg, np.deg2rad), "efd"),
    **dict.fromkeys((np.multiply, np.divide, np.square, np.reciprocal, np.absolute, np.sqrt), "FD"),  # fused, or scaled
    **dict.fromkeys((np.fmax, np.fmin), "fd"),  # which of two zeros: in NumPy their places in the array decide
}
ARITHMETIC = (np.add, np.subtract, np.multiply, np.negative, np.positive, np.absolute, np.fabs, np.square, np.conjugate, np.sign)
EXTREMES = (np.maximum, np.minimum, np.fmax, np.fmin)
TESTS = (np.isfinite, np.isinf, np.isnan, np.signbit)
QUICK_LOGIC = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
QUICK_BITS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.copysign)
ROUNDING = (np.floor, np.ceil, np.trunc, np.rint)
WHOLE_QUOTIENTS = (np.fmod, np.remainder, np.floor_divide, np.gcd, np.lcm)
COSTS: dict[np.ufunc, Cost] = {
    **dict.fromkeys((*ARITHMETIC, *EXTREMES, *COMPARISON, *TESTS, *QUICK_LOGIC, *QUICK_BITS, *ROUNDING), Cost.QUICK),
    **dict.fromkeys((np.divide, np.reciprocal, np.sqrt), Cost.DIVISION),
    **dict.fromkeys((*EXPONENTIAL, *CIRCULAR, *HYPERBOLIC, np.logaddexp, np.logaddexp2, *WHOLE_QUOTIENTS), Cost.FUNCTION),
}
SILENT: dict[np.ufunc, Silent] = {
    **dict.fromkeys((np.negative, np.positive, np.conjugate, np.copysign), Silent.ALWAYS),
    **dict.fromkeys((np.equal, np.not_equal, np.logical_and, np.logical_or), Silent.ALWAYS),
    **dict.fromkeys(TESTS, Silent.ALWAYS),
    **dict.fromkeys((np.absolute, np.fabs, np.sign, np.maximum, np.minimum, np.fmax, np.fmin), Silent.REAL),
    **dict.fromkeys((np.less, np.less_equal, np.greater, np.greater_equal), Silent.REAL),
}
# Finite where their slopes are infinite, or NaN.
SINGULAR = (np.sqrt, np.cbrt, np.power, np.float_power, np.arcsin, np.arccos, np.arccosh, np.arctan2)
CHOOSING = (*EXTREMES, np.absolute, np.fabs, np.heaviside)
DERIVATIVES = SMOOTH | dict.fromkeys(PIECEWISE_CONSTANT, flat) | dict.fromkeys(COMPARISON + LOGIC + BITS + DIVISORS)
for ufunc, rule in DERIVATIVES.items():
    domain, inexact, silent = RESTRICTED.get(ufunc, (-9, 9)), INEXACT.get(ufunc, ""), SILENT.get(ufunc, Silent.NEVER)
    columns: dict[str, Any] = {"singular": ufunc in SINGULAR, "chooses": ufunc in CHOOSING}
    elementwise(ufunc, rule, domain, inexact=inexact, cost=COSTS.get(ufunc), silent=silent, **columns)


MOVED: dict[str, Any] = {"cost": Cost.QUICK, "silent": Silent.ALWAYS, "reads": Reads.NOTHING}  # what only moves numbers


@row(
    "elementwise",
    eager=lambda x, *, dtype: np.asarray(x).astype(dtype),
    vjp=lambda g, out, x, *, dtype: g.cast(x.dtype),
    cost=Cost.QUICK,
    reads=Reads.NOTHING,
)
def cast(x: TensorMeta, *, dtype):
    """astype(dtype, casting='unsafe')."""
    return TensorMeta(x.shape, dtype, keep_order_strides(x.shape, dtype.itemsize, [x]))


def eager_laid_out(x: np.ndarray, *, strides: tuple[int, ...]) -> np.ndarray:
    if x.strides == strides or x.ndim != len(strides) or not x.size:  # single numbers lie nowhere
        return np.asarray(x)
    reach = [(n - 1) * stride for n, stride in zip(x.shape, strides)]
    first = -sum(min(r, 0) for r in reach)
    memory = np.empty(first + sum(max(r, 0) for r in reach) + x.itemsize, np.uint8)
    made = np.ndarray(x.shape, x.dtype, memory, first, strides)
    made[...] = x
    return made


@row("elementwise", eager=eager_laid_out, vjp=lambda g, out, x, *, strides: g, **MOVED)
def laid_out(x: TensorMeta, *, strides):
    """x as NumPy has it in memory, where that is another order than x's own, as after a copy: sums follow it."""
    return x.with_(strides=strides)


@row(
    "elementwise",
    eager=np.where,
    numpy=np.where,
    vjp=lambda g, out, condition, x, y: (None, lambda: condition.where(g, 0), lambda: condition.where(0, g)),
    chooses=True,
    **MOVED,
)
def where(condition: TensorMeta, x: TensorMeta, y: TensorMeta):
    """condition is bool; x and y have one dtype."""
    assert condition.dtype == np.bool_ and x.dtype == y.dtype
    return TensorMeta(x.shape, x.dtype, keep_order_strides(x.shape, x.dtype.itemsize, [condition, x, y]))


@row("elementwise", eager=lambda x: np.asarray(x).real, vjp=lambda g, out, x: g.cast(x.dtype), **MOVED)
def real(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


def of_imag(g: Value, out: Value, x: Value) -> Parts:
    """-i * g."""
    return g.zeros().op("complex", -g) if x.dtype.kind == "c" else None


@row("elementwise", eager=lambda x: np.asarray(x).imag, vjp=of_imag, **MOVED)
def imag(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


def eager_complex(re, im):
    out = np.empty(re.shape, np.result_type(re, np.complex64))
    out.real, out.imag = re, im  # re + 1j * im would lose infinities and signs of zero
    return out


@row(
    "elementwise",
    eager=eager_complex,
    vjp=lambda g, out, re, im: (lambda: g.real().cast(re.dtype), lambda: -g.imag().cast(im.dtype)),
    **MOVED,
)
def complex_(re: TensorMeta, im: TensorMeta):
    assert re.dtype == im.dtype and re.dtype.kind == "f"
    return TensorMeta(re.shape, np.result_type(re.dtype, np.complex64))


@row("elementwise", eager=lambda x, *, dtype: np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype), **MOVED)
def bitcast(x: TensorMeta, *, dtype):
    """The same bits read as another dtype of the same size."""
    assert x.dtype.itemsize == dtype.itemsize
    return TensorMeta(x.shape, dtype)
