"""Derivatives of scipy.special's ufuncs: a row makes a function differentiable. What computes it is SciPy.

Rules are those of the op table, (g, out, *operands), on operands of one shape; `out` and `g` of functions with several
results are tuples. SciPy is never imported here: whoever calls its function has done so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np

from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.meta import TensorMeta, keep_order_strides
from npcompile.tensor_core.op import OPS, Cost, Op, Parts, Silent, Value

PI, ROOT_PI, ROOT_2_PI, DEGREE = math.pi, math.sqrt(math.pi), math.sqrt(2 * math.pi), math.pi / 180
LOG_2, LOG_10 = math.log(2), math.log(10)
Rule = Callable[..., Parts]


def function_of(name: str) -> np.ufunc | None:
    """SciPy's ufunc of that name, if SciPy is imported. Some are called by functions in Python that have their name."""
    for module in ("scipy.special", "scipy.special._ufuncs"):
        found = getattr(sys.modules.get(module), name, None)
        if isinstance(found, np.ufunc):
            return found
    return None


def may_warn(function: np.ufunc) -> bool:
    """Is it SciPy's, and has the user asked SciPy to warn of singularities and the like, on the line that calls it?"""
    return function_of(function.__name__) is function and "warn" in sys.modules["scipy.special"].geterr().values()


def has_form(node: Node) -> bool:
    """Is it a call of SciPy's ufunc for which there is a row of that name, so that a backend may compute it otherwise?"""
    function, loop = node.params["function"], node.params["loop"]
    if function.__name__ not in FORMS or function_of(function.__name__) is not function:
        return False
    return loop[0].char in "fd" and all(x.dtype == loop[0] for x in node.inputs)


def rule_of(function: np.ufunc) -> Rule | None:
    """How a ufunc is differentiated; None if it is not SciPy's, or has no row."""
    rule = DERIVATIVES.get(function.__name__)
    return rule if rule is not None and function_of(function.__name__) is function else None


def call(name: str, *xs: Value | float) -> Value:
    """Another function of scipy.special; numbers are repeated to the shape of the first Value."""
    function = function_of(name)
    if function is None:
        raise Decline(f"a derivative needs scipy.special's {name}")
    like = next(x for x in xs if not isinstance(x, float))
    operands = [like.like(x) for x in xs]
    try:
        loop = function.resolve_dtypes((*(x.dtype for x in operands), *(None,) * function.nout))
    except TypeError as error:
        raise Decline(f"a derivative needs {name}: {error}") from None
    operands = [x.cast(dtype) for x, dtype in zip(operands, loop)]
    nodes = (x.node for x in operands)
    made = like.of(like.builder.apply("ufunc", *nodes, function=function, loop=tuple(loop), is_asked_for=False))
    return made.cast(like.dtype)


def unknown(what: str) -> Callable[[], Value]:
    """A part that is asked for where it is needed, and that there is no formula for."""

    def part() -> Value:
        raise Decline(f"scipy.special has no function for the derivative with respect to {what}")

    return part


def safe(x: Value, at: float = 0) -> Value:
    """x, and 1 beside the point `at`, where a quotient has a limit."""
    return x.equals(at).where(at + 1, x)


def quotient(top: Value, x: Value, limit: float) -> Value:
    """top / x, and its limit where x is 0."""
    return x.equals(0).where(limit, top / safe(x))


def bell(x: Value) -> Value:
    """The density of the normal distribution."""
    return (x * x * -0.5).exp() / ROOT_2_PI


def each(g: tuple[Value | None, ...], *derivatives: Callable[[], Value]) -> Value:
    """Of a function of one number with several results."""
    parts = [part * derivative() for part, derivative in zip(g, derivatives, strict=True) if part is not None]
    return sum(parts[1:], parts[0])


def around(name: str, v: Value, x: Value, follows: float = 1) -> Value:
    """(f(v - 1, x) + follows * f(v + 1, x)) / 2 of a Bessel function."""
    return (call(name, v - 1, x) + call(name, v + 1, x) * follows) * 0.5


def of_order(name: str, sign: float, follows: float) -> Rule:
    return lambda g, out, v, x: (unknown("the order"), lambda: g * (around(name, v, x, follows) * sign))


def of_log_product(log: Callable[[Value], Value], inside: Callable[[Value], Value]) -> Rule:
    """x * log(y), which is 0 for all y where x is 0."""

    def rule(g: Value, out: Value, x: Value, y: Value) -> Parts:
        return lambda: g * log(y), lambda: g * (x / x.equals(0).where(1, inside(y)))

    return rule


def of_gamma_part(sign: float) -> Rule:
    def rule(g: Value, out: Value, a: Value, x: Value) -> Parts:
        return unknown("a"), lambda: g * (call("xlogy", a - 1, x) - x - call("gammaln", a)).exp() * sign

    return rule


def of_beta_part(sign: float) -> Rule:
    def rule(g: Value, out: Value, a: Value, b: Value, x: Value) -> Parts:
        density = lambda: call("xlogy", a - 1, x) + call("xlog1py", b - 1, -x) - call("betaln", a, b)  # noqa: E731
        return unknown("a"), unknown("b"), lambda: g * density().exp() * sign

    return rule


def of_beta(g: Value, out: Value, a: Value, b: Value, factor: Value | float = 1.0) -> Parts:
    both = call("psi", a + b)
    return lambda: g * (call("psi", a) - both) * factor, lambda: g * (call("psi", b) - both) * factor


def of_rising(g: Value, out: Value, a: Value, m: Value) -> Parts:
    end = call("psi", a + m)
    return lambda: g * (out * (end - call("psi", a))), lambda: g * (out * end)


def of_choice(g: Value, out: Value, n: Value, k: Value) -> Parts:
    rest = call("psi", n - k + 1)
    return lambda: g * (out * (call("psi", n + 1) - rest)), lambda: g * (out * (rest - call("psi", k + 1)))


def of_students_t(g: Value, out: Value, df: Value, t: Value) -> Parts:
    half = (df + 1) * 0.5
    density = lambda: (call("gammaln", half) - call("gammaln", df * 0.5) - half * (t * t / df).log1p()).exp()  # noqa: E731
    return unknown("the degrees of freedom"), lambda: g * (density() / (df * PI).sqrt())


def of_amplitude(power: float) -> Rule:
    """Incomplete elliptic integrals of (1 - m sin(phi)**2) ** power."""
    return lambda g, out, phi, m: (lambda: g * (1 - m * phi.sin().square()) ** power, unknown("m"))


def of_owen(g: Value, out: Value, h: Value, a: Value) -> Parts:
    of_h = lambda: bell(h) * call("erf", a * h * math.sqrt(0.5)) * -0.5  # noqa: E731
    of_a = lambda: (h * h * (a * a + 1) * -0.5).exp() / ((a * a + 1) * (2 * PI))  # noqa: E731
    return lambda: g * of_h(), lambda: g * of_a()


def of_huber(g: Value, out: Value, delta: Value, r: Value) -> Parts:
    size = r.absolute()
    is_near = size <= delta
    return lambda: is_near.where(0, g * (size - delta)), lambda: g * is_near.where(r, delta * r.sign())


def of_smooth_huber(g: Value, out: Value, delta: Value, r: Value) -> Parts:
    ratio = r / delta
    root = ratio.op("hypot", 1.0)
    return lambda: g * delta * ((root - 1) * 2 - ratio * ratio / root), lambda: g * (r / root)


def of_relative_entropy(rest: float) -> Rule:
    """x * log(x / y), less `rest` * (x - y)."""
    return lambda g, out, x, y: (lambda: g * ((x / y).log() + (1 - rest)), lambda: g * (rest - x / y))


DERIVATIVES: dict[str, Rule] = {
    # error functions, and the normal distribution
    "erf": lambda g, out, x: g * ((-(x * x)).exp() * (2 / ROOT_PI)),
    "erfc": lambda g, out, x: g * ((-(x * x)).exp() * (-2 / ROOT_PI)),
    "erfcx": lambda g, out, x: g * (x * out * 2 - 2 / ROOT_PI),
    "erfi": lambda g, out, x: g * ((x * x).exp() * (2 / ROOT_PI)),
    "dawsn": lambda g, out, x: g * (1 - x * out * 2),
    "erfinv": lambda g, out, x: g * ((out * out).exp() * (ROOT_PI / 2)),
    "erfcinv": lambda g, out, x: g * ((out * out).exp() * (-ROOT_PI / 2)),
    "ndtr": lambda g, out, x: g * bell(x),
    "log_ndtr": lambda g, out, x: g * (math.sqrt(2 / PI) / call("erfcx", x * -math.sqrt(0.5))),
    "ndtri": lambda g, out, x: g / bell(out),
    "owens_t": of_owen,
    "stdtr": of_students_t,
    # the gamma function and its kin
    "gamma": lambda g, out, x: g * (out * call("psi", x)),
    "gammaln": lambda g, out, x: g * call("psi", x),
    "loggamma": lambda g, out, x: g * call("psi", x),
    "psi": lambda g, out, x: g * call("_zeta", 2.0, x),
    "_zeta": lambda g, out, s, x: (unknown("s"), lambda: g * -s * call("_zeta", s + 1, x)),
    "beta": lambda g, out, a, b: of_beta(g, out, a, b, out),
    "betaln": of_beta,
    "gammainc": of_gamma_part(1),
    "gammaincc": of_gamma_part(-1),
    "betainc": of_beta_part(1),
    "betaincc": of_beta_part(-1),
    "poch": of_rising,
    "binom": of_choice,
    # logistic and logarithmic functions
    "expit": lambda g, out, x: g * (out * call("expit", -x)),
    "log_expit": lambda g, out, x: g * call("expit", -x),
    "logit": lambda g, out, x: g / (x * (1 - x)),
    "xlogy": of_log_product(lambda y: y.log(), lambda y: y),
    "xlog1py": of_log_product(lambda y: y.log1p(), lambda y: y + 1),
    "entr": lambda g, out, x: g * (-x.log() - 1),
    "rel_entr": of_relative_entropy(0),
    "kl_div": of_relative_entropy(1),
    "huber": of_huber,
    "pseudo_huber": of_smooth_huber,
    "boxcox": lambda g, out, x, power: (lambda: g * x ** (power - 1), unknown("the power")),
    "boxcox1p": lambda g, out, x, power: (lambda: g * (x + 1) ** (power - 1), unknown("the power")),
    "inv_boxcox": lambda g, out, x, power: (lambda: g * out ** (1 - power), unknown("the power")),
    "inv_boxcox1p": lambda g, out, x, power: (lambda: g * (out + 1) ** (1 - power), unknown("the power")),
    "expm1": lambda g, out, x: g * x.exp(),
    "log1p": lambda g, out, x: g / (x + 1),
    "exp2": lambda g, out, x: g * (out * LOG_2),
    "exp10": lambda g, out, x: g * (out * LOG_10),
    "cbrt": lambda g, out, x: g / (out * out * 3),
    "cosm1": lambda g, out, x: -g * x.sin(),
    "sindg": lambda g, out, x: g * (call("cosdg", x) * DEGREE),
    "cosdg": lambda g, out, x: g * (call("sindg", x) * -DEGREE),
    "tandg": lambda g, out, x: g * ((out * out + 1) * DEGREE),
    "cotdg": lambda g, out, x: g * ((out * out + 1) * -DEGREE),
    "wrightomega": lambda g, out, x: g * (out / (out + 1)),
    # Bessel functions
    "j0": lambda g, out, x: -g * call("j1", x),
    "j1": lambda g, out, x: g * ((call("j0", x) - call("jv", 2.0, x)) * 0.5),
    "y0": lambda g, out, x: -g * call("y1", x),
    "y1": lambda g, out, x: g * (call("y0", x) - out / x),
    "i0": lambda g, out, x: g * call("i1", x),
    "i1": lambda g, out, x: g * ((call("i0", x) + call("iv", 2.0, x)) * 0.5),
    "i0e": lambda g, out, x: g * (call("i1e", x) - x.sign() * out),
    "i1e": lambda g, out, x: g * ((call("i0e", x) + call("ive", 2.0, x)) * 0.5 - x.sign() * out),
    "k0": lambda g, out, x: -g * call("k1", x),
    "k1": lambda g, out, x: -g * (call("k0", x) + out / x),
    "k0e": lambda g, out, x: g * (out - call("k1e", x)),
    "k1e": lambda g, out, x: g * (out - out / x - call("k0e", x)),
    "jv": of_order("jv", 1, -1),
    "yv": of_order("yv", 1, -1),
    "iv": of_order("iv", 1, 1),
    "kv": of_order("kv", -1, 1),
    "ive": lambda g, out, v, x: (unknown("the order"), lambda: g * (around("ive", v, x) - x.sign() * out)),
    "kve": lambda g, out, v, x: (unknown("the order"), lambda: g * (out - around("kve", v, x))),
    "airy": lambda g, out, x: each(g, lambda: out[1], lambda: x * out[0], lambda: out[3], lambda: x * out[2]),
    # integrals
    "ellipk": lambda g, out, m: g * (call("elliprd", 0.0, 1.0, 1 - m) / 6),
    "ellipkm1": lambda g, out, m: g * (call("elliprd", 0.0, 1.0, m) / -6),
    "ellipe": lambda g, out, m: g * (call("elliprd", 0.0, 1 - m, 1.0) / -6),
    "ellipkinc": of_amplitude(-0.5),
    "ellipeinc": of_amplitude(0.5),
    "exp1": lambda g, out, x: -g * ((-x).exp() / x),
    "expi": lambda g, out, x: g * (x.exp() / x),
    "sici": lambda g, out, x: each(g, lambda: quotient(x.sin(), x, 1), lambda: x.cos() / x),
    "shichi": lambda g, out, x: each(g, lambda: quotient(x.sinh(), x, 1), lambda: x.cosh() / x),
    "fresnel": lambda g, out, x: each(g, lambda: (x * x * (PI / 2)).sin(), lambda: (x * x * (PI / 2)).cos()),
    "spence": lambda g, out, x: g * x.equals(1).where(-1, x.log() / (1 - safe(x, 1))),
}

# Those that a backend may compute in another way: rows of these names take the place of calls of the ufuncs.
FORMS = frozenset(("erf", "erfc", "gammaln", "expit", "logit", "entr", "xlogy", "xlog1py"))
OF_TWO = ("xlogy", "xlog1py")  # of these, functions of two operands


def form(name: str) -> Op:
    """The row of a function of SciPy's, of operands of one shape and dtype, made after derivatives and batches."""

    def meta(*xs: TensorMeta) -> TensorMeta:
        assert len(xs) == 1 + (name in OF_TWO), name
        return TensorMeta(xs[0].shape, xs[0].dtype, keep_order_strides(xs[0].shape, xs[0].dtype.itemsize, xs))

    def eager(*xs: np.ndarray) -> np.ndarray:
        function = function_of(name)
        assert function is not None, name
        return np.asarray(function(*xs))

    row = Op(name, "elementwise", meta, eager, inexact="fd", cost=Cost.FUNCTION, silent=Silent.ALWAYS)
    return OPS.add(row)


for name in sorted(FORMS):
    form(name)
