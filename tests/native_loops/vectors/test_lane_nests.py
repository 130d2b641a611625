"""Loops with loops inside whose iterations are lanes: as many as there are, in any order of memory, up to those that fail."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from tests.native_loops.agreement import check, fired, without_loop_ir
from tests.native_loops.random.inner_sums import draw_program
from tests.native_loops.test_native_loops import agrees
from tests.random_programs import check_examples
from tests.runtime.test_end_to_end import run_python

rng = np.random.default_rng(23)


def product(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = total
    return C


def distances(x):
    D = np.zeros((x.shape[0], x.shape[0]))
    for i in range(x.shape[0]):
        for j in range(i + 1, x.shape[0]):
            total = 0.0
            for k in range(x.shape[1]):
                total += (x[i, k] - x[j, k]) ** 2
            D[i, j] = D[j, i] = np.sqrt(total)
    return D


def every_other(x, w):
    out = np.zeros(x.shape[0])
    for i in range(0, x.shape[0], 2):
        s = 0.0
        for k in range(w.size):
            s += x[i, k] * w[k]
        out[i] = s
    for i in range(x.shape[0] - 1, 2, -3):
        t = 1.0
        for k in range(w.size - 1, -1, -1):
            t = (t - x[i, k]) / w[k]
        out[i] += t
    return out, s, t, i, k


def two_loops(x, w):
    out, sizes = np.zeros(x.shape), np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a = b = x[i, j]
            for k in range(w.size):
                a = a * w[k] + 1.0
            for k in range(w.size):
                for m in range(2):
                    b -= w[k] * a
            out[i, j] = a + b
            sizes[j] = abs(b)
    return out, sizes, a, b, k, m


def one_array_twice(x, w):
    out = np.zeros(x.size + 3)
    for i in range(x.size):
        s = 0.0
        for k in range(w.size):
            s += x[i] * w[k]
        out[i] = s
        out[i + 3] = -s
        out[0] = s
    return out


def whole_numbers(x, w):
    out = np.zeros(x.size, np.int64)
    for i in range(x.size):
        s = x[i]
        for k in range(w.size):
            s = s & 1023
        out[i] = s
    return out, s


def stored_inside(x, w):
    out = np.zeros((x.shape[0], 3))
    for i in range(x.shape[0]):
        s = 0.0
        for k in range(3):
            s += x[i, k] * w[k]
            out[i, k] = s
    return out, s


def behind_the_loop(x, w):
    out = np.zeros(x.shape[0])
    last = 0.0
    for i in range(x.shape[0]):
        s = x[i, 0]
        for k in range(w.size):
            last = x[i, k] * w[k]
            s = s + last
        out[i] = s + last
    return out, last, s


def carried(x, w):
    out = np.zeros(x.shape[0])
    s = 0.0
    for i in range(x.shape[0]):
        for k in range(w.size):
            s += x[i, k] * w[k]
        out[i] = s
    return out, s


def read_what_is_stored(x, w):
    for i in range(3, x.shape[0]):
        s = 0.0
        for k in range(w.size):
            s += x[i - 3, k] * w[k]
        x[i, 0] = s
    return s


def near_halves(count: int) -> np.ndarray:
    """Numbers whose squares are near the middle of two numbers, which pow may round to the other one."""
    x = rng.standard_normal(200_000)
    squares = np.square(x)
    exact = x.astype(np.longdouble) ** 2 - squares
    return x[np.abs(np.abs(exact) / np.spacing(squares) - 0.5) < 0.006][:count]


W = rng.random(5) + 0.5
WIDE = rng.standard_normal((40, 40))
HALVES = near_halves(400)


def changed(x: np.ndarray, place: Any, value: float) -> np.ndarray:
    x = x.copy()
    x[place] = value
    return x


def are_lanes(compiled: Any) -> bool:
    return fired(compiled, "vectorize the outer loop")


@pytest.mark.parametrize(
    "rows, inner, columns", [(3, 4, 2), (2, 5, 7), (3, 1, 8), (4, 3, 9), (2, 6, 16), (5, 200, 23), (40, 40, 64)]
)
def test_products(rows, inner, columns):
    A, B = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
    for a, b in ((A, B), (A.T.copy().T, B.T.copy().T), (A[::-1, ::-1], B[::-1, ::-1]), (A, np.repeat(B, 2, axis=1)[:, ::2])):
        agrees(product, a, b)
        with without_loop_ir():
            assert are_lanes(agrees(product, a, b))


@pytest.mark.parametrize("row, value", [*zip([0, 7, 8, 21, 39] * 2, [np.inf, np.nan, 1e200, 1e-200] * 2)])
def test_what_fails_is_left_to_numpy(row, value):
    agrees(product, WIDE[:9], changed(WIDE, (3, row), value))
    agrees(distances, changed(WIDE[:, :3], (row, 1), value))
    agrees(every_other, changed(WIDE, (row, 2), value), W)


def test_squares_are_those_of_pow():
    assert HALVES.size == 400
    assert sum(float(x) ** 2 != float(x) * float(x) for x in HALVES) > 10
    points = np.zeros((HALVES.size, 2))
    points[:, 1] = HALVES
    compiled = agrees(distances, points[::8])
    assert are_lanes(compiled)
    for shift in range(8):  # one point at 0: distances are the numbers themselves
        points[shift::8] = 0.0
        np.testing.assert_array_equal(compiled(points), distances(points))
        points[:, 1] = HALVES
    agrees(distances, points[:60] * 1e-160)
    agrees(distances, points[:60] * 1e160)


def test_squares_of_any_size():
    """Beyond 2^16 in either direction libm is asked, between them what does as it does where it is that of glibc or musl."""

    def squares(x):
        out = np.zeros(x.shape[0])
        for i in range(x.shape[0]):
            total = 0.0
            for k in range(x.shape[1]):
                total += x[i, k] ** 2
            out[i] = total
        return out

    x = near_halves(3000)
    compiled = agrees(squares, x[:99, None])
    assert are_lanes(compiled)
    for exponents in ((-8, 8), (-40, 40), (-500, 500), (-540, -500)):
        scaled = np.ldexp(x, rng.integers(*exponents, x.size))
        np.testing.assert_array_equal(compiled(scaled[:, None]), [math.pow(each, 2) for each in scaled])


@pytest.mark.parametrize("rows", [1, 5, 12, 40])
def test_steps_and_what_is_left_in_variables(rows):
    assert are_lanes(agrees(every_other, WIDE[:rows] if rows > 5 else WIDE[:8], W))
    agrees(every_other, WIDE[:, ::-1], W)
    assert are_lanes(agrees(two_loops, WIDE[:rows], W))
    agrees(one_array_twice, WIDE.ravel()[: rows * 3], W)
    with without_loop_ir():
        assert are_lanes(agrees(one_array_twice, WIDE.ravel()[: rows * 3], W))
    assert are_lanes(agrees(whole_numbers, np.arange(rows * 7), W))


def test_iterations_that_need_others_are_no_lanes():
    assert not are_lanes(agrees(carried, WIDE, W))
    assert not are_lanes(agrees(read_what_is_stored, WIDE, W))
    assert not are_lanes(agrees(stored_inside, WIDE, W))
    agrees(behind_the_loop, WIDE, W)
    agrees(behind_the_loop, WIDE, W[:0])


@pytest.mark.parametrize("march, needed", [("haswell", "avx2"), ("x86-64-v2", "sse4_2")])
def test_processors_with_narrower_vectors(march, needed):
    """As the tests above, with four lanes and with none."""
    about = Path("/proc/cpuinfo")
    if not about.exists() or needed not in about.read_text():
        pytest.skip(f"no processor that has {needed}")
    lines = ["from tests.native_loops.vectors import test_lane_nests as t", "t.test_squares_are_those_of_pow()"]
    lines += ["t.test_products(4, 3, 9)", "t.test_what_fails_is_left_to_numpy(21, float('inf'))"]
    run_python("\n".join(lines), NPCOMPILE_MARCH=march)


def test_random_sums():
    check_examples(draw_program, check, "cpu", 5)


def test_arrays_that_may_overlap():
    def into(out, x, w):
        for i in range(x.size):
            s = 0.0
            for k in range(w.size):
                s += x[i] * w[k]
            out[i] = s

    base = rng.standard_normal(60)
    compiled = npc.compile(into)
    for shift in (1, 3, 8, 20):
        ours, theirs = base.copy(), base.copy()
        for _ in range(2):
            compiled(ours[shift:], ours[:-shift], W)
            into(theirs[shift:], theirs[:-shift], W)
        np.testing.assert_array_equal(ours, theirs)
