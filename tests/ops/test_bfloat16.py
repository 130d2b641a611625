"""bfloat16, the dtype of the package ml_dtypes: bit for bit what NumPy computes with that package's loops."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.partition import is_native_node
from npcompile.tensor_core import OPS
from tests.ops.table import BFLOAT16, apply_all
from tests.ops.test_elementwise import UFUNC_ROWS, has_loop
from tests.shim.harness import check, compare, same_values

RNG = np.random.default_rng(3)
EVERY = np.arange(2**16, dtype=np.uint16).view(BFLOAT16)
EDGES = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 3.39e38, 1.2e-38, -1e-40, 9.2e-41], BFLOAT16)
SOME = np.concatenate([EDGES, RNG.integers(0, 2**16, 200, np.uint16).view(BFLOAT16), RNG.uniform(-9, 9, 150).astype(BFLOAT16)])
PAIRS = [x.ravel().copy() for x in np.meshgrid(SOME, SOME)]

X = RNG.normal(size=(5, 7)).astype(BFLOAT16)
Y = RNG.normal(size=(5, 7)).astype(BFLOAT16)
ONE = BFLOAT16.type(1.5)


def operands(name: str) -> list[np.ndarray]:
    return [EVERY] if OPS[name].loops.nin == 1 else PAIRS


NATIVE = [name for name in UFUNC_ROWS if has_loop(OPS[name].numpy, (BFLOAT16,) * OPS[name].loops.nin)]


def test_all_numbers_through_every_loop() -> None:
    """Of functions of one number all, of functions of two each of some with each."""
    calls = [(name, operands(name), {}) for name in NATIVE]
    nodes, results = apply_all("cpu", calls)
    for (name, arrays, _), node, result in zip(calls, nodes, results, strict=True):
        assert is_native_node(node), name
        with np.errstate(all="ignore"):
            expected = OPS[name].numpy(*arrays)
        try:
            same_values(result, expected, ulp=0)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("dtype", [np.dtype(c) for c in "efdgqQ"], ids=str)
def test_ties_are_rounded_to_even_on_the_way_from_other_dtypes(dtype: np.dtype) -> None:
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            halves = ((np.arange(2**16, dtype=np.uint32) << 16) | 0x8000).view(np.float32).astype(dtype)
            x = np.concatenate([halves, np.nextafter(halves, dtype.type(0)), np.nextafter(halves, dtype.type(np.inf))])
    else:
        x = RNG.integers(0, np.iinfo(dtype).max, 20_000, dtype)
    _, (result,) = apply_all("cpu", [("cast", [x], {"dtype": BFLOAT16})])
    with np.errstate(all="ignore"):
        same_values(result, x.astype(BFLOAT16), ulp=0)


# --- calls


MIXED = [Y, ONE, X.astype("f4"), X.astype("f8"), X.astype("c8"), X.astype("i1"), X.astype("i4"), X > 0, 2, 2.5, 1j, True]
MIXED += [np.float32(2), np.float64(2), 1000, 10**40, X.astype("f2")]
BINARY = [np.add, np.multiply, np.divide, np.power, np.maximum, np.less, np.equal, np.floor_divide, np.logaddexp2, np.divmod]


@pytest.mark.parametrize("function", [*BINARY, np.ldexp, np.float_power], ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_dtypes_of_results_are_those_of_numpy(function: Any) -> None:
    """Also where they surprise: bfloat16 and a Python float give float32, with float16 there is no common dtype."""
    for other in MIXED:
        for arguments in ((X, other), (other, X), (ONE, other)):
            check(function, *arguments, must_capture=False, ulp=0)


CUBE = RNG.normal(size=(3, 4, 5)).astype(BFLOAT16)
ORDERS = [CUBE, CUBE.transpose(2, 0, 1), np.asfortranarray(CUBE), np.broadcast_to(CUBE[:, :1], CUBE.shape), CUBE[::-1]]


REDUCTIONS = [np.sum, np.prod, np.max, np.mean, np.var, np.argmax, np.cumsum]


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("backend", ["eager", "cpu"])
def test_reductions_round_where_numpy_does(backend: str, function: Any) -> None:
    """A sum is rounded after each step, so that its order shows. Each function goes over each order, along other axes."""
    axes = [None, 0, 2] if function in (np.argmax, np.cumsum) else [None, 0, 2, (0, 1), (0, 2), (1, 2)]
    first = REDUCTIONS.index(function)
    rows = [((first + k) % len(ORDERS), axes[k % len(axes)]) for k in range(max(len(axes), len(ORDERS)))]

    def reduced(arrays: list[np.ndarray]) -> list[Any]:
        return [function(arrays[order], axis=axis) for order, axis in rows]

    compare(npc.compile(reduced, backend=backend)(ORDERS), reduced(ORDERS), ulp=0)


@pytest.mark.parametrize("shape", [(300_000,), (200_000, 3), (3, 200_000), (700, 400)])
def test_long_sums_are_not_cut(shape: tuple[int, ...]) -> None:
    """Nor when they share a pass with sums of float32, which are."""

    def sums(x: np.ndarray, y: np.ndarray) -> Any:
        axes = range(x.ndim)
        return [x.sum(axis=a) for a in axes], [(x * x).prod(axis=a) for a in axes], [x.max(axis=a) for a in axes], x.sum()

    def both(x: np.ndarray, y: np.ndarray) -> Any:
        return (x - 1).sum(axis=-1), y.sum(axis=-1), (y * x).sum(axis=0), y.sum()

    rng = np.random.default_rng(1)
    x, y = (rng.uniform(0.5, 1.5, shape).astype(dtype) for dtype in (BFLOAT16, np.float32))
    compare(npc.compile(sums)(x, y), sums(x, y), ulp=0)
    rounded, *others = npc.compile(both)(x, y)
    compare(rounded, both(x, y)[0], ulp=0)
    exact = y.sum(axis=-1, dtype=float), (y * x).sum(axis=0, dtype=float), y.sum(dtype=float)
    for a, b in zip(others, exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


CALLS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: (np.tanh(x * 2 + y) / 3, -x, abs(x), x @ y.T, np.sqrt(abs(x)) ** 2, x // 2, divmod(x, y)),
    "softmax": lambda x, y: np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x).sum(axis=1, keepdims=True),
    "writes": lambda x, y: (x.__setitem__(0, 2.5), x.__iadd__(1), x.__imul__(np.float32(3)), x[1:].__iadd__(y[1:]), x.sum(0)),
    "choices": lambda x, y: (np.where(x > 0, x, y), np.where(x > 0, x, 0), np.clip(x, -1, 1), np.maximum(x, 0), np.sort(x)),
    "joined": lambda x, y: (np.concatenate([x, y]), np.stack([x, y]), x[[0, 2]], x[:, ::-2].T, np.pad(x, 1), np.roll(x, 2)),
    "scans": lambda x, y: (np.cumsum(x), np.cumprod(x, 1), np.maximum.accumulate(x), np.add.accumulate(x[::-1])),
    "scalars": lambda x, y: (x[0, 0] + x[0, 1], x[0, 0] * 2.0, x[0, 0] ** 2, x[0, 0] < 1, x[0, 0].real, x[0, 0].astype("f4")),
    "kinds": lambda x, y: (isinstance(x[0, 0], np.floating), np.issubdtype(x.dtype, np.inexact), x.dtype.kind, x.itemsize),
    "made": lambda x, y: (np.zeros(3, x.dtype), np.full(2, 1.5, x.dtype), np.arange(5, dtype=x.dtype), np.ones_like(x)),
    "views": lambda x, y: (x.view(np.uint16) + np.uint16(1), x.real, x.imag, x.conj(), x.view("i2").view(x.dtype)),
    "parts": lambda x, y: (np.modf(x), np.frexp(x), np.ldexp(x, 2), np.round(x), np.round(x, 1), np.nan_to_num(x)),
    "places": lambda x, y: (np.add.at(x, [0, 2, 2], y[:3]), x, np.logaddexp.reduce(x), x.sum(initial=2), x.dot(y.T)),
    "errors": lambda x, y: (np.log(x), x / (y - y), x * BFLOAT16.type(3e38) * 4),
    "no common dtype": lambda x, y: np.concatenate([x, y.astype(np.float16)]),
    "too large": lambda x, y: x * 10**30,
    "numbers": lambda x, y: (float(x[0, 0]), int(x[0, 0] * 10), x.tolist(), bool(x[0, 0])),
    "rounded": lambda x, y: round(x[0, 0]),
}


def outcome(function: Callable[..., Any]) -> tuple[Any, list[np.ndarray], set[str]]:
    arrays = [X.copy(), Y.copy()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arrays)
        except (TypeError, ValueError) as error:
            result = type(error).__name__, str(error)
    return result, arrays, {str(w.message) for w in caught}


@pytest.mark.parametrize("name", CALLS)
def test_programs(name: str) -> None:
    compiled = npc.compile(CALLS[name])
    expected = outcome(CALLS[name])
    for _ in range(2):
        given = outcome(compiled)
        compare(given[0], expected[0], ulp=4)  # of float32 functions and products, where promotion leads there
        compare(given[1], expected[1], ulp=0)
        assert given[2] == expected[2]


def test_loops_stay_in_bfloat16() -> None:
    def doubled(x: np.ndarray) -> np.ndarray:
        total = x[0]
        for row in x:
            total = total + row
        while total.max() < 1000:
            total = total * 2
        return total

    compare(npc.compile(doubled)(X), doubled(X), ulp=0)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "int4"])
def test_other_dtypes_of_the_package_run_as_numpy(name: str) -> None:
    x = np.arange(6).astype(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(npc.compile(lambda x: x + x)(x).view(np.uint8), (x + x).view(np.uint8))


# --- Tensors


def test_tensors_and_their_gradients() -> None:
    """Of the numbers in float32, each rounded a few times on the way."""
    x = npc.tensor(X.tolist(), dtype="bfloat16", requires_grad=True)
    (np.sin(x) * x).sum().backward()
    wide = X.astype(np.float32)
    assert x.dtype == BFLOAT16 and x.grad.dtype == BFLOAT16
    np.testing.assert_allclose(x.grad.numpy().astype(np.float32), np.cos(wide) * wide + np.sin(wide), rtol=0.02, atol=0.02)
    found = npc.grad(lambda x: np.sum(np.sin(x) * x))(X)
    assert found.dtype == BFLOAT16
    np.testing.assert_allclose(found.astype(np.float32), np.cos(wide) * wide + np.sin(wide), rtol=0.02, atol=0.02)


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: x / 3 + x,
    lambda x: np.tanh(x) @ x.T,
    lambda x: x.mean(0),
    lambda x: x[:, 1] ** 2,
    lambda x: np.where(x > 0, x, x * 2.5),
    lambda x: np.max(x, axis=1),
    lambda x: np.cumsum(x, 0),
    lambda x: x.astype("f4"),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_have_the_dtype_of_the_tensor(function: Callable[[Any], Any]) -> None:
    """The same for eager Tensors and compiled functions, and near those of float32."""
    wide = npc.tensor(X.astype(np.float32), requires_grad=True)
    function(wide).sum().backward()
    for each in (function, npc.compile(npc.wrap_numpy(function))):
        x = npc.tensor(X, requires_grad=True)
        result = each(x)
        compare(result.detach().numpy(), function(X), ulp=4)
        result.sum().backward()
        assert x.grad.dtype == BFLOAT16
        np.testing.assert_allclose(x.grad.numpy().astype(np.float32), wide.grad.numpy(), rtol=0.05, atol=0.05)


def test_gradients_of_repeated_arrays_are_summed_in_float32() -> None:
    """In steps of bfloat16 a sum of ones ends at 256."""
    bias = npc.tensor(np.ones(3, BFLOAT16), requires_grad=True)
    (npc.tensor(np.ones((1000, 3), BFLOAT16)) * bias).sum().backward()
    np.testing.assert_array_equal(bias.grad.numpy(), np.full(3, 1000, BFLOAT16))


def test_dlpack() -> None:
    x = npc.from_numpy(X.copy())
    y = npc.from_dlpack(x)
    compare(y.numpy(), X, ulp=0)
    y[0, 0] = 7
    assert x[0, 0] == 7 and x.__dlpack_device__() == (1, 0)


def test_bfloat16_is_taken_when_its_package_is_there() -> None:
    program = """
import numpy as np, npcompile as npc
from npcompile.tensor_core.tensors.exchange import to_dlpack
class Exporter:
    def __dlpack_device__(self): return 1, 0
    def __dlpack__(self, **keywords): return to_dlpack(np.array([0x3f80, 0x4000], np.uint16), **keywords)
try:
    npc.from_dlpack(Exporter())
except BufferError as error:
    print("ml_dtypes" in str(error))
import ml_dtypes
print(npc.from_dlpack(Exporter()).tolist())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stdout.split("\n")[:2] == ["True", "[1.0, 2.0]"], ran.stderr


@pytest.mark.torch
def test_dlpack_with_torch() -> None:
    import torch

    x = npc.tensor([[1.5, 2, 3], [4, 5, 6]], dtype="bfloat16")
    there = torch.from_dlpack(x)
    assert there.dtype == torch.bfloat16 and there.tolist() == [[1.5, 2, 3], [4, 5, 6]]
    there[0, 0] = 7
    assert x[0, 0] == 7
    back = npc.from_dlpack(there.T)
    assert back.dtype == BFLOAT16 and back.strides == (2, 6) and back.tolist() == [[7, 4], [2, 5], [3, 6]]
