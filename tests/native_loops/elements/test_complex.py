"""Complex numbers in native loops: scalars and elements, of Python's arithmetic and of NumPy's, to the last bit."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tracer.bytecode.versions import RUNNING
from tests.native_loops.agreement import by_six, check_native, cloned, program_of
from tests.native_loops.random.complex_numbers import draw_program
from tests.native_loops.test_native_loops import agrees, native_loops
from tests.random_programs import check_examples

rng = np.random.default_rng(21)
N = 40
Z = rng.standard_normal(N) + 1j * rng.standard_normal(N)
SPECIAL = np.array([0, -0.0, complex(-0.0, -0.0), 1j, -1j, -2, 1 + 1j, 1e-300j, 1e160, complex(1e200, -1e200), 0.5 - 2j])
NOT_FINITE = np.array([1j, complex("nan"), 2, complex("inf"), complex(0, -math.inf), 1 - 1j, complex(math.nan, 1), 3 + 4j])


def in_a_loop(*texts: str) -> Callable[..., Any]:
    """A function whose loop computes expressions: a is NumPy's, w of Python, x real, p the argument."""
    names = ", ".join(f"last{k}" for k in range(len(texts)))
    lines = [
        "def program(z, y, out, p):",
        f"    {names} = {'0j, ' * len(texts)}",
        "    w = 0.5 - 1.5j",
        "    for i in range(1, z.size):",
        "        a, b, x = z[i], z[i - 1], y[i]",
        *(f"        last{k} = {text}" for k, text in enumerate(texts)),
        "        w = w * (0.96 + 0.28j)",
        *(f"        out[{k}, i] = last{k}" for k in range(len(texts))),
        f"    return {names}, w, out, out[0, 0]",
    ]
    return program_of(lines, texts[0], {"np": np, "math": math, "cmath": cmath})


SUMS = ["a + b", "a - b", "a * b", "a + x", "x - a", "x * a", "2 * a", "a * 2.5", "1j * a", "a - 1j", "w + a", "a * w", "w * x"]
SUMS += ["w * w", "w - 1", "1j * w", "2.5 * w", "w + True", "i * a", "w * i", "-a", "-w", "x * 1j", "p * a", "p + w", "a * a + b"]
SUMS += ["np.add(a, b)", "np.subtract(w, a)", "np.negative(a)", "np.positive(w)", "np.conj(a)", "np.conj(w)", "a.conjugate()"]
SUMS += [
    "w.conjugate() * w",
    "complex(x, i)",
    "complex(x)",
    "complex(a)",
    "np.complex128(w)",
    "np.complex64(x)",
    "np.complex64(a)",
]
SUMS += ["a if abs(a) > abs(b) else b", "w if x > 0 else -w", "(a + b) * (a - b) + 0.5 * a"]
QUOTIENTS = ["a / b", "a / x", "x / a", "w / a", "a / w", "w / 2", "w / (3 - 4j)", "1 / w", "1j / a", "np.divide(a, b)", "i / w"]
POWERS = ["a ** 2", "a ** 3", "a ** 1", "w ** 2", "w ** 3", "w ** 7", "a ** 11", "pow(a, 2)", "w ** 1"]
REAL = ["a.real", "w.imag", "a.imag * w.real", "abs(a)", "abs(w)", "np.real(a)", "np.imag(w)", "a.real ** 2 + a.imag ** 2"]
REAL += ["a == b", "a != a", "w == 1", "w == 0.5 - 1.5j", "a == x", "np.equal(a, b)", "bool(a)", "not w", "1 if a else 2"]
REAL += [
    "np.isnan(a)",
    "np.isfinite(w)",
    "np.isinf(a)",
    "cmath.isfinite(a)",
    "cmath.isnan(w)",
    "cmath.phase(a)",
    "cmath.phase(x)",
]
REAL += ["cmath.polar(w)[0] + cmath.polar(a)[1]", "abs(a - b)"]
FUNCTIONS = ["cmath.exp(a)", "cmath.exp(1j * x)", "cmath.exp(w)", "cmath.sqrt(a)", "cmath.sqrt(x)", "cmath.rect(abs(x), x)"]
FUNCTIONS += [f"np.{name}(a)" for name in ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh")]
FUNCTIONS += [f"np.arc{name}(a)" for name in ("sin", "cos", "sinh", "cosh")] + ["np.exp(w)", "np.sqrt(w)"]
NEAR = ["np.tan(a)", "np.tanh(a)", "np.arctan(a)", "np.arctanh(a)"]


# From CPython 3.14 on, a loop with Python's complex numbers beside real ones is Python's.
MIXED = int(RUNNING.makes_complex)


@pytest.mark.parametrize("texts", [*by_six(SUMS), *by_six(QUOTIENTS), *by_six(POWERS), *by_six(FUNCTIONS)], ids=" ".join)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_expressions(texts, dtype):
    agrees(in_a_loop(*texts), Z.astype(dtype), rng.standard_normal(N), np.zeros((6, N), dtype), 0.5 - 0.25j, loops=MIXED)


@pytest.mark.parametrize("texts", by_six(REAL), ids=" ".join)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_real_results(texts, dtype):
    agrees(in_a_loop(*texts), Z.astype(dtype), rng.standard_normal(N), np.zeros((6, N)), 2)


@pytest.mark.parametrize("text", ["np.abs(a)", "np.abs(w)"])
def test_modulus_of_numpy(text):
    """Its bits where NumPy has vectors of it, which not every processor has."""
    is_near(text, "f8")


@pytest.mark.parametrize("text", NEAR)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_functions_that_are_not_the_c_librarys(text, dtype):
    """Kernels have nearer ones, and so do loops: tests/test_one_answer.py."""
    is_near(text, dtype)


def is_near(text, dtype):
    user = in_a_loop(text)
    compiled, arguments = (
        npc.compile(user),
        (Z.astype(dtype if dtype[0] == "c" else "c16"), np.ones(N), np.zeros((1, N), dtype), 1),
    )
    tolerance = 1e-5 if dtype == "c8" else 1e-14
    np.testing.assert_allclose(compiled(*cloned(arguments))[2], user(*cloned(arguments))[2], rtol=tolerance)
    assert native_loops(compiled)


ALONE = [[text] for text in (*QUOTIENTS, *POWERS, "a * b", "np.exp(a)", "cmath.exp(a)", "cmath.sqrt(a)", "w ** 12")]


@pytest.mark.parametrize("texts", [*by_six(SUMS), *ALONE], ids=" ".join)
@pytest.mark.parametrize("values", [SPECIAL, NOT_FINITE], ids=["special", "not finite"])
def test_special_numbers(texts, values):
    """Signs of zeros, NaN, infinities; errors and warnings are Python's and NumPy's."""
    z = np.tile(values, 4)
    agrees(in_a_loop(*texts), z, np.resize([0.0, 1.5, -0.0, -2.5], z.size), np.zeros((len(texts), z.size), "c16"), 1j, loops=0)


def test_angles_that_are_errors():
    """Python calls an angle that underflows a math range error, of cmath.phase only."""
    z = np.full(N, 1e308 + 1e-310j)
    agrees(in_a_loop("cmath.phase(a)"), z, np.ones(N), np.zeros((1, N)), 1, loops=0)
    agrees(in_a_loop("cmath.polar(a)[1]"), z, np.ones(N), np.zeros((1, N)), 1)
    agrees(in_a_loop("cmath.phase(a)"), np.full(N, 1.5 - 0j), np.ones(N), np.zeros((1, N)), 1)


@pytest.mark.parametrize("text", ["a < b", "a // 2", "min(a, b)", "~a", "float(a)", "math.sqrt(a)", "a % b"])
def test_what_is_an_error(text):
    agrees(in_a_loop(text), Z, np.ones(N), np.zeros((1, N), "c16"), 1, loops=0)


def test_complex_into_real_array_warns():
    def program(z, out):
        for i in range(z.size):
            out[i] = z[i] * 2
        return out

    agrees(program, Z, np.zeros(N), loops=0)


def fourier(x):
    """By stages, in place."""
    n = x.size
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    size = 2
    while size <= n:
        step = cmath.exp(-2j * math.pi / size)
        for start in range(0, n, size):
            w = 1 + 0j
            for k in range(start, start + size // 2):
                u, v = x[k], x[k + size // 2] * w
                x[k] = u + v
                x[k + size // 2] = u - v
                w *= step
        size *= 2
    return x


def mandelbrot(xs, ys, most):
    out = np.zeros((ys.size, xs.size), np.int64)
    for i in range(ys.size):
        for j in range(xs.size):
            c = complex(xs[j], ys[i])
            z = 0j
            n = 0
            while n < most and z.real * z.real + z.imag * z.imag <= 4:
                z = z * z + c
                n += 1
            out[i, j] = n
    return out


def julia(z0, c, most):
    out = np.zeros(z0.shape, np.int64)
    for i in range(z0.shape[0]):
        for j in range(z0.shape[1]):
            z = z0[i, j]
            while abs(z) < 2 and out[i, j] < most:
                z = z**2 + c
                out[i, j] += 1
    return out


def resonator(x, poles):
    """A filter with complex poles: state in an array that the function makes."""
    state = np.zeros(poles.size, dtype=complex)
    y = np.empty(x.size, dtype=np.complex128)
    for n in range(x.size):
        total = 0j
        for k in range(poles.size):
            state[k] = poles[k] * state[k] + x[n]
            total += state[k]
        y[n] = total
    return y


def walk(steps, size):
    """A quantum walk on a ring."""
    up, down = np.zeros(size, complex), np.zeros(size, complex)
    up[size // 2] = 1.0
    down[size // 2] = 1j
    new_up, new_down = np.zeros(size, complex), np.zeros(size, complex)
    h = 1 / math.sqrt(2)
    for _ in range(steps):
        for i in range(size):
            new_up[(i + 1) % size] = h * (up[i] + down[i])
            new_down[(i - 1) % size] = h * (up[i] - down[i])
        for i in range(size):
            up[i], down[i] = new_up[i], new_down[i]
    chances = np.zeros(size)
    for i in range(size):
        chances[i] = abs(up[i]) ** 2 + (down[i] * down[i].conjugate()).real
    return chances


def test_fast_fourier_transform():
    compiled = agrees(fourier, rng.standard_normal(64) + 1j * rng.standard_normal(64))
    x = rng.standard_normal(256) + 0j
    np.testing.assert_allclose(compiled(x.copy()), np.fft.fft(x), atol=1e-10)


def test_mandelbrot_is_one_native_program():
    compiled = agrees(mandelbrot, np.linspace(-2, 0.6, 30), np.linspace(-1.2, 1.2, 20), 50)
    assert native_loops(compiled) == 1


def test_julia():
    z = np.linspace(-1.5, 1.5, 20)[:, None] + 1j * np.linspace(-1, 1, 20)
    agrees(julia, z, -0.4 + 0.6j, 40)
    agrees(julia, z.astype(np.complex64), np.complex64(-0.4 + 0.6j), 40)


def test_arrays_that_the_function_makes():
    poles = 0.9 * np.exp(1j * np.array([0.1, 0.7, 2.0]))
    compiled = agrees(resonator, rng.standard_normal(50), poles)
    assert native_loops(compiled) == 1
    agrees(walk, 12, 31)


def test_copies_and_rows():
    def program(M):
        W = np.zeros_like(M)
        V = M.copy()
        for i in range(M.shape[0]):
            W[i] = V[i]
            row = M[i]
            for j in range(row.shape[0]):
                W[i, j] += row[j] * 1j
        return W, V

    agrees(program, Z.reshape(8, 5), loops=0)


def test_statements_over_whole_arrays_are_numpys():
    def program(M, v):
        for i in range(M.shape[0]):
            M[i] = M[i] * 2 + v
            v[0] = np.sum(M[i]) + M[i, 0]
            M[i, 1:] += np.conj(M[i, 1:]) / v[0]
        return M, v, np.abs(M).max()

    M, v = Z.reshape(8, 5), Z[:5]
    compiled = npc.compile(program)
    for _ in range(3):
        for ours, theirs in zip(compiled(M.copy(), v.copy()), program(M.copy(), v.copy())):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_argument_and_result_of_python():
    def program(z, w, n):
        for i in range(n):
            if i == 3:
                z[i] = w
            w = w * z[i] / (1 + 1j)
        return w

    agrees(program, Z, 1j, 30)
    agrees(program, Z, complex(-0.0, 2), 20)


def test_zero_division_and_overflow_at_their_iteration():
    def program(z, w, out):
        for i in range(z.size):
            w = w / z[i].real + 1e300
            out[i] = abs(complex(z[i].real, 1.0) / complex(z[i].imag))
        return out

    z = Z.copy()
    z[30] = 1.0
    agrees(program, z, 1j, np.zeros(N), loops=MIXED)


def test_sums_of_independent_iterations():
    def program(z, out):
        total = 0j
        for i in range(z.size):
            w = z[i]
            for _ in range(20):
                w = w * w + 0.25
            out[i] = w
            total += w
        return total

    with npc.config.patch(native_loops=True):
        z = 0.3 * np.exp(1j * np.linspace(0, 6, 3000))
        agrees(program, z, np.zeros_like(z))


def test_random_programs(backend="cpu"):
    check_examples(draw_program, check_native, backend, 8)
