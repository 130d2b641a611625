"""Python's operators on arrays, NumPy scalars and Python numbers, in every pairing, against NumPy."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.numpy_shim.operators import BINARY, COMPARE, INPLACE, UNARY
from npcompile.numpy_shim.registry import FUNCTIONS
from npcompile.tensor_core import Array, Decline, Number, python_operators
from npcompile.tensor_core.source import Name
from npcompile.tracer.guard_text import text_of
from tests.ops.table import numbers
from tests.shim.harness import Capture, compare, compare_aliasing, copy, same_values

PYTHON: dict[str, Callable[..., Any]] = {
    **python_operators.BINARY,
    "divmod": divmod,
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "@=": operator.imatmul,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    **python_operators.COMPARE,
}
PYTHON_UNARY: dict[str, Callable[..., Any]] = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "abs": abs}
TABLE = BINARY | INPLACE | COMPARE
DTYPES = "?bBilLefdFD"
PYTHON_NUMBERS = (0, 1, 2, 3, -1, 300, -200, 2**63, True, 0.5, 2.0, -1.5, 1e300, 1 + 2j)


def check(symbol: str, *values: Any, must_capture: bool = False) -> bool:
    """The harness's comparison for one operator; arrays and NumPy scalars are traced."""
    ours, theirs = copy(list(values)), copy(list(values))
    form = TABLE[symbol] if len(values) == 2 else UNARY[symbol]
    python = PYTHON[symbol] if len(values) == 2 else PYTHON_UNARY[symbol]
    capture = Capture()
    traced = [capture.wrap(v) if isinstance(v, (np.ndarray, np.generic)) else v for v in ours]
    with np.errstate(all="ignore"):
        try:
            result, error = capture.run(form(capture.builder, *traced)), None
        except Decline as decline:
            result, error = None, decline
        try:
            expected = python(*theirs)
        except (TypeError, ValueError, OverflowError) as numpy_error:
            assert error is not None, f"NumPy raises {numpy_error!r}, the shim gives {result!r}"
            return False
    if error is not None:
        assert not must_capture, f"{symbol} of {values} declined: {error}"
        return False
    signs = not symbol.startswith("@")
    compare(result, expected, signs=signs)
    real = [v for v in theirs if isinstance(v, (np.ndarray, np.generic))]
    compare(capture.values, real, signs=signs)
    compare_aliasing(result, expected, capture.values, real)
    return True


def same_kind_as_numpy(symbol: str, x: Any, y: Any) -> bool:
    """What the shim declines although NumPy answers: the answer is not NumPy's type, or may depend on data."""
    left_complex = type(x) is complex and isinstance(y, np.float64)
    negative_power = symbol in ("**", "**=") and np.result_type(x, y).kind == "i"
    scalars = not any(isinstance(v, (np.ndarray, list, tuple)) for v in (x, y))
    ordered = symbol in ("<", "<=", ">", ">=") and scalars and any(np.iscomplexobj(v) for v in (x, y))
    repeated = symbol in ("*", "*=") and (isinstance(x, list) or isinstance(y, list))
    return not (left_complex or negative_power or ordered or repeated)


@pytest.mark.parametrize("symbol", TABLE)
def test_arrays_and_scalars_of_all_dtypes(symbol: str) -> None:
    draw, rng = random.Random(symbol), np.random.default_rng(1)
    for first in DTYPES:
        for second in DTYPES:
            # What a product with infinities is, and how it rounds, depends on the BLAS.
            x, y = (numbers(np.dtype(d), rng, (2, 2), ordinary="@" in symbol) for d in (first, second))
            if "@" in symbol:
                x, y = x.round(), y.round()
            forms = ((x, y), (x, y[0, 0]), (x[0, 0], y), (x[0, 0], y[1, 1]), (x, y[0]), (x[:, :1], y.T))
            for left, right in draw.sample(forms, 2):
                must = same_kind_as_numpy(symbol, left, right) and "@" not in symbol
                check(symbol, left, right, must_capture=must)


@pytest.mark.parametrize("symbol", TABLE)
def test_python_numbers(symbol: str) -> None:
    rng = np.random.default_rng(2)
    for dtype in DTYPES:
        x = numbers(np.dtype(dtype), rng, (3,))
        for value in PYTHON_NUMBERS:
            for left, right in ((x, value), (value, x), (x[0], value), (value, x[0])):
                huge = value in (2**63, 1e300)  # NumPy makes objects or infinities of some
                must = not huge and "@" not in symbol and symbol not in ("**", "**=") and same_kind_as_numpy(symbol, left, right)
                check(symbol, left, right, must_capture=must)


@pytest.mark.parametrize("symbol", [s for s in TABLE if "@" not in s])
def test_sequences(symbol: str) -> None:
    x = np.array([3, 1, 2], np.int16)
    for value in ([1, 2, 3], (1.5, 2.5, 0.5), [True, False, True]):
        check(symbol, x, value)
        check(symbol, value, x)
        check(symbol, x[0], value)
        check(symbol, value, x[0])
    assert check("+", x, [1, 2, 3], must_capture=True)
    assert check("+", [1, 2, 3], x[0], must_capture=True)


@pytest.mark.parametrize("symbol", UNARY)
def test_unary(symbol: str) -> None:
    rng = np.random.default_rng(3)
    for dtype in DTYPES:
        x = numbers(np.dtype(dtype), rng, (2, 3))
        refused = dtype == "?" and symbol in "-+" or dtype in "efdFD" and symbol == "~"
        for value in (x, x.T, x[0, 0], x[:0], np.array(x[0, 0])):
            assert check(symbol, value, must_capture=not refused) or refused


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exponent", [2, -1, 0.5, 0, 1, 3, 2.0, -1.0, 0.25, 1j])
def test_short_powers(dtype: str, exponent: Any) -> None:
    x = numbers(np.dtype(dtype), np.random.default_rng(4), (8,))
    integer_inverse = exponent == -1 and type(exponent) is int and dtype in "?bBilL"
    assert check("**", x, exponent, must_capture=not integer_inverse) or integer_inverse
    check("**=", x, exponent)
    check("**", x[0], exponent)


def test_powers_of_infinities_and_zeros_follow_the_short_way() -> None:
    x = np.array([-0.0, 0.0, -np.inf, np.inf, np.nan, -4.0])
    for dtype in (np.float16, np.float32, np.float64, np.complex128):
        for exponent in (0.5, 2, -1):
            assert check("**", x.astype(dtype), exponent, must_capture=True)


def test_number_exponent_is_asked_for_the_square_root() -> None:
    for value, other in ((0.5, 0.7), (0.7, 0.5)):
        capture = Capture()
        x = capture.wrap(np.array([-0.0, 4.0]))
        result = BINARY["**"](capture.builder, x, Number(capture.builder.env, Name("t"), value))
        assert ("sqrt" if value == 0.5 else "power") == result.storage.node.op
        (guard,) = capture.builder.env.guards
        assert eval(text_of(guard), {"t": value}) and not eval(text_of(guard), {"t": other})


EXPONENTS = [0.5, 2.0, -1.5, np.float32(0.5), np.float64(0.5), np.float64(3), np.float16(0.5), np.array(0.5), np.array(3.0)]
EXPONENTS += [np.full((1,) * n, 0.5) for n in (1, 2, 3)] + [np.array([0.5, 0.5, 0.5, 2])]


@pytest.mark.parametrize("exponent", EXPONENTS, ids=repr)
def test_square_roots_are_where_those_of_numpy_are(exponent: Any) -> None:
    """-inf ** 0.5 is inf, and NaN where NumPy takes the root; -0.0 ** 0.5 is 0.0, and -0.0 there."""
    for dtype in "efd":
        x = np.array([-np.inf, -0.0, 4.0, 0.0], dtype)
        for base in (x, x[1:2], x[1], x[0], np.array(x[1]), x[1:2, None]):
            for function, numpys in ((BINARY["**"], operator.pow), (FUNCTIONS[np.power], np.power)):
                capture = Capture()
                ours = function(capture.builder, *capture.wrap((base, exponent)))
                with np.errstate(all="ignore"):
                    expected = numpys(base, exponent)
                    same_values(capture.run(ours), expected, ulp=4)
                assert ours.dtype == expected.dtype and ours.meta.boxed == isinstance(expected, np.ndarray)


def test_in_place_writes_the_array_and_every_view() -> None:
    base = np.arange(6.0).reshape(2, 3)
    capture = Capture()
    x = capture.wrap(copy(base))
    result = INPLACE["*="](capture.builder, x, x)
    assert result is x
    capture.run(None)
    np.testing.assert_array_equal(capture.values[0], base * base)


def test_in_place_on_a_scalar_rebinds() -> None:
    capture = Capture()
    x = capture.wrap(np.float32(2))
    result = INPLACE["+="](capture.builder, x, 1.5)
    assert isinstance(result, Array) and result is not x
    assert capture.run(result) == np.float32(3.5) and capture.values[0] == np.float32(2)


@pytest.mark.parametrize("value", [None, "text", object(), np.ma.ones(3), {1}, np.datetime64("2020-01-01")])
@pytest.mark.parametrize("symbol", ["==", "+", "<", "+=", "&"])
def test_other_operands_decline(symbol: str, value: Any) -> None:
    for x in (np.ones(3), np.float64(1)):
        capture = Capture()
        with pytest.raises(Decline):
            TABLE[symbol](capture.builder, capture.wrap(x), value)


@pytest.mark.parametrize("values", [[3, 4, 2], [2], (2,), [[1, 2]], [2.0, 3.0], [], [True]], ids=str)
def test_a_list_makes_an_array_of_a_power(values: Any) -> None:
    """Python's power of NumPy's scalars is for numbers: of lists it is the ufunc's."""
    for x in (np.float64(3.0), np.float32(3.0), np.array(3.0), np.complex128(2 + 1j)):
        for call in (lambda x: x**values, lambda x: values**x):
            made, expected = npc.compile(call, backend="eager")(x), call(x)
            assert type(made) is type(expected) and made.dtype == expected.dtype and np.array_equal(made, expected)
