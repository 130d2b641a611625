"""Complex functions of the kernels against NumPy: all pairs of numbers at the edges, and random ones of every size."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.backends.cuda.native import is_native_node
from npcompile.backends.cuda.programs.complex_primitives import COMPLEX_PRIMITIVES
from npcompile.backends.cuda.programs.primitives import is_native
from npcompile.backends.cuda.runtime.device import current_device
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.op import OPS
from tests.backends import gpu
from tests.cuda.interpreted import make_device
from tests.cuda.test_compile import compiled, own_cache  # noqa: F401  (a fixture)
from tests.ops.test_elementwise import close_powers
from tests.shim.harness import same_values

from npcompile.backends.cuda.backend import compile_for  # isort: skip  # after the interpreter is chosen

COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
POWERS = ("power", "float_power")
BINARY = [name for name in COMPLEX_PRIMITIVES if OPS[name].loops.nin == 2 and name not in POWERS]
UNARY = [name for name in COMPLEX_PRIMITIVES if OPS[name].loops.nin == 1]
# Real parts that cancel in NumPy's formulas are as exact as the larger term.
TERMS = {"log1p": lambda z: 1 + np.abs(eager("log1p", z).real), "expm1": lambda z: 2 + np.abs(np.expm1(z.real))}
IN_WIDER = ("tan", "tanh")  # the C library's are up to 6 ULP from the exact value, which the wider type has


def joined(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    made = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    made.real, made.imag = real, imag
    return made


def edges(dtype: np.dtype) -> np.ndarray:
    """All pairs of: what has a value of its own, where exp overflows, around poles, and zeros of functions."""
    part = np.dtype(f"f{dtype.itemsize // 2}")
    limits = np.finfo(part)
    tops = [90.5, 180.25] if part.itemsize == 4 else [709.5, 712.25, 1425.5]
    values = [0.0, np.inf, limits.max, limits.tiny, limits.smallest_subnormal, 0.5, 1.0, 2.0, 1e-10, 1e-20, 1e20, 1e5]
    values += [np.pi, np.pi / 2, 0.6, 0.8, 9.0, 45.0, *tops, 1 + float(limits.eps), 1 - float(limits.eps)]
    both = np.array([*values, *(-v for v in values), np.nan], part)
    return joined(*(g.ravel() for g in np.meshgrid(both, both)))


def random_numbers(dtype: np.dtype, count: int = 1000) -> np.ndarray:
    """Ordinary ones, those of every size, and those around the unit circle."""
    rng = np.random.default_rng(11)
    angles = np.exp(1j * rng.uniform(-4, 4, (2, count)))
    ordinary = rng.uniform(-9, 9, count) + 1j * rng.uniform(-9, 9, count)
    return np.concatenate([
        ordinary,
        np.exp(rng.uniform(-60, 60, count)) * angles[0],
        (1 + rng.normal(size=count) * 1e-3) * angles[1],
    ]).astype(dtype)  # fmt: skip


def graph_of(name: str, *arrays: np.ndarray) -> Graph:
    builder = Builder()
    node = builder.apply(name, *(builder.input(TensorMeta(x.shape, x.dtype)) for x in arrays))
    assert is_native(node)
    return builder.finish([node])


def power_graph(name: str, z: np.ndarray, exponent: complex) -> Graph:
    builder = Builder()
    constant = builder.apply("broadcast_to", builder.constant(exponent, z.dtype), shape=z.shape)
    node = builder.apply(name, builder.input(TensorMeta(z.shape, z.dtype)), constant)
    return builder.finish([node])


def run(graph: Graph, *arrays: np.ndarray) -> np.ndarray:
    device = make_device()
    (got,) = compile_for(graph, device)(*arrays)
    assert device.requests
    return np.asarray(got)


def eager(name: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return OPS[name].numpy(*arrays)


def same_as_numpy(name: str, got: np.ndarray, *arrays: np.ndarray, ulp: int = 4) -> None:
    if name in IN_WIDER:
        wider = np.dtype({8: np.complex128, 16: np.clongdouble}[got.dtype.itemsize])
        return same_values(got, eager(name, *(x.astype(wider) for x in arrays)).astype(got.dtype), ulp)
    expected = eager(name, *arrays)
    assert got.dtype == expected.dtype
    if name not in TERMS:
        same_values(got, expected, ulp)
        return
    with np.errstate(all="ignore"):
        terms = np.minimum(TERMS[name](arrays[0]), np.finfo(expected.real.dtype).max)
    same_values(got.imag, expected.imag, ulp=4)
    finite = np.isfinite(expected.real)
    np.testing.assert_array_equal(got.real[~finite], expected.real[~finite])
    error = np.abs(got.real[finite] - expected.real[finite])
    assert (error <= 4 * np.spacing(terms[finite])).all()


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("numbers", [edges, random_numbers])
@pytest.mark.parametrize("name", UNARY)
def test_function(name: str, numbers, dtype: np.dtype) -> None:  # type: ignore[no-untyped-def]
    z = numbers(dtype)
    same_as_numpy(name, run(graph_of(name, z), z), z)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_the_larger_and_the_smaller(name: str, dtype: np.dtype) -> None:
    values = edges(dtype)[::7]
    x, y = (np.ascontiguousarray(g.ravel()) for g in np.meshgrid(values, values))
    got, expected = run(graph_of(name, x, y), x, y), eager(name, x, y)
    same_values(got, expected, ulp=0)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 7, 99, -1, -2, -3, -50])
@pytest.mark.parametrize(("name", "dtype"), [*(("power", dtype) for dtype in COMPLEX), ("float_power", COMPLEX[1])])
def test_whole_powers(name: str, exponent: int, dtype: np.dtype) -> None:
    z = np.concatenate([edges(dtype), random_numbers(dtype, 100)])
    graph = power_graph(name, z, exponent)
    assert all(map(is_native_node, graph.nodes))
    same_values(run(graph, z), eager(name, z, np.full(z.shape, exponent, z.dtype)), ulp=0)


def exponents(dtype: np.dtype) -> np.ndarray:
    """Those of which each kind is computed otherwise, and some of all sizes."""
    some = [0, 1, 2, 3, -1, 99, -99, 100, -100, 0.5, -0.5, 1 / 3, 2.5, 1e3, 1j, -1j, 2 + 1j, -2 + 1e-3j, 0.5 - 3j]
    return np.concatenate([edges(dtype)[::61], np.array(some, dtype), random_numbers(dtype, 6)])


def powers(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    bases = np.concatenate([edges(dtype)[::23], random_numbers(dtype, 8)])
    return tuple(np.ascontiguousarray(g.ravel()) for g in np.meshgrid(bases, exponents(dtype)))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_powers(dtype: np.dtype) -> None:
    assert COMPLEX_PRIMITIVES["float_power"] == COMPLEX_PRIMITIVES["power"]
    z, w = powers(dtype)
    close_powers(run(graph_of("power", z, w), z, w), eager("power", z, w), z, w, ulp=2)


def test_a_scalar_to_many_powers_and_many_to_one() -> None:
    z, w = np.array(1.5 - 0.5j), exponents(np.dtype(complex))[::5]
    for swapped in (False, True):
        builder = Builder()
        one, many = (builder.input(TensorMeta(x.shape, x.dtype)) for x in (z, w))
        operands = [builder.apply("broadcast_to", one, shape=w.shape), many]
        graph = builder.finish([builder.apply("power", *operands[:: -1 if swapped else 1])])
        given = [np.full(w.shape, z), w][:: -1 if swapped else 1]
        close_powers(run(graph, z, w), eager("power", *given), *given, ulp=2)


@pytest.mark.parametrize("exponent", [0.5, 100, -100, 2 + 1j, np.inf, np.nan])
def test_constant_powers(exponent: complex) -> None:
    z = np.concatenate([edges(np.dtype(complex)), random_numbers(np.dtype(complex), 100)])
    w = np.full(z.shape, exponent, complex)
    close_powers(run(power_graph("power", z, exponent), z), eager("power", z, w), z, w, ulp=2)


@pytest.mark.parametrize("reducer", ["maximum", "minimum", "fmax", "fmin"])
def test_largest_numbers_are_numpys(reducer: str) -> None:
    """Of several numbers with NaN the first one is the answer: kernels that reduce keep no order."""
    builder = Builder()
    node = builder.apply("reduce", builder.input(TensorMeta((64,), np.dtype(complex))), reducer=reducer, axes=(0,))
    assert not is_native_node(node)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_machine_code_of_powers(dtype: np.dtype) -> None:
    """That of all other functions is in test_compile.py. A constant whole exponent leaves products, and no logarithm."""
    z = np.ones(64, dtype)
    (general,) = compiled(graph_of("power", z, z), z, z)
    (whole,) = compiled(power_graph("power", z, -5), z)
    assert general.cubin[:4] == whole.cubin[:4] == b"\x7fELF"
    assert len(whole.cubin) < len(general.cubin) / 2


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("numbers", [edges, random_numbers])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
@pytest.mark.parametrize("place", [pytest.param("gpu", marks=gpu)])
def test_on_a_device(place: str, name: str, numbers, dtype: np.dtype) -> None:  # type: ignore[no-untyped-def]
    """Its real functions are within 1 or 2 ULP: of thousands of products of two some are 5 away from NumPy's."""
    z = numbers(dtype)
    arrays = [z, np.ascontiguousarray(z[::-1])] if name in BINARY else [z]
    (got,) = compile_for(graph_of(name, *arrays), current_device())(*arrays)
    same_as_numpy(name, np.asarray(got), *arrays, ulp=6 if numbers is random_numbers else 4)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("place", [pytest.param("gpu", marks=gpu)])
def test_whole_powers_on_a_device(place: str, dtype: np.dtype) -> None:
    z = np.concatenate([edges(dtype), random_numbers(dtype, 100)])
    for exponent in (2, 3, 7, -1, -2):
        (got,) = compile_for(power_graph("power", z, exponent), current_device())(z)
        same_values(np.asarray(got), eager("power", z, np.full(z.shape, exponent, z.dtype)), ulp=0)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("place", [pytest.param("gpu", marks=gpu)])
def test_powers_on_a_device(place: str, dtype: np.dtype) -> None:
    z, w = powers(dtype)
    (got,) = compile_for(graph_of("power", z, w), current_device())(z, w)
    close_powers(np.asarray(got), eager("power", z, w), z, w, ulp=4)
