"""Functions of single numbers in native loops: of Python's builtins, of `math`, and ufuncs of NumPy's."""

from __future__ import annotations

import cmath
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import by_six, cloned, is_error, outcome, program_of, same
from tests.native_loops.test_native_loops import agrees, native_loops

rng = np.random.default_rng(12)
FLOATS = np.r_[rng.standard_normal(30), 2.5, 0.5, -0.5, 1.0, 3.0, 1e-300, 1e15]
SPECIAL = np.r_[0.5, 0.0, -0.0, np.nan, 2.0, np.inf, -np.inf, 1e308, 5e-324, -1.0, 0.25]


def in_a_loop(*texts: str) -> Callable[..., Any]:
    """A function whose loop puts values of expressions of the numbers a and b into an array, and returns the last ones."""
    names = ", ".join(f"last{k}" for k in range(len(texts)))
    lines = [
        "def program(x, z, out, n):",
        f"    {names} = {'0.5, ' * len(texts)}",
        "    for i in range(1, x.size):",
        "        a, b, k = x[i], z[i - 1], i - n",
        *(f"        last{k} = {text}" for k, text in enumerate(texts)),
        *(f"        out[{k}, i] = last{k}" for k in range(len(texts))),
        f"    return {names}, out, out[0, 0]",
    ]
    return program_of(lines, texts[0], {"np": np, "math": math})


def agree(texts: Sequence[str], x: np.ndarray, z: np.ndarray, n: int, loops: int = 1) -> None:
    """What is an error for these numbers is asked alone."""
    program, arguments = in_a_loop(*texts), (x, z, np.zeros((len(texts), x.size)), n)
    if len(texts) > 1 and is_error(outcome(program, program, cloned(arguments))[0]):
        for text in texts:
            agree([text], x, z, n, loops=0)
    else:
        agrees(program, *arguments, loops=loops)


def asked(texts: Sequence[str]) -> list[Sequence[str]]:
    """Several at once where NumPy reports nothing, whatever the numbers are: after a report Python goes on."""
    x = np.tile(SPECIAL, 4)
    outcomes = {text: outcome(f := in_a_loop(text), f, [x, x, np.zeros((1, x.size)), 3]) for text in texts}
    quiet = [text for text, (made, _, seen) in outcomes.items() if not is_error(made) and not seen]
    return [*by_six(quiet), *([text] for text in texts if text not in quiet)]


UNARY = "negative positive conjugate absolute square sign isnan isinf isfinite logical_not rint trunc floor ceil fabs"
BINARY = "add subtract multiply less less_equal equal not_equal greater greater_equal logical_and logical_or logical_xor"
BINARY += " maximum minimum fmax fmin copysign heaviside"
EXACT = [
    *(f"np.{n}(a)" for n in UNARY.split()),
    *(f"np.{n}(a, b)" for n in BINARY.split()),
    *("np.add(a, 2)", "np.multiply(2.5, a)", "np.less(k, a)", "np.maximum(a, 0)", "np.fmin(0.5, b)", "np.add(k, 0.5)"),
    *("np.clip(a, -0.5, 0.5)", "np.clip(a, b, 1)", "np.signbit(a)", "np.round(a)", "np.round(a, 2)", "np.clip(a, 0.0, -0.0)"),
    *("math.isnan(a)", "math.isinf(a)", "math.isfinite(b)", "math.isfinite(k)", "math.copysign(a, b)", "math.copysign(0.5, a)"),
    *("divmod(k, 3)[0] + divmod(k, 3)[1]", "pow(k, 2)", "round(k)", "np.sign(k)", "np.abs(k)", "np.add(k, k)", "np.isnan(k)"),
    *(
        "np.square(k)",
        "np.negative(k)",
        "np.clip(k, 2, 9)",
        "np.radians(k)",
        "math.degrees(k)",
        "math.radians(a)",
        "np.degrees(a)",
    ),
]
OF_POSITIVES = [
    *(f"math.{n}(a)" for n in "sqrt log log2 log10 log1p expm1 exp2 sinh cosh asinh cbrt erf erfc atan tanh".split()),
    *(
        "math.log(a, 2)",
        "math.log(k + 20)",
        "math.log2(k + 20)",
        "round(a)",
        "divmod(a, b)[0]",
        "divmod(a, b)[1]",
        "np.true_divide(a, b)",
    ),
    *("np.reciprocal(a)", "np.floor_divide(a, b)", "np.remainder(a, b)", "np.sqrt(a)", "np.divide(k, k + 20)", "math.degrees(a)"),
]
OF_NUMPYS = "exp2 expm1 log2 log10 log1p sinh cosh arcsinh cbrt arctan".split()


OF_FLOATS = re.compile(
    "np.(absolute|copysign|trunc|floor|ceil|maximum|minimum|fmax|fmin|heaviside|clip|signbit|round|reciprocal)[(]a|round"
)
LEFT = [text for text in EXACT + OF_POSITIVES if OF_FLOATS.match(text)]  # of integers
OTHERS = [text for text in EXACT + OF_POSITIVES if text not in LEFT]


@pytest.mark.parametrize("texts", asked(EXACT), ids=" ".join)
def test_functions_of_numbers(texts):
    agree(texts, FLOATS, rng.permutation(FLOATS), 7)


@pytest.mark.parametrize("texts", asked(OF_POSITIVES), ids=" ".join)
def test_functions_of_positive_numbers(texts):
    x = np.abs(FLOATS[:-2]) + 0.125
    agree(texts, x, rng.permutation(x), 7)


@pytest.mark.parametrize("texts", asked(EXACT) + asked(OF_POSITIVES), ids=" ".join)
def test_what_is_not_finite(texts):
    x = np.tile(SPECIAL, 4)
    if any(re.search("fmin|fmax", text) for text in texts):  # which may give either of two zeros: docs/accuracy.md
        x = x[(x != 0) | ~np.signbit(x)]
    agree(texts, x, rng.permutation(x), 3, loops=0)


@pytest.mark.parametrize(
    ("texts", "integer"), [*zip(by_six(LEFT) + by_six(OTHERS), itertools.cycle(["i8", "i4", "u1", "?", "i2"]))]
)
def test_functions_of_other_types(texts, integer):
    for dtype in ("f4", integer):
        x = (rng.random(30) * 9 + 1).astype(dtype)
        agree(texts, x, x[::-1].copy(), 7, loops=int(dtype == "f4" or texts[0] in OTHERS))


@pytest.mark.parametrize("name", OF_NUMPYS)
def test_functions_of_numpys_that_round_otherwise(name):
    """NumPy computes them in vector registers, to other last bits: docs/accuracy.md."""
    program = in_a_loop(f"np.{name}(a)")
    compiled, x = npc.compile(program), np.abs(FLOATS[:30]) + 0.125
    for _ in range(2):
        ours, theirs = compiled(x, x, np.zeros((1, 30)), 7), program(x, x, np.zeros((1, 30)), 7)
        assert type(ours[0]) is type(theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-15)
    assert native_loops(compiled) == 1


@pytest.mark.parametrize("text", ["math.hypot(a, b)", "round(a, 2)", "math.log(a, 2, 3)", "pow(k, 2, 5)", "np.add(a, b, 3)"])
def test_what_has_no_native_form_is_what_python_says(text):
    agrees(in_a_loop(text), np.abs(FLOATS), FLOATS, np.zeros((1, FLOATS.size)), 7, loops=0)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "?"])
def test_scalars_that_math_trunc_does_not_take(dtype):
    """Of NumPy's only float64 has __trunc__, which is Python's."""
    x = (FLOATS[:30] * 3).astype(dtype)
    agrees(in_a_loop("math.trunc(a) + math.trunc(k) + math.trunc(0.5 * k)"), x, x, np.zeros((1, 30)), 7, loops=int(dtype == "f8"))


@pytest.mark.parametrize("name", ["floor", "ceil"])
def test_large_integers_of_numpys_are_floats_to_math(name):
    """They have no __floor__, but __float__."""
    x = np.tile([2**53 + 1, -(2**53) - 1, 7, -7, 2**60 + 1], 8)
    program = in_a_loop(f"math.{name}(a) + 0 * math.{name}(k)")
    compiled = npc.compile(program)
    for _ in range(2):
        assert compiled(x, x, np.zeros((1, 40), np.int64), 0)[0] == program(x, x, np.zeros((1, 40), np.int64), 0)[0] == 2**60
    assert native_loops(compiled) == 1


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_which_zero_is_the_extreme(name, dtype):
    zeros = np.tile(np.array([0.0, 0.0, -0.0, 0.0, -0.0, -0.0, 0.0, 1.0], dtype), 5)
    program = in_a_loop(f"np.{name}(a, b)")
    compiled = npc.compile(program)
    for _ in range(2):
        ours, theirs = (f(zeros, np.repeat(zeros[:8], 5), np.zeros((1, 40), dtype), 0)[1] for f in (compiled, program))
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    assert native_loops(compiled) == 1


def over_rows(A, out):
    for k in range(A.shape[0]):
        row = A[k]
        out[k] = sum(row) - max(row) + min(A[:, k]) * any(row > 2) + all(A[:k, k] < 3)
        if any(A[k, :k]) and not all(row):
            out[k] += sum(row > 1) + sum(row * row)
    return max(A[0]), min(A[:, 1]), sum(A[2]), sum(A[2] > 1), any(A[3]), all(A[3]), out


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1"])
def test_builtins_that_go_over_vectors(dtype):
    square = (6 * rng.random((12, 12)) - 1 * (dtype != "u1")).astype(dtype)
    agrees(over_rows, square, np.zeros(12))
    square[4:7, 5] = 0
    agrees(over_rows, square.T, np.zeros(12))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_builtins_that_go_over_what_is_not_finite(value):
    square = rng.random((12, 12))
    square[3, 2:4] = square[5, 7] = square[:, 9] = value
    agrees(over_rows, square, np.zeros(12))


@pytest.mark.parametrize("function", [sum, min, max, any, all])
def test_builtins_that_go_over_nothing(function):
    def program(x, y):
        for k in range(x.size - 1, -1, -1):
            y[k] = function(x[:k])
        return y

    agrees(program, rng.random(20), np.zeros(20))


def test_builtins_that_overflow():
    agrees(over_rows, np.full((12, 12), 100, np.uint8), np.zeros(12))
    agrees(over_rows, np.full((12, 12), 2**62), np.zeros(12))


def test_arguments_that_are_given_other_types() -> None:
    def program(x, a):
        total = 0.0
        for i in range(x.size):
            total += x[i] * a
        return total, np.float64(a), float(a), int(a), a, np.inf - np.float64(np.inf)

    compiled = npc.compile(program)
    for a in (2.5, np.float64(2.5), 3, True, np.int64(4), np.float32(0.5)):
        ours, theirs = compiled(np.ones(30), a), program(np.ones(30), a)
        assert same(ours, theirs) and ours[4] is a


def test_powers_near_the_middle_of_two_numbers_are_those_of_libm():
    """Where a product is near that middle libm may round the other way; sizes go beyond those at which products are asked."""

    def powers(x, out):
        for i in range(x.size):
            out[0, i] = x[i] ** 2
            out[1, i] = x[i] ** 3
            out[2, i] = x[i] ** 0.5
            out[3, i] = x[i] ** -1

    rng = np.random.default_rng(23)
    ends = 2.0 ** np.arange(-33, 34)
    roots = [np.sqrt(np.nextafter(ends, 0)), np.sqrt(ends), np.sqrt(np.nextafter(ends, np.inf)), np.cbrt(ends)]
    agrees(
        powers, np.concatenate([rng.uniform(1, 2, 20_000), 2.0 ** rng.uniform(-40, 40, 10_000), *roots]), np.zeros((4, 30_268))
    )


def test_negative_of_a_negative_constant():
    def shifted(x):
        total = 0.0
        for i in range(x.size):
            low, small = -1.5, np.float32(-0.5)
            total = total * -low + x[i] - (-low) + -small
        return total

    agrees(shifted, np.linspace(-1, 1, 60))


def sum_and_call(x, function, arguments):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 5:
            if arguments == 0:
                return total, function()
            if arguments == 2:
                return total, function(x[i], total)
            return total, function(x[i], total, i)
        total += x[i]
    return total


def types_of_nothing(n):
    return [np.intp().itemsize, 0.0, 0, False, 0j, np.float32(), np.bool_(), np.complex64()] * n


OF_ONE = [int, float, bool, abs, round, math.floor, math.trunc, math.isnan, math.degrees, cmath.phase, cmath.isnan, np.isnan]
OF_ONE += [np.float64, np.int8, np.signbit, np.logical_not, np.square, len]
OF_SEVERAL = [divmod, cmath.rect, math.atan2, max, np.roll, np.repeat, np.clip, np.power]


@pytest.mark.parametrize("count", [0, 2, 3])
@pytest.mark.parametrize("function", [*OF_ONE, *OF_SEVERAL], ids=lambda f: f.__name__)
def test_other_numbers_of_arguments(function, count):
    """What Python refuses, or what has another meaning."""

    def answer(program):
        try:
            return program(np.array([1.0, 2.0, 6.0, 1.0]), function, count)
        except (TypeError, ValueError) as error:  # an integer of NumPy's to what base?
            return type(error), str(error)

    compiled = npc.compile(sum_and_call)
    for _ in range(2):
        assert repr(answer(compiled)) == repr(answer(sum_and_call))


def test_types_of_nothing():
    assert repr(npc.compile(types_of_nothing)(2)) == repr(types_of_nothing(2))
