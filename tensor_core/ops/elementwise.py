"""One number to one number: NumPy's ufuncs, casts and `where`.

Every operand of an elementwise node already has the result's shape and the dtype of the ufunc's inner loop: the maker
inserts `broadcast_to` and `cast`. The loop is found by `ufunc.resolve_dtypes`, so NEP 50 is NumPy's own.
"""

from collections.abc import Callable

import numpy as np

from npcompile.tensor_core.meta import TensorMeta, keep_order_strides
from npcompile.tensor_core.op import OPS, Op, row

Interval = tuple[float, float]


def elementwise(
    ufunc: np.ufunc, scalar: str | Callable | None = None, vjp: Callable | None = None, domain: Interval = (-9, 9)
) -> Op:
    """A row for a ufunc with one output. `domain` is where its sample operands lie."""

    def meta(*xs: TensorMeta) -> TensorMeta:
        *loop, out = ufunc.resolve_dtypes((*(x.dtype for x in xs), None))
        assert all(x.dtype == dtype for x, dtype in zip(xs, loop)), f"{ufunc.__name__} of {[x.dtype.name for x in xs]}"
        return TensorMeta(xs[0].shape, out, keep_order_strides(xs[0].shape, out.itemsize, xs))

    def eager(*xs: np.ndarray) -> np.ndarray:
        return np.asarray(ufunc(*xs))  # without it 0-D arrays would become scalars

    def samples(dtype: np.dtype, rng: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
        return [tuple(sample(dtype, rng, domain) for _ in range(ufunc.nin))]

    name = ufunc.__name__
    return OPS.add(Op(name, "elementwise", meta, eager, scalar or name, vjp, ufunc, samples=samples))


def sample(dtype: np.dtype, rng: np.random.Generator, domain: Interval, size: int = 17) -> np.ndarray:
    """Numbers of `dtype` spread over `domain`."""
    low, high = domain
    if dtype.kind == "c":
        return (rng.uniform(low, high, size) + 1j * rng.uniform(low, high, size)).astype(dtype)
    if dtype.kind == "u":
        low = max(low, 0)
    return rng.uniform(low, high, size).astype(dtype)


# One row for every ufunc of numbers with one output. Those with two (divmod, modf, frexp) are written with these.

ARITHMETIC = (
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.floor_divide,
    np.remainder,
    np.fmod,
    np.negative,
    np.positive,
    np.absolute,
    np.fabs,
    np.sign,
    np.square,
    np.reciprocal,
    np.conjugate,
    np.heaviside,
    np.gcd,
    np.lcm,
)
EXTREMES = (np.maximum, np.minimum, np.fmax, np.fmin)
COMPARISON = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
LOGIC = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
BITS = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.bitwise_count)
EXPONENTIAL = (np.exp, np.exp2, np.expm1, np.cbrt, np.logaddexp, np.logaddexp2)
TRIGONOMETRIC = (
    np.sin,
    np.cos,
    np.tan,
    np.arctan,
    np.arctan2,
    np.hypot,
    np.sinh,
    np.cosh,
    np.tanh,
    np.arcsinh,
    np.degrees,
    np.radians,
    np.rad2deg,
    np.deg2rad,
)
ROUNDING = (np.floor, np.ceil, np.trunc, np.rint)
FLOATING_POINT = (np.isfinite, np.isinf, np.isnan, np.signbit, np.copysign, np.nextafter, np.spacing, np.ldexp)

for group in (ARITHMETIC, EXTREMES, COMPARISON, LOGIC, BITS, EXPONENTIAL, TRIGONOMETRIC, ROUNDING, FLOATING_POINT):
    for ufunc in group:
        elementwise(ufunc)

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
for ufunc, domain in RESTRICTED.items():
    elementwise(ufunc, domain=domain)


@row("elementwise", eager=lambda x, *, dtype: np.asarray(x).astype(dtype), scalar="cast")
def cast(x: TensorMeta, *, dtype):
    """astype(dtype, casting='unsafe')."""
    return TensorMeta(x.shape, dtype, keep_order_strides(x.shape, dtype.itemsize, [x]))


@row("elementwise", eager=np.where, scalar="where", numpy=np.where)
def where(condition: TensorMeta, x: TensorMeta, y: TensorMeta):
    """condition is bool; x and y have one dtype."""
    assert condition.dtype == np.bool_ and x.dtype == y.dtype
    return TensorMeta(x.shape, x.dtype, keep_order_strides(x.shape, x.dtype.itemsize, [condition, x, y]))


@row("elementwise", eager=lambda x: np.asarray(x).real, scalar="real")
def real(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


@row("elementwise", eager=lambda x: np.asarray(x).imag, scalar="imag")
def imag(x: TensorMeta):
    return TensorMeta(x.shape, np.zeros(0, x.dtype).real.dtype)


def eager_complex(re, im):
    out = np.empty(re.shape, np.result_type(re, np.complex64))
    out.real, out.imag = re, im  # re + 1j * im would lose infinities and signs of zero
    return out


@row("elementwise", eager=eager_complex, scalar="complex")
def complex_(re: TensorMeta, im: TensorMeta):
    assert re.dtype == im.dtype and re.dtype.kind == "f"
    return TensorMeta(re.shape, np.result_type(re.dtype, np.complex64))


@row("elementwise", eager=lambda x, *, dtype: np.ascontiguousarray(x).reshape(np.shape(x)).view(dtype), scalar="bitcast")
def bitcast(x: TensorMeta, *, dtype):
    """The same bits read as another dtype of the same size."""
    assert x.dtype.itemsize == dtype.itemsize
    return TensorMeta(x.shape, dtype)
