"""Loops over whole arrays in which elements need neighbours: all iterations in one where they can be, and as NumPy everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npcompile as npc
from benchmarks.programs.sequences import floyd_warshall
from benchmarks.programs.stencils import heat_3d, life, shallow_water
from npcompile.backends.cpu.loops import stencil_tiling
from tests.native_loops.agreement import counts, ends_when_interrupted, fired
from tests.native_loops.random.time_steps import check_on_threads, draw_program
from tests.native_loops.test_native_loops import agrees
from tests.random_programs import check_examples

rng = np.random.default_rng(21)
N = 60
X, Y = rng.standard_normal(N), rng.standard_normal(N)
PLANE, OTHER = rng.standard_normal((17, 23)), rng.standard_normal((17, 23))


@pytest.fixture
def small_parts(monkeypatch):
    """Nests are parts for threads also where arrays are small."""
    monkeypatch.setattr(stencil_tiling, "GRAIN", 8)
    monkeypatch.setattr(stencil_tiling, "PARALLEL_FROM", 8)


def steps_agree(user: Any, *arguments: Any, expected: bool = True) -> None:
    """`expected`: is some loop written as all of its iterations?"""
    assert fired(agrees(user, *arguments), "stencil tiling") == expected


def test_simulations():
    steps_agree(heat_3d, rng.standard_normal((5, 6, 7)), 25)
    steps_agree(shallow_water, 1 + 0.1 * rng.random((9, 14)), np.zeros((9, 14)), np.zeros((9, 14)), 21)
    steps_agree(life, (rng.random((40, 90)) < 0.4).astype(np.int8), 30)
    steps_agree(floyd_warshall, rng.random((30, 30)))


def test_edges_that_are_set_apart(small_parts):
    def channel(M, n):
        for t in range(n):
            M[1:-1, 1:-1] += 0.1 * (M[:-2, 1:-1] + M[2:, 1:-1] - 2 * M[1:-1, 1:-1])
            M[0] = M[1]
            M[-1] = M[-2] * 0.5
            M[:, 0] = M[:, -1] + t
        return M

    def with_source(M, V, n):
        for t in range(n):
            V[1:-1] = V[1:-1] + M[2:] - M[:-2]
            M[:, 1:] -= 0.25 * (V[:, 1:] - V[:, :-1])
            M += V * 0.125
        return M

    def rod(A, n):
        s = 1.0
        for t in range(n):
            A[1:-1] += 0.25 * (A[2:] - 2 * A[1:-1] + A[:-2])
            A[0] = s
            A[-1] = t
            s = s * 0.5
        return A

    def moving(A, M, n):
        for t in range(n):
            A[t % 5] = 1
            M[1, 2] = t
            A[1:] = 0.5 * (A[1:] + A[:-1])
            M[:] = 0.25 * np.roll(M, 1, 0)
        return A, M

    steps_agree(rod, X, 25)
    steps_agree(moving, X, PLANE, 25)
    steps_agree(channel, PLANE, 25)
    steps_agree(with_source, PLANE, OTHER, 25)


def test_rows_of_all_lengths_and_widths():
    def spread(M, n):
        for _ in range(n):
            M[1:-1, 1:-1] = (M[:-2, 1:-1] + M[2:, 1:-1] + M[1:-1, :-2] + M[1:-1, 2:]) // 3
        return M

    def shift(M, V, n):
        for _ in range(n):
            V += np.roll(M, 1, 0) - M  # what a nest reads and writes is done once
            M = np.roll(M, 2, 1) - V
        return M, V

    for dtype in (np.uint8, np.int16, np.float32, np.float64):
        compiled = [npc.compile(spread, dynamic=True), npc.compile(shift, dynamic=True)]
        for columns in (3, 5, 6, 7, 9, 10, 17, 18, 19, 33, 66, 67, 90, 131):
            M, V = (rng.integers(0, 9, (5, columns)).astype(dtype) for _ in range(2))
            for f, plain, arrays in zip(compiled, (spread, shift), ((M,), (M, V))):
                ours, theirs = f(*(a.copy() for a in arrays), 21), plain(*(a.copy() for a in arrays), 21)
                np.testing.assert_array_equal(ours, theirs, strict=True)
        assert all(fired(f, "stencil tiling") for f in compiled)
    assert fired(compiled[0], "whole vectors at row ends")


def test_views_of_what_the_loop_makes():
    def limited(u, n):
        for _ in range(n):
            d = u[1:] - u[:-1]
            e = np.where(d[1:] * d[:-1] > 0, np.minimum(np.abs(d[1:]), np.abs(d[:-1])), 0.0)
            u = u + 0.5
            u[1:-1] += 0.1 * e
        return u, d

    def differences(u, n):
        out = u
        for _ in range(n):
            d = np.roll(u, -1) - u
            out = out * 0.5 + d[::-1] + d[0:1]
            u = 0.25 * (np.roll(d, 2) + d) + u
        return u, out

    def in_place_behind_a_view(u, n):
        v = u
        for _ in range(n):
            w = u * 0.5
            inside = w[1:]
            w += 1.0
            v = inside * 1.0
            u = np.roll(w, 1)
        return u, v

    agrees(limited, X, 25)
    steps_agree(differences, X, 25)
    steps_agree(in_place_behind_a_view, X, 25, expected=False)


def test_rolls(small_parts):
    def rolled(M, v, n):
        for t in range(n):
            M = 0.5 * (np.roll(M, t, 0) + np.roll(np.roll(M, -t, 1), 3, axis=0)) + np.roll(np.roll(M, 2, 1), 5, 1)
            v = np.roll(v, 1 - t) - 0.5 * np.roll(v * 2, -1, axis=-1)
        return M, v

    steps_agree(rolled, PLANE, X, 20)
    for shape in ((1, 1), (1, 5), (2, 1), (2, 2), (3, 400)):
        steps_agree(rolled, np.ones(shape), Y[:1], 18)
    agrees(rolled, PLANE[::2, ::3], Y[::-2], 18, loops=0)


def test_no_iterations_and_no_elements():
    def program(A, B, n):
        for _ in range(n):
            B = B + 0.5 * (np.roll(B, 1) - A)
            A[1:] += B[:-1]
        return B

    compiled = npc.compile(program)
    for n, size in ((30, N), (0, N), (1, N), (2, N), (3, N), (30, 0), (30, 1), (30, 2)):
        ours, theirs = X[:size].copy(), X[:size].copy()
        np.testing.assert_array_equal(compiled(ours, Y[:size], n), program(theirs, Y[:size], n), strict=True)
        np.testing.assert_array_equal(ours, theirs)
    assert fired(compiled, "stencil tiling")


def test_what_an_iteration_reads_of_the_one_before_may_have_other_sizes():
    def broadcast(M, v, n):
        for _ in range(n):
            M = np.roll(M, 1, 0) * 0.5 + v
            v = v * 0.5
        return M, v

    steps_agree(broadcast, rng.random((30, 30)), rng.random(30), 20, expected=False)


def test_memory_that_overlaps():
    def program(A, B, n):
        for _ in range(n):
            A[1:] += 0.25 * (A[:-1] - B[1:])
            B = np.roll(B, 1) * 0.5
        return B

    both = rng.standard_normal(2 * N)
    compiled = npc.compile(program)
    for begin in (0, 1, N // 2, N - 1, N):
        ours, theirs = both.copy(), both.copy()
        for _ in range(2):
            mine = compiled(ours[:N], ours[begin : begin + N], 25)
            np.testing.assert_array_equal(mine, program(theirs[:N], theirs[begin : begin + N], 25))
            np.testing.assert_array_equal(ours, theirs)


def test_errors_are_reported_where_they_happen():
    def program(A, B, n):
        s = 1.0
        for t in range(n):
            A[1:-1] = 2.0 * A[1:-1] + A[2:]
            B = np.roll(B, 1) + 1 / A
            s = s * 0.5
        return B, s

    grown, zero = np.abs(X) + 1, np.abs(X) + 1
    grown[30], zero[40:] = 1e302, 0
    for given in (np.abs(X) + 1, grown, zero):
        for state in ({}, {"over": "ignore"}, {"all": "ignore"}):
            with np.errstate(**state):
                agrees(program, given, Y, 25)
    with np.errstate(all="raise"):
        agrees(program, grown, Y, 25, loops=0)


def test_errors_of_numbers_are_reported():
    def program(A, n):
        s = np.float64(1e300)
        for _ in range(n):
            A[1:] += A[:-1] * 0.5
            s = s * 10.0
        return A, s

    agrees(program, X, 25)


def test_views_of_one_row_have_one_address():
    def program(A, n):
        for _ in range(n):
            A[1:-1, 3:] = (A[1:-1, 3:] + A[1:-1, 2:-1] + A[1:-1, :-3] - A[:-2, 1:-2] - A[2:, 3:]) * 0.25
        return A

    A = np.random.default_rng(0).standard_normal((9, 14))
    for rows, columns in ((9, 14), (3, 4), (2, 14), (9, 3), (9, 2), (9, 1), (0, 14)):
        agrees(program, A[:rows, :columns].copy(), 25)
    compiled = npc.compile(program)
    compiled(A, 25)
    assert counts(compiled, "rows at one address") == [2]  # of the five that are read


@pytest.mark.parametrize("size", [10, 100_000])
def test_interrupts(size):
    def program(A, n):
        for _ in range(n):
            A[1:] = A[:-1] * 0.5
            A += 1

    compiled, A = npc.compile(program), np.ones(size)
    compiled(A, 100)
    ends_when_interrupted(lambda: compiled(A, 10**10))
    assert fired(compiled, "stencil tiling")


def test_random_programs():
    check_examples(draw_program, check_on_threads, "cpu", 3)
