"""ndarray methods and attributes, on arrays and on NumPy scalars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npcompile.numpy_shim.attributes import FLAG_ITEMS, SET_ATTRIBUTES
from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.tensor_core import Builder, Decline
from npcompile.tensor_core.known import known_contents
from tests.shim.harness import Capture, check, compare, copy
from tests.shim.layouts import CUBE, LAYOUTS, MATRIX, VECTOR

layouts = st.sampled_from(sorted(LAYOUTS))
every_layout = pytest.mark.parametrize("layout", sorted(LAYOUTS))
many = settings(max_examples=300, deadline=None, derandomize=True)
dtypes = st.sampled_from(["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"])


def agrees(function: Any, *args: Any, **keywords: Any) -> None:
    """What NumPy accepts is captured, and exact."""
    with np.errstate(all="ignore"):
        check(function, *args, **keywords)


@pytest.mark.parametrize("name", ["shape", "dtype", "ndim", "size", "itemsize", "nbytes", "T", "mT", "real", "imag"])
@every_layout
def test_attribute(name: str, layout: str) -> None:
    if not (name == "mT" and np.ndim(LAYOUTS[layout]) < 2):
        agrees(name, LAYOUTS[layout])


@every_layout
def test_strides(layout: str) -> None:
    x = LAYOUTS[layout]
    capture = Capture()
    (array,) = capture.wrap([x])
    if x.size:
        assert ATTRIBUTES["strides"](capture.builder, array) == x.strides


@pytest.mark.parametrize("function", [np.shape, np.ndim, np.size, np.real, np.imag])
@every_layout
def test_attribute_function(function: Any, layout: str) -> None:
    agrees(function, LAYOUTS[layout])
    agrees(function, [[1, 2], [3, 4]])
    agrees(function, 2.5)


@every_layout
def test_flags(layout: str) -> None:
    x = LAYOUTS[layout]
    capture = Capture()
    (array,) = capture.wrap([x])
    ours, theirs = ATTRIBUTES["flags"](capture.builder, array), x.flags
    for item, name in FLAG_ITEMS.items():
        if name not in ("owndata", "aligned"):
            assert ours[item] == theirs[item], item
            if hasattr(theirs, name):
                assert getattr(ours, name) == getattr(theirs, name)
    with pytest.raises(Decline):
        ours["no such flag"]


@pytest.mark.parametrize("value", [2, 2.5, np.float32(3), np.arange(4.0), np.ones((3, 1)), 1 + 2j])
@pytest.mark.parametrize("name", sorted(SET_ATTRIBUTES))
def test_set_attribute(name: str, value: Any) -> None:
    for x in (MATRIX, MATRIX + 1j * MATRIX[::-1], MATRIX.astype("c8").T[::-1].T):
        ours, theirs = copy(x), copy(x)
        capture = Capture()
        array, traced = capture.wrap([ours, value])
        takes_complex = name == "flat" and x.dtype.kind == "c"
        if (name == "imag" and x.dtype.kind != "c") or (isinstance(value, complex) and not takes_complex):
            with pytest.raises(Decline):
                SET_ATTRIBUTES[name](capture.builder, array, traced)
            continue
        SET_ATTRIBUTES[name](capture.builder, array, traced)
        capture.run(())
        setattr(theirs, name, value)
        compare(ours, theirs)


@many
@given(layouts, dtypes, st.sampled_from("CFAK"), st.sampled_from(["no", "equiv", "safe", "same_kind", "unsafe"]), st.booleans())
def test_astype(layout: str, dtype: str, order: str, casting: str, copy: bool) -> None:
    x = LAYOUTS[layout]
    if not (np.iscomplexobj(x) and np.dtype(dtype).kind not in "bc"):
        agrees("astype", x, dtype, order, casting, copy=copy)
        agrees("astype", x, np.dtype(dtype))


@every_layout
@pytest.mark.parametrize("order", "CFAK")
def test_copy(layout: str, order: str) -> None:
    agrees("copy", LAYOUTS[layout], order)
    agrees("copy", LAYOUTS[layout])


@every_layout
@pytest.mark.parametrize("dtype", ["i8", "u8", "f8", "f4", "i1"])
def test_view(layout: str, dtype: str) -> None:
    x = LAYOUTS[layout]
    same_size = x.dtype.itemsize == np.dtype(dtype).itemsize
    if x.flags.c_contiguous or same_size:
        check("view", x, dtype, must_capture=same_size)
    agrees("view", x)


@pytest.mark.parametrize("value", [3, -1.5, True, np.float32(2.5), np.array(4), 300, np.nan, np.arange(2)])
@every_layout
def test_fill(layout: str, value: Any) -> None:
    with np.errstate(all="ignore"):
        x = LAYOUTS[layout]
        check("fill", x, value, must_capture=isinstance(x, np.ndarray) and x.dtype.kind == "f")


@every_layout
def test_conj(layout: str) -> None:
    agrees("conj", LAYOUTS[layout])
    agrees("conjugate", LAYOUTS[layout])


@every_layout
@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
def test_round(layout: str, decimals: int) -> None:
    x = LAYOUTS[layout]
    for scale in (1, 0.37, 123.456):
        value = (x * scale).astype(x.dtype) if np.ndim(x) else x
        with np.errstate(all="ignore"):
            check(np.round, value, decimals, must_capture=x.dtype.kind != "b", ulp=0)
            check("round", value, decimals, must_capture=x.dtype.kind != "b", ulp=0)


positions = st.one_of(st.integers(-6, 5), st.lists(st.integers(-6, 5), max_size=4), st.just(np.array([[0, 1], [-1, 0]])))


@many
@given(layouts, positions, st.one_of(st.none(), st.integers(-2, 2)), st.sampled_from(["raise", "wrap", "clip"]))
def test_take(layout: str, indices: Any, axis: Any, mode: str) -> None:
    x = LAYOUTS[layout]
    try:
        expected = np.take(x, indices, axis, mode=mode)
    except (IndexError, ValueError, TypeError):
        return
    if not x.size:
        check(np.take, x, indices, axis, mode=mode, must_capture=False)
        return
    assert check(np.take, x, indices, axis, mode=mode)
    assert check("take", x, indices, axis=axis, mode=mode)
    if isinstance(expected, np.ndarray):
        assert check(np.take, x, indices, axis, np.zeros_like(expected), mode=mode)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("indices", [0, -1, [1, 0, 1], [], [[0, 2]]])
@pytest.mark.parametrize("values", [7, [5, 6, 7], 2.5, [1.5]])
def test_put(indices: Any, values: Any, mode: str) -> None:
    for x in (CUBE, MATRIX.T, VECTOR[::-1], LAYOUTS["ints"], LAYOUTS["read-only"]):
        fits = np.size(values) == 1 or np.size(values) == np.size(indices)
        check(np.put, x, np.array(indices, int), values, mode, must_capture=fits)
        check("put", x, np.array(indices, int), values, mode, must_capture=fits)


@many
@given(layouts, layouts, st.sampled_from(["same_kind", "unsafe", "safe"]), st.one_of(st.just(True), layouts))
def test_copyto(first: str, second: str, casting: str, mask: Any) -> None:
    a, b = LAYOUTS[first], LAYOUTS[second]
    where = True if mask is True else LAYOUTS[mask] > 0
    discards = np.iscomplexobj(b) and not np.iscomplexobj(a)
    with np.errstate(all="ignore"):
        if isinstance(a, np.ndarray) and not (discards and casting == "unsafe"):
            check(np.copyto, a, b, casting, where)


@every_layout
def test_putmask(layout: str) -> None:
    x = LAYOUTS[layout]
    if isinstance(x, np.ndarray):
        check(np.putmask, x, x.real > 0, 1)
        check(np.putmask, x, x.real > 0, x[::-1] if x.ndim else x)
        check(np.putmask, x, x.real > 0, [1, 2], must_capture=x.size == 2)


def test_methods_of_nothing() -> None:
    for name in ("dumps", "resize"):
        assert name not in METHODS, f"ndarray.{name} gives Python values, or changes more than contents"


def test_python_numbers_of_constants() -> None:
    capture = Capture()
    builder = capture.builder
    known = FUNCTIONS[np.add](builder, FUNCTIONS[np.arange](builder, 3), 1)
    assert METHODS["tolist"](builder, known) == [1, 2, 3]
    assert METHODS["item"](builder, FUNCTIONS[np.asarray](builder, 2.5)) == 2.5
    (data,) = capture.wrap([np.array(2.5)])
    for name in ("item", "tolist"):
        with pytest.raises(Decline):
            METHODS[name](builder, data)


def test_known_contents_of_long_programs() -> None:
    """What is known is found without recursion, and what depends on data is seen at once."""
    capture = Capture()
    (x,) = capture.wrap([np.arange(3)])
    for start, expected in ((FUNCTIONS[np.arange](capture.builder, 3), [3000, 3001, 3002]), (x, None)):
        array = start
        for _ in range(3000):
            array = FUNCTIONS[np.add](capture.builder, array, 1)
        contents = known_contents(array.node)
        assert contents is None if expected is None else contents.tolist() == expected


def test_places_of_constants() -> None:
    capture = Capture()
    (x,) = capture.wrap([MATRIX.copy()])
    known = FUNCTIONS[np.tri](capture.builder, 3, 4, dtype=bool)
    compare(capture.run(FUNCTIONS[np.nonzero](capture.builder, known)), np.nonzero(np.tri(3, 4)))
    compare(capture.run(FUNCTIONS[np.compress](capture.builder, [True, False, True], x, 0)), MATRIX[::2].copy())
    assert check(np.nonzero, MATRIX) and check("compress", MATRIX, MATRIX[0] > -4, 1)
    with pytest.raises(Decline):
        FUNCTIONS[np.nonzero](Builder(), x)  # of an eager Tensor: sizes are known there


@pytest.mark.parametrize("element", [1, 2.5, True, "text", np.float64(1), np.array(1), MATRIX, [1]])
def test_isscalar(element: Any) -> None:
    assert check(np.isscalar, element)


def test_mask_of_constants() -> None:
    capture = Capture()
    (x,) = capture.wrap([VECTOR.copy()])
    mask = FUNCTIONS[np.greater](capture.builder, FUNCTIONS[np.arange](capture.builder, 5), 2)
    compare(capture.run(getitem(capture.builder, x, mask)), VECTOR[np.arange(5) > 2])


@pytest.mark.parametrize(
    "values", [(VECTOR,), (1.0,), (np.float32(2),), (VECTOR, 2), (3, 2.5), ([1, 2], MATRIX.astype("f4")), (np.array(1.0),)]
)
def test_array_converter(values: Any) -> None:
    theirs = np._core._multiarray_umath._array_converter(*values)
    capture = Capture()
    ours = FUNCTIONS[np._core._multiarray_umath._array_converter](capture.builder, *capture.wrap(list(values)))
    assert ours.scalar_input == theirs.scalar_input
    assert len(ours) == len(values)
    for mode in ("convert", "preserve", "convert_if_no_array"):
        compare(capture.run(tuple(ours.as_arrays(pyscalars=mode))), tuple(theirs.as_arrays(pyscalars=mode)))
    assert FUNCTIONS[np.result_type](capture.builder, *ours.as_arrays(pyscalars="preserve")) == theirs.result_type()


@pytest.mark.parametrize("values", [(VECTOR, 1.0), (np.float32(1), 2), (MATRIX.astype("f4"), 2.0), (np.int8(1), "f4"), (1, 2.5)])
def test_promotion(values: Any) -> None:
    assert check(np.result_type, *values)
    check(np.can_cast, values[0], "i8", must_capture=not isinstance(values[0], int))


def test_broadcast_object() -> None:
    capture = Capture()
    ours = FUNCTIONS[np.broadcast](capture.builder, *capture.wrap([MATRIX, VECTOR[:4]]))
    theirs = np.broadcast(MATRIX, VECTOR[:4])
    for name in ("shape", "ndim", "nd", "size", "numiter"):
        assert getattr(ours, name) == getattr(theirs, name)
