"""Sorting, order statistics and search: functions and methods, against NumPy in every keyword, dtype and memory order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.numpy_shim.registry import FUNCTIONS, METHODS
from npcompile.tensor_core import Decline
from tests.shim.harness import Capture, check
from tests.shim.layouts import LAYOUTS
from tests.tracer.harness import check as check_program

DTYPES = "?bBhHiIlLqQefdgFD"
KINDS = [None, "quicksort", "heapsort", "mergesort", "stable"]


def name_of(function: Any) -> str:
    return f"method {function}" if isinstance(function, str) else function.__name__


def axes_of(x: Any) -> list[int | None]:
    return [*range(-np.ndim(x), np.ndim(x)), None]


def shuffled(dtype: str, shape: tuple[int, ...] = (4, 37)) -> np.ndarray:
    """Many equal elements, NaN of both kinds of parts, and zeros of both signs."""
    values = np.random.default_rng(3).integers(0, 9, shape).astype(dtype)
    if values.dtype.kind in "fc":
        values[0, ::5], values[1, ::7], values[2, 1::9] = np.nan, -0.0, -np.inf
    if values.dtype.kind == "c":
        values[3, ::4] *= 1j
    return values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", [np.sort, np.argsort, "sort", "argsort"], ids=name_of)
def test_layouts(function: Any, layout: str) -> None:
    x = LAYOUTS[layout]
    for axis in axes_of(x):
        is_refused = function == "sort" and (axis is None or not x.flags.writeable)
        assert check(function, x, axis, must_capture=not is_refused) != is_refused


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [np.sort, np.argsort, "sort", "argsort"], ids=name_of)
def test_kinds(function: Any, dtype: str) -> None:
    x = shuffled(dtype)
    for kind in KINDS:
        for axis in (0, 1):
            assert check(function, x, axis, kind)
            assert check(function, x, axis=axis, kind=kind)
    for stable in (None, True, False):
        assert check(function, x, stable=stable)
    assert check(function, x[:, :0])
    assert check(function, x[:, :1])


def test_numbers_of_no_axes() -> None:
    for x in (np.array(3.0), np.float64(3.0)):
        for axis in (-1, 0, None):
            assert check(np.argsort, x, axis)
            assert check(np.argpartition, x, 0, axis)
        assert check(np.sort, x, None)
    assert check("argsort", np.array(3.0))


@pytest.mark.parametrize("layout", [name for name, x in LAYOUTS.items() if np.size(x)])
@pytest.mark.parametrize("function", [np.partition, np.argpartition], ids=name_of)
def test_partition_layouts(function: Any, layout: str) -> None:
    x = LAYOUTS[layout]
    for axis in axes_of(x):
        n = np.size(x) if axis is None else x.shape[axis]
        for kth in (0, n - 1, -1, (0, n // 2), [n // 2, -1, 0]):
            assert check(function, x, kth, axis)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [np.partition, np.argpartition, "partition", "argpartition"], ids=name_of)
def test_partition_dtypes(function: Any, dtype: str) -> None:
    x = shuffled(dtype)
    for kth in (0, 17, -5, (3, 30), [2, 9, 2]):
        assert check(function, x, kth)
    assert check(function, x, 2, axis=0, kind="introselect")


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "g"])
@pytest.mark.parametrize("function", [np.searchsorted, "searchsorted"], ids=name_of)
def test_searchsorted(function: Any, dtype: str) -> None:
    x = np.sort(shuffled(dtype).ravel())
    for side in ("left", "right"):
        for other in (dtype, "d", "l"):
            values = shuffled(other, (4, 5))
            for v in (values, values.T, values[0, ::-2], values[:, :0], np.array(values[1, 1]), values[1, 1]):
                assert check(function, x, v, side)
        assert check(function, x[::-1][::-1], 3, side)
        assert check(function, x, 2.5, side=side)
        assert check(function, x, [0, 2, 4], side)
    assert check(function, x[:0], values)


@pytest.mark.parametrize("sorter", ["b", "i", "l", "H"])
def test_searchsorted_through_another_order(sorter: str) -> None:
    x = np.random.default_rng(0).uniform(size=40)
    order = np.argsort(x).astype(sorter)
    assert check(np.searchsorted, x, np.linspace(0, 1, 7), sorter=order)
    assert check(np.searchsorted, x, 0.3, "right", order[::-1][::-1])


def test_searchsorted_of_lists() -> None:
    assert check(np.searchsorted, [1, 2, 3, 4, 5], np.array([-10, 10, 2, 3]))
    assert check(np.searchsorted, [1.0, 2.5], 2)
    assert check(np.searchsorted, np.array([1, 2, 3], "f4"), 2.0000000001)


def test_lexsort() -> None:
    a, b = shuffled("i"), shuffled("d")
    for keys in ((a, b), (b, a), [a], (a[0], b[0], a[1]), a, b.T[:3]):
        assert check(np.lexsort, keys)
        assert check(np.lexsort, keys, 0)


X = np.arange(6.0).reshape(2, 3)
REFUSED: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "axis": (np.sort, (X, 2), {}),
    "kind": (np.argsort, (X,), {"kind": "bogo"}),
    "kind and stable": (np.sort, (X,), {"kind": "stable", "stable": True}),
    "order": (np.sort, (X,), {"order": "x"}),
    "method without axis": ("sort", (X, None), {}),
    "kth": (np.partition, (X, 3), {}),
    "negative kth": (np.partition, (X, -4), {}),
    "kth of another kind": (np.argpartition, (X, 1.5), {}),
    "kth that is true": (np.partition, (X, True), {}),
    "kind of partition": (np.partition, (X, 1), {"kind": "quick"}),
    "a matrix to search": (np.searchsorted, (X, 1.0), {}),
    "side": (np.searchsorted, (X[0], 1.0), {"side": "middle"}),
    "a sorter of another length": (np.searchsorted, (X[0], 1.0), {"sorter": np.array([0, 1])}),
    "a sorter of floats": (np.searchsorted, (X[0], 1.0), {"sorter": X[0]}),
    "a sorter of uint64": (np.searchsorted, (X[0], 1.0), {"sorter": np.arange(3, dtype="Q")}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declined(name: str) -> None:
    function, arguments, keywords = REFUSED[name]
    capture = Capture()
    captured = METHODS[function] if isinstance(function, str) else FUNCTIONS[function]
    with pytest.raises(Decline):
        captured(capture.builder, *capture.wrap(list(arguments)), **capture.wrap(keywords))


# --- compiled programs


@check_program(graphs=1, breaks=0)
def test_sort_in_place(x, y):
    view = x[::-1]
    view.sort(axis=0)
    y.T.sort()
    x.partition(1)
    return view, np.sort(y), x * 2


@check_program(graphs=1, breaks=0)
def test_smallest(x):
    order = x.argsort(axis=1)
    return np.take_along_axis(x, order, 1), x[np.argsort(x[:, 0])], np.partition(x, 2, axis=None)[:3], np.sort_complex(x[0])


@check_program(np.linspace(3, 0, 20), graphs=1, breaks=0)
def test_computed_positions(x):
    middle = np.array([x.size // 2 - 1, x.size // 2])
    return np.partition(x, middle)[middle].mean(), np.partition(x, middle[0])[:3].max()


@check_program(np.linspace(0, 3, 20), graphs=1, breaks=0)
def test_search(x, y):
    places = np.searchsorted(x, y.ravel())
    return x[places.clip(1, 19) - 1], places


@check_program(np.linspace(0, 1, 5), np.arange(3.0) / 4, lambda round: np.array([0, 1, 2, 3, 5 * (round - 1)]), graphs=1)
def test_sorter_out_of_bounds_raises(x, v, sorter):
    y = v + 1
    return np.searchsorted(x, y, sorter=sorter)


@check_program(lambda round: np.random.default_rng(round).uniform(size=5 + 2 * round), rounds=4, graphs=2)
def test_other_sizes(x):
    n = x.shape[0] // 2
    return np.sort(x)[n], np.partition(x, n)[n], np.argsort(-x), np.partition(x, (1, n))[: n + 1].max()


@check_program(lambda round: np.arange(6.0) + round)
def test_sort_of_read_only(x):
    y = np.broadcast_to(x, (2, 6))
    y.sort()
    return y
