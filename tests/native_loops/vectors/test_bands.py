"""Rows of nests that need those before them run several at a time, and fail as they do one after another."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.sequences import edit_distance, time_warping
from benchmarks.programs.stencils import gauss_seidel
from npcompile.backends.cpu.loops import wavefront
from tests.native_loops.agreement import cloned, fired, outcome, same
from tests.native_loops.random.nests import check_short_rows, draw_program
from tests.native_loops.test_native_loops import agrees
from tests.random_programs import check_examples

rng = np.random.default_rng(12)
PLANE, WIDE = rng.standard_normal((23, 31)), rng.standard_normal((9, 400))


def runs_in_bands(user: Any, *arguments: Any, expected: bool = True) -> None:
    assert fired(agrees(user, *arguments), "wavefront") == expected


def nine_points(M, w):
    for i in range(1, M.shape[0] - 1):
        for j in range(1, M.shape[1] - 1):
            M[i, j] = (
                M[i - 1, j - 1] + M[i - 1, j] - M[i - 1, j + 1] + w * (M[i, j - 1] - M[i, j]) + M[i, j + 1] / M[i + 1, j - 1]
            )
    return M, i


def backward(M, w):
    n, m = M.shape
    for i in range(n - 2, 0, -1):
        for j in range(m - 2, 0, -1):
            M[i, j] = w * (M[i + 1, j] + M[i, j + 1] + M[i - 1, j - 1])
    return M, i


def in_steps(M, w):
    for i in range(2, M.shape[0], 3):
        for j in range(2, M.shape[1], 2):
            M[i, j] = w * M[i, j - 2] + M[i - 2, j - 1] - M[i - 3, j]
    return M, i


def sweeps(x, w):
    for _ in range(30):
        for j in range(1, len(x) - 1):
            x[j] = 0.25 * (x[j - 1] + 2 * x[j] + w * x[j + 1])
    return x


def smoothed_rows(M, out, w):
    for i in range(M.shape[0]):
        for j in range(1, M.shape[1]):
            out[i, j] = w * M[i, j] + (1 - w) * out[i, j - 1]
    return out


def two_arrays(M, S, w):
    for i in range(1, M.shape[0]):
        for j in range(1, M.shape[1]):
            M[i, j] = w * M[i, j - 1] + S[i - 1, j]
            S[i, j] = S[i, j - 1] - M[i, j] * 0.5
    return M, S


def test_nests_of_all_distances():
    layouts = (PLANE, WIDE, PLANE[::-1, ::-1], PLANE.T, PLANE.astype(np.float32))
    for program, M in zip((nine_points, backward, in_steps, gauss_seidel, nine_points), layouts):
        runs_in_bands(program, M, 3 if program is gauss_seidel else 0.25)
    runs_in_bands(two_arrays, PLANE.T, PLANE.T * 2, 0.25)
    runs_in_bands(sweeps, WIDE[0], 1)
    runs_in_bands(sweeps, PLANE[:, 0], 1)
    runs_in_bands(smoothed_rows, PLANE, np.zeros_like(PLANE), 0.25)
    runs_in_bands(time_warping, rng.random(50), rng.random(70))


def test_arrays_that_overlap():
    runs_in_bands(two_arrays, WIDE[:-1], WIDE[1:], 0.25)
    runs_in_bands(smoothed_rows, WIDE[:, ::-1], WIDE, 0.25)


def same_with(compiled: Any, user: Any, *arguments: Any) -> None:
    theirs, ours = (outcome(f, user, cloned(arguments)) for f in (user, compiled))
    assert all(map(same, ours, theirs))


@pytest.mark.parametrize("program", [nine_points, backward, in_steps, two_arrays])
def test_a_number_that_fails(program):
    compiled = npc.compile(program)
    others = (PLANE[::-1].copy(),) if program is two_arrays else ()
    for row, column in product((1, 4, 7, 20), (1, 2, 17, 29)):
        for value, w in ((1e200, 1e200), (1.7e308, 2.0), (np.inf, 2.0), (np.nan, 0.5)):
            M = PLANE.copy()
            M[row, column] = value
            same_with(compiled, program, M, *others, w)
    assert fired(compiled, "wavefront")


def least_costs(D, costs):
    for i in range(D.shape[0] - 2, -1, -1):
        for j in range(1, D.shape[1]):
            D[i, j] = min(D[i + 1, j - 1] + costs[j], D[i + 1, j] + costs[i], D[i, j - 1] + 1)
    return D, i


def every_second(D, costs):
    for i in range(0, D.shape[0], 2):
        for j in range(2, D.shape[1] - 1):
            D[i, j] = D[i, j - 1] - D[i - 1, j] + costs[i]
    return D, i


@pytest.mark.parametrize("program", [least_costs, every_second, nine_points, in_steps])
def test_short_rows_run_in_one_call(program):
    compiled = npc.compile(program)
    is_integer = program in (least_costs, every_second)
    largest = np.iinfo(np.int64).max - 2 if is_integer else 1.7e308
    for n, m in ((23, 9), (300, 4), (2, 12), (23, 3)):
        for row, column in ((0, 0), (n - 1, 2), (n // 2, m - 1), (n // 3, 1)):
            M = rng.integers(0, 9, (n, m)) if is_integer else rng.random((n, m))
            for value in (1, largest):
                M[row, column] = value
                same_with(compiled, program, M, rng.integers(0, 5, n + m) if is_integer else 1.5)
        same_with(compiled, program, M, np.full(n + m - 9, 3) if is_integer else np.nan)
    assert fired(compiled, "rows in one call")


def aligned(S, a, b, gap):
    for i in range(1, S.shape[0]):
        for j in range(1, S.shape[1]):
            S[i, j] = max(S[i - 1, j - 1] + (a[i - 1] == b[j - 1]), S[i - 1, j] - gap, S[i, j - 1] - gap)
    return S


def cheapest_paths(S, a, b, gap):
    for i in range(S.shape[0] - 2, -1, -1):
        for j in range(S.shape[1] - 2, -1, -1):
            S[i, j] = abs(a[i] - b[j]) + np.minimum(S[i + 1, j], min(S[i, j + 1] + gap, S[i + 1, j + 1]))
    return S


def numbered_cells(S, a, b, gap):
    for i in range(1, S.shape[0]):
        for j in range(1, S.shape[1]):
            S[i, j] = S[i, j - 1] + (i - j) * (a[i - 1] > b[j - 1]) - (S[i - 1, j] < gap) * S[i - 1, j - 1]
    return S


TABLES = ((np.int64, np.int64), (np.int64, np.uint8), (np.float64, np.float64), (np.float64, np.int32))


@pytest.mark.parametrize("program", [aligned, cheapest_paths, numbered_cells])
def test_rows_are_lanes(program):
    for (table, letters), memory in product(TABLES, "CF"):
        compiled = npc.compile(program)
        for n, m in ((9, 31), (17, 24), (30, 70), (10, 25)):
            S, a, b = (rng.integers(0, 4, shape) for shape in ((n, m), n, m))
            gap = 1 if table is np.int64 else 0.75
            same_with(compiled, program, S.astype(table, order=memory), a.astype(letters), b.astype(letters), gap)
        # Of integers, np.minimum and differences that are narrower have no lanes.
        assert fired(compiled, "wavefront in lanes") or program is cheapest_paths and letters is not np.float64


def test_lanes_of_distances():
    assert fired(agrees(edit_distance, rng.integers(0, 4, 40), rng.integers(0, 4, 57)), "wavefront in lanes")
    assert fired(agrees(time_warping, rng.random(41), rng.random(56)), "wavefront in lanes")


@pytest.mark.parametrize("program", [aligned, cheapest_paths, numbered_cells])
def test_a_lane_that_fails(program):
    compiled = npc.compile(program)
    a, b = rng.integers(0, 4, 26).astype(float), rng.integers(0, 4, 40).astype(float)
    for row, column in product((0, 1, 7, 8, 20, 25), (0, 1, 17, 39)):
        for value in (1.7e308, -np.inf, np.nan):
            S = rng.random((26, 40))
            S[row, column] = value
            same_with(compiled, program, S, a, b, 1.5)
        for value in (-(2**63), 2**63 - 1):
            T = rng.integers(0, 9, (26, 40))
            T[row, column] = value
            same_with(compiled, program, T, a.astype(int), b.astype(int), 2)
    assert fired(compiled, "wavefront in lanes")


def test_rows_that_differ_by_a_number():
    def numbered(A, rows, by):
        for i in range(1, rows):
            for j in range(1, len(A)):
                A[j] = A[j - 1] * by + i
        return A

    for by in (0.5, 1.5):
        agrees(numbered, WIDE[0], 9, by)
        agrees(numbered, PLANE[0], 9, by)
    agrees(numbered, np.arange(40), 9, 1)
    agrees(numbered, np.arange(4), 90, 1)


def test_a_number_that_raises():
    M = PLANE.copy()
    M[14, 20] = 1e308
    with np.errstate(all="raise"):
        agrees(nine_points, M, 1e10)


def test_rows_that_need_others_in_between():
    def far_ahead(M):
        for i in range(1, M.shape[0]):
            for j in range(1, M.shape[1] - 9):
                M[i, j] = M[i, j - 1] * 0.5 + M[i - 1, j + 9]
        return M

    def any_row(M, rows):
        for i in range(1, M.shape[0]):
            for j in range(1, M.shape[1]):
                M[i, j] = M[i, j - 1] * 0.5 + M[rows[j], j]
        return M

    def aslant(M):
        for i in range(1, 20):
            for j in range(1, M.shape[1] - 20):
                M[1, i + j] = M[1, i + j - 1] * 0.5 + M[2, j]
        return M

    def one_column(M):
        for i in range(1, M.shape[0]):
            for j in range(1, M.shape[1]):
                M[i, j] = M[i, j - 1] * 0.5 + M[i - 1, 3]
        return M

    def triangle(M):
        for i in range(1, M.shape[0]):
            for j in range(i, M.shape[1]):
                M[i, j] = M[i, j - 1] * 0.5 + M[i - 1, j]
        return M

    def work_between(M):
        for i in range(1, M.shape[0]):
            M[i, 0] = M[i - 1, 5]
            for j in range(1, M.shape[1]):
                M[i, j] = M[i, j - 1] * 0.5 + M[i - 1, j]
        return M

    def range_that_changes(M, sizes):
        for i in range(1, M.shape[0]):
            for j in range(1, sizes[0]):
                M[i, j] = M[i, j - 1] * 0.5 + M[i - 1, j]
                sizes[0] = 20
        return M

    def carried(M):
        s = 0.0
        for i in range(1, M.shape[0]):
            for j in range(1, M.shape[1]):
                s = M[i, j - 1] * 0.5 + s * 0.25
                M[i, j] = s
        return M, s

    for program in (far_ahead, aslant, one_column, triangle, work_between, carried):
        runs_in_bands(program, WIDE[:, :60].copy(), expected=False)
    runs_in_bands(any_row, WIDE, rng.integers(0, 9, 400), expected=False)
    runs_in_bands(range_that_changes, WIDE, np.array([30]), expected=False)


def test_rows_that_are_too_long():
    agrees(nine_points, rng.random((7, wavefront.KEPT)), 0.25)


def test_random_nests():
    check_examples(draw_program, check_short_rows, "cpu", 3)
