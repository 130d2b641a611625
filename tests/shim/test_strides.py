"""as_strided of rows of memory, np.place, np.unique of what is known; views by strides that leave the program."""

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.shim.harness import check
from tests.shim.layouts import LAYOUTS
from tests.tracer.harness import check as check_function

as_strided = np.lib.stride_tricks.as_strided
x = np.arange(12.0)

SHOWN = {
    "rows": (x, (3, 4), (32, 8)),
    "windows": (x, (5, 8), (8, 8)),
    "repeated": (x, (3, 12), (0, 8)),
    "every second": (x, (6,), (16,)),
    "integers": (np.arange(9), (3, 3), (8, 8)),
    "shape only": (x, (5,), None),
    "strides only": (x, None, (0,)),
}


@pytest.mark.parametrize("case", SHOWN)
def test_as_strided(case):
    assert check(as_strided, *SHOWN[case])
    assert check(as_strided, *SHOWN[case], writeable=False)


@pytest.mark.parametrize(
    "arguments",
    [(x, (12, 2), (8, 8)), (x[4:], (6, 8), (-8, 8)), (x, (0, 3), (8, 8)), (x, (2, 2), (4, 8)), (x.reshape(3, 4), (12,), (8,))],
)
def test_as_strided_of_other_memory_runs_as_numpy(arguments):
    """Beyond the array's memory, between elements, or where memory has no one row."""
    capture = npc.compile(lambda a, shape, strides: as_strided(a, shape, strides).copy() * 0, backend="eager")
    capture(*arguments)
    assert compiled_function(capture).breaks


@check_function(lambda round: np.arange(9.0 + round), lambda round: np.arange(5.0), graphs=2, breaks=0, rounds=3)
def test_matrix_of_a_row(c, r):
    """As scipy.linalg.toeplitz makes it; the view sees what is written to the row, also when it leaves."""
    values = np.concatenate((c[::-1], r[1:]))
    n = values.strides[0]
    matrix = as_strided(values[len(c) - 1 :], shape=(len(c), len(r)), strides=(-n, n))
    before = matrix.copy()
    values[0] = 7
    return before, matrix, matrix.sum(), values


@check_function(lambda round: np.arange(6.0).reshape(2, 3), graphs=1, breaks=0)
def test_place(y):
    np.place(y, y > 2, 44)
    np.place(y, y < 1, [7.0])
    return y


def test_place_of_several_values():
    y = np.arange(6.0).reshape(2, 3)
    check(np.place, y, y > 2, [44.0, 55.0])
    assert not check(np.place, np.arange(6), np.arange(6) > 2, np.float64(1.5), must_capture=False)


@check_function(graphs=1, breaks=0)
def test_unique_of_what_is_known(v):
    axes, counts = np.unique(np.array([2, 0, 2]), return_counts=True)
    return np.unique([3, 1, 3]), axes, counts, v.sum(axis=tuple(np.unique([1, 0, 1])))


PLACES = np.array([[1, 0], [0, 1]])
OF_LENGTH_ONE = {
    "expand_dims": lambda x: [np.expand_dims(x, axis) for axis in range(-1, x.ndim + 1)],
    "several": lambda x: [np.expand_dims(x, (0, 1)), np.expand_dims(x, (0, x.ndim))],
    "keepdims": lambda x: [np.add.reduce(x, axis=k, keepdims=True) for k in range(x.ndim)],
    "keepdims of all": lambda x: [np.sum(x, axis=None, keepdims=True), np.max(x, axis=tuple(range(x.ndim)), keepdims=True)],
    "looked up": lambda x: [x[PLACES * 0, None], x[PLACES.T * 0, None], x[PLACES.T * 0], x[[0, 0], None]],
}


@pytest.mark.parametrize("layout", [name for name, value in LAYOUTS.items() if np.ndim(value) and np.size(value)])
@pytest.mark.parametrize("name", OF_LENGTH_ONE)
def test_strides_of_axes_of_length_one(name: str, layout: str) -> None:
    """No element is found by them, but programs can read them."""
    function, given = OF_LENGTH_ONE[name], LAYOUTS[layout]
    compiled = npc.compile(lambda x: [made.strides for made in function(x)], backend="eager", fullgraph=True)
    assert compiled(given) == [made.strides for made in function(given)]
