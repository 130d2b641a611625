"""Shapes, axes, flips and repetition: views and copies where NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcompile.backends.eager import compile_eager
from npcompile.numpy_shim.registry import FUNCTIONS, METHODS
from npcompile.tensor_core import Array, Storage, TensorMeta
from npcompile.tensor_core.source import Name
from npcompile.tracer.guard_text import text_of
from tests.shim.harness import Capture, check, compare
from tests.shim.layouts import LAYOUTS

layouts = st.sampled_from(sorted(LAYOUTS))
axis = st.integers(-3, 2)
axes = st.one_of(st.none(), axis, st.lists(axis, max_size=3).map(tuple))
slow = settings(max_examples=250, deadline=None, derandomize=True)


def agrees(function: Any, *args: Any, **keywords: Any) -> None:
    """What NumPy accepts is captured, and exact."""
    check(function, *args, **keywords)


@slow
@given(layouts, st.lists(st.integers(-1, 6), max_size=4).map(tuple), st.sampled_from("CFA"), st.sampled_from([None, True, False]))
def test_reshape(layout: str, shape: tuple[int, ...], order: str, copy: Any) -> None:
    agrees(np.reshape, LAYOUTS[layout], shape, order, copy=copy)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("order", "CFA")
def test_reshape_to_factors(layout: str, order: str) -> None:
    x = LAYOUTS[layout]
    for shape in (
        -1,
        (x.size,),
        (2, -1),
        (-1, 2),
        (3, -1),
        (2, 2, -1),
        (2, 3, -1),
        (1, -1, 1),
        x.shape,
        x.shape[::-1],
        (*x.shape, 1),
    ):
        agrees(np.reshape, x, shape, order)
        agrees("reshape", x, shape, order=order)
    agrees("reshape", x, 2, -1)
    agrees("reshape", x, -1, 3, 2)


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("order", "CFAK")
def test_ravel(layout: str, order: str) -> None:
    assert check(np.ravel, LAYOUTS[layout], order)
    assert check("ravel", LAYOUTS[layout], order)
    assert check("flatten", LAYOUTS[layout], order)


@slow
@given(layouts, axes, axis, axis)
def test_axes(layout: str, several: Any, first: int, second: int) -> None:
    x = LAYOUTS[layout]
    agrees(np.transpose, x, several)
    agrees("transpose", x, several)
    agrees(np.swapaxes, x, first, second)
    agrees(np.moveaxis, x, first, second)
    agrees(np.moveaxis, x, several if isinstance(several, tuple) else first, (second,))
    agrees(np.rollaxis, x, first, second)
    agrees(np.squeeze, x, several)
    agrees("squeeze", x, several)
    agrees(np.expand_dims, x, 0 if several is None else several)
    agrees(np.matrix_transpose, x)


@slow
@given(layouts, st.lists(st.integers(0, 4), max_size=4).map(tuple))
def test_broadcast(layout: str, shape: tuple[int, ...]) -> None:
    x = LAYOUTS[layout]
    agrees(np.broadcast_to, x, shape)
    agrees(np.broadcast_to, x, (2, *x.shape))
    agrees(np.broadcast_arrays, x, np.ones(shape))
    agrees(np.broadcast_arrays, np.float64(1), x)
    assert check(np.broadcast_arrays, x, x, 1.0, [2])


@pytest.mark.parametrize("function", [np.atleast_1d, np.atleast_2d, np.atleast_3d])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_atleast(function: Any, layout: str) -> None:
    assert check(function, LAYOUTS[layout])
    assert check(function, LAYOUTS[layout], 3, [1, 2])


@slow
@given(layouts, axes, st.one_of(st.integers(-9, 9), st.lists(st.integers(-9, 9), max_size=3).map(tuple)))
def test_flip_and_roll(layout: str, several: Any, shift: Any) -> None:
    x = LAYOUTS[layout]
    agrees(np.flip, x, several)
    agrees(np.flipud, x)
    agrees(np.fliplr, x)
    agrees(np.rot90, x, len(several) if isinstance(several, tuple) else several or 1)
    agrees(np.roll, x, shift, several)


@slow
@given(layouts, st.one_of(st.integers(-1, 4), st.lists(st.integers(0, 3), max_size=4).map(tuple)), st.one_of(st.none(), axis))
def test_repetition(layout: str, count: Any, along: Any) -> None:
    x = LAYOUTS[layout]
    agrees(np.repeat, x, count if isinstance(count, int) else list(count), along)
    agrees("repeat", x, count if isinstance(count, int) else list(count), axis=along)
    agrees(np.tile, x, count)


@slow
@given(layouts, st.integers(-4, 4), axis, axis)
def test_diagonals(layout: str, offset: int, first: int, second: int) -> None:
    x = LAYOUTS[layout]
    agrees(np.diagonal, x, offset, first, second)
    agrees("diagonal", x, offset)
    agrees(np.diag, x, offset)
    agrees(np.diagflat, x, offset)
    agrees(np.trace, x, offset, first, second)
    agrees("trace", x, offset)


@slow
@given(layouts, st.one_of(st.integers(-1, 5), st.lists(st.integers(-4, 6), max_size=3)), axis)
def test_splits(layout: str, where: Any, along: int) -> None:
    x = LAYOUTS[layout]
    if isinstance(x, np.ndarray):
        for function in (np.split, np.array_split):
            agrees(function, x, where, along)
        for function in (np.hsplit, np.vsplit, np.dsplit):
            agrees(function, x, where)


@slow
@given(layouts, st.one_of(st.integers(1, 4), st.lists(st.integers(1, 3), max_size=3).map(tuple)), axes)
def test_windows(layout: str, window: Any, several: Any) -> None:
    x = LAYOUTS[layout]
    has_windows = window != () and (several is not None or np.ndim(x) > 0)
    check(np.lib.stride_tricks.sliding_window_view, x, window, several, must_capture=has_windows)


@pytest.mark.parametrize("value", [5, 2.5, [1, 2, 3], np.arange(3.0), np.float32(7), [4], [[1]]])
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (1, 3), (0, 3)])
def test_fill_diagonal(shape: tuple[int, int], value: Any) -> None:
    length = min(shape)
    fits = np.size(value) in (1, length) and np.ndim(value) < 2
    for x in (np.zeros(shape), np.zeros(shape, order="F"), np.zeros((2 * shape[0], shape[1]))[::-2]):
        check(np.fill_diagonal, x, value, must_capture=fits)


PADS = [0, 1, (1, 2), (3,), ((1, 2),), ((0, 3), (2, 1)), ((1,), (2,)), [2, 0], 7, -1, ((1, 2), (3, 4), (0, 0))]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("layout", ["matrix", "columns", "strided", "vector", "bytes", "ones", "empty", "bool"])
def test_pad(layout: str, mode: str) -> None:
    for width in PADS:
        check(np.pad, LAYOUTS[layout], width, mode, must_capture=np.max(np.asarray(width)) < 7 if width is not PADS[-1] else True)
    check(np.pad, LAYOUTS[layout], 1, mode, reflect_type="odd", must_capture=False)


@pytest.mark.parametrize("values", [0, 3, 2.5, (1, 2), ((1, 2), (3, 4)), 300, [7]])
def test_pad_values(values: Any) -> None:
    for layout in ("matrix", "bytes", "columns"):
        check(np.pad, LAYOUTS[layout], ((1, 2), (0, 1)), constant_values=values, must_capture=layout != "bytes")


def test_place_of_extreme() -> None:
    for x in (LAYOUTS["contiguous"], LAYOUTS["columns"], LAYOUTS["vector"]):
        capture = Capture()
        (array,) = capture.wrap([x])
        for name in ("argmax", "argmin"):
            flat = METHODS[name](capture.builder, array)
            compare(
                capture.run(FUNCTIONS[np.unravel_index](capture.builder, flat, x.shape)),
                np.unravel_index(getattr(x, name)(), x.shape),
            )


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("others", [[1.0, 2], [0], [np.nan, -2.5], np.arange(4.0), [3], [[1, 2], [3, 4]], []])
def test_isin(layout: str, others: Any) -> None:
    x = LAYOUTS[layout]
    is_simple = x.dtype.kind in "f" and np.size(others) > 0
    for invert in (False, True):
        check(np.isin, x, others, invert=invert, must_capture=is_simple)


def symbolic(*shape: int) -> tuple[Capture, Array]:
    """A C-contiguous array whose sizes are symbols n0, n1, ..."""
    capture = Capture()
    sizes = tuple(capture.builder.env.symbol(f"n{i}", n, 2) for i, n in enumerate(shape))
    meta = TensorMeta(sizes, np.dtype(float))
    storage = Storage(capture.builder, capture.builder.input(meta, Name("x")), meta)
    return capture, Array(storage, (), meta)


@pytest.mark.parametrize(
    ("function", "args", "guards"),
    [
        (np.reshape, ((-1,),), 0),
        (np.ravel, (), 0),
        (np.transpose, (), 0),
        (np.expand_dims, (1,), 0),
        (np.squeeze, (), 0),
        (np.flip, (), 0),
        (np.roll, (1, 0), 1),
        (np.repeat, (3, 1), 0),
        (np.tile, ((2, 3),), 0),
        (np.diagonal, (), 1),
        (np.split, (2,), 1),
        (np.tril, (), 1),
    ],
)
def test_symbolic_sizes(function: Any, args: Any, guards: int) -> None:
    capture, x = symbolic(4, 6)
    result = FUNCTIONS[function](capture.builder, x, *args)
    results = result if isinstance(result, list) else [result]
    graph = capture.builder.finish([r.node for r in results], [TensorMeta(r.shape, r.dtype) for r in results])
    assert len(capture.builder.env.guards) <= guards, list(capture.builder.env.guards)
    for shape in ((4, 6), (2, 3), (6, 8)):
        sizes = {f"n{i}": n for i, n in enumerate(shape)}
        if all(eval(text_of(g), {}, sizes) for g in capture.builder.env.guards):
            value = np.arange(float(shape[0] * shape[1])).reshape(shape)
            outputs = compile_eager(graph, [value])(value, *(sizes[s] for s in graph.symbols))
            expected = function(value, *args)
            for ours, theirs in zip(outputs, expected if isinstance(expected, list) else [expected]):
                compare(ours, theirs.copy())
