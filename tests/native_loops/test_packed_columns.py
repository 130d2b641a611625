"""Loops on threads that read columns of a matrix again and again read them from a copy."""

from __future__ import annotations

import numpy as np
import pytest

import npcompile as npc
from npcompile.tracer import point
from tests.native_loops.agreement import native_sources
from tests.native_loops.test_parallel import agrees

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
    assert ("a0_columns" in "".join(native_sources(compiled))) == is_copied
