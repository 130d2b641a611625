"""Every elementwise op of the table that the printer has, for every dtype, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.programs.primitives import has_triton_type, is_native
from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.special import FORMS  # tests/cuda/test_special_functions.py
from tests.cuda.interpreted import make_device
from tests.ops.table import BFLOAT16
from tests.ops.test_elementwise import CANCELLING, POWERS, close_powers, same_to_larger_term
from tests.shim.harness import same_values

from npcompile.backends.cuda.backend import compile_for  # isort: skip  # after the interpreter is chosen

DTYPES = [*(np.dtype(c) for c in "?bhilBHILefdFD"), BFLOAT16]
LEAST_ULP = 0  # how far from NumPy every function may be
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e-300, 65504.0, 1e300, 3.0, -7.0]


def operands(dtype: np.dtype, count: int) -> list[np.ndarray]:
    """All pairs of special numbers, and random ones."""
    rng = np.random.default_rng(3)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if kind_of(dtype) in "fc":
            values = np.array([*SPECIAL, *rng.uniform(-9, 9, 9)]).astype(dtype)
            if dtype.kind == "c":
                values = (values + 1j * np.roll(values, 5)).astype(dtype)
        elif dtype.kind == "b":
            values = np.array([True, False])
        else:
            info = np.iinfo(dtype)
            values = np.array([info.min, info.max, *rng.integers(max(info.min, -9), 20, 12)], dtype)
    grids = np.meshgrid(*[values] * count, indexing="ij")
    return [np.ascontiguousarray(g.ravel()) for g in grids]


def graph_of(op: str, arrays: list[np.ndarray], params: dict[str, Any]) -> Graph | None:
    """None where NumPy has no loop for these dtypes, or the printer no form."""
    builder = Builder()
    try:
        node = builder.apply(op, *(builder.input(TensorMeta(x.shape, x.dtype)) for x in arrays), **params)
    except (Decline, TypeError, AssertionError):
        return None
    return builder.finish([node]) if is_native(node) else None


def cases() -> list[Any]:
    found = []
    for name, op in OPS.items():
        if op.kind != "elementwise" or name in ("cast", "bitcast", "where", "ldexp", "complex", *FORMS):
            continue
        found += [
            pytest.param(name, d, id=f"{name}-{d.name}")
            for d in DTYPES
            if graph_of(name, operands(d, op.loops.nin if op.loops else 1), {})
        ]
    return found


def compare(graph: Graph, arrays: list[np.ndarray], expected: np.ndarray, ulp: int) -> None:
    device = make_device()
    (got,) = compile_for(graph, device)(*arrays)
    assert device.requests and got.dtype == expected.dtype and got.shape == expected.shape
    step = 1
    if got.dtype == BFLOAT16:
        got, expected, step = got.astype(np.float32), expected.astype(np.float32), 2**16
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    parts = [(got.real, expected.real), (got.imag, expected.imag)] if got.dtype.kind == "c" else [(got, expected)]
    for a, b in parts:
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        if got.dtype.kind == "c":  # a part may be a small difference of large products, rounded once or twice
            finite = np.isfinite(expected)
            error = np.abs(got[finite] - expected[finite])
            assert (error <= 4 * np.finfo(got.dtype).eps * np.abs(expected[finite])).all()
            continue
        np.testing.assert_array_equal(np.isinf(a), np.isinf(b))
        finite = np.isfinite(b)
        np.testing.assert_array_max_ulp(a[finite], b[finite], max(ulp, LEAST_ULP) * step)
        if ulp == 0 and not LEAST_ULP:
            np.testing.assert_array_equal(np.signbit(a[finite]), np.signbit(b[finite]))


BY_PIECES = {"divide": 4, "absolute": 2, "degrees": 1, "rad2deg": 1, "radians": 1, "deg2rad": 1}
BY_PIECES |= {"floor_divide": 1, "float_power": 1, "arctan2": 1}  # whole quotients near 2**53; NumPy's own vary by place


@pytest.mark.parametrize(("name", "dtype"), cases())
def test_op(name: str, dtype: np.dtype) -> None:
    op = OPS[name]
    arrays = operands(dtype, op.loops.nin if op.loops else 1)
    if name == "power" and dtype.kind == "i":
        return test_power_of_signed_integers(dtype)
    graph = graph_of(name, arrays, {})
    assert graph is not None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = op.eager(*arrays)
    keep = ~np.any([np.isinf(x) for x in arrays], axis=0) if dtype.kind == "c" else np.ones(arrays[0].shape, bool)
    arrays = [x[keep] for x in arrays]
    graph = graph_of(name, arrays, {})
    assert graph is not None
    if name in CANCELLING and dtype != BFLOAT16:
        (got,) = compile_for(graph, make_device())(*arrays)
        return same_to_larger_term(got, expected[keep], arrays)
    if name in POWERS and dtype.kind == "c":
        (got,) = compile_for(graph, make_device())(*arrays)
        return close_powers(got, expected[keep], *arrays, ulp=4)
    compare(graph, arrays, expected[keep], BY_PIECES.get(name, 0))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind == "i"])
def test_power_of_signed_integers(dtype: np.dtype) -> None:
    (x,) = operands(dtype, 1)
    builder = Builder()
    exponent = builder.apply("broadcast_to", builder.constant(5, dtype), shape=x.shape)
    graph = builder.finish([builder.apply("power", builder.input(TensorMeta(x.shape, dtype)), exponent)])
    compare(graph, [x], x ** dtype.type(5), 0)


@pytest.mark.parametrize("old", DTYPES, ids=lambda d: d.name)
def test_casts(old: np.dtype) -> None:
    (x,) = operands(old, 1)
    builder = Builder()
    node = builder.input(TensorMeta(x.shape, old))
    graph = builder.finish([builder.apply("cast", node, dtype=new) for new in DTYPES])
    got = compile_for(graph, make_device())(x)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for new, value in zip(DTYPES, got):
            # What is out of range depends on the width of NumPy's vectors there; only what is defined is compared.
            inside = np.ones(x.shape, bool)
            if kind_of(old) in "fc" and new.kind in "iu":
                info = np.iinfo(new)
                inside = (x.real > max(float(info.min), -1.0 if new.kind == "u" else -np.inf)) & (x.real < float(info.max))
            same_values(value[inside], x.astype(new)[inside], ulp=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_where(dtype: np.dtype) -> None:
    x, y = operands(dtype, 2)
    condition = np.arange(x.size) % 3 == 0
    builder = Builder()
    nodes = [builder.input(TensorMeta(a.shape, a.dtype)) for a in (condition, x, y)]
    (got,) = compile_for(builder.finish([builder.apply("where", *nodes)]), make_device())(condition, x, y)
    same_values(got, np.where(condition, x, y), ulp=0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_parts_of_complex_numbers(dtype: str) -> None:
    re, im = operands(np.dtype(dtype), 2)
    builder = Builder()
    z = builder.apply("complex", *(builder.input(TensorMeta(a.shape, a.dtype)) for a in (re, im)))
    graph = builder.finish([z, builder.apply("real", z), builder.apply("imag", z)])
    made, real, imag = compile_for(graph, make_device())(re, im)
    np.testing.assert_array_equal(made.real, re)
    np.testing.assert_array_equal(made.imag, im)
    np.testing.assert_array_equal(real, re)
    np.testing.assert_array_equal(imag, im)


def test_long_double_has_no_form() -> None:
    assert not has_triton_type(np.dtype(np.longdouble)) and not has_triton_type(np.dtype(np.clongdouble))
