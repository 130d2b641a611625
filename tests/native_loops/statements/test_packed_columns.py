"""Loops on threads that read columns of a matrix again and again read them from a copy."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cpu.loops import parallel_loops
from npcompile.tracer import point
from tests.covering import pairs as pairs_of
from tests.native_loops.agreement import fired
from tests.native_loops.test_native_loops import agrees as gives_the_same
from tests.native_loops.vectors.test_parallel import agrees

pytestmark = pytest.mark.usefixtures("at_once")
rng = np.random.default_rng(11)


def pairs(x, out):
    for i in range(x.shape[1]):
        for j in range(i, x.shape[1]):
            out[i, j] = out[j, i] = (x[:, i] * x[:, j]).sum() / (x.shape[0] - 1)
    return out


def parts_of_columns(x, y, out):
    for i in range(x.shape[1]):
        for j in range(y.shape[1]):
            out[i, j] = x[1:-2, -i - 1] @ y[:-3, j] + x[::2, i].max()
    return out


def quotients(x, out):
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            out[i, j] = (x[:, i] / x[:, j]).sum()
    return out


def rows_too(x, out):
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            out[i, j] = (x[:, i] * x[:, j]).sum() + x[j].sum()
    return out


def columns_and_elements(x, out):
    for i in range(x.shape[1]):
        for j in range(x.shape[1]):
            out[i, j] = x[:, j].sum() * x[0, i]
    return out


def written(x, out):
    for i in range(x.shape[1]):
        for j in range(3):
            x[:, i] -= x[:, i].sum() * out[j, i]
    return x


def one_level(x, out):
    for i in range(x.shape[1]):
        out[i, 0] = x[:, i].sum()
    return out


def between_rows(x, out):
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            total = 0.0
            for k in range(x.shape[1]):
                total += (x[i, k] - x[j, k]) ** 2
            out[i, j] = out[j, i] = np.sqrt(total)
    return out


def to_one_row(x, out):
    total, n = 0.0, out.shape[0]
    for i in range(n):
        for j in range(n):
            total = x[j, 0] / x[i, 0]
            for k in range(x.shape[1]):
                total += x[j, k] * x[i, k]
            out[i, j] = total
    return out, total, i, j


def added_to_rows(x, out):
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            total = out[i, j]
            for k in range(x.shape[1]):
                total += x[j, k] * x[i, k]
            out[i, j] = total
    return out


LANES = (between_rows, to_one_row, added_to_rows)
WAYS = ("on threads", "alone")


def matrix(dtype, rows=60, columns=12):
    """Numbers whose sums, products and quotients are exact, in any order."""
    return (rng.choice([-1, 1], (rows, columns)) * 2 ** rng.integers(0, 3, (rows, columns))).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16])
@pytest.mark.parametrize("user", [pairs, rows_too, columns_and_elements])
def test_columns(user, dtype):
    agrees(user, matrix(dtype), np.zeros((12, 12)))


@pytest.mark.parametrize("rows", [2, 63, 64, 65, 200])
def test_numbers_of_rows(rows):
    agrees(pairs, matrix(np.float64, rows, 40), np.zeros((40, 40)))


def test_parts_of_two_matrices():
    agrees(parts_of_columns, matrix(np.float64), matrix(np.float64, columns=7), np.zeros((12, 7)))


def test_what_is_written_is_not_copied():
    agrees(written, matrix(np.float64), np.full((12, 12), 2.0**-6))


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    if request.param == "alone":
        monkeypatch.setattr(parallel_loops, "WORTH", 10**12)
        monkeypatch.setattr(parallel_loops, "WORTH_WHOLE", 10**12)
        monkeypatch.setattr(parallel_loops, "WORTH_COPIES", -1)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "user, size, way", pairs_of(LANES, [(9, 3), (60, 1), (100, 3), (100, 12), (331, 3)], WAYS), indirect=["way"]
)
def test_columns_that_lanes_read(user, size):
    """Of few rows one thread reads the copy, where nothing has to be put back."""
    agrees(user, matrix(np.float64, *size), np.zeros((size[0], size[0])))


ELEMENTS = [(0, 0), (1, 2), (70, 1), (70, 0), (79, 2)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("user, at, value, way", pairs_of(LANES, ELEMENTS, [0.0, np.inf, np.nan, 1e200], WAYS), indirect=["way"])
def test_errors_where_lanes_read_columns(user, at, value, monkeypatch):
    monkeypatch.setattr(point, "rest_of_loop", lambda *_: None)  # it stays where it is, however often it leaves
    x = matrix(np.float64, 80, 3)
    x[at] = value
    gives_the_same(user, x, np.ones((80, 80)))


@pytest.mark.usefixtures("way")
def test_memory_that_is_written_while_lanes_read_its_columns():
    compiled = npc.compile(between_rows)
    compiled(matrix(np.float64, 100, 100), np.zeros((100, 100)))
    for shift in (0, 1, 50, 99, 100):
        ours, theirs = (matrix(np.float64, 200, 100) for _ in range(2))
        theirs[:] = ours
        for function, x in ((compiled, ours), (between_rows, theirs)):
            function(x[:100], x[shift : shift + 100])
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("at", [(0, 0), (30, 7), (59, 11)])
def test_errors(at, monkeypatch):
    monkeypatch.setattr(point, "rest_of_loop", lambda *_: None)  # it stays on threads, however often it leaves
    x = matrix(np.float64)
    x[at] = 0
    agrees(quotients, x, np.zeros((12, 12)))


def test_memory_that_is_written_under_another_name():
    compiled, x = npc.compile(pairs), matrix(np.float64)
    for _ in range(3):
        ours, theirs = x.copy(), x.copy()
        compiled(ours, ours[5:17])
        pairs(theirs, theirs[5:17])
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)  # sums of what other sums were stored in round apart


@pytest.mark.parametrize(
    "user, is_copied",
    [(pairs, True), (quotients, True), (rows_too, False), (columns_and_elements, False), (written, False), (one_level, False)],
)
def test_which_matrices_are_copied(user, is_copied):
    compiled = npc.compile(user)
    compiled(matrix(np.float64), np.full((12, 12), 2.0**-6))
    assert fired(compiled, "columns side by side") == is_copied
