"""Subscripts read and written as NumPy does: views, copies, scalars, refusals."""

from __future__ import annotations

import copy as copying
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcompile.numpy_shim.indexing import getitem, setitem
from npcompile.tensor_core import Array, Decline
from npcompile.tensor_core.graph import bind, topological
from npcompile.tensor_core.ops.extern import Unexpected
from npcompile.tracer.guard_text import text_of
from tests.shim.harness import Capture, compare, compare_aliasing, copy


def wrap_key(capture: Capture, key: Any, traced: bool) -> Any:
    """Index arrays become traced inputs, or stay constants of the program."""
    if isinstance(key, tuple):
        return tuple(wrap_key(capture, k, traced) for k in key)
    return capture.wrap(key) if traced and isinstance(key, (np.ndarray, np.generic)) else key


def check_get(x: np.ndarray, key: Any, traced: bool = False, must_capture: bool = True) -> bool:
    ours_x, theirs_x = copy(x), copy(x)
    capture = Capture()
    (array,) = capture.wrap([ours_x])
    try:
        ours = capture.run(getitem(capture.builder, array, wrap_key(capture, key, traced)))
    except (Decline, IndexError, Unexpected) as error:
        ours = error
    try:
        theirs = theirs_x[key]
    except IndexError as error:
        assert isinstance(ours, (Decline, IndexError, Unexpected)), f"NumPy raises {error!r}, the shim gives {ours!r}"
        return False
    if isinstance(ours, Decline):
        assert not must_capture, ours
        return False
    compare(ours, theirs)
    compare_aliasing(ours, theirs, capture.values[:1], [theirs_x])
    return True


def check_set(x: np.ndarray, key: Any, value: Any, traced: bool = False, must_capture: bool = True) -> bool:
    ours_x, theirs_x = copy(x), copy(x)
    capture = Capture()
    array, source = capture.wrap([ours_x, value])
    error: Exception | None = None
    try:
        setitem(capture.builder, array, wrap_key(capture, key, traced), source)
        capture.run(())
    except (Decline, IndexError, Unexpected) as caught:
        error = caught
    try:
        theirs_x[key] = value
    except (IndexError, ValueError, TypeError, OverflowError) as theirs_error:
        assert error is not None, f"NumPy raises {theirs_error!r}, the shim writes {ours_x!r}"
        return False
    if error is not None:
        assert not must_capture, error
        return False
    compare(ours_x, theirs_x)
    return True


X3 = np.arange(60.0).reshape(3, 4, 5)
LAYOUTS = {
    "contiguous": X3,
    "transposed": X3.transpose(2, 0, 1),
    "strided": np.arange(480.0).reshape(6, 8, 10)[::2, 1::2, ::-2],
    "broadcast": np.broadcast_to(np.arange(5.0), (3, 4, 5)),
    "empty": np.zeros((3, 0, 5)),
    "vector": np.arange(7),
    "0-D": np.array(3.5),
}

bounds = st.one_of(st.none(), st.integers(-7, 7))
slices = st.builds(slice, bounds, bounds, st.one_of(st.none(), st.integers(-3, 3).filter(bool)))
basic_items = st.one_of(slices, st.integers(-4, 4), st.none(), st.just(Ellipsis), st.integers(0, 2).map(np.int64))
small_indices = st.integers(0, 2).flatmap(
    lambda ndim: st.lists(st.integers(-2, 2), min_size=2**ndim, max_size=2**ndim).map(
        lambda values: np.array(values).reshape((2,) * ndim)
    )
)
items = st.one_of(basic_items, small_indices, st.lists(st.integers(-2, 2), max_size=3))
layouts = st.sampled_from(sorted(LAYOUTS))


def has_empty(items: list[Any]) -> bool:
    return any(np.size(i) == 0 for i in items if isinstance(i, (list, np.ndarray)))


def key_of(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else tuple(items)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(layouts, st.lists(basic_items, max_size=5))
def test_basic_index(layout: str, items: list[Any]) -> None:
    check_get(LAYOUTS[layout], key_of(items))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(layouts, st.lists(items, min_size=1, max_size=4), st.booleans())
def test_advanced_index(layout: str, items: list[Any], traced: bool) -> None:
    takes_view_at_data = traced and any(isinstance(i, np.int64) for i in items)
    check_get(LAYOUTS[layout], key_of(items), traced, must_capture=not takes_view_at_data and not has_empty(items))


@settings(max_examples=400, deadline=None, derandomize=True)
@given(layouts, st.lists(items, min_size=1, max_size=4), st.booleans(), st.sampled_from(["number", "whole", "last", "extra"]))
def test_write(layout: str, items: list[Any], traced: bool, kind: str) -> None:
    x = LAYOUTS[layout]
    key = key_of(items)
    try:
        shape = np.shape(x[key])
    except IndexError:
        shape = (1,)
    shapes = {"number": (), "whole": shape, "last": shape[-1:], "extra": (1, 1, *shape)}
    value = np.random.default_rng(0).integers(100, 200, shapes[kind])
    check_set(x, key, value, traced, must_capture=not has_empty(items))


MASKS = [
    np.arange(60).reshape(3, 4, 5) % 3 == 0,
    np.arange(12).reshape(3, 4) % 2 == 0,
    np.array([True, False, True]),
    np.zeros(3, bool),
    np.ones((3, 3), bool),
]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("traced", [False, True])
def test_mask(mask: np.ndarray, traced: bool) -> None:
    check_get(X3, mask, traced, must_capture=not traced)
    check_get(X3, (Ellipsis, mask), traced, must_capture=False)
    for value in (7, 2.5, np.float32(3), np.arange(1.0), np.arange(5.0), np.arange(4.0), np.ones((1, 5))):
        check_set(X3, mask, value, traced, must_capture=np.ndim(value) == 0)
    check_set(X3, (mask[0] if mask.ndim > 1 else mask, 0), 5.0, traced, must_capture=False)


def test_mask_of_later_axes() -> None:
    assert check_set(X3, (slice(None), MASKS[1][0]), 5.0, traced=True)
    assert check_set(X3, (slice(None), MASKS[1][0]), np.arange(5.0), traced=True)
    assert check_set(X3, (slice(1, 2), MASKS[1][0]), np.ones((1, 1, 5)), traced=True)
    assert check_set(X3, (0, slice(None), np.array([True, False, True, True, False])), -1.0, traced=True)


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f4", "f8", "c8", "c16"])
def test_assigned_dtype(dtype: str) -> None:
    x = np.zeros((2, 3), dtype)
    for value in (
        True,
        3,
        -1,
        300,
        2.5,
        1e60,
        1 + 2j,
        np.uint8(200),
        np.float32(2.5),
        np.arange(3.0),
        np.arange(3) + 1j,
        [1, 2, 3],
    ):
        is_complex_to_real = np.iscomplexobj(value) and x.dtype.kind not in "cb"
        if is_complex_to_real:
            assert not check_set_declines(x, value)
            continue
        with np.errstate(all="ignore"):
            check_set(x, slice(None), value, must_capture=False)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4"])
@pytest.mark.parametrize("values", [[1, 300, 2], [1.5, 2, 3], [-1, 2, 3], [1, 2, np.nan]])
def test_assigned_sequence(values: list[Any], dtype: str) -> None:
    """Elements are converted one by one: Python integers must fit."""
    for scalar in (np.float64(2.5), np.int8(3)):
        with np.errstate(all="ignore"):
            check_set(np.zeros(4, dtype), slice(None), [*values, scalar], must_capture=False)


def check_set_declines(x: np.ndarray, value: Any) -> bool:
    capture = Capture()
    array, source = capture.wrap([x, value])
    with pytest.raises(Decline):
        setitem(capture.builder, array, slice(None), source)
    return array.storage.is_written


def test_views_see_writes() -> None:
    x = np.arange(12.0).reshape(3, 4)
    ours, theirs = x.copy(), x.copy()
    capture = Capture()
    (a,) = capture.wrap([ours])
    b = capture.builder
    row, column = getitem(b, a, 1), getitem(b, a, (slice(None), 2))
    setitem(b, row, slice(None, None, -1), column_values := getitem(b, a, (0, slice(None))))
    setitem(b, column, 0, 50)
    setitem(b, a, slice(1, None), getitem(b, a, slice(None, -1)))
    result = capture.run((row, column, column_values))
    row, column, column_values = theirs[1], theirs[:, 2], theirs[0]
    row[::-1] = theirs[0]
    column[0] = 50
    theirs[1:] = theirs[:-1]
    compare(ours, theirs)
    compare(result, (row, column, column_values))


def symbolic(n: int, at_least: int | None = None) -> tuple[Capture, Array]:
    """A vector of symbolic length, whose value at capture is n."""
    capture = Capture()
    (x,) = capture.wrap([np.arange(float(n))])
    size = capture.builder.env.symbol("n", n, at_least)
    x.meta = x.meta.with_(shape=(size,))
    return capture, x


@pytest.mark.parametrize(
    ("key", "guards"),
    [
        (slice(1, -1), []),
        (slice(None, -1), []),
        (slice(1, None), []),
        (slice(None, None, -1), []),
        (slice(None, None, 2), []),
        (slice(2, -2), []),
        (slice(None, 5), []),
        (slice(-3, None), []),
        (slice(9, 2, -1), []),
        (slice(3, None, 4), []),
        (0, []),
        (-1, []),
        (4, ["4 < n"]),
    ],
)
def test_symbolic_size_asks_little(key: Any, guards: list[str]) -> None:
    capture, x = symbolic(10, at_least=2)
    result = getitem(capture.builder, x, key)
    assert len(capture.builder.env.guards) == len(guards), list(capture.builder.env.guards)
    for n in (10, 7, 5 if guards else 2):
        values = {"n": n}
        if all(eval(text_of(g), {}, values) for g in capture.builder.env.guards) and not isinstance(key, int):
            assert bind(result.shape, values) == np.arange(n)[key].shape


@pytest.mark.parametrize("positions", [[2, 1, 0], [0, 2], [-1, -2], [1], [-3, -1], [-1, 0], [1, 1], [0, 1, 3]])
def test_evenly_spaced_positions_are_slices(positions: list[int]) -> None:
    """Constant positions that a slice could name are read without a gather, and written without a scatter."""
    is_even = positions not in ([1, 1], [0, 1, 3])
    check_get(X3, np.array(positions, "i1"))
    for key in (positions, (slice(None), positions), (Ellipsis, positions), (slice(1, None), 0, positions)):
        check_get(X3, key)
        check_set(X3, key, 7.0)
        check_set(X3, key, np.arange(float(len(positions))), must_capture=False)
    capture = Capture()
    (x,) = capture.wrap([X3.copy()])
    node = getitem(capture.builder, x, (slice(None), positions)).node
    assert any(n.op == "gather" for n in topological([node])) != is_even


def test_key_is_not_changed() -> None:
    key = [0, 1]
    kept = copying.copy(key)
    assert check_get(X3, (key, slice(None), 0))
    assert key == kept
