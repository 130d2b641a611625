"""Writes at places that are data: NumPy's answer, whatever is repeated, in one part and in several."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.tensor_core import Builder, Graph, TensorMeta
from npcompile.tensor_core.op import OPS
from tests.cuda.interpreted import make_device

from npcompile.backends.cuda.programs import plan  # isort: skip  # after the interpreter is chosen
from npcompile.backends.cuda.backend import compile_for  # isort: skip

MODES = [(mode, d) for mode in ("add", "multiply", "maximum", "minimum", "subtract") for d in "bHiLqefd"]
MODES += [(mode, d) for mode in ("fmax", "fmin") for d in "id"] + [
    (f"bitwise_{b}", d) for b in ("and", "or", "xor") for d in "?iQ"
]
MODES += [(mode, d) for mode in ("add", "subtract", "multiply") for d in "FD"]
MODES += [(mode, "?") for mode in ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor")]
MODES += [("set", d) for d in "?bHiQefdFD"]


def graph_of(mode: str, x: np.ndarray, value: np.ndarray, *indices: np.ndarray) -> Graph:
    builder = Builder()
    nodes = [builder.input(TensorMeta(a.shape, a.dtype)) for a in (x, value, *indices)]
    return builder.finish([builder.apply("scatter", *nodes, mode=mode)])


def numbers(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    if dtype in "efd":
        return np.where(rng.random(shape) < 0.05, -0.0, rng.uniform(0.5, 1.5, shape)).astype(dtype)
    if dtype in "FD":
        return (rng.uniform(0.5, 1.5, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
    return rng.integers(0, 2 if dtype == "?" else 100, shape).astype(dtype)


def check(mode: str, *arrays: np.ndarray) -> list[str]:
    """The same bits as NumPy's, and the kernels that made them."""
    device = make_device()
    before = arrays[0].copy()
    (got,) = compile_for(graph_of(mode, *arrays), device)(*arrays)
    with np.errstate(all="ignore"):
        expected = OPS["scatter"].eager(*arrays, mode=mode)
    assert got.dtype == expected.dtype
    if expected.dtype.kind == "c" and mode == "multiply":  # fused or not, as NumPy's vectors are
        np.testing.assert_allclose(got, expected, rtol=1e-5 if expected.dtype == np.complex64 else 1e-14)
    else:
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(arrays[0], before)
    return [r.name for r in device.requests]


@pytest.mark.parametrize(("mode", "dtype"), MODES)
def test_places_that_repeat(mode: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, value = numbers(rng, dtype, 9), numbers(rng, dtype, 150)
    assert check(mode, x, value, rng.integers(-9, 9, 150))


@pytest.mark.parametrize("mode", ["set", "add", "maximum"])
@pytest.mark.parametrize("dtype", ["d", "q"])
def test_rows_and_several_indices(mode: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, value = numbers(rng, dtype, 5, 4, 7), numbers(rng, dtype, 3, 20, 7)
    assert check(mode, x, value, rng.integers(-5, 5, (3, 20)), rng.integers(-4, 4, (3, 20)))
    rows, one = numbers(rng, dtype, 40, 4, 7), numbers(rng, dtype, 4, 7)
    assert check(mode, x, rows, rng.integers(-5, 5, 40))
    assert check(mode, x, one, np.array(-3))
    assert check(mode, x, rows[:0], np.arange(0))


@pytest.mark.parametrize(
    ("mode", "dtype"), [(m, d) for m in ("add", "maximum", "multiply") for d in "?ehdD" if (m, d) != ("maximum", "D")]
)
def test_parts_of_many_positions(mode: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "TURNS", 16)
    rng = np.random.default_rng(3)
    # Whole numbers, so that sums are the same in every order.
    x, value = (rng.integers(0, 2, n).astype(dtype) for n in (6, 600))
    kernels = check(mode, x, value, rng.integers(-6, 6, 600))
    is_cut = not (dtype == "D" and mode == "multiply")
    assert any(name.endswith("_part0") for name in kernels) == is_cut


def test_sums_of_few_places_are_numpys_to_the_bit() -> None:
    rng = np.random.default_rng(4)
    assert len(check("add", rng.standard_normal(3), rng.standard_normal(400), rng.integers(0, 3, 400))) == 2  # with the copy


def test_one_value_for_all_needs_no_order() -> None:
    builder = Builder()
    x, i = (builder.input(TensorMeta((n,), np.dtype(d))) for n, d in ((9, "d"), (30, "l")))
    seven = builder.apply("broadcast_to", builder.constant(7.0, x.dtype), shape=(30,))
    graph = builder.finish([builder.apply("scatter", x, seven, i, mode="set")])
    device = make_device()
    places = np.random.default_rng(5).integers(-9, 9, 30)
    (got,) = compile_for(graph, device)(np.arange(9.0), places)
    expected = np.arange(9.0)
    expected[places] = 7
    np.testing.assert_array_equal(got, expected)
    assert len(device.requests) == 2


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("dtype", ["d", "q"])
def test_out_of_bounds(mode: str, dtype: str) -> None:
    x, value = numbers(np.random.default_rng(6), dtype, 9), numbers(np.random.default_rng(7), dtype, 4)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        compile_for(graph_of(mode, x, value, np.zeros(4, int)), make_device())(x, value, np.array([0, 9, 0, 0]))
    empty = x[:0]
    with pytest.raises(IndexError, match="out of bounds"):
        compile_for(graph_of(mode, empty, value, np.zeros(4, int)), make_device())(empty, value, np.array([0, 9, 0, 0]))


def test_arguments_keep_their_contents_when_an_index_is_wrong() -> None:
    builder = Builder()
    x, v, i = (builder.input(TensorMeta((n,), np.dtype(d))) for n, d in ((9, "d"), (4, "d"), (4, "l")))
    graph = builder.finish([], None, [(0, builder.apply("scatter", x, v, i, mode="set"))])
    data = np.arange(9.0)
    run = compile_for(graph, make_device())
    run(data, np.full(4, 5.0), np.array([0, -1, 0, 3]))
    np.testing.assert_array_equal(data, [5, 1, 2, 5, 4, 5, 6, 7, 5])
    with pytest.raises(IndexError):
        run(data, np.zeros(4), np.array([0, -10, 0, 3]))
    np.testing.assert_array_equal(data, [5, 1, 2, 5, 4, 5, 6, 7, 5])


@pytest.mark.parametrize("mode", ["set", "add"])
@pytest.mark.parametrize("dtype", ["d", "q"])
def test_out_of_bounds_where_nothing_is_written(mode: str, dtype: str) -> None:
    x, value = np.zeros((9, 0), dtype), np.zeros((4, 0), dtype)
    run = compile_for(graph_of(mode, x, value, np.zeros(4, int)), make_device())
    assert run(x, value, np.array([0, 8, -9, 0]))[0].shape == (9, 0)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        run(x, value, np.array([0, 9, 0, 0]))


def test_out_of_bounds_where_nothing_is_read() -> None:
    builder = Builder()
    x, i = (builder.input(TensorMeta(shape, np.dtype(d))) for shape, d in (((9, 0), "d"), ((4,), "l")))
    run = compile_for(builder.finish([builder.apply("negative", builder.apply("gather", x, i))]), make_device())
    assert run(np.zeros((9, 0)), np.array([0, 8, -9, 0]))[0].shape == (4, 0)
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 9"):
        run(np.zeros((9, 0)), np.array([0, 9, 0, 0]))


def test_sizes_that_are_not_fixed() -> None:
    builder = Builder()
    n, m = builder.env.symbol("n", 10, at_least=2), builder.env.symbol("m", 10, at_least=2)
    x, v = builder.input(TensorMeta((n, 3), np.dtype("f"))), builder.input(TensorMeta((m, 3), np.dtype("f")))
    i = builder.input(TensorMeta((m,), np.dtype("l")))
    graph = builder.finish([builder.apply("scatter", x, v, i, mode=mode) for mode in ("set", "add")])
    compiled = compile_for(graph, make_device())
    rng = np.random.default_rng(8)
    for sizes in ((10, 10), (4, 33), (40, 5)):
        data, value = (rng.standard_normal((k, 3)).astype("f") for k in sizes)
        places = rng.integers(-sizes[0], sizes[0], sizes[1])
        for got, mode in zip(compiled(data, value, places, *sizes), ("set", "add")):
            np.testing.assert_array_equal(got, OPS["scatter"].eager(data, value, places, mode=mode))
