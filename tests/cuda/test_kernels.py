"""The forms that kernels take on the device: rows on the chip and in passes, parts, columns, scans, gathers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.dim import Dim, Size
from npcompile.tensor_core.graph import Node
from tests.cuda.interpreted import make_device

from npcompile.backends.cuda.programs import plan  # isort: skip  # after the interpreter is chosen
from npcompile.backends.cuda.backend import compile_for  # isort: skip
from npcompile.backends.cuda.runtime.run import Prepared  # isort: skip

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)


def array(builder: Builder, *shape: Size, dtype: np.dtype = F8) -> Node:
    return builder.input(TensorMeta(shape, dtype))


def keep(builder: Builder, reduced: Node, like: Node) -> Node:
    """A reduction over the last axis, repeated along it."""
    made = builder.apply("reshape", reduced, shape=(*like.shape[:-1], 1))
    return builder.apply("broadcast_to", made, shape=like.shape)


def softmax(builder: Builder, x: Node) -> Node:
    last = (x.meta.ndim - 1,)
    largest = builder.apply("reduce", x, reducer="maximum", axes=last)
    e = builder.apply("exp", builder.apply("subtract", x, keep(builder, largest, x)))
    return builder.apply("divide", e, keep(builder, builder.apply("reduce", e, reducer="add", axes=last), x))


def by_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def run(graph: Graph, *arrays: Any) -> tuple[tuple[Any, ...], list[str]]:
    device = make_device()
    return compile_for(graph, device)(*arrays), [r.name for r in device.requests]


@pytest.mark.parametrize("shape", [(3, 5), (40, 50), (200, 6), (2, 3, 700), (1, 1), (0, 4)])
def test_softmax_is_one_kernel(shape: tuple[int, ...]) -> None:
    builder = Builder()
    graph = builder.finish([softmax(builder, array(builder, *shape))])
    x = np.random.default_rng(0).standard_normal(shape)
    (got,), kernels = run(graph, x)
    np.testing.assert_allclose(got, by_softmax(x), rtol=1e-14)
    assert len(kernels) == (x.size > 0)


def test_rows_that_do_not_fit_on_the_chip_go_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ON_CHIP", 64)
    monkeypatch.setattr(plan, "PROCESSORS", 1)
    monkeypatch.setattr(plan, "pass_tile", lambda *_: (32, 2))
    builder = Builder()
    graph = builder.finish([softmax(builder, array(builder, 3, 150))])
    x = np.random.default_rng(0).standard_normal((3, 150))
    (got,), kernels = run(graph, x)
    np.testing.assert_allclose(got, by_softmax(x), rtol=1e-14)
    assert len(kernels) == 1


@pytest.mark.parametrize("rows", [1, 3])
def test_few_long_rows_are_cut_in_parts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ON_CHIP", 64)
    monkeypatch.setattr(plan, "PART", 128)
    monkeypatch.setattr(plan, "pass_tile", lambda *_: (32, 2))
    builder = Builder()
    graph = builder.finish([softmax(builder, array(builder, rows, 1000))])
    x = np.random.default_rng(0).standard_normal((rows, 1000))
    (got,), kernels = run(graph, x)
    np.testing.assert_allclose(got, by_softmax(x), rtol=1e-14)
    assert len(kernels) == 3  # the largest, the sum, the quotients


def test_one_program_for_all_lengths_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ON_CHIP", 64)
    monkeypatch.setattr(plan, "PROCESSORS", 1)
    monkeypatch.setattr(plan, "pass_tile", lambda *_: (32, 2))
    builder = Builder()
    m: Dim = builder.env.symbol("m", 10, at_least=2)
    graph = builder.finish([softmax(builder, array(builder, 4, m))])
    device = make_device()
    compiled = compile_for(graph, device)
    for size in (10, 11, 64, 65, 150):
        x = np.random.default_rng(size).standard_normal((4, size))
        np.testing.assert_allclose(compiled(x, size)[0], by_softmax(x), rtol=1e-14)
    # 10 and 11 share a tile; sizes that are multiples of 16 are known to be.
    assert len(device.requests) == 3 and {r.divisible for r in device.requests} != {device.requests[0].divisible}


def test_layer_norm_is_one_kernel() -> None:
    builder = Builder()
    x = array(builder, 6, 33, dtype=F4)
    weight, bias = (builder.apply("broadcast_to", array(builder, 33, dtype=F4), shape=(6, 33)) for _ in range(2))
    count = builder.apply("broadcast_to", builder.constant(33, F4), shape=(6,))
    mean = builder.apply("divide", builder.apply("reduce", x, reducer="add", axes=(1,)), count)
    centred = builder.apply("subtract", x, keep(builder, mean, x))
    squares = builder.apply("reduce", builder.apply("square", centred), reducer="add", axes=(1,))
    small = builder.apply("broadcast_to", builder.constant(1e-5, F4), shape=(6,))
    deviation = builder.apply("sqrt", builder.apply("add", builder.apply("divide", squares, count), small))
    scaled = builder.apply("divide", centred, keep(builder, deviation, x))
    graph = builder.finish([builder.apply("add", builder.apply("multiply", scaled, weight), bias)])
    rng = np.random.default_rng(1)
    data, w, b = (rng.standard_normal(s).astype(F4) for s in ((6, 33), 33, 33))
    (got,), kernels = run(graph, data, w, b)
    centred_data = data - data.mean(1, keepdims=True)
    expected = centred_data / np.sqrt((centred_data**2).mean(1, keepdims=True) + np.float32(1e-5)) * w + b
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
    assert len(kernels) == 1


REDUCTIONS = [(r, d) for r in ("add", "multiply", "maximum", "minimum", "fmax", "fmin") for d in "ilLefd"]
REDUCTIONS += [("add", "F"), ("add", "D"), ("multiply", "D"), ("bitwise_and", "l"), ("bitwise_or", "L"), ("bitwise_xor", "i")]
REDUCTIONS += [(r, "?") for r in ("logical_and", "logical_or", "maximum", "minimum")]


def numbers(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    if dtype in "efd":
        x = np.where(rng.random(shape) < 0.02, -0.0, rng.uniform(0.5, 1.5, shape))
    elif dtype in "FD":
        x = rng.uniform(0.5, 1.5, shape) + 1j * rng.uniform(-0.1, 0.1, shape)
    else:
        x = rng.integers(0, 2 if dtype == "?" else 7, shape)
    return x.astype(dtype)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(("reducer", "dtype"), REDUCTIONS)
def test_reductions(reducer: str, dtype: str, axes: tuple[int, ...]) -> None:
    x = numbers(dtype, 5, 3, 17)
    builder = Builder()
    graph = builder.finish([builder.apply("reduce", array(builder, *x.shape, dtype=x.dtype), reducer=reducer, axes=axes)])
    (got,), _ = run(graph, x)
    expected = getattr(np, reducer).reduce(x, axis=axes, dtype=x.dtype)
    if x.dtype.kind in "fc":
        np.testing.assert_allclose(got, expected, rtol=200 * np.finfo(x.dtype).eps)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("reducer", ["add", "maximum", "multiply"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_reductions_in_two_stages(reducer: str, axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PART", 256)
    monkeypatch.setattr(plan, "pass_tile", lambda *_: (64, 4))
    shape = {(1,): (3, 600), (0,): (600, 7), (0, 1): (60, 101)}[axes]
    x = np.random.default_rng(0).uniform(0.99, 1.01, shape)
    builder = Builder()
    node = builder.apply("reduce", array(builder, *x.shape), reducer=reducer, axes=axes)
    graph = builder.finish([builder.apply("add", node, node)] if axes == (0, 1) else [node])
    (got,), kernels = run(graph, x)
    expected = getattr(np, reducer).reduce(x, axis=axes)
    np.testing.assert_allclose(got, 2 * expected if axes == (0, 1) else expected, rtol=1e-13)
    assert any(name.endswith("_part0") for name in kernels)


def test_sums_in_parts_are_as_good_as_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "pass_tile", lambda *_: (64, 4))
    x = np.random.default_rng(0).standard_normal(40_000).astype(F4)
    builder = Builder()
    graph = builder.finish([builder.apply("reduce", array(builder, x.size, dtype=F4), reducer="add", axes=(0,))])
    (got,), _ = run(graph, x)
    exact = x.astype(np.float64).sum()
    assert abs(got - exact) <= max(abs(x.sum() - exact), np.spacing(F4.type(exact)))
    (again,), kernels = run(graph, x)
    assert got == again and len(kernels) == 2


@pytest.mark.parametrize("size", [0, 1, 5])
def test_sums_of_nothing_and_of_negative_zeros(size: int) -> None:
    builder = Builder()
    n = builder.env.symbol("n", 3)
    x = array(builder, 2, n)
    graph = builder.finish([builder.apply("reduce", x, reducer="add", axes=axes) for axes in ((1,), (0, 1))])
    data = np.full((2, size), -0.0)
    rows, whole = compile_for(graph, make_device())(data, size)
    for got, expected in ((rows, data.sum(axis=1)), (whole, data.sum())):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("which", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["d", "e", "l", "B", "?"])
def test_positions_of_extremes(which: str, axis: int, dtype: str) -> None:
    x = numbers(dtype, 6, 40)
    x[2, 5] = x[3, 9] = x.max()
    if dtype in "de":
        x[1, 3:5] = np.nan
        x[4] = -np.inf if which == "max" else np.inf
    builder = Builder()
    graph = builder.finish([builder.apply("arg_reduce", array(builder, 6, 40, dtype=x.dtype), which=which, axis=axis)])
    (got,), _ = run(graph, x)
    np.testing.assert_array_equal(got, getattr(np, f"arg{which}")(x, axis=axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("reducer", "dtype"), [("add", "d"), ("add", "l"), ("multiply", "l"), ("maximum", "d"), ("add", "D")])
def test_scans(reducer: str, dtype: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PROGRAMS", 8)
    x = numbers(dtype, 70, 33)
    builder = Builder()
    graph = builder.finish([builder.apply("scan", array(builder, 70, 33, dtype=x.dtype), reducer=reducer, axis=axis)])
    (got,), _ = run(graph, x)
    expected = getattr(np, reducer).accumulate(x, axis=axis)
    np.testing.assert_allclose(got, expected, rtol=1e-13 if dtype in "dD" else 0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("reducer", "dtype"), [("add", "d"), ("add", "l"), ("maximum", "f"), ("logical_or", "?"), ("add", "D")])
def test_few_long_scans_are_cut_in_parts(reducer: str, dtype: str, axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SCANNED", 32)
    x = numbers(dtype, *((700, 3) if axis == 0 else (3, 700)))
    builder = Builder()
    graph = builder.finish([builder.apply("scan", array(builder, *x.shape, dtype=x.dtype), reducer=reducer, axis=axis)])
    (got,), kernels = run(graph, x)
    expected = getattr(np, reducer).accumulate(x, axis=axis)
    np.testing.assert_allclose(got, expected, rtol=1e-12 if dtype in "dD" else 0)
    assert len(kernels) == 2


def test_running_sums_across_memory_are_numpys_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PROGRAMS", 8)
    x = np.random.default_rng(0).standard_normal((50, 90)).astype(F4)
    builder = Builder()
    graph = builder.finish([builder.apply("scan", array(builder, 50, 90, dtype=F4), reducer="add", axis=0)])
    np.testing.assert_array_equal(run(graph, x)[0][0], np.add.accumulate(x, axis=0))


def test_transposed_operands_in_square_tiles() -> None:
    builder = Builder()
    x, y = array(builder, 70, 45), array(builder, 45, 70)
    graph = builder.finish([builder.apply("add", builder.apply("permute", x, axes=(1, 0)), y)])
    a, b = np.random.default_rng(0).standard_normal((2, 70, 45))
    (got,), _ = run(graph, a, b.T.copy())
    np.testing.assert_array_equal(got, a.T + b.T)


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2, 1::3], np.s_[:, ::-2]], ids=str)
def test_arrays_of_the_device_are_read_where_they_are(view: Any) -> None:
    device = make_device()
    x = device.upload(np.arange(80.0).reshape(8, 10))[view]
    builder = Builder()
    node = builder.input(TensorMeta(x.shape, x.dtype, x.strides))
    graph = builder.finish([builder.apply("negative", node)], None, [(0, builder.apply("add", node, node))])
    before = np.array(x)
    (got,) = compile_for(graph, device)(x)
    assert device.is_array(got)
    np.testing.assert_array_equal(got, -before)
    np.testing.assert_array_equal(x, before * 2)


def test_gathers_and_indices_out_of_bounds() -> None:
    builder = Builder()
    x, i = array(builder, 9, 3), array(builder, 4, dtype=np.dtype(np.int64))
    picked = builder.apply("gather", x, i)
    graph = builder.finish([picked], None, [(0, builder.apply("negative", x))])
    data = np.arange(27.0).reshape(9, 3)
    expected = data[[8, -9, 0, -1]]
    (got,), _ = run(graph, data, np.array([8, -9, 0, -1]))
    np.testing.assert_array_equal(got, expected)
    before = data.copy()
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        run(graph, data, np.array([0, 9, 0, 0]))
    np.testing.assert_array_equal(data, before)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
@pytest.mark.parametrize("sizes", [(9, 5, 12), (2, 30, 3)], ids=str)
@pytest.mark.parametrize("stack", [(), (4,)], ids=str)
def test_products_of_small_matrices(dtype: str, sizes: tuple[int, int, int], stack: tuple[int, ...]) -> None:
    m, k, n = sizes
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((*stack, *s)).astype(dtype) for s in ((m, k), (k, n)))
    builder = Builder()
    nodes = [array(builder, *a.shape, dtype=a.dtype) for a in (x, y)]
    axes = tuple(range(len(stack)))
    i, j, inner = (len(stack) + p for p in range(3))
    made = builder.apply("einsum", *nodes, inputs=((*axes, i, inner), (*axes, inner, j)), output=(*axes, i, j))
    (got,), kernels = run(builder.finish([made]), x, y)
    np.testing.assert_allclose(got, x @ y, rtol=1e-4 if dtype in "fF" else 1e-12, atol=1e-5 if dtype in "fF" else 1e-13)
    assert len(kernels) == 1


def test_memory_is_read_before_what_takes_long() -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((100,), np.dtype(float))) for _ in range(2))
    sine = builder.apply("sin", x)
    graph = builder.finish([builder.apply("multiply", sine, y)])
    (text,) = [p.text for plan in Prepared.of(graph, frozenset({0, 1}), frozenset()).plans for p in plan.programs]
    assert text.index("tl.load(x1") < text.index("libdevice.sin")


@pytest.mark.parametrize("dtype", ["e", "f", "d"])
def test_nans_keep_their_signs(dtype: str) -> None:
    builder = Builder()
    x = array(builder, 5, dtype=np.dtype(dtype))
    masked = builder.apply("greater", x, builder.apply("broadcast_to", builder.constant(0, x.dtype), shape=(5,)))
    nodes = []
    for number in (np.nan, -np.nan):
        nan = builder.apply("broadcast_to", builder.constant(number, x.dtype), shape=(5,))
        nodes.append(builder.apply("where", masked, nan, x))
    given = np.array([-1, 1, 2, -0.0, 3], dtype)
    found, _ = run(builder.finish(nodes), given)
    for result, number in zip(found, (np.nan, -np.nan), strict=True):
        expected = np.where(given > 0, np.array(number, dtype), given)
        assert np.array_equal(np.signbit(result), np.signbit(expected)) and np.array_equal(result, expected, equal_nan=True)
