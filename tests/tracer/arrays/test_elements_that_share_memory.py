"""Arrays whose own elements share memory: what is written shows elsewhere in them, in the order in which NumPy writes."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.backends import HOST_BACKENDS
from tests.covering import pairs

ARRAYS = {
    "slices": lambda b: b.reshape(30, 10)[::2, 1:5],  # these share nothing
    "windows": lambda b: sliding_window_view(b, 4, writeable=True)[:15],
    "one row": lambda b: as_strided(b, (15, 4), (0, b.itemsize)),
    "one column": lambda b: as_strided(b, (15, 4), (b.itemsize, 0)),
    "diagonals": lambda b: as_strided(b, (15, 4), (3 * b.itemsize, 3 * b.itemsize)),
    "backwards": lambda b: as_strided(b[60:], (15, 4), (-2 * b.itemsize, b.itemsize)),
    "in part": lambda b: as_strided(b, (15, 4), (3 * b.itemsize, b.itemsize)),
    "turned": lambda b: as_strided(b, (15, 4), (b.itemsize, 5 * b.itemsize)),
}


def statements(x):
    x[:, 1] = x[:, 0] + x[:, 1] * 2
    x *= 0.5
    x[1:] += x[:-1]
    x.T[...] = x[::-1].T + 1


def outputs(x):
    np.add(x, x[:, :1], out=x)
    np.multiply(x, 3, out=x, where=x < 9)
    np.cumsum(x, axis=0, out=x)
    np.copyto(x, x[::-1])


def places(x):
    x[np.array([0, 1, 2])] = x[np.array([1, 2, 3])] * 2
    np.add.at(x, (np.array([0, 1, 1]), np.array([1, 0, 2])), 5)
    x[x > 20] /= 2
    np.putmask(x, x > 15, x + 1)


def elements(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] * 0.5 + x[i - 1, j]
            total += x[i, 0]
    return total


def independent_elements(x):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] * 0.5 + j


def rows(x):
    for i in range(1, len(x)):
        x[i] = x[i - 1] * 0.5 + x[i]
        x[i] -= x[i].min()


def columns(x):
    for j in range(x.shape[1]):
        x[:, j] = x[:, j - 1] + x[:, j] * 0.25


def repeated(x):
    for _ in range(5):
        x[1:-1] = (x[2:] + x[:-2]) * 0.5


def through_views(x):
    for row in x.T:
        for k in range(len(row)):
            row[k] = row[k] * 0.5 + k


def windows_made_here(memory):
    x = sliding_window_view(memory, 4, writeable=True)
    x[:, 1] = x[:, 0] + x[:, 1]
    y = as_strided(memory, (15, 4), (memory.itemsize, 0))
    y += x[:15]
    for i in range(15):
        for j in range(4):
            y[i, j] = y[i, j] * 0.5 + x[i, j]
    return x.copy(), y.copy()


FUNCTIONS = [statements, outputs, places, elements, independent_elements, rows, columns, repeated, through_views]


def memory():
    return 1.0 + np.arange(300) * 7 % 23


@pytest.mark.parametrize(("function", "is_first", "backend"), pairs(FUNCTIONS, [True, False], ["eager", "cpu"]))
def test_numpy_is_followed(function, is_first, backend):
    compiled = npc.compile(function, backend=backend)
    names = [*ARRAYS] if is_first else [*reversed(ARRAYS)]
    for name in [*names, *names[:2]]:
        ours, theirs = memory(), memory()
        assert compiled(ARRAYS[name](ours)) == function(ARRAYS[name](theirs)), name
        assert ours.tobytes() == theirs.tobytes(), name


@pytest.mark.parametrize("backend", HOST_BACKENDS)
def test_views_of_the_program_itself(backend):
    compiled = npc.compile(windows_made_here, backend=backend)
    for _ in range(3):
        ours, theirs = memory(), memory()
        found, wanted = compiled(ours), windows_made_here(theirs)
        assert [x.tobytes() for x in (*found, ours)] == [x.tobytes() for x in (*wanted, theirs)]


@pytest.mark.parametrize("function", [statements, outputs, elements, rows])
def test_other_views_stay_compiled(function):
    compiled = npc.compile(function)
    for cut in (lambda x: x.reshape(30, 10)[::2, 1:5], lambda x: x.reshape(4, 75).T[::-5]):
        compiled(cut(memory()))
    known = compiled_function(compiled)
    assert known is not None and not known.breaks
