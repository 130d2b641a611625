"""Reductions and scans of the table x dtype x axes x layout against the ufuncs that they are named for."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tensor_core.ops.reduction import REDUCERS
from tests.backends import BACKENDS
from tests.ops.table import BFLOAT16, DTYPES, LAYOUTS, SHAPE, apply_all, check_meta, numbers, thin
from tests.shim.harness import same_values

AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]
DTYPES_OF = {
    "logical_and": "?",
    "logical_or": "?",
    "logical_xor": "?",
    "bitwise_and": "?bBhHiIlL",
    "bitwise_or": "?bBhHiIlL",
    "bitwise_xor": "?bBhHiIlL",
    "add": "bBhHiIlLefdFDE",
    "multiply": "bBhHiIlLefdFDE",
}
# Any order of adding is as good as NumPy's: these numbers of ordinary size differ by a few roundings. Not so for bfloat16 (E),
# which is rounded after each step.
ORDER = {"e": 16, "f": 16, "d": 16, "F": 64, "D": 64}


def dtypes_of(reducer: str) -> list[np.dtype]:
    return [dtype for dtype in DTYPES if dtype.char in DTYPES_OF.get(reducer, "?bBhHiIlLefdFDE")]


def test_every_reducer_is_the_ufunc_of_its_name() -> None:
    assert all(ufunc is getattr(np, name) for name, ufunc in REDUCERS.items())


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_reduce(backend: str, reducer: str) -> None:
    rng = np.random.default_rng(11)
    rounds = reducer in ("add", "multiply")
    calls = []
    for dtype in dtypes_of(reducer):
        for name, layout in LAYOUTS.items():
            x = layout(numbers(dtype, rng, ordinary=rounds and dtype.kind in "fc"))
            if rounds and dtype.kind in "fc":
                x = abs(x).astype(dtype) if reducer == "add" else layout(np.ones(SHAPE, dtype) * dtype.type(0.5))
            for axes in AXES if x.ndim else [()]:
                if name != "empty" or 1 not in axes or REDUCERS[reducer].identity is not None:
                    calls.append(("reduce", [x], {"reducer": reducer, "axes": axes}))
    calls = thin(backend, calls, 24)
    nodes, results = apply_all(backend, calls)
    for (_, (x,), params), node, result in zip(calls, nodes, results):
        with np.errstate(all="ignore"):
            in_order = np.asarray(x, order="C") if x.dtype == BFLOAT16 else x
            expected = np.asarray(REDUCERS[reducer].reduce(in_order, axis=params["axes"], dtype=x.dtype))
        check_meta(node, expected)
        same_values(result, expected, ulp=ORDER.get(x.dtype.char, 0) if rounds else 0)


@pytest.mark.parametrize("reducer", ["add", "multiply"])
@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_special_numbers_spread_through_sums_and_products(backend: str, dtype: str, reducer: str) -> None:
    x = np.ones((6, 3), dtype)
    x[0, 0], x[1, 1], x[2, 2], x[3, 2], x[4, 1] = np.nan, np.inf, np.inf, -np.inf, 2
    real = np.dtype(dtype).kind == "f"
    calls = [("reduce", [x if real else x.real.copy()], {"reducer": reducer, "axes": axes}) for axes in ((0,), (1,), (0, 1))]
    calls.append(("reduce", [np.full(3, -0.0, x.real.dtype)], {"reducer": reducer, "axes": (0,)}))
    calls.append(("reduce", [np.zeros((0, 3), dtype)], {"reducer": reducer, "axes": (0,)}))
    _, results = apply_all(backend, calls)
    for (_, (array,), params), result in zip(calls, results):
        with np.errstate(all="ignore"):
            same_values(result, np.asarray(REDUCERS[reducer].reduce(array, axis=params["axes"], dtype=array.dtype)), ulp=0)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_are_as_accurate_as_pairwise_ones(backend: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 40_001)).astype(dtype)
    exact = x.astype(np.longdouble).sum(axis=1)
    _, (total, columns) = apply_all(
        backend, [("reduce", [x], {"reducer": "add", "axes": (1,)}), ("reduce", [x.T.copy()], {"reducer": "add", "axes": (0,)})]
    )
    unit = np.finfo(dtype).eps * np.abs(x).astype(np.longdouble).sum(axis=1)
    assert (np.abs(total - exact) <= 8 * unit).all(), (np.abs(total - exact) / unit).max()
    numpy_error = np.abs(x.T.copy().sum(axis=0) - exact).max()
    assert np.abs(columns - exact).max() <= max(8 * unit.max(), numpy_error)


@pytest.mark.parametrize("which", ["max", "min"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_arg_reduce(backend: str, which: str) -> None:
    rng = np.random.default_rng(12)
    calls = []
    for dtype in DTYPES:
        for name, layout in LAYOUTS.items():
            x = layout(numbers(dtype, rng))
            calls += [("arg_reduce", [x], {"which": which, "axis": a}) for a in range(x.ndim) if name != "empty" or a != 1]
    calls = thin(backend, calls, 40)
    nodes, results = apply_all(backend, calls)
    for (_, (x,), params), node, result in zip(calls, nodes, results):
        expected = np.asarray(getattr(np, f"arg{which}")(x, axis=params["axis"]))
        check_meta(node, expected)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("reducer", REDUCERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_scan(backend: str, reducer: str) -> None:
    rng = np.random.default_rng(13)
    calls = []
    for dtype in dtypes_of(reducer):
        for layout in LAYOUTS.values():
            x = layout(numbers(dtype, rng, ordinary=reducer == "multiply" and dtype.kind == "c"))
            calls += [("scan", [x], {"reducer": reducer, "axis": axis}) for axis in range(x.ndim)]
    calls = thin(backend, calls, 20)
    nodes, results = apply_all(backend, calls)
    for (_, (x,), params), node, result in zip(calls, nodes, results):
        with np.errstate(all="ignore"):
            expected = REDUCERS[reducer].accumulate(x, axis=params["axis"], dtype=x.dtype)
        check_meta(node, expected)
        if reducer == "multiply" and x.dtype.kind == "c":
            np.testing.assert_allclose(result, expected, rtol=16 * np.finfo(x.dtype).eps)
        else:
            same_values(result, expected, ulp=4 if backend == "cuda" else 0)  # a device adds in another order


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "c8", "c16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 2), 0), ((2, 3), 1), ((40, 3), 0), ((1000, 5), 0), ((2, 3, 4), (0, 2)), ((5,), 0)]
)
def test_sums_of_negative_zeros(dtype: str, shape: tuple[int, ...], axis: Any) -> None:
    x = np.full(shape, -0.0, dtype)
    given, expected = npc.compile(lambda x: np.sum(x, axis=axis))(x), np.sum(x, axis=axis)
    np.testing.assert_array_equal(np.signbit(np.real(given)), np.signbit(np.real(expected)))
    np.testing.assert_array_equal(np.signbit(np.imag(given)), np.signbit(np.imag(expected)))
